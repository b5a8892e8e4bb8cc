//! Labels and what selects by them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The labels of an object.
///
/// Shared, because thousands of pods carry the same ones: whoever translates from the API may intern them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Labels(Arc<BTreeMap<String, String>>);

impl Labels {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Whether no other object shares these.
    pub fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// All of them, in order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Labels {
        Labels(Arc::new(pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect()))
    }
}

/// One condition on a label.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Requirement {
    /// The label is there and has one of these values.
    In(String, BTreeSet<String>),
    /// The label is missing, or has none of these values.
    NotIn(String, BTreeSet<String>),
    /// The label is there.
    Exists(String),
    /// The label is missing.
    Missing(String),
}

impl Requirement {
    fn holds(&self, labels: &Labels) -> bool {
        match self {
            Requirement::In(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|v| !values.contains(v)),
            Requirement::Exists(key) => labels.get(key).is_some(),
            Requirement::Missing(key) => labels.get(key).is_none(),
        }
    }
}

/// Selects objects by their labels. The empty selector selects everything.
///
/// Kept as a set of requirements, so that two selectors written in a different order are one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LabelSelector(BTreeSet<Requirement>);

impl LabelSelector {
    /// Selects everything.
    pub fn all() -> LabelSelector {
        LabelSelector::default()
    }

    /// Selects what carries exactly this value of this label.
    pub fn equals(key: impl Into<String>, value: impl Into<String>) -> LabelSelector {
        LabelSelector(BTreeSet::from([Requirement::In(key.into(), BTreeSet::from([value.into()]))]))
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.holds(labels))
    }

    /// The requirements, in a fixed order.
    pub fn requirements(&self) -> impl Iterator<Item = &Requirement> {
        self.0.iter()
    }

    /// The selector as text: the same for equal selectors, different for different ones.
    pub fn text(&self) -> String {
        let list = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(",");
        let parts = self.0.iter().map(|requirement| match requirement {
            Requirement::In(key, values) => format!("{key} in ({})", list(values)),
            Requirement::NotIn(key, values) => format!("{key} notin ({})", list(values)),
            Requirement::Exists(key) => key.clone(),
            Requirement::Missing(key) => format!("!{key}"),
        });
        parts.collect::<Vec<_>>().join(";")
    }
}

impl FromIterator<Requirement> for LabelSelector {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> LabelSelector {
        LabelSelector(requirements.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(|v| (*v).to_owned()).collect()
    }

    #[test]
    fn a_requirement_means_what_kubernetes_says_it_means() {
        let labels = Labels::from_iter([("app", "web"), ("tier", "")]);
        let app = || "app".to_owned();
        let none = || "none".to_owned();
        for (requirement, selected) in [
            (Requirement::In(app(), values(&["web", "db"])), true),
            (Requirement::In(app(), values(&["db"])), false),
            (Requirement::In(none(), values(&["web"])), false),
            (Requirement::NotIn(app(), values(&["web"])), false),
            (Requirement::NotIn(app(), values(&["db"])), true),
            (Requirement::NotIn(none(), values(&["db"])), true),
            (Requirement::Exists(app()), true),
            (Requirement::Exists("tier".into()), true),
            (Requirement::Exists(none()), false),
            (Requirement::Missing(app()), false),
            (Requirement::Missing(none()), true),
        ] {
            let selector = LabelSelector::from_iter([requirement.clone()]);
            assert_eq!(selector.matches(&labels), selected, "{requirement:?}");
        }
    }

    #[test]
    fn the_empty_selector_selects_everything() {
        assert!(LabelSelector::all().matches(&Labels::default()));
    }

    #[test]
    fn all_requirements_must_hold() {
        let labels = Labels::from_iter([("app", "web")]);
        let both = LabelSelector::from_iter([
            Requirement::Exists("app".into()),
            Requirement::In("app".into(), values(&["db"])),
        ]);
        assert!(!both.matches(&labels));
    }
}
