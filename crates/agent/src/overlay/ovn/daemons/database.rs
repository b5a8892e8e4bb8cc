//! The file of a database.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::on_host::Host;

/// Why there is no usable file.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The tool cannot be run.
    #[error("running ovsdb-tool; is openvswitch-common installed?")]
    Run(#[source] io::Error),
    /// The tool refused.
    #[error("ovsdb-tool {command} {}: {said}", file.display())]
    Tool {
        /// What was asked of it.
        command: &'static str,
        /// The file.
        file: PathBuf,
        /// What it said.
        said: String,
    },
    /// The file could not be moved.
    #[error("moving {} to {}", from.display(), to.display())]
    Move {
        /// From where.
        from: PathBuf,
        /// To where.
        to: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// The file of a database and the schema it is made with.
#[derive(Clone, Debug)]
pub struct Database {
    /// The file.
    pub file: PathBuf,
    /// The schema, as packaged.
    pub schema: PathBuf,
}

impl Database {
    /// Makes the file if it is missing and brings it to the schema if that is another.
    pub(super) async fn prepare(&self) -> Result<(), DatabaseError> {
        if !self.file.exists() {
            return self.create().await;
        }
        // A file that cannot be read is the server's to judge: it forgives more than the tool.
        let needs = tool("needs-conversion", &[&self.file, &self.schema]).await;
        if needs.is_ok_and(|answer| answer.trim() == "yes") {
            tool("convert", &[&self.file, &self.schema]).await?;
        }
        Ok(())
    }

    /// Puts the file aside and a new one in its place. False if there was nothing to put aside.
    ///
    /// The new one is made first: on a full disk nothing changes.
    pub(super) async fn put_aside(&self) -> Result<bool, DatabaseError> {
        if !self.file.exists() {
            return Ok(false);
        }
        let new = self.beside("new");
        // Left over from an attempt that was interrupted.
        let _ = std::fs::remove_file(&new);
        tool("create", &[&new, &self.schema]).await?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let aside = self.beside(&format!("damaged-{now}"));
        rename(&self.file, &aside)?;
        rename(&new, &self.file)?;
        tracing::error!(aside = %aside.display(), "put a database aside that its server does not accept");
        Ok(true)
    }

    async fn create(&self) -> Result<(), DatabaseError> {
        let new = self.beside("new");
        let _ = std::fs::remove_file(&new);
        tool("create", &[&new, &self.schema]).await?;
        rename(&new, &self.file)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.file.clone().into_os_string();
        name.push(format!(".{suffix}"));
        name.into()
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), DatabaseError> {
    std::fs::rename(from, to).map_err(|source| DatabaseError::Move {
        from: from.to_owned(),
        to: to.to_owned(),
        source,
    })
}

async fn tool(command: &'static str, files: &[&PathBuf]) -> Result<String, DatabaseError> {
    let mut process = Command::new("ovsdb-tool");
    process.arg(command).args(files);
    let done = Host::default().output(process).await.map_err(DatabaseError::Run)?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(DatabaseError::Tool { command, file: files[0].clone(), said })
}
