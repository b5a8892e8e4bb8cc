//! Reading the machine, or a directory that looks like one.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;

/// The machine looked at.
#[derive(Debug)]
pub(super) struct Host {
    root: PathBuf,
}

impl Host {
    /// The machine we run on.
    pub(super) fn real() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// A directory standing for one.
    #[cfg(test)]
    pub(super) fn at(root: &std::path::Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    /// A file's text; `None` where it is absent or unreadable, which every caller treats alike.
    pub(super) fn read(&self, absolute: &str) -> Option<String> {
        let bytes = std::fs::read(self.path(absolute)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The same of a gzipped file.
    pub(super) fn read_gz(&self, absolute: &str) -> Option<String> {
        let file = std::fs::File::open(self.path(absolute)).ok()?;
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Is there anything at this path? A dangling symbolic link counts.
    pub(super) fn exists(&self, absolute: &str) -> bool {
        self.path(absolute).symlink_metadata().is_ok()
    }

    /// Where a symbolic link points, as written in it.
    pub(super) fn link(&self, absolute: &str) -> Option<PathBuf> {
        std::fs::read_link(self.path(absolute)).ok()
    }

    /// Names in a directory, sorted; none where it is absent.
    pub(super) fn list(&self, absolute: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(absolute)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|e| e.file_name()).filter_map(|n: OsString| n.into_string().ok()).collect();
        names.sort();
        names
    }

    /// Where an executable is, in the directories daemons are installed to.
    ///
    /// Not `$PATH`: an unprivileged user's often lacks the `sbin` directories, where ours are.
    pub(super) fn program(&self, name: &str) -> Option<String> {
        ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
            .into_iter()
            .map(|dir| format!("{dir}/{name}"))
            .find(|path| self.path(path).is_file())
    }

    /// First line of what `program --version` prints.
    pub(super) fn version_line(&self, program: &str) -> Option<String> {
        let path = self.program(program)?;
        let output = Command::new(self.path(&path)).arg("--version").output().ok()?;
        String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
    }

    /// The running kernel's release.
    pub(super) fn kernel_release(&self) -> String {
        self.read("/proc/sys/kernel/osrelease").map_or_else(|| "unknown".into(), |r| r.trim().to_owned())
    }

    /// The `ID` of os-release: `debian`, `ubuntu`, …
    pub(super) fn distribution(&self) -> Option<String> {
        let text = self.read("/etc/os-release")?;
        text.lines().find_map(|l| l.strip_prefix("ID=")).map(|id| id.trim_matches('"').to_owned())
    }
}
