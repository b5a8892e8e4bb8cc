//! The versions of the specification that are spoken.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::call::Command;
use crate::error::{CniError, Code};

/// A version of the specification.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Version {
    /// CHECK, and addresses that say their family.
    #[serde(rename = "0.4.0")]
    V0_4,
    /// Lists only, addresses without their family.
    #[serde(rename = "1.0.0")]
    V1_0,
    /// STATUS, GC, and MTUs in results.
    #[serde(rename = "1.1.0")]
    V1_1,
}

impl Version {
    /// All, oldest first.
    pub const ALL: [Version; 3] = [Version::V0_4, Version::V1_0, Version::V1_1];
    /// The newest.
    pub const NEWEST: Version = Version::V1_1;

    /// As the specification writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::V0_4 => "0.4.0",
            Version::V1_0 => "1.0.0",
            Version::V1_1 => "1.1.0",
        }
    }

    /// Reads a version.
    ///
    /// # Errors
    /// Code 1 for one that is not spoken; it names those that are.
    pub fn parse(text: &str) -> Result<Version, CniError> {
        Version::ALL.into_iter().find(|version| version.as_str() == text).ok_or_else(|| {
            let spoken = Version::ALL.map(Version::as_str).join(", ");
            CniError::new(Code::IncompatibleVersion, format!("CNI version {text:?} is not supported"))
                .with_details(format!("supported are {spoken}"))
        })
    }

    /// Whether a configuration of this version may ask for a verb.
    ///
    /// # Errors
    /// Code 1 for one that came later.
    pub fn allows(self, command: Command) -> Result<(), CniError> {
        let since = match command {
            Command::Status | Command::Gc => Version::V1_1,
            Command::Add | Command::Del | Command::Check | Command::Version => Version::V0_4,
        };
        if self >= since {
            return Ok(());
        }
        let text = format!("a configuration of CNI version {self} does not allow {command}");
        Err(CniError::new(Code::IncompatibleVersion, text).with_details(format!("it came with {since}")))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
