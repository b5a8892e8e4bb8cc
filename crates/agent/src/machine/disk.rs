//! A host's files, by the operations a configuration is written with.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat, renameat};
use nix::sys::stat::{Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, symlinkat, unlinkat};

use netferry_core::rollout::journal::Op;
use netferry_core::rollout::layout::{Entry, Found};

/// The permissions of directories that are made.
const DIRECTORY: u32 = 0o755;
/// How often a path is looked up while the machine's files are being renamed; one look in two may be in vain at worst.
const LOOKS: u32 = 1000;

/// How many symbolic links in a row are followed, as many as the kernel does.
const LINKS: u32 = 40;

/// A host's files below a root.
///
/// Symbolic links in a path lead where they lead on that host, also where its root is not ours: a daemon in a container
/// that follows `/etc/x -> /usr/lib/x` must end up in the host's `/usr`.
#[derive(Debug)]
pub struct Disk {
    root: OwnedFd,
    shown: PathBuf,
    #[cfg(test)]
    pub(super) done: std::sync::Mutex<Vec<Op>>,
}

/// An operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {path}")]
pub struct DiskError {
    doing: &'static str,
    path: String,
    #[source]
    source: io::Error,
}

impl DiskError {
    fn new(doing: &'static str, path: &str, source: impl Into<io::Error>) -> DiskError {
        DiskError { doing, path: path.to_owned(), source: source.into() }
    }
}

type Result<T> = std::result::Result<T, DiskError>;

impl Disk {
    /// The host whose root is at `root`.
    ///
    /// # Errors
    /// If there is no such directory.
    pub fn open(root: &Path) -> Result<Disk> {
        let file = File::open(root).map_err(|e| DiskError::new("opening", &root.to_string_lossy(), e))?;
        Ok(Disk {
            root: file.into(),
            shown: root.to_owned(),
            #[cfg(test)]
            done: std::sync::Mutex::default(),
        })
    }

    /// Where its root is.
    pub fn root(&self) -> &Path {
        &self.shown
    }

    /// Does one operation.
    pub fn apply(&self, op: &Op) -> Result<()> {
        #[cfg(test)]
        self.done.lock().expect("no test panics while it holds this").push(op.clone());
        match op {
            Op::MakeDir(path) => self.make_dir(path),
            Op::Make { path, entry } => self.make(path, entry),
            Op::SyncFile(path) => self.within("synchronising", path, |dir, name| {
                let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
                File::from(openat(dir, name, flags, Mode::empty())?).sync_all()
            }),
            Op::Link { from, to } => self.link(from, to),
            Op::Rename { from, to } => {
                let (dir, old) = self.parent("renaming", from)?;
                let (same, new) = self.parent("renaming", to)?;
                renameat(&dir, old, &same, new).map_err(|e| DiskError::new("renaming", from, e))
            }
            Op::Remove(path) => self.remove("removing", path, UnlinkatFlags::NoRemoveDir),
            Op::RemoveDir(path) => self.remove("removing directory", path, UnlinkatFlags::RemoveDir),
            Op::SyncDir(path) => match self.directory(path) {
                Ok(dir) => match File::from(dir).sync_all() {
                    // A file system without a disk.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
                    done => done.map_err(|e| DiskError::new("synchronising", path, e)),
                },
                Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(()),
                Err(error) => Err(DiskError::new("synchronising", path, error)),
            },
        }
    }

    /// Does all of them, in order, up to the first that fails.
    pub fn run(&self, ops: &[Op]) -> Result<()> {
        ops.iter().try_for_each(|op| self.apply(op))
    }

    /// What makes a directory and those above it, as far as they are not there. Durable when it is done.
    pub fn make_dirs(&self, path: &str) -> Result<Vec<Op>> {
        let mut ops = Vec::new();
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]).filter(|at| *at > 0);
        for dir in ends.map(|at| &path[..at]) {
            if !self.present(dir)? {
                let above = dir.rsplit_once('/').map_or("", |(above, _)| above);
                ops.push(Op::MakeDir(dir.to_owned()));
                ops.push(Op::SyncDir(if above.is_empty() { "/" } else { above }.to_owned()));
            }
        }
        Ok(ops)
    }

    /// Replaces a file as a whole, and makes its directory: after power loss it is the old one or the new one. Durable
    /// when it returns.
    ///
    /// # Errors
    /// If it cannot be written; then it is the old one.
    pub fn replace(&self, path: &str, contents: Vec<u8>, mode: u32) -> Result<()> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        // Services read every file of a directory, and most leave out what begins with a dot.
        let staged = format!("{dir}/.{name}.netferry-new");
        let mut ops = self.make_dirs(dir)?;
        ops.extend([
            Op::Make { path: staged.clone(), entry: Entry::File { mode, contents } },
            Op::SyncFile(staged.clone()),
            Op::Rename { from: staged, to: path.to_owned() },
            Op::SyncDir(dir.to_owned()),
        ]);
        self.run(&ops)
    }

    /// Whether something is at a path.
    pub fn present(&self, path: &str) -> Result<bool> {
        Ok(self.kind(path)?.is_some())
    }

    /// What is at a path, as far as a configuration goes.
    pub fn found(&self, path: &str) -> Result<Found> {
        let Some((kind, mode)) = self.kind(path)? else { return Ok(Found::Nothing) };
        if kind == SFlag::S_IFLNK {
            let target = self.within("reading", path, |dir, name| Ok(readlinkat(dir, name)?))?;
            return Ok(Found::Entry(Entry::Symlink(target.to_string_lossy().into_owned())));
        }
        if kind != SFlag::S_IFREG {
            return Ok(Found::Other);
        }
        match self.read(path)? {
            Some(contents) => Ok(Found::Entry(Entry::File { mode, contents })),
            None => Ok(Found::Nothing),
        }
    }

    /// What is in a file; nothing if there is none.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let read = |dir: &OwnedFd, name: &str| {
            let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
            let mut contents = Vec::new();
            File::from(openat(dir, name, flags, Mode::empty())?).read_to_end(&mut contents)?;
            Ok(contents)
        };
        match self.within("reading", path, read) {
            Ok(contents) => Ok(Some(contents)),
            Err(error) if nothing_there(&error.source) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is in the file a path leads to, through symbolic links; nothing if it leads to none. A link to `/dev/null` is
    /// how services are told to leave a file of theirs out.
    pub fn read_through(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let wrong = |error: io::Error| DiskError::new("reading", path, error);
        let mut file = match self.opened(path, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY) {
            Ok(file) => File::from(file),
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(None),
            Err(error) => return Err(wrong(error.into())),
        };
        let mut contents = Vec::new();
        if !file.metadata().map_err(wrong)?.is_file() {
            return Ok(None);
        }
        file.read_to_end(&mut contents).map_err(wrong)?;
        Ok(Some(contents))
    }

    /// The path that is no symbolic link itself any more when those at the end of this one are followed.
    pub fn leads_to(&self, path: &str) -> Result<String> {
        let mut at = path.to_owned();
        for _ in 0..LINKS {
            let Found::Entry(Entry::Symlink(to)) = self.found(&at)? else { return Ok(at) };
            let dir = at.rsplit_once('/').map_or("", |(dir, _)| dir);
            at = if to.starts_with('/') { to } else { format!("{dir}/{to}") };
        }
        Err(DiskError::new("following", path, Errno::ELOOP))
    }

    /// Returns the path without symbolic links at which a file written at this one would be.
    pub fn resolved(&self, path: &str) -> Result<String> {
        self.resolved_after(path, 0)
    }

    fn resolved_after(&self, path: &str, links: u32) -> Result<String> {
        let wrong = |error: io::Error| DiskError::new("following", path, error);
        let (mut above, mut rest) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = loop {
            let error = match self.directory(above) {
                Ok(dir) => break dir,
                Err(error) => error,
            };
            if error != Errno::ENOENT || above.is_empty() || links > LINKS {
                return Err(wrong(error.into()));
            }
            // It may be a link to a directory that is only made later.
            let dir = above.rsplit_once('/').map_or("", |(dir, _)| dir);
            if let Found::Entry(Entry::Symlink(to)) = self.found(above)? {
                let to = if to.starts_with('/') { to } else { format!("{dir}/{to}") };
                return self.resolved_after(&format!("{to}/{rest}"), links + 1);
            }
            above = dir;
            rest = &path[above.len() + 1..];
        };
        let place = |of: &OwnedFd| std::fs::read_link(format!("/proc/self/fd/{}", of.as_raw_fd()));
        let (dir, root) = (place(&dir).map_err(wrong)?, place(&self.root).map_err(wrong)?);
        let outside = |_| wrong(io::Error::other("it leads out of the host's files"));
        let inside = dir.strip_prefix(&root).map_err(outside)?.to_string_lossy();
        Ok(if inside.is_empty() { format!("/{rest}") } else { format!("/{inside}/{rest}") })
    }

    /// The names in a directory; none if there is no such directory.
    pub fn list(&self, path: &str) -> Result<Vec<String>> {
        let wrong = |error: io::Error| DiskError::new("listing", path, error);
        let dir = match self.directory(path) {
            Ok(dir) => dir,
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(Vec::new()),
            Err(error) => return Err(wrong(error.into())),
        };
        let mut dir = nix::dir::Dir::from_fd(dir).map_err(|error| wrong(error.into()))?;
        let mut names = Vec::new();
        for entry in dir.iter() {
            let entry = entry.map_err(|error| wrong(error.into()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn kind(&self, path: &str) -> Result<Option<(SFlag, u32)>> {
        let stat = |dir: &OwnedFd, name: &str| Ok(fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW)?);
        match self.within("looking at", path, stat) {
            Ok(stat) => {
                let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
                Ok(Some((kind, stat.st_mode & 0o7777)))
            }
            Err(error) if nothing_there(&error.source) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn make_dir(&self, path: &str) -> Result<()> {
        self.within("making directory", path, |dir, name| {
            match mkdirat(dir, name, Mode::from_bits_truncate(DIRECTORY)) {
                Err(Errno::EEXIST) => return Ok(()),
                made => made?,
            }
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let made = File::from(openat(dir, name, flags, Mode::empty())?);
            // Whoever started us may have a narrower mask than the host's own services need.
            made.set_permissions(std::fs::Permissions::from_mode(DIRECTORY))
        })
    }

    fn make(&self, path: &str, entry: &Entry) -> Result<()> {
        self.within("writing", path, |dir, name| {
            match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(error) => return Err(error.into()),
            }
            match entry {
                Entry::Symlink(to) => Ok(symlinkat(to.as_str(), dir, name)?),
                Entry::File { mode, contents } => {
                    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
                    // Nobody else reads it before it has the permissions it should have.
                    let mut file = File::from(openat(dir, name, flags, Mode::from_bits_truncate(0o600))?);
                    file.write_all(contents)?;
                    file.set_permissions(std::fs::Permissions::from_mode(*mode))
                }
            }
        })
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        let (dir, old) = self.parent("linking", from)?;
        let (same, new) = self.parent("linking", to)?;
        match linkat(&dir, old, &same, new, AtFlags::empty()) {
            Ok(()) | Err(Errno::EEXIST) => Ok(()),
            Err(error) => Err(DiskError::new("linking", from, error)),
        }
    }

    fn remove(&self, doing: &'static str, path: &str, what: UnlinkatFlags) -> Result<()> {
        let removed = self.within(doing, path, |dir, name| Ok(unlinkat(dir, name, what)?));
        match removed {
            Err(error) if nothing_there(&error.source) => Ok(()),
            // A file system that takes no changes refuses to remove also what is not there.
            Err(_) if matches!(self.present(path), Ok(false)) => Ok(()),
            Err(error) if matches!(what, UnlinkatFlags::RemoveDir) && in_use(&error.source) => Ok(()),
            other => other,
        }
    }

    fn within<T>(
        &self,
        doing: &'static str,
        path: &str,
        act: impl FnOnce(&OwnedFd, &str) -> io::Result<T>,
    ) -> Result<T> {
        let (dir, name) = self.parent(doing, path)?;
        act(&dir, name).map_err(|error| DiskError::new(doing, path, error))
    }

    fn parent<'p>(&self, doing: &'static str, path: &'p str) -> Result<(OwnedFd, &'p str)> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = self.directory(dir).map_err(|error| DiskError::new(doing, path, error))?;
        Ok((dir, name))
    }

    fn directory(&self, path: &str) -> nix::Result<OwnedFd> {
        self.opened(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)
    }

    fn opened(&self, path: &str, flags: OFlag) -> nix::Result<OwnedFd> {
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_IN_ROOT);
        // A `..` on the way is refused when anything on the machine was renamed or mounted in that moment, for it might
        // have led out. That says nothing about this path: looking again does.
        (0..LOOKS)
            .map(|_| openat2(self.root.as_fd(), if path.is_empty() { "/" } else { path }, how))
            .find(|opened| !matches!(opened, Err(Errno::EAGAIN | Errno::EINTR)))
            .unwrap_or(Err(Errno::EAGAIN))
    }
}

fn nothing_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn in_use(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::ResourceBusy
            // A path that ends in a dot.
            | io::ErrorKind::InvalidInput
    )
}
