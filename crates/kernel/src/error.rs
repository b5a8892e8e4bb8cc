//! What went wrong, on which object, and what to do about it.

use nix::errno::Errno;

/// What was being done when the kernel said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Reading objects back.
    Reading,
    /// Making an object that must not exist yet.
    Adding,
    /// Changing an object in place.
    Replacing,
    /// Taking an object away.
    Removing,
    /// Setting a property.
    Setting,
    /// Opening a socket, a namespace, a file.
    Opening,
    /// Running inside a namespace.
    Entering,
    /// Committing an nftables transaction.
    Committing,
    /// Putting a frame on a wire.
    Sending,
    /// Listening for changes.
    Watching,
}

impl std::fmt::Display for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Attempt::Reading => "reading",
            Attempt::Adding => "adding",
            Attempt::Replacing => "replacing",
            Attempt::Removing => "removing",
            Attempt::Setting => "setting",
            Attempt::Opening => "opening",
            Attempt::Entering => "entering",
            Attempt::Committing => "committing",
            Attempt::Sending => "sending",
            Attempt::Watching => "watching",
        })
    }
}

/// A refusal of the kernel, or of this crate before it asked the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused; `explained` is its own sentence, where it gave one.
    #[error("{attempt} {object}{}", explained.as_deref().map(|e| format!(" ({e})")).unwrap_or_default())]
    Refused {
        /// What was tried.
        attempt: Attempt,
        /// On what.
        object: String,
        /// The kernel's own words.
        explained: Option<String>,
        /// Its error number.
        #[source]
        errno: Errno,
    },
    /// Somebody changed the ruleset after the change was planned. Nothing was applied: read and plan again.
    #[error(
        "committing {object}: the ruleset changed since generation {planned}, which this was planned for"
    )]
    Stale {
        /// Which tables.
        object: String,
        /// The generation the plan was made for.
        planned: u32,
    },
    /// Refused here, before anything was sent.
    #[error("{object}: {why}")]
    Invalid {
        /// What.
        object: String,
        /// Why it cannot be.
        why: String,
    },
    /// The kernel answered with something this crate cannot read.
    #[error("reading {object}: {why}")]
    Unreadable {
        /// What was being read.
        object: String,
        /// What was wrong with it.
        why: &'static str,
    },
    /// A file or device could not be used.
    #[error("{attempt} {object}")]
    Io {
        /// What was tried.
        attempt: Attempt,
        /// On what.
        object: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Of a batch that the kernel does not treat as one, some parts were refused; the others are done.
    #[error("{} of {of} changes were refused, first: {}", failed.len(), failed.first().map(ToString::to_string).unwrap_or_default())]
    Several {
        /// The refusals, in the order of the batch.
        failed: Vec<Error>,
        /// How many changes the batch had.
        of: usize,
    },
}

/// What the caller of something that failed should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Then {
    /// The same again, a little later.
    Retry,
    /// The world is not what it was planned for: observe and plan again.
    Replan,
    /// This kernel cannot do it; a human must choose another kernel or another wish.
    Unsupported,
    /// The process lacks a capability; a human must grant it.
    Permission,
    /// The request makes no sense: a defect of the caller or of this crate.
    Bug,
}

impl Error {
    /// "And now?"
    pub fn then(&self) -> Then {
        match self {
            Error::Refused { errno, .. } => of_errno(*errno),
            Error::Stale { .. } => Then::Replan,
            Error::Invalid { .. } | Error::Unreadable { .. } => Then::Bug,
            Error::Io { source, .. } => {
                source.raw_os_error().map_or(Then::Retry, |n| of_errno(Errno::from_raw(n)))
            }
            Error::Several { failed, .. } => failed.iter().map(Error::then).max().unwrap_or(Then::Retry),
        }
    }

    /// The error number, where there is exactly one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Error::Refused { errno, .. } => Some(*errno),
            Error::Io { source, .. } => source.raw_os_error().map(Errno::from_raw),
            Error::Several { failed, .. } => match failed.as_slice() {
                [only] => only.errno(),
                _ => None,
            },
            Error::Stale { .. } | Error::Invalid { .. } | Error::Unreadable { .. } => None,
        }
    }

    /// Of several refusals the first, where the others follow from it.
    pub(crate) fn first(self) -> Error {
        if let Error::Several { mut failed, of } = self {
            return if failed.is_empty() { Error::Several { failed, of } } else { failed.swap_remove(0) };
        }
        self
    }

    pub(crate) fn refused(attempt: Attempt, object: impl Into<String>, errno: Errno) -> Error {
        Error::Refused { attempt, object: object.into(), explained: None, errno }
    }

    pub(crate) fn io(attempt: Attempt, object: impl Into<String>, source: std::io::Error) -> Error {
        Error::Io { attempt, object: object.into(), source }
    }

    pub(crate) fn invalid(object: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Invalid { object: object.into(), why: why.into() }
    }
}

/// Most numbers mean the same whatever was tried; those that do not are decided by what a re-read would show.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "of the 130 error numbers these are the ones that do not mean a defect"
)]
fn of_errno(errno: Errno) -> Then {
    match errno {
        Errno::EINTR | Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM | Errno::EBUSY | Errno::ENETDOWN => {
            Then::Retry
        }
        Errno::EEXIST
        | Errno::ENOENT
        | Errno::ESRCH
        | Errno::ENODEV
        | Errno::ENXIO
        | Errno::EADDRNOTAVAIL
        | Errno::ENETUNREACH
        | Errno::EHOSTUNREACH
        | Errno::ERESTART
        | Errno::ESTALE => Then::Replan,
        Errno::EPERM | Errno::EACCES | Errno::EROFS => Then::Permission,
        Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT | Errno::ENOSYS => Then::Unsupported,
        _ => Then::Bug,
    }
}

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_says_what_to_do_next() {
        let refused = |errno| Error::refused(Attempt::Adding, "route 10.0.0.0/8", errno);
        for (errno, then) in [
            (Errno::ENOBUFS, Then::Retry),
            (Errno::EEXIST, Then::Replan),
            (Errno::ENODEV, Then::Replan),
            (Errno::EPERM, Then::Permission),
            (Errno::EOPNOTSUPP, Then::Unsupported),
            (Errno::EINVAL, Then::Bug),
        ] {
            assert_eq!(refused(errno).then(), then, "{errno}");
        }
        let several = Error::Several { failed: vec![refused(Errno::ENOBUFS), refused(Errno::EPERM)], of: 3 };
        assert_eq!(several.then(), Then::Permission, "the worst decides");
        assert_eq!(several.errno(), None);
    }

    #[test]
    fn the_text_names_the_object_and_leaves_the_cause_to_the_source() {
        let error = Error::Refused {
            attempt: Attempt::Adding,
            object: "address 10.0.0.1/24 on link 3".into(),
            explained: Some("ipv4: Address already assigned".into()),
            errno: Errno::EEXIST,
        };
        assert_eq!(
            error.to_string(),
            "adding address 10.0.0.1/24 on link 3 (ipv4: Address already assigned)"
        );
        assert!(std::error::Error::source(&error).is_some());
    }
}
