//! Errors as the specification codes them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::version::Version;

/// What kind of error: the specification's numbers up to 99, ours from 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "u32", from = "u32")]
pub enum Code {
    /// 1: the configuration's version is not spoken.
    IncompatibleVersion,
    /// 2: the configuration asks for something that is not supported. The text has the key and its value.
    UnsupportedField,
    /// 3: the container is unknown or does not exist; the runtime need not clean up.
    UnknownContainer,
    /// 4: an environment variable is missing or wrong.
    InvalidEnvironment,
    /// 5: reading or writing failed.
    Io,
    /// 6: what was read could not be understood.
    Decode,
    /// 7: the configuration is not valid.
    InvalidConfig,
    /// 11: the same again, a little later.
    TryAgain,
    /// 50: new containers cannot be attached.
    NotAvailable,
    /// 51: new containers cannot be attached, and those that are may be cut off.
    LimitedConnectivity,
    /// 100: attaching failed halfway and was undone.
    AttachFailed,
    /// 101: an attachment is not as it was made.
    NotAsMade,
    /// Any other number.
    Other(u32),
}

impl From<Code> for u32 {
    fn from(code: Code) -> u32 {
        match code {
            Code::IncompatibleVersion => 1,
            Code::UnsupportedField => 2,
            Code::UnknownContainer => 3,
            Code::InvalidEnvironment => 4,
            Code::Io => 5,
            Code::Decode => 6,
            Code::InvalidConfig => 7,
            Code::TryAgain => 11,
            Code::NotAvailable => 50,
            Code::LimitedConnectivity => 51,
            Code::AttachFailed => 100,
            Code::NotAsMade => 101,
            Code::Other(number) => number,
        }
    }
}

impl From<u32> for Code {
    fn from(number: u32) -> Code {
        match number {
            1 => Code::IncompatibleVersion,
            2 => Code::UnsupportedField,
            3 => Code::UnknownContainer,
            4 => Code::InvalidEnvironment,
            5 => Code::Io,
            6 => Code::Decode,
            7 => Code::InvalidConfig,
            11 => Code::TryAgain,
            50 => Code::NotAvailable,
            51 => Code::LimitedConnectivity,
            100 => Code::AttachFailed,
            101 => Code::NotAsMade,
            other => Code::Other(other),
        }
    }
}

/// An error as a runtime gets it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CniError {
    /// See [`Code`].
    pub code: Code,
    /// What was tried on which object, and why it failed.
    pub msg: String,
    /// More, for whoever looks for the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
}

impl CniError {
    /// An error without details.
    pub fn new(code: Code, msg: impl Into<String>) -> CniError {
        CniError { code, msg: msg.into(), details: String::new() }
    }

    /// The same with details.
    #[must_use]
    pub fn with_details(self, details: impl Into<String>) -> CniError {
        CniError { details: details.into(), ..self }
    }

    /// The object a plugin prints, in the version that was asked for.
    pub fn to_json(&self, version: Version) -> serde_json::Value {
        let mut object = serde_json::json!({
            "cniVersion": version.as_str(),
            "code": u32::from(self.code),
            "msg": self.msg,
        });
        if !self.details.is_empty() {
            object["details"] = self.details.as_str().into();
        }
        object
    }
}

impl fmt::Display for CniError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.msg, u32::from(self.code))?;
        if self.details.is_empty() { Ok(()) } else { write!(f, ": {}", self.details) }
    }
}

impl std::error::Error for CniError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_its_number() {
        for number in 0..=200 {
            assert_eq!(u32::from(Code::from(number)), number);
        }
    }
}
