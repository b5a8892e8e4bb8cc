//! Where the real control plane's executables are.

use std::path::{Path, PathBuf};

/// The executables a [`crate::RealControlPlane`] starts.
pub const NEEDED: [&str; 3] = ["etcd", "kube-apiserver", "kube-controller-manager"];

/// The variables that may name the directory, first come first served.
const VARIABLES: [&str; 2] = ["NETFERRY_KUBE_ASSETS", "KUBEBUILDER_ASSETS"];

/// No directory holds the real control plane's executables.
///
/// A test that needs them fails with this: skipping would let the embedded server drift away from Kubernetes unseen.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MissingAssets {
    /// No variable is set.
    #[error(
        "no real control plane to compare with: run this through `make test`, or set NETFERRY_KUBE_ASSETS to what `scripts/kube-assets` prints"
    )]
    Unset,
    /// The directory lacks some of them.
    #[error(
        "{directory} (from {variable}) has no {missing}: run `make test`, or set NETFERRY_KUBE_ASSETS to what `scripts/kube-assets` prints"
    )]
    Incomplete {
        /// The variable that named the directory.
        variable: &'static str,
        /// The directory.
        directory: String,
        /// What it lacks.
        missing: String,
    },
}

/// The directory with the real control plane's executables.
pub fn assets() -> Result<PathBuf, MissingAssets> {
    choose(|variable| std::env::var_os(variable).map(PathBuf::from))
}

fn choose(read: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, MissingAssets> {
    let mut refusal = MissingAssets::Unset;
    for variable in VARIABLES {
        let Some(directory) = read(variable).filter(|d| !d.as_os_str().is_empty()) else { continue };
        let missing = lacks(&directory);
        if missing.is_empty() {
            return Ok(directory);
        }
        if refusal == MissingAssets::Unset {
            refusal = MissingAssets::Incomplete {
                variable,
                directory: directory.display().to_string(),
                missing: missing.join(", "),
            };
        }
    }
    Err(refusal)
}

fn lacks(directory: &Path) -> Vec<&'static str> {
    NEEDED.into_iter().filter(|name| !directory.join(name).is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory_with(names: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for name in names {
            std::fs::write(directory.path().join(name), "").expect("an empty file");
        }
        directory
    }

    #[test]
    fn without_assets_the_refusal_says_what_to_run() {
        let refusal = choose(|_| None).expect_err("nothing is set").to_string();
        assert!(refusal.contains("make test") && refusal.contains("scripts/kube-assets"), "{refusal}");
    }

    #[test]
    fn an_incomplete_directory_is_refused_with_what_it_lacks() {
        let partial = directory_with(&["etcd"]);
        let refusal = choose(|_| Some(partial.path().to_owned())).expect_err("two are missing").to_string();
        assert!(refusal.contains("kube-apiserver, kube-controller-manager"), "{refusal}");
    }

    #[test]
    fn a_complete_directory_is_taken_when_an_earlier_one_is_not() {
        let (partial, whole) = (directory_with(&["etcd"]), directory_with(&NEEDED));
        let chosen = choose(|variable| {
            let one = if variable == "NETFERRY_KUBE_ASSETS" { &partial } else { &whole };
            Some(one.path().to_owned())
        });
        assert_eq!(chosen, Ok(whole.path().to_owned()));
    }
}
