//! What a new or changed object needs of the rest of the store before it is accepted.

use serde_json::Value;

use super::Cx;
use crate::builtin::{Ranges, admit_pod, allocate_service, pod_service_account};
use crate::names;
use crate::server::State;
use crate::status::ApiError;
use crate::store::Key;

/// A pod runs as a service account that exists, and gets what admission gives every pod.
pub(crate) fn admit(cx: &Cx<'_>, object: &mut Value) -> Result<(), ApiError> {
    if cx.table() != "pods" {
        return Ok(());
    }
    let key = Key::new(&cx.namespace, pod_service_account(object));
    let account = cx.state.object("serviceaccounts", &key);
    let random = cx.core.ids.bytes();
    admit_pod(object, &cx.namespace, account.as_ref(), || random_suffix(random))
}

/// Five characters as generated names end in.
fn random_suffix(random: [u8; 16]) -> String {
    let mut bytes = random.into_iter();
    names::generate("", || u32::from(bytes.next().unwrap_or_default()))
}

/// A Service gets its addresses and ports, or is told which of those it asked for are taken.
pub(crate) fn allocate(cx: &mut Cx<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
    if cx.table() != "services" {
        return Ok(());
    }
    let State { store, holdings, .. } = &mut *cx.state;
    let revision = store.revision();
    let held = holdings.of(store.table_mut("services"), revision);
    let settings = &cx.core.settings;
    let ranges = Ranges { networks: settings.service_ranges.clone(), ports: settings.node_ports.clone() };
    allocate_service(object, old, held, &ranges)
}
