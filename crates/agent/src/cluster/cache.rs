//! What a node remembers of the cluster, so that it heals itself when it boots without the API.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Node;
use serde::{Deserialize, Serialize};

use super::basis::Written;
use crate::kept;
use crate::overlay::pods::Place;

/// Why something could not be remembered.
#[derive(Debug, thiserror::Error)]
#[error("writing {}", file.display())]
pub struct CacheError {
    file: PathBuf,
    #[source]
    source: io::Error,
}

/// What a node remembers of the cluster.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// The cluster's networks.
    pub networks: Option<Written>,
    /// This node's own annotations of the overlay: its place, and what it said of itself.
    pub annotations: BTreeMap<String, String>,
}

impl Cache {
    const FILE: &'static str = "cluster.json";

    /// What was remembered. A file that is missing or cannot be read is nothing remembered: the API knows it all.
    pub fn read(directory: &Path) -> Cache {
        let file = directory.join(Cache::FILE);
        let Ok(text) = std::fs::read(&file) else { return Cache::default() };
        serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(file = %file.display(), %error, "cannot be read; going on without");
            Cache::default()
        })
    }

    /// Remembers this, whole or not at all.
    pub fn write(&self, directory: &Path) -> Result<(), CacheError> {
        write_whole(directory, Cache::FILE, self)
    }

    /// The node as it was last seen.
    pub fn node(&self, name: &str) -> Node {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node.metadata.annotations = Some(self.annotations.clone());
        node
    }

    /// Takes in what of this node's annotations is the overlay's.
    pub fn remember(&mut self, node: &Node) {
        let all = node.metadata.annotations.iter().flatten();
        let ours = all.filter(|(key, _)| key.starts_with(netferry_api::overlay::annotations::PREFIX));
        self.annotations = ours.map(|(key, value)| (key.clone(), value.clone())).collect();
    }

    /// Takes in where the zone runs in these networks, whatever the annotations say of it: the next agent begins there,
    /// and must not cut off the pods it finds because somebody changed an annotation meanwhile.
    pub fn remember_place(&mut self, place: &Place) {
        let networks = self.networks.as_ref().and_then(|written| written.basis().ok().flatten());
        if networks.is_some_and(|basis| basis.networks == place.networks) {
            let runs = &place.node.assignment;
            let differs = netferry_translate::assignment::missing(&place.networks, runs, &self.annotations);
            self.annotations.extend(differs);
        }
    }
}

/// Remembers something in a file of ours.
pub(crate) fn write_whole(directory: &Path, name: &str, what: &impl Serialize) -> Result<(), CacheError> {
    kept::write(directory, name, what).map_err(|source| CacheError { file: directory.join(name), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use netferry_core::net::Stack;

    #[test]
    fn what_is_remembered_is_read_back_and_what_cannot_be_read_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Cache::read(dir.path()), Cache::default());
        let mut node = Node::default();
        node.metadata.annotations = Some(BTreeMap::from([
            ("k8s.ovn.org/node-id".to_owned(), "2".to_owned()),
            ("example.com/other".to_owned(), "x".to_owned()),
        ]));
        let mut cache = Cache::default();
        cache.remember(&node);
        assert_eq!(cache.annotations.len(), 1, "only what is the overlay's");
        cache.write(&dir.path().join("new")).unwrap();
        assert_eq!(Cache::read(&dir.path().join("new")), cache);
        std::fs::write(dir.path().join("new").join(Cache::FILE), "{").unwrap();
        assert_eq!(Cache::read(&dir.path().join("new")), Cache::default());
    }

    #[test]
    fn the_next_agent_begins_where_this_one_runs_whatever_annotations_say_by_then() {
        let written = fixtures::written("10.244.0.0/16", 24, "10.96.0.0/16");
        let networks = written.basis().unwrap().unwrap().networks;
        let place = fixtures::place(networks, Stack::V4("10.244.3.0/24".parse().unwrap()));
        let mut cache = Cache { networks: Some(written), ..Cache::default() };
        for subnets in [r#"{"default":["10.244.9.0/24"]}"#, "{", ""] {
            let mut node = Node::default();
            let edited = [("k8s.ovn.org/node-subnets", subnets), ("k8s.ovn.org/node-id", "9")];
            let edited = edited.map(|(key, value)| (key.to_owned(), value.to_owned()));
            node.metadata.annotations = Some(BTreeMap::from(edited));
            cache.remember(&node);
            cache.remember_place(&place);
            let runs = netferry_translate::node::assignment(&place.networks, &cache.annotations).unwrap();
            assert_eq!(runs, place.node.assignment, "{subnets}");
        }
        // In other networks that place may be none; there the cluster says it.
        let mut elsewhere = Cache::default();
        elsewhere.remember_place(&place);
        assert_eq!(elsewhere, Cache::default());
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Cache::default().write(&file).unwrap_err();
        assert!(error.to_string().contains("cluster.json"), "{error}");
    }
}
