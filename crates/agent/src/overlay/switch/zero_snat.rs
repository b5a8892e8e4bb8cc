//! What OVN must not ask of a switch that would end by it.

use std::path::PathBuf;
use std::time::Duration;

use netferry_ovs::Client;
use netferry_ovs::table::Table;
use netferry_ovs::tables::vswitch::Datapath as DatapathRow;
use netferry_ovs::transaction::Transaction;
use netferry_ovs::value::Datum;

use crate::overlay::switch;

/// What OVN asks the switch for on every connection if the switch says it can: a source translation to nothing, which
/// gives another port to a connection that would look like one there is.
const ZERO_SNAT: &str = "ct_zero_snat";
/// Between looks at a switch that is not there, or has just been written to.
const AGAIN: Duration = Duration::from_millis(100);

/// Keeps OVN from asking a switch of before 3.2 that moves packets itself for translations to nothing.
///
/// Such a switch keeps a second entry for every translated connection, and ends with an assertion
/// (`conn_update_state`) when a packet finds one of those where it expected the first: some hundred connections between
/// pods that policies open and close are enough, and every flow through the node is gone until it is started again. A
/// port that would be given twice is rare, and costs one connection.
pub(crate) async fn forgo(database: Client, ovs_run: PathBuf) {
    loop {
        let claimed = database
            .until(|snapshot| {
                let says_so =
                    |row: &DatapathRow| row.capabilities.get(ZERO_SNAT).is_some_and(|it| it == "true");
                snapshot.all::<DatapathRow>().ok()?.into_iter().find(|entry| says_so(&entry.row))
            })
            .await;
        let version = async { switch::version(&switch::control(&ovs_run).await?).await };
        match version.await {
            Ok(version) if version < (3, 2) => {}
            // A switch that is exchanged for another is started again, and the agent with it or before it.
            Ok(version) => return tracing::debug!(?version, "the switch may translate to nothing"),
            Err(error) => {
                tracing::debug!(%error, "asking the switch for its version");
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        }
        let mut capabilities = claimed.row.capabilities.clone();
        capabilities.insert(ZERO_SNAT.to_owned(), "false".to_owned());
        let columns = [("capabilities".to_owned(), Datum::map(capabilities))].into();
        let mut transaction = Transaction::new();
        transaction.comment("netferry agent: no translations to nothing");
        transaction.update(DatapathRow::DECL.name, claimed.uuid, columns);
        match database.transact(&transaction).await {
            Ok(_) => tracing::info!("the switch is not asked for source translations to nothing"),
            Err(error) => {
                tracing::warn!(%error, "the switch is still asked for source translations to nothing");
            }
        }
        // What was written is in the copy a moment later; the same row must not be written twice meanwhile.
        tokio::time::sleep(AGAIN).await;
    }
}
