//! Which resources are served: the built-in ones, and those of every established custom resource definition.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::resource::Resource;

/// All served resources. Immutable: a change makes a new catalog, readers keep the one they started with.
#[derive(Clone, Default)]
pub struct Catalog {
    /// By group, version and plural; the order of discovery follows `order`.
    resources: BTreeMap<(String, String, String), Arc<Resource>>,
    /// Which resources a custom resource definition brought.
    by_definition: BTreeMap<String, Vec<(String, String, String)>>,
}

impl Catalog {
    /// A catalog of built-in resources.
    pub fn of(resources: Vec<Resource>) -> Catalog {
        let mut catalog = Catalog::default();
        for resource in resources {
            catalog.insert(resource);
        }
        catalog
    }

    fn insert(&mut self, resource: Resource) -> (String, String, String) {
        let at = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.resources.insert(at.clone(), Arc::new(resource));
        at
    }

    /// The catalog with the resources of one definition replaced.
    pub fn with_definition(&self, definition: &str, resources: Vec<Resource>) -> Catalog {
        let mut catalog = self.clone();
        for at in catalog.by_definition.remove(definition).unwrap_or_default() {
            catalog.resources.remove(&at);
        }
        if !resources.is_empty() {
            let places = resources.into_iter().map(|resource| catalog.insert(resource)).collect();
            catalog.by_definition.insert(definition.to_owned(), places);
        }
        catalog
    }

    /// One resource.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// All resources, by group, version and plural.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// The resources of one group version, in discovery order.
    pub fn of_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.resources.values().filter(move |r| r.group == group && r.version == version)
    }

    /// The resource an `apiVersion` and `kind` name.
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.resources.values().find(|r| r.group == group && r.version == version && r.kind == kind)
    }

    /// The resource in its storage version: what a table's objects are written in.
    pub fn of_table(&self, table: &str) -> Option<&Arc<Resource>> {
        let (plural, group) = table.split_once('.').unwrap_or((table, ""));
        self.resources
            .values()
            .filter(|r| r.group == group && r.plural == plural)
            .find(|r| r.version == r.storage_version)
            .or_else(|| self.resources.values().find(|r| r.group == group && r.plural == plural))
    }

    /// Every group with its versions, preferred first.
    pub fn groups(&self) -> BTreeMap<String, Vec<String>> {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for resource in self.resources.values() {
            let versions = groups.entry(resource.group.clone()).or_default();
            if !versions.contains(&resource.version) {
                versions.push(resource.version.clone());
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        }
        groups
    }
}

/// Orders versions as Kubernetes prefers them: `v2` over `v1` over `v1beta2` over `v1beta1` over `v1alpha1`, then names.
pub(crate) fn version_rank(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let parse = || -> Option<(u8, u64, u64)> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        match &rest[digits..] {
            "" => Some((3, major, 0)),
            tail => {
                let (stability, minor) = if let Some(minor) = tail.strip_prefix("beta") {
                    (2, minor)
                } else {
                    (1, tail.strip_prefix("alpha")?)
                };
                Some((stability, major, if minor.is_empty() { 0 } else { minor.parse().ok()? }))
            }
        }
    };
    match parse() {
        Some((stability, major, minor)) => (stability, major, minor, std::cmp::Reverse(String::new())),
        None => (0, 0, 0, std::cmp::Reverse(version.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::version_rank;

    #[test]
    fn versions_are_preferred_by_stability_then_number() {
        let mut versions =
            vec!["v1alpha1", "foo", "v1", "v10", "v2beta1", "v2", "v1beta10", "v1beta2", "bar"];
        versions.sort_by_key(|v| std::cmp::Reverse(version_rank(v)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta10", "v1beta2", "v1alpha1", "bar", "foo"]);
    }
}
