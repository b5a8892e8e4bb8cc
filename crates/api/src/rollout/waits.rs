//! Why a node serves no pods yet.

use std::collections::BTreeMap;

use crate::annotation::AnnotationError;

/// `waits.netferry.dev/<capability>`, on a node: it serves no pods before it has taken its configuration, and why. One
/// annotation for each capability that waits, so that none has to know what another wrote. The node removes its
/// annotation only if no configuration was assigned meanwhile, in one write.
///
/// Invariant: no name and no reason is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Waits(BTreeMap<String, String>);

impl Waits {
    /// What the keys begin with.
    pub const PREFIX: &'static str = "waits.netferry.dev/";

    /// Reads the reasons among all annotations of a node.
    ///
    /// # Errors
    /// If a capability has no name or no reason.
    pub fn read(annotations: &BTreeMap<String, String>) -> Result<Waits, AnnotationError> {
        let ours = annotations.iter().filter_map(|(key, why)| Some((key.strip_prefix(Waits::PREFIX)?, why)));
        let waits: BTreeMap<String, String> =
            ours.map(|(source, why)| (source.to_owned(), why.clone())).collect();
        match waits.iter().find(|(source, why)| source.is_empty() || why.is_empty()) {
            None => Ok(Waits(waits)),
            Some((source, _)) => {
                let problem = format!("the capability {source:?} has no name or no reason");
                Err(AnnotationError::Value { key: Waits::PREFIX, problem })
            }
        }
    }

    /// The key of a capability's annotation.
    pub fn key(source: &str) -> String {
        format!("{}{source}", Waits::PREFIX)
    }

    /// The reason of each capability that waits.
    pub fn get(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Returns true if no capability waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &[(&str, &str)]) -> Result<Waits, AnnotationError> {
        Waits::read(&list.iter().map(|(key, why)| ((*key).to_owned(), (*why).to_owned())).collect())
    }

    #[test]
    fn each_capability_waits_by_an_annotation_of_its_own() {
        let others = [("netferry.dev/waits", "x"), ("waits.example.org/mtu", "y")];
        assert!(read(&others).unwrap().is_empty());
        let both =
            read(&[("waits.netferry.dev/egressip", "no guard yet"), ("waits.netferry.dev/mtu", "new")]);
        let both = both.unwrap();
        assert_eq!(both.get().keys().collect::<Vec<_>>(), ["egressip", "mtu"]);
        assert_eq!(both.get()["mtu"], "new");
        assert_eq!(Waits::key("mtu"), "waits.netferry.dev/mtu");
    }

    #[test]
    fn a_wait_without_a_name_or_a_reason_is_refused() {
        for list in [[("waits.netferry.dev/", "new")], [("waits.netferry.dev/mtu", "")]] {
            assert!(read(&list).unwrap_err().to_string().contains("has no name or no reason"));
        }
    }
}
