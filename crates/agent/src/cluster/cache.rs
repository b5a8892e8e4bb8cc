//! What a node remembers of the cluster, so that it heals itself when it boots without the API.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Node;
use serde::{Deserialize, Serialize};

use super::basis::Written;

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
        let file = directory.join(Cache::FILE);
        let written = (|| {
            std::fs::create_dir_all(directory)?;
            let new = directory.join(format!("{}.new", Cache::FILE));
            let mut out = File::create(&new)?;
            out.write_all(&serde_json::to_vec_pretty(self)?)?;
            out.sync_all()?;
            std::fs::rename(&new, &file)?;
            File::open(directory)?.sync_all()
        })();
        written.map_err(|source| CacheError { file, source })
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
}
