//! Writing to a database: the smallest transaction, and what to do when it is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use netferry_core::error::chain;
use netferry_core::overlay::inputs::Model;
use netferry_core::overlay::rows::{Change, RowName, Rows};
use netferry_core::overlay::zone::Datapath;
use netferry_ovs::{CallError, Client, Desired, DiffError, Owner, RowKey, SettleError, Watcher};

use super::drift::{Look, Reference};
use super::trouble::Trouble;
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
}

/// Rows that are wanted, however they are kept.
pub(super) trait Wants {
    /// Whether there is such a row.
    fn has(&self, table: &str, key: &str) -> bool;
    /// Those of these rows that there are.
    fn some(&self, names: &BTreeSet<RowName>) -> Rows;
    /// All that are in such tables, and perhaps others.
    fn all(&self, table: &dyn Fn(&str) -> bool) -> Rows;
}

impl Wants for Rows {
    fn has(&self, table: &str, key: &str) -> bool {
        self.contains(table, key)
    }

    fn some(&self, names: &BTreeSet<RowName>) -> Rows {
        self.pick(names)
    }

    fn all(&self, _table: &dyn Fn(&str) -> bool) -> Rows {
        self.clone()
    }
}

impl Wants for Model {
    fn has(&self, table: &str, key: &str) -> bool {
        self.contains(table, key)
    }

    fn some(&self, names: &BTreeSet<RowName>) -> Rows {
        self.pick(names)
    }

    fn all(&self, table: &dyn Fn(&str) -> bool) -> Rows {
        self.rows_in(table)
    }
}

/// A database and what is known of how well it follows.
#[derive(Debug)]
pub(super) struct Store {
    which: Which,
    pub(super) client: Client,
    pub(super) changes: Watcher,
    owner: Owner,
    /// How long a transaction may take before others get their turn.
    pub(super) within: Duration,
    /// Where it may differ from what is wanted.
    look: Look,
    /// Whether it did not take what was wanted the last time, to say so once.
    failing: bool,
    trouble: Trouble,
}

impl Store {
    pub(super) fn new(which: Which, client: &Client) -> Store {
        let (look, owner) = (Look::everywhere(), wanted::owner());
        Store {
            which,
            changes: client.watch(&[]),
            client: client.clone(),
            owner,
            within: WITHIN,
            look,
            failing: false,
            trouble: Trouble::default(),
        }
    }

    /// There is something to look at the next time.
    pub(super) fn look(&mut self, at: Look) {
        self.look.add(at);
    }

    /// Everything will be compared the next time.
    pub(super) fn looks_everywhere(&self) -> bool {
        self.look.everywhere
    }

    pub(super) fn is_behind(&self) -> bool {
        !self.look.is_nothing()
    }

    /// Brings the database to `rows`, of which `change` is new. What it did not take is looked at again the next time.
    pub(super) async fn bring(&mut self, wants: &impl Wants, change: &Change) -> Brought {
        let Look { everywhere, rows: suspect, strays, references } = std::mem::take(&mut self.look);
        let mut names: BTreeSet<RowName> = suspect;
        names.extend(change.gone.iter().filter(|(table, _)| self.which.has(table)).cloned());
        let mut put = wants.some(&names);
        put.join(change.put.clone()).expect("both are of the same rows");
        let gone = names.iter().filter(|(table, key)| !wants.has(table, key));
        let gone: Vec<RowKey> = gone.filter_map(wanted::key_of_gone).chain(strays).collect();
        let which = self.which;
        let all = || wants.all(&|table| which.has(table));
        let done = match self.which {
            // Of the switch only some rows are ours to decide about here: ports of pods are others'.
            Which::Switch(_) if everywhere => self.part(&all(), &gone, references).await,
            Which::Switch(_) => self.part(&put, &gone, references).await,
            Which::Northbound | Which::Southbound if everywhere => self.whole(all).await,
            Which::Northbound | Which::Southbound => match self.part(&put, &gone, references).await {
                // Whatever stands in the way of one row must not hold up the others.
                Err(Failure::Refused(_)) => self.whole(all).await,
                done => done,
            },
        };
        let brought = match done {
            Ok((operations, troubled)) => {
                let everything = troubled.is_some();
                match troubled {
                    Some(troubled) => self.trouble.is_now(self.which.name(), troubled),
                    None => self.trouble.is_over_for(&put, &gone),
                }
                Brought { operations, everything, failed: None }
            }
            Err(Failure::Refused(why) | Failure::Away(why)) => {
                // What was to be removed is not remembered: the next attempt compares everything.
                self.look = Look::everywhere();
                Brought { operations: 0, everything: true, failed: Some(why) }
            }
        };
        self.report(&brought);
        brought
    }

    /// Says what is wrong when it begins, and when it is over.
    fn report(&mut self, brought: &Brought) {
        let database = self.which.name();
        if brought.operations > 0 {
            tracing::debug!(database, operations = brought.operations, "changed");
        }
        match (&brought.failed, self.failing) {
            (Some(why), false) => {
                tracing::error!(database, why, "does not take what is wanted; trying again")
            }
            (None, true) => tracing::info!(database, "takes what is wanted again"),
            (Some(_), true) | (None, false) => {}
        }
        self.failing = brought.failed.is_some();
    }

    /// Why a row is not as it should be, as of the last time that it was compared.
    pub(super) fn trouble_with(&self, row: &RowKey) -> Option<&String> {
        self.trouble.with(row)
    }

    /// These rows and no others, and of what they refer to only what came.
    async fn part(&self, rows: &Rows, gone: &[RowKey], came: BTreeSet<Reference>) -> Result<Done, Failure> {
        let mut desired = self.which.desired(rows);
        came.into_iter().for_each(|Reference { from, column, to }| desired.doubt(from, column, to));
        if desired.is_empty() && gone.is_empty() {
            return Ok((0, None));
        }
        let settling = self.client.settle_part(&desired, gone, &self.owner, COMMENT);
        let done = tokio::time::timeout(self.within, settling).await.map_err(|_| Failure::slow())?;
        let operations = done.map_err(Failure::of)?;
        Ok((operations, None))
    }

    /// Everything that can be done, and what is wrong with the rest.
    ///
    /// Nothing of this size is kept longer than it is needed, nor copied: it is what an agent's memory has to hold at
    /// most.
    async fn whole(&self, all: impl Fn() -> Rows) -> Result<Done, Failure> {
        let desired = self.which.desired(&all());
        let settling = self.client.settle_most(desired, &self.owner, COMMENT);
        let (done, wrong) = tokio::time::timeout(self.within, settling).await.map_err(|_| Failure::slow())?;
        let mut troubled = BTreeMap::new();
        for error in &wrong {
            let row = error.row().cloned().unwrap_or_else(|| RowKey::new("", ""));
            troubled.insert(row, chain(error));
        }
        let operations = match done.map_err(Failure::of) {
            Ok(operations) => operations,
            Err(Failure::Refused(_)) => self.one_by_one(&all(), &mut troubled).await?,
            Err(away) => return Err(away),
        };
        Ok((operations, Some(troubled)))
    }

    /// The server refuses all of it together, so it is told in ever smaller pieces until only what it refuses is left.
    /// Parents come before their children.
    async fn one_by_one(
        &self,
        rows: &Rows,
        troubled: &mut BTreeMap<RowKey, String>,
    ) -> Result<usize, Failure> {
        let mut operations = 0;
        let mut pieces: Vec<Vec<RowName>> = rows.names_by_table();
        pieces.sort_by_key(|piece| std::cmp::Reverse(piece.first().map(|(table, _)| rank(table))));
        while let Some(mut piece) = pieces.pop() {
            match self.part(&rows.pick(&piece), &[], BTreeSet::new()).await {
                Ok((done, _)) => operations += done,
                Err(Failure::Refused(why)) => match piece.len() {
                    0 => {}
                    1 => troubled.extend(wanted::key_of_gone(&piece[0]).map(|row| (row, why))),
                    many => {
                        pieces.push(piece.split_off(many / 2));
                        pieces.push(piece);
                    }
                },
                Err(away) => return Err(away),
            }
        }
        Ok(operations)
    }
}

/// Which tables come before which: rows before those that refer to them.
fn rank(table: &str) -> u8 {
    match table {
        "Load_Balancer_Group" | "Address_Set" => 0,
        "Logical_Switch" | "Logical_Router" => 1,
        "Logical_Router_Port" | "Logical_Switch_Port" | "Chassis" => 2,
        "Port_Group" => 4,
        "ACL" => 5,
        _ => 3,
    }
}

/// What became of an attempt.
#[derive(Debug)]
pub(super) struct Brought {
    operations: usize,
    /// Everything was compared, which takes more memory than anything else.
    pub(super) everything: bool,
    /// Why nothing was done.
    pub(super) failed: Option<String>,
}

/// How many operations it took and, if everything was compared, which rows are not as they should be.
type Done = (usize, Option<BTreeMap<RowKey, String>>);

enum Failure {
    /// It cannot be done as it is.
    Refused(String),
    /// Nobody is there to do it; whether it was done is seen later.
    Away(String),
}

impl Failure {
    fn of(error: SettleError) -> Failure {
        let text = chain(&error);
        match error {
            SettleError::Diff { source: DiffError::NotLoaded, .. } => Failure::Away(text),
            SettleError::Diff { .. } => Failure::Refused(text),
            SettleError::Call { source, .. } => match source {
                CallError::Lost { .. } | CallError::Stopped { .. } => Failure::Away(text),
                CallError::Refused { .. } | CallError::Transaction(_) => Failure::Refused(text),
            },
        }
    }

    fn slow() -> Failure {
        Failure::Away("no answer in time".to_owned())
    }
}
