//! The CNI configuration: the sign for the runtime that pods can be started.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use netferry_cni::Version;
use serde_json::json;

/// Where runtimes look.
pub const DEFAULT: &str = "/etc/cni/net.d/10-netferry.conflist";
/// The network's name.
pub const NETWORK: &str = "netferry";

/// The file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("writing the CNI configuration {}", path.display())]
pub struct NotWritten {
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

/// What the file says.
///
/// `cniVersion` is what a runtime that knows no list of versions uses; others take the newest they know.
pub fn text(socket: &Path) -> String {
    let list = json!({
        "cniVersion": Version::V1_0.as_str(),
        "cniVersions": Version::ALL.map(Version::as_str),
        "name": NETWORK,
        "plugins": [{ "type": "netferry-cni", "socket": socket }],
    });
    format!("{list:#}\n")
}

/// Writes the file, last of all: a runtime that sees it starts pods at once. Whole or not at all; one that says the
/// same already is left alone, so that a restart is no event for anybody who watches the directory.
pub fn write(path: &Path, socket: &Path) -> Result<bool, NotWritten> {
    let failed = |source| NotWritten { path: path.to_owned(), source };
    let text = text(socket);
    if std::fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(false);
    }
    let directory = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(directory).map_err(failed)?;
    // Runtimes read files that end in .conf, .conflist or .json.
    let draft = directory.join(format!(".{NETWORK}.{}.draft", std::process::id()));
    let written = (|| {
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&draft, path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written.map(|()| true).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_written_whole_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("net.d/10-netferry.conflist");
        assert!(write(&path, Path::new("/run/netferry/cni.sock")).unwrap());
        assert!(!write(&path, Path::new("/run/netferry/cni.sock")).unwrap(), "it says the same already");
        let list: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(list["plugins"][0]["socket"], "/run/netferry/cni.sock");
        assert!(write(&path, Path::new("/run/other.sock")).unwrap(), "another socket is another file");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft stays");
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let path = file.join("10-netferry.conflist");
        let error = write(&path, Path::new("/run/netferry/cni.sock")).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()));
    }
}
