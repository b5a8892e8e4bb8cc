//! Network namespaces: made, opened, entered one thread at a time.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};

use crate::error::{Attempt, Error, Result};

const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace, held by a descriptor: it lives at least as long as this value.
#[derive(Debug)]
pub struct Namespace {
    file: File,
    described: String,
}

/// Which namespace it is, whatever way it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespaceId {
    device: u64,
    inode: u64,
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl std::fmt::Display for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.described)
    }
}

impl Namespace {
    /// The one this thread is in.
    pub fn current() -> Result<Namespace> {
        Namespace::open_as(OWN.as_ref(), "the current namespace".into())
    }

    /// The one bound to a path (`/run/netns/blue`, `/proc/1/ns/net`).
    ///
    /// A file that is no namespace is refused here, not when it is entered.
    pub fn open(path: impl AsRef<Path>) -> Result<Namespace> {
        let path = path.as_ref();
        Namespace::open_as(path, format!("namespace {}", path.display()))
    }

    /// The one a process lives in.
    pub fn of_process(pid: u32) -> Result<Namespace> {
        Namespace::open_as(format!("/proc/{pid}/ns/net").as_ref(), format!("namespace of process {pid}"))
    }

    /// A new one without a name: it is gone when the last descriptor, process and thread in it are gone.
    pub fn anonymous() -> Result<Namespace> {
        on_thread("new namespace", || {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|errno| Error::refused(Attempt::Adding, "network namespace", errno))?;
            Namespace::open_as(OWN.as_ref(), "an anonymous namespace".into())
        })?
    }

    /// A new one bound to a path, where it stays until [`Namespace::unbind`]. The path must not exist yet.
    pub fn bound(path: impl AsRef<Path>) -> Result<Namespace> {
        let path = path.as_ref();
        let io = |source| Error::io(Attempt::Adding, format!("namespace {}", path.display()), source);
        OpenOptions::new().write(true).create_new(true).open(path).map_err(io)?;
        let made = on_thread("new namespace", || {
            let refused =
                |errno| Error::refused(Attempt::Adding, format!("namespace {}", path.display()), errno);
            unshare(CloneFlags::CLONE_NEWNET).map_err(refused)?;
            mount(Some(OWN), path, None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(refused)?;
            Namespace::open(path)
        })
        .and_then(|inner| inner);
        if made.is_err() {
            // An empty file in its place would look like a namespace that cannot be opened.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    /// Undoes [`Namespace::bound`]. A path that is already gone, or bound to nothing, is fine.
    pub fn unbind(path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        match umount2(path, MntFlags::MNT_DETACH) {
            Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
            Err(errno) => {
                return Err(Error::refused(
                    Attempt::Removing,
                    format!("namespace {}", path.display()),
                    errno,
                ));
            }
        }
        match std::fs::remove_file(path) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(Error::io(Attempt::Removing, format!("namespace {}", path.display()), e)),
        }
    }

    /// Its identity, to tell whether two are the same.
    pub fn id(&self) -> Result<NamespaceId> {
        let meta =
            self.file.metadata().map_err(|source| Error::io(Attempt::Reading, &self.described, source))?;
        Ok(NamespaceId { device: meta.dev(), inode: meta.ino() })
    }

    /// Another descriptor of the same namespace.
    pub fn try_clone(&self) -> Result<Namespace> {
        let file =
            self.file.try_clone().map_err(|source| Error::io(Attempt::Opening, &self.described, source))?;
        Ok(Namespace { file, described: self.described.clone() })
    }

    /// Runs something inside, on a thread of its own: the caller's thread stays where it is, so this is safe
    /// under any runtime. Costs a thread, some ten microseconds.
    pub fn run<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> Result<T> {
        on_thread("namespace", || {
            self.enter()?;
            Ok(inside())
        })?
    }

    /// Moves the calling thread into the namespace for good. For threads and processes that live there; on a
    /// thread of a runtime's pool this would misplace whatever runs there next: use [`Namespace::run`].
    pub fn enter(&self) -> Result<()> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| Error::refused(Attempt::Entering, &self.described, errno))
    }

    fn open_as(path: &Path, described: String) -> Result<Namespace> {
        let io = |source| Error::io(Attempt::Opening, &described, source);
        let file = File::open(path).map_err(io)?;
        let kind = nix::sys::statfs::fstatfs(&file)
            .map_err(|errno| Error::refused(Attempt::Opening, &described, errno))?
            .filesystem_type();
        if kind != nix::sys::statfs::NSFS_MAGIC {
            return Err(Error::invalid(described, "is not a namespace"));
        }
        Ok(Namespace { file, described })
    }
}

fn on_thread<T: Send>(name: &str, body: impl FnOnce() -> T + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn_scoped(scope, body)
            .map_err(|source| Error::io(Attempt::Entering, name, source))?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
