//! The definitions of every kind, printed from the types.

mod print;
mod structural;

use kube::CustomResourceExt;
use kube::core::object::{HasSpec, HasStatus};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::schema::rule;
use crate::{egressip, hostnet, overlay, rollout};

/// Every CustomResourceDefinition as (file name, YAML), sorted by file name.
///
/// The same types give the same bytes, so the copies under `deploy/crds` can be compared.
pub fn crds() -> Vec<(String, String)> {
    let mut files: Vec<_> = definitions()
        .into_iter()
        .map(|crd| {
            (format!("{}.yaml", crd["metadata"]["name"].as_str().unwrap_or("unnamed")), print::yaml(&crd))
        })
        .collect();
    files.sort();
    files
}

fn definitions() -> Vec<Value> {
    let mut operator = define::<overlay::OperatorNetwork>(Root { spec_default: true, ..Root::default() });
    add_status::<overlay::OperatorNetwork>(&mut operator);
    let mut config = define::<overlay::ConfigNetwork>(Root { spec_required: true, ..Root::default() });
    add_status::<overlay::ConfigNetwork>(&mut config);

    let mut pool = define::<rollout::MachineConfigPool>(Root { spec_required: true, ..Root::default() });
    add_status::<rollout::MachineConfigPool>(&mut pool);
    let machine_config = define::<rollout::MachineConfig>(Root { spec_required: true, ..Root::default() });

    let mut enactment = define::<hostnet::NodeNetworkConfigurationEnactment>(Root::default().flat());
    add_status::<hostnet::NodeNetworkConfigurationEnactment>(&mut enactment);
    let mut state = define::<hostnet::NodeNetworkState>(Root::default().flat());
    add_status::<hostnet::NodeNetworkState>(&mut state);

    let mut egress_ip = define::<egressip::EgressIP>(Root { spec_required: true, ..Root::default() });
    add_status::<egressip::EgressIP>(&mut egress_ip);
    let mut egress_firewall = define::<overlay::EgressFirewall>(Root {
        spec_required: true,
        // There is one firewall per namespace; a second one would never be looked at.
        metadata: json!({ "type": "object", "properties": { "name": { "type": "string", "pattern": "^default$" } } }),
        ..Root::default()
    });
    add_status::<overlay::EgressFirewall>(&mut egress_firewall);

    vec![
        operator,
        config,
        pool,
        machine_config,
        policy(),
        enactment,
        state,
        nmstate(),
        egress_ip,
        egress_firewall,
        define::<overlay::ClusterNetwork>(Root::default().flat()),
        define::<overlay::HostSubnet>(Root::default().flat().named_by("host")),
        define::<overlay::NetNamespace>(Root::default().flat().named_by("netname")),
        define::<overlay::EgressNetworkPolicy>(Root { spec_required: true, ..Root::default() }),
    ]
}

/// The policy is served in two versions with one schema; the older is deprecated and never stored.
fn policy() -> Value {
    type Policy = hostnet::NodeNetworkConfigurationPolicy;
    let mut crd = define::<Policy>(Root {
        // The name becomes the value of a label on every enactment, and may be longer than one.
        rules: vec![rule(
            "self.metadata.name.size() <= 63",
            "the policy's name must fit into a label: at most 63 characters",
        )],
        spec_default: true,
        ..Root::default()
    });
    add_status::<Policy>(&mut crd);
    serve_also(&mut crd, "v1beta1", None);
    crd
}

fn nmstate() -> Value {
    let mut crd = define::<hostnet::NMState>(Root { spec_default: true, ..Root::default() });
    add_status::<hostnet::NMState>(&mut crd);
    serve_also(&mut crd, "v1beta1", Some("nmstate.io/v1beta1 NMState is deprecated; use nmstate.io/v1"));
    crd
}

fn serve_also(crd: &mut Value, version: &str, warning: Option<&str>) {
    if let Some(versions) = crd["spec"]["versions"].as_array_mut() {
        let mut older = versions[0].clone();
        older["name"] = json!(version);
        older["storage"] = json!(false);
        older["deprecated"] = json!(true);
        if let Some(warning) = warning {
            older["deprecationWarning"] = json!(warning);
        }
        versions.push(older);
    }
}

/// What the root of a kind says beyond its spec and status.
struct Root {
    /// The data sits at the top level instead of under `spec`.
    flat: bool,
    spec_required: bool,
    /// An object without a spec gets an empty one, because the types have no way to say "no spec"
    /// and one such object would keep a controller from reading all the others.
    spec_default: bool,
    metadata: Value,
    rules: Vec<Value>,
}

impl Default for Root {
    fn default() -> Self {
        Root {
            flat: false,
            spec_required: false,
            spec_default: false,
            metadata: json!({ "type": "object" }),
            rules: Vec::new(),
        }
    }
}

impl Root {
    fn flat(self) -> Self {
        Root { flat: true, ..self }
    }

    /// The object's name is repeated in a field; the two must not differ.
    fn named_by(mut self, field: &str) -> Self {
        self.rules.push(rule(
            &format!("self.{field} == self.metadata.name"),
            &format!("{field} must equal the object's name"),
        ));
        self
    }
}

fn define<K>(root: Root) -> Value
where
    K: CustomResourceExt + HasSpec,
    K::Spec: JsonSchema,
{
    let mut spec = structural::schema_of::<K::Spec>();
    let description = spec.remove("description");

    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut rules = root.rules;
    if root.flat {
        if let Some(Value::Object(fields)) = spec.remove("properties") {
            properties = fields;
        }
        if let Some(Value::Array(names)) = spec.remove("required") {
            required = names;
        }
        if let Some(Value::Array(own)) = spec.remove("x-kubernetes-validations") {
            rules.splice(0..0, own);
        }
    } else {
        if root.spec_required {
            required.push(json!("spec"));
        }
        spec.insert("description".into(), json!("What is wanted."));
        if root.spec_default {
            spec.insert("default".into(), json!({}));
        }
        properties.insert("spec".into(), Value::Object(spec));
    }
    properties.insert("apiVersion".into(), json!({ "type": "string" }));
    properties.insert("kind".into(), json!({ "type": "string" }));
    properties.insert("metadata".into(), root.metadata);

    let mut schema = json!({ "type": "object", "properties": properties });
    if let Some(description) = description {
        schema["description"] = description;
    }
    if !required.is_empty() {
        schema["required"] = Value::Array(required);
    }
    if !rules.is_empty() {
        schema["x-kubernetes-validations"] = Value::Array(rules);
    }

    let mut crd = serde_json::to_value(K::crd()).expect("a CustomResourceDefinition is plain data");
    crd["spec"]["versions"][0]["schema"] = json!({ "openAPIV3Schema": schema });
    crd["spec"]["names"]["listKind"] = json!(format!("{}List", K::kind_of()));
    crd
}

/// Adds the schema of the status; that there is a status subresource the derive already said.
fn add_status<K>(crd: &mut Value)
where
    K: HasStatus,
    K::Status: JsonSchema,
{
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["status"] = Value::Object(structural::schema_of::<K::Status>());
}

trait KindOf {
    fn kind_of() -> String;
}

impl<K: CustomResourceExt> KindOf for K {
    fn kind_of() -> String {
        K::api_resource().kind
    }
}

#[cfg(test)]
mod tests;
