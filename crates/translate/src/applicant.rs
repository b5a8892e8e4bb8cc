//! A `Node`, as the allocator sees it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::{NodeId as IdAnnotation, NodeSubnets, OverlayRunning};
use netferry_core::name::{NodeName, NotANodeName};
use netferry_core::net::Stack;
use netferry_core::overlay::allocate::{Applicant, Claim, NodeId, Running};

/// What a node claims and reports. Its metadata says it all, so a list of metadata is enough to allocate from.
pub fn applicant(metadata: &ObjectMeta) -> Result<Applicant, NotANodeName> {
    let none = BTreeMap::new();
    let annotations = metadata.annotations.as_ref().unwrap_or(&none);
    Ok(Applicant {
        name: NodeName::new(metadata.name.clone().unwrap_or_default())?,
        // An object the server has not dated yet is as new as can be: it disputes nobody's claim.
        created: metadata.creation_timestamp.as_ref().map_or(i64::MAX, |time| time.0.as_second()),
        id: claim(annotations, |id: &IdAnnotation| Some(u64::from(*id.get()))),
        subnets: claim(annotations, |subnets: &NodeSubnets| {
            Some(subnets.default_network().to_vec()).filter(|nets| !nets.is_empty())
        }),
        running: running(annotations),
    })
}

/// Whether nobody can reach the node: it has no address of its own, and nobody is still about to give it one.
pub fn lacks_address(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let expected =
        taints.into_iter().any(|taint| taint.key == "node.cloudprovider.kubernetes.io/uninitialized");
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let reachable = addresses.into_iter().any(|a| a.type_ == "InternalIP" && !a.address.is_empty());
    !expected && !reachable
}

fn claim<A: Annotation, T>(
    annotations: &BTreeMap<String, String>,
    says: impl Fn(&A) -> Option<T>,
) -> Claim<T> {
    match A::read(annotations) {
        Ok(None) => Claim::Absent,
        Ok(Some(read)) => says(&read).map_or(Claim::Absent, Claim::Says),
        Err(_) => Claim::Mangled(annotations.get(A::KEY).cloned().unwrap_or_default()),
    }
}

/// A report that cannot be read says nothing: the node writes it again as soon as it sees it changed.
fn running(annotations: &BTreeMap<String, String>) -> Option<Running> {
    let report = OverlayRunning::read(annotations).ok().flatten()?;
    let (mut v4, mut v6) = (None, None);
    for net in report.subnets() {
        match net {
            ipnet::IpNet::V4(net) => v4 = Some(*net),
            ipnet::IpNet::V6(net) => v6 = Some(*net),
        }
    }
    Some(Running { id: NodeId::new(u64::from(report.id()))?, subnets: Stack::from_parts(v4, v6)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{NodeAddress, NodeSpec, NodeStatus, Taint};

    fn metadata(annotations: &[(&str, &str)]) -> ObjectMeta {
        let annotations = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ObjectMeta { name: Some("a".into()), annotations: Some(annotations), ..ObjectMeta::default() }
    }

    const ID: &str = "k8s.ovn.org/node-id";
    const SUBNETS: &str = "k8s.ovn.org/node-subnets";
    const RUNNING: &str = "netferry.dev/overlay-running";

    #[test]
    fn a_node_without_annotations_claims_nothing() {
        let read = applicant(&ObjectMeta { name: Some("a".into()), ..ObjectMeta::default() }).unwrap();
        assert_eq!((read.id, read.subnets, read.running), (Claim::Absent, Claim::Absent, None));
        assert!(applicant(&ObjectMeta::default()).is_err());
    }

    #[test]
    fn claims_are_read_in_both_forms_and_what_cannot_be_read_is_kept_as_text() {
        let net: ipnet::IpNet = "10.244.1.0/24".parse().unwrap();
        for (subnets, says) in [
            (r#"{"default":["10.244.1.0/24"]}"#, Claim::Says(vec![net])),
            (r#"{"default":"10.244.1.0/24"}"#, Claim::Says(vec![net])),
            (r#"{"blue":["10.244.1.0/24"]}"#, Claim::Absent),
            (r#"{"default":["10.244.1.0/24"}"#, Claim::Mangled(r#"{"default":["10.244.1.0/24"}"#.into())),
            ("", Claim::Mangled(String::new())),
        ] {
            assert_eq!(applicant(&metadata(&[(SUBNETS, subnets)])).unwrap().subnets, says, "{subnets}");
        }
        for (id, says) in [
            ("7", Claim::Says(7)),
            ("4000000000", Claim::Says(4_000_000_000)),
            ("seven", Claim::Mangled("seven".into())),
        ] {
            assert_eq!(applicant(&metadata(&[(ID, id)])).unwrap().id, says, "{id}");
        }
    }

    #[test]
    fn what_a_node_reports_to_run_with_is_read_and_nonsense_is_no_report() {
        let read = applicant(&metadata(&[(RUNNING, r#"{"id":9,"subnets":["10.244.3.0/24","fd00::/64"]}"#)]));
        let running = read.unwrap().running.unwrap();
        assert_eq!(running.id.number(), 9);
        assert_eq!(
            running.subnets.iter().map(|n| n.to_string()).collect::<Vec<_>>(),
            ["10.244.3.0/24", "fd00::/64"]
        );
        for nonsense in ["", "{}", r#"{"id":1,"subnets":["10.244.3.0/24"]}"#] {
            assert_eq!(applicant(&metadata(&[(RUNNING, nonsense)])).unwrap().running, None, "{nonsense}");
        }
    }

    #[test]
    fn a_node_lacks_an_address_unless_it_has_one_or_is_still_being_given_one() {
        let with = |kind: &str| NodeStatus {
            addresses: Some(vec![NodeAddress { type_: kind.into(), address: "10.0.0.1".into() }]),
            ..NodeStatus::default()
        };
        let node = |status, taint: Option<&str>| Node {
            spec: Some(NodeSpec {
                taints: taint.map(|key| vec![Taint { key: key.into(), ..Taint::default() }]),
                ..NodeSpec::default()
            }),
            status,
            ..Node::default()
        };
        assert!(lacks_address(&Node::default()));
        assert!(lacks_address(&node(Some(with("Hostname")), None)));
        assert!(!lacks_address(&node(Some(with("InternalIP")), None)));
        assert!(!lacks_address(&node(None, Some("node.cloudprovider.kubernetes.io/uninitialized"))));
        assert!(lacks_address(&node(None, Some("somebody.else/taint"))));
    }
}
