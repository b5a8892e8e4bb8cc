//! Writing to a database: the smallest transaction, and what to do when it is refused.

use std::collections::BTreeSet;
use std::time::Duration;

use netferry_core::overlay::rows::{Change, RowName, Rows};
use netferry_core::overlay::zone::Datapath;
use netferry_ovs::{Client, Desired, Owner, RowKey, Watcher};

use super::drift::Look;
use super::wanted;

/// How long a transaction may take before others get their turn; it is made up for later.
const WITHIN: Duration = Duration::from_secs(5);
/// Written into the databases' logs with every transaction.
const COMMENT: &str = "netferry agent";

/// Which database.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    Northbound,
    Southbound,
    Switch(Datapath),
}

impl Which {
    fn name(self) -> &'static str {
        match self {
            Which::Northbound => "northbound",
            Which::Southbound => "southbound",
            Which::Switch(_) => "switch",
        }
    }

    fn desired(self, rows: &Rows) -> Desired {
        match self {
            Which::Northbound => wanted::northbound(rows),
            Which::Southbound => wanted::southbound(rows),
            Which::Switch(Datapath::Kernel) => wanted::switch_rows(rows, "system"),
            Which::Switch(Datapath::Userspace) => wanted::switch_rows(rows, "netdev"),
        }
    }

    /// Tables whose rows are in this database.
    fn has(self, table: &str) -> bool {
        let southbound = ["Chassis", "Port_Binding"].contains(&table);
        let switch = ["Open_vSwitch", "Interface"].contains(&table);
        match self {
            Which::Northbound => !southbound && !switch,
            Which::Southbound => southbound,
            Which::Switch(_) => switch,
        }
    }

    /// Whether these rows can only be written together with all others: a row that lists load balancers is written
    /// with exactly those that are named beside it.
    fn as_a_whole(self, rows: &Rows) -> bool {
        let lists = !rows.switches.is_empty() || !rows.load_balancer_groups.is_empty();
        matches!(self, Which::Northbound) && lists
    }
}

/// A database and what is known of how well it follows.
#[derive(Debug)]
pub(super) struct Store {
    which: Which,
    pub(super) client: Client,
    pub(super) changes: Watcher,
    owner: Owner,
    /// Where it may differ from what is wanted.
    look: Look,
    /// What was said when it did not take something, to say it once.
    refused: Option<String>,
}

impl Store {
    pub(super) fn new(which: Which, client: &Client) -> Store {
        let (look, owner) = (Look::everywhere(), wanted::owner());
        Store { which, changes: client.watch(&[]), client: client.clone(), owner, look, refused: None }
    }

    /// There is something to look at the next time.
    pub(super) fn look(&mut self, at: Look) {
        self.look.add(at);
    }

    pub(super) fn is_behind(&self) -> bool {
        !self.look.is_nothing()
    }

    /// Brings the database to `rows`, of which `change` is new; returns why it could not. Then, and only then, it is
    /// looked at again.
    pub(super) async fn bring(&mut self, rows: &Rows, change: &Change) -> Option<String> {
        let Look { everywhere, rows: suspect, strays } = std::mem::take(&mut self.look);
        let mut names: BTreeSet<RowName> = suspect;
        names.extend(change.gone.iter().filter(|(table, _)| self.which.has(table)).cloned());
        let mut put = rows.pick(&names);
        put.join(change.put.clone()).expect("both are of the same rows");
        let gone = names.iter().filter(|(table, key)| !rows.contains(table, key));
        let gone: Vec<RowKey> = gone.filter_map(wanted::key_of_gone).chain(strays).collect();
        let whole = everywhere || self.which.as_a_whole(&put);
        let done = match (self.which, whole) {
            // Of the switch only some rows are ours to decide about here: ports of pods are others'.
            (Which::Switch(_), true) => self.part(rows, &gone).await,
            (Which::Northbound | Which::Southbound, true) => self.whole(rows).await,
            (_, false) => self.part(&put, &gone).await,
        };
        match done {
            Ok(operations) => {
                if operations > 0 {
                    tracing::debug!(database = self.which.name(), operations, "changed");
                }
                if self.refused.take().is_some() {
                    tracing::info!(database = self.which.name(), "takes what is wanted again");
                }
                None
            }
            Err(why) => {
                // Whatever it was, the next attempt compares everything: what was to be removed is not remembered.
                self.look = Look::everywhere();
                if self.refused.as_ref() != Some(&why) {
                    tracing::error!(database = self.which.name(), why, "did not take what is wanted");
                }
                self.refused = Some(why.clone());
                Some(why)
            }
        }
    }

    async fn part(&self, rows: &Rows, gone: &[RowKey]) -> Result<usize, String> {
        let desired = self.which.desired(rows);
        if desired.is_empty() && gone.is_empty() {
            return Ok(0);
        }
        let settling = self.client.settle_part(&desired, gone, &self.owner, COMMENT);
        match tokio::time::timeout(WITHIN, settling).await {
            Ok(done) => done.map_err(|error| chain(&error)),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    async fn whole(&self, rows: &Rows) -> Result<usize, String> {
        let desired = self.which.desired(rows);
        let settling = self.client.settle_most(&desired, &self.owner, COMMENT);
        let Ok((done, wrong)) = tokio::time::timeout(WITHIN, settling).await else {
            return Err("no answer in time".to_owned());
        };
        match done {
            Ok(operations) => match wrong.first() {
                None => Ok(operations),
                Some(first) => {
                    Err(format!("{} rows stay as they are; the first: {}", wrong.len(), chain(first)))
                }
            },
            Err(error) => Err(chain(&error)),
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
