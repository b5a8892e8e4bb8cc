//! CHECK: compares what is with what was made.

use std::sync::Arc;

use ipnet::IpNet;
use netferry_cni::{Attachment, CniError, CniResult, Code};

use super::add::blocking;
use super::record::{self, Record};
use super::wire::{self, End};
use super::{Pods, chain};

impl Pods {
    /// Says everything that is not as it was made.
    pub(super) async fn check(
        &self,
        attachment: &Attachment,
        netns: &str,
        previous: &CniResult,
    ) -> Result<(), CniError> {
        let place = self.place()?;
        let _container = self.0.locks.hold(super::del::key(attachment.container())).await;
        let inside = self.open(netns)?;
        let records = record::of_container(&self.0.switch.snapshot(), attachment.container());
        let record = records.iter().find(|record| record.ifname == attachment.ifname()).ok_or_else(|| {
            let text = format!("{attachment} is not attached: the switch has no port for it");
            CniError::new(Code::UnknownContainer, text)
        })?;
        let Some(end) = self.end_of(&place, record) else {
            return Err(not_as_made(attachment, &["the switch's record of it is damaged".to_owned()]));
        };
        let mut wrong = said_before(record, &end, netns, previous);
        if record.mac != end.mac.to_string() {
            wrong.push(format!("the switch's record has hardware address {}, not {}", record.mac, end.mac));
        }
        if !record.installed {
            wrong.push(format!("OVN does not have link {} in the datapath", record.link));
        }
        let kernel = Arc::clone(&self.0.kernel);
        let found = blocking(move || wire::inspect(&kernel, inside, &end)).await;
        wrong.extend(
            found.map_err(|error| CniError::new(Code::Io, format!("{attachment}: {}", chain(&error))))?,
        );
        if wrong.is_empty() { Ok(()) } else { Err(not_as_made(attachment, &wrong)) }
    }
}

fn not_as_made(attachment: &Attachment, wrong: &[String]) -> CniError {
    CniError::new(Code::NotAsMade, format!("{attachment} is not as it was made: {}", wrong.join("; ")))
}

/// Where what the runtime kept of the ADD differs from the record. Plugins behind us may have added to it; what we
/// said must still be in it.
fn said_before(record: &Record, end: &End, netns: &str, previous: &CniResult) -> Vec<String> {
    let mut wrong = Vec::new();
    let at = previous.interfaces.iter().position(|i| i.name == record.ifname && i.sandbox == netns);
    let Some(at) = at else {
        wrong.push(format!("prevResult has no interface {} in {netns}", record.ifname));
        return wrong;
    };
    let mac = &previous.interfaces[at].mac;
    if !mac.is_empty() && !mac.eq_ignore_ascii_case(&end.mac.to_string()) {
        wrong.push(format!("prevResult has hardware address {mac}, the pod was given {}", end.mac));
    }
    let said: Vec<IpNet> =
        previous.ips.iter().filter(|ip| ip.interface == Some(at)).map(|ip| ip.address).collect();
    for net in record.addresses.iter().filter(|net| !said.contains(net)) {
        wrong.push(format!("prevResult lacks address {net}"));
    }
    for net in said.iter().filter(|net| !record.addresses.contains(net)) {
        wrong.push(format!("prevResult has address {net}, which the pod was not given"));
    }
    let routers: Vec<_> = end.routes.iter().filter_map(|(_, via)| *via).collect();
    let ours = previous.routes.iter().filter(|route| route.gw.is_some_and(|gw| routers.contains(&gw)));
    for route in ours.filter(|route| !end.routes.iter().any(|(to, via)| *to == route.dst && *via == route.gw))
    {
        wrong.push(format!("prevResult has a route to {}, which the pod was not given", route.dst));
    }
    wrong
}
