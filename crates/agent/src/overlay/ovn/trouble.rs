//! Rows that are not as they should be.

use std::collections::{BTreeMap, BTreeSet};

use netferry_core::overlay::rows::Rows;
use netferry_ovs::RowKey;

use super::wanted;

/// What is wrong with which rows of a database, as of the last time that they were compared.
#[derive(Debug, Default)]
pub(super) struct Trouble(BTreeMap<RowKey, String>);

impl Trouble {
    /// What is wrong with a row.
    pub(super) fn with(&self, row: &RowKey) -> Option<&String> {
        self.0.get(row)
    }

    /// Everything was compared, and this is what is wrong; says what is new of it.
    pub(super) fn is_now(&mut self, database: &str, troubled: BTreeMap<RowKey, String>) {
        for (row, why) in troubled.iter().filter(|(row, why)| self.0.get(*row) != Some(*why)) {
            tracing::error!(database, %row, why, "is not as it should be; the rest is");
        }
        self.0 = troubled;
    }

    /// These rows were written and those removed. A pod whose port had been in trouble would be refused for what is
    /// over, until everything is compared again.
    pub(super) fn is_over_for(&mut self, put: &Rows, gone: &[RowKey]) {
        if self.0.is_empty() {
            return;
        }
        let put = put.names_by_table().into_iter().flatten();
        let put: BTreeSet<RowKey> = put.filter_map(|name| wanted::key_of_gone(&name)).collect();
        self.0.retain(|row, _| !put.contains(row) && !gone.contains(row));
    }
}

#[cfg(test)]
mod tests {
    use netferry_core::overlay::rows::{LoadBalancerGroup, Row as _};

    use super::*;

    #[test]
    fn a_row_that_was_written_or_removed_since_is_in_no_trouble_any_more() {
        let row = |name: &str| RowKey::new(LoadBalancerGroup::TABLE, name);
        let mut trouble = Trouble::default();
        trouble.is_now("northbound", ["a", "b", "c"].map(|name| (row(name), "why".to_owned())).into());
        let put = Rows::default().with(LoadBalancerGroup { name: "a".to_owned() });
        trouble.is_over_for(&put, &[row("b")]);
        assert_eq!(["a", "b", "c"].map(|name| trouble.with(&row(name)).is_some()), [false, false, true]);
        trouble.is_now("northbound", BTreeMap::new());
        assert_eq!(trouble.with(&row("c")), None);
    }
}
