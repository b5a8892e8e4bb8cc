//! What a server does by itself.

use serde_json::json;

use crate::react::{CONTROLLER, make};
use crate::{ApiServer, Settings};

#[test]
fn a_kind_nobody_has_written_can_be_watched_from_any_revision_since_the_start() {
    let server = ApiServer::open(Settings::default()).expect("a server in memory");
    let start = server.revision();
    let mut state = server.core.lock();
    let map = json!({"metadata": {"name": "one", "namespace": "default"}});
    make(&server.core, &mut state, CONTROLLER, "", "v1", "configmaps", map).expect("a config map");
    assert!(state.store.revision() > start);
    for table in state.catalog.all().map(|resource| resource.store_name()) {
        let since = state.store.table(&table).map(|table| table.since(start).map(Iterator::count));
        let changes = usize::from(table == "configmaps");
        assert_eq!(since, Some(Ok(changes)), "{table}");
    }
}
