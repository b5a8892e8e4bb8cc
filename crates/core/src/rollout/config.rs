//! Machine configurations: files, units and kernel arguments of a class of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::epochs::Epochs;

/// What one machine configuration, or a merged one, holds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Spec {
    /// Files, in the order in which they were written.
    pub files: Vec<File>,
    /// Units, in the order in which they were written.
    pub units: Vec<Unit>,
    /// Kernel arguments.
    pub kernel_arguments: Vec<String>,
    /// What it holds beside that, which we do not do.
    pub unsupported: BTreeSet<Unsupported>,
}

/// A file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct File {
    /// Where.
    pub path: String,
    /// Its permissions.
    pub mode: u32,
    /// What is in it, decoded.
    pub contents: Vec<u8>,
}

impl File {
    /// The permissions of a file that names none.
    pub const DEFAULT_MODE: u32 = 0o644;
}

/// A unit of the host's service manager.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Unit {
    /// Its name, with the suffix.
    pub name: String,
    /// Whether it is started at boot; nothing, left as it is.
    pub enabled: Option<bool>,
    /// Whether nobody may start it.
    pub masked: bool,
    /// The unit; nothing, the host has its own.
    pub contents: Option<String>,
    /// Additions to it, by name.
    pub dropins: BTreeMap<String, String>,
}

/// A machine configuration as somebody wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachineConfig {
    /// Its name.
    pub name: String,
    /// The class of nodes it is for.
    pub role: String,
    /// What it holds.
    pub spec: Spec,
    /// Which rendering it is, on those that a capability writes: a node never goes back to an older one. Empty on others.
    pub epochs: Epochs,
}

/// What machine configurations may hold that we refuse, by the name users write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unsupported {
    /// `osImageURL`
    OsImageUrl,
    /// `baseOSExtensionsContainerImage`
    ExtensionsImage,
    /// `kernelType`, other than `default`
    KernelType,
    /// `extensions`
    Extensions,
    /// `fips`
    Fips,
    /// `config.passwd`
    Passwd,
    /// `config.kernelArguments`
    IgnitionKernelArguments,
    /// `config.storage.disks`
    Disks,
    /// `config.storage.filesystems`
    Filesystems,
    /// `config.storage.raid`
    Raid,
    /// `config.storage.luks`
    Luks,
    /// `config.storage.directories`
    Directories,
    /// `config.storage.links`
    Links,
    /// `append` of a file
    Append,
    /// The contents of a file from elsewhere than the configuration itself
    RemoteContents,
    /// `user` or `group` of a file, other than root
    Owner,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unsupported::OsImageUrl => "osImageURL",
            Unsupported::ExtensionsImage => "baseOSExtensionsContainerImage",
            Unsupported::KernelType => "kernelType",
            Unsupported::Extensions => "extensions",
            Unsupported::Fips => "fips",
            Unsupported::Passwd => "config.passwd",
            Unsupported::IgnitionKernelArguments => "config.kernelArguments",
            Unsupported::Disks => "config.storage.disks",
            Unsupported::Filesystems => "config.storage.filesystems",
            Unsupported::Raid => "config.storage.raid",
            Unsupported::Luks => "config.storage.luks",
            Unsupported::Directories => "config.storage.directories",
            Unsupported::Links => "config.storage.links",
            Unsupported::Append => "config.storage.files[].append",
            Unsupported::RemoteContents => "config.storage.files[].contents.source other than data:",
            Unsupported::Owner => "config.storage.files[].user or group",
        })
    }
}
