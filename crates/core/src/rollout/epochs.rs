//! Which rendering of each capability a configuration carries.

use std::collections::BTreeMap;
use std::fmt;

/// How often each capability has rendered its MachineConfigs, by the name of the capability.
///
/// Each capability counts for itself: a newer rendering of one cannot hide an older rendering of another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epochs(BTreeMap<String, u64>);

/// A configuration carries an older rendering of a capability than another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Regression {
    /// The capability.
    pub source: String,
    /// The older epoch.
    pub older: u64,
    /// The newer one.
    pub newer: u64,
}

impl Epochs {
    /// The epoch of one capability.
    pub fn of(source: &str, epoch: u64) -> Epochs {
        Epochs(BTreeMap::from([(source.to_owned(), epoch)]))
    }

    /// The epoch of a capability; `None` if the configuration carries nothing of it.
    pub fn get(&self, source: &str) -> Option<u64> {
        self.0.get(source).copied()
    }

    /// All of them, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(source, epoch)| (source.as_str(), *epoch))
    }

    /// Adds those of another configuration that is merged into the same. The newer one counts.
    pub fn add(&mut self, other: &Epochs) {
        for (source, epoch) in &other.0 {
            let newest = self.0.entry(source.clone()).or_default();
            *newest = (*newest).max(*epoch);
        }
    }

    /// Returns the first capability of which this is older than `before`, if there is one. A capability that only one of
    /// them carries was added or removed, which is no regression.
    pub fn regression(&self, before: &Epochs) -> Option<Regression> {
        let both = self.0.iter().filter_map(|(source, older)| Some((source, *older, before.get(source)?)));
        let mut regressions = both.filter(|(_, older, newer)| older < newer);
        regressions.next().map(|(source, older, newer)| Regression { source: source.clone(), older, newer })
    }
}

impl FromIterator<(String, u64)> for Epochs {
    fn from_iter<I: IntoIterator<Item = (String, u64)>>(epochs: I) -> Epochs {
        Epochs(epochs.into_iter().collect())
    }
}

impl fmt::Display for Epochs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (source, epoch)) in self.0.iter().enumerate() {
            write!(f, "{}{source} {epoch}", if nth == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(list: &[(&str, u64)]) -> Epochs {
        list.iter().map(|(source, epoch)| ((*source).to_owned(), *epoch)).collect()
    }

    #[test]
    fn a_newer_rendering_of_one_capability_does_not_hide_an_older_one_of_another() {
        let before = epochs(&[("egressip", 1), ("mtu", 5)]);
        let later = epochs(&[("egressip", 9), ("mtu", 4)]);
        let found = later.regression(&before);
        assert_eq!(found, Some(Regression { source: "mtu".into(), older: 4, newer: 5 }));
        assert_eq!(epochs(&[("egressip", 2), ("mtu", 5)]).regression(&before), None);
    }

    #[test]
    fn a_capability_that_was_added_or_removed_is_no_regression() {
        let (one, both) = (epochs(&[("mtu", 5)]), epochs(&[("egressip", 1), ("mtu", 5)]));
        assert_eq!((one.regression(&both), both.regression(&one)), (None, None));
    }

    #[test]
    fn of_configurations_that_are_merged_the_newest_epoch_of_each_capability_counts() {
        let mut merged = epochs(&[("egressip", 3), ("mtu", 1)]);
        merged.add(&epochs(&[("hostnet", 0), ("mtu", 2)]));
        assert_eq!(merged, epochs(&[("egressip", 3), ("hostnet", 0), ("mtu", 2)]));
        assert_eq!(merged.to_string(), "egressip 3, hostnet 0, mtu 2");
    }
}
