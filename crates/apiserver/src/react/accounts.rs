//! Every namespace has its default service account.

use serde_json::json;

use super::{CONTROLLER, make};
use crate::object::is_deleting;
use crate::server::{Core, State};
use crate::status::ApiError;
use crate::store::{Change, Event, Key};

pub(super) fn after(core: &Core, state: &mut State, table: &str, event: &Event) -> Result<(), ApiError> {
    let namespace = match (table, event.change) {
        ("namespaces", Change::Added | Change::Modified) => &event.object.key.name,
        ("serviceaccounts", Change::Deleted) if event.object.key.name == "default" => {
            &event.object.key.namespace
        }
        _ => return Ok(()),
    };
    match state.object("namespaces", &Key::new("", namespace)) {
        Some(object) if !is_deleting(&object) => make(
            core,
            state,
            CONTROLLER,
            "",
            "v1",
            "serviceaccounts",
            json!({"metadata": {"name": "default", "namespace": namespace}}),
        ),
        Some(_) | None => Ok(()),
    }
}
