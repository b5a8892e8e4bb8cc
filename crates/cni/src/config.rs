//! The network configuration on standard input.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::call::{Attachment, Command, is_name};
use crate::error::{CniError, Code};
use crate::protocol::DEFAULT_SOCKET;
use crate::result::{CniResult, Dns};
use crate::version::Version;

/// A network configuration, as far as this plugin heeds it.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkConfig {
    /// The version everything is answered in.
    pub version: Version,
    /// The network's name.
    pub name: String,
    /// Where the agent listens.
    pub socket: String,
    /// What the plugins before this one made; for CHECK, what all of them made.
    pub previous: Option<CniResult>,
    /// The attachments that are to stay, for GC.
    pub valid: Vec<Attachment>,
    /// Passed on in the result.
    pub dns: Option<Dns>,
}

impl NetworkConfig {
    /// Reads a configuration for a verb.
    ///
    /// # Errors
    /// 6 for what is not the JSON of a configuration, 1 for a version that is not spoken or does not know the verb,
    /// 7 for values that make no sense, 2 for settings this plugin would have to ignore.
    pub fn parse(input: &[u8], command: Command) -> Result<NetworkConfig, CniError> {
        let object: Map<String, Value> = serde_json::from_slice(input).map_err(|error| {
            CniError::new(Code::Decode, "the network configuration is not a JSON object")
                .with_details(error.to_string())
        })?;
        let version = version_of(&object)?;
        version.allows(command)?;
        let name = field::<String>(&object, "name")?.unwrap_or_default();
        if !is_name(&name) {
            let why = "must begin with a letter or digit and hold letters, digits, '_', '.' and '-' only";
            return Err(invalid(format!("name {name:?} {why}")));
        }
        unsupported(&object)?;
        let socket = field::<String>(&object, "socket")?.unwrap_or_else(|| DEFAULT_SOCKET.to_owned());
        if !socket.starts_with('/') {
            return Err(invalid(format!("socket {socket:?} must be an absolute path")));
        }
        let previous = match object.get("prevResult") {
            None | Some(Value::Null) => None,
            Some(value) => Some(CniResult::parse(value, version)?),
        };
        if command == Command::Check && previous.is_none() {
            return Err(invalid("prevResult is missing, and CHECK compares with it"));
        }
        Ok(NetworkConfig {
            version,
            name,
            socket,
            previous,
            valid: valid(&object, command)?,
            dns: field(&object, "dns")?,
        })
    }
}

/// The version a configuration asks to be answered in; the newest where it cannot be told.
pub(crate) fn answer_version(input: &[u8]) -> Version {
    let object: Option<Map<String, Value>> = serde_json::from_slice(input).ok();
    object.and_then(|object| version_of(&object).ok()).unwrap_or(Version::NEWEST)
}

fn version_of(object: &Map<String, Value>) -> Result<Version, CniError> {
    // A configuration without a version is one of before there were any.
    Version::parse(&field::<String>(object, "cniVersion")?.unwrap_or_else(|| "0.1.0".to_owned()))
}

fn field<T: for<'de> Deserialize<'de>>(
    object: &Map<String, Value>,
    key: &str,
) -> Result<Option<T>, CniError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => T::deserialize(value).map(Some).map_err(|error| {
            CniError::new(Code::Decode, format!("{key} of the network configuration cannot be read"))
                .with_details(error.to_string())
        }),
    }
}

/// What would be ignored silently is refused: an administrator who writes it counts on it.
fn unsupported(object: &Map<String, Value>) -> Result<(), CniError> {
    let refuse = |key: String, value: &Value, why: &str| {
        Err(CniError::new(Code::UnsupportedField, format!("unsupported field {key}: {value}"))
            .with_details(why))
    };
    let told = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Object(inner) => !inner.is_empty(),
        Value::Array(inner) => !inner.is_empty(),
        Value::String(inner) => !inner.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    };
    if let Some(value) = object.get("ipam").filter(|value| told(value)) {
        return refuse("ipam".into(), value, "addresses come from the node's subnet");
    }
    if let Some(value) = object.get("ipMasq").filter(|value| told(value)) {
        return refuse("ipMasq".into(), value, "the node translates what leaves the cluster by itself");
    }
    let runtime = object.get("runtimeConfig").and_then(Value::as_object);
    for key in ["ips", "mac", "ipRanges"] {
        if let Some(value) = runtime.and_then(|runtime| runtime.get(key)).filter(|value| told(value)) {
            return refuse(format!("runtimeConfig.{key}"), value, "addresses come from the node's subnet");
        }
    }
    Ok(())
}

/// The list changed its name while 1.1 was written, and runtimes send the old, the new or both.
fn valid(object: &Map<String, Value>, command: Command) -> Result<Vec<Attachment>, CniError> {
    if command != Command::Gc {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        for attachment in field::<Vec<Attachment>>(object, key)?.unwrap_or_default() {
            if !found.contains(&attachment) {
                found.push(attachment);
            }
        }
    }
    Ok(found)
}

fn invalid(text: impl Into<String>) -> CniError {
    CniError::new(Code::InvalidConfig, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, command: Command) -> Result<NetworkConfig, CniError> {
        NetworkConfig::parse(text.as_bytes(), command)
    }

    #[test]
    fn each_mistake_has_its_code() {
        for (text, command, code) in [
            ("", Command::Add, Code::Decode),
            ("{", Command::Add, Code::Decode),
            ("[]", Command::Add, Code::Decode),
            (r#"{"cniVersion":1,"name":"n"}"#, Command::Add, Code::Decode),
            (r#"{"cniVersion":"1.1.0","name":7}"#, Command::Add, Code::Decode),
            (r#"{"cniVersion":"1.1.0","name":"n","prevResult":{"ips":7}}"#, Command::Add, Code::Decode),
            (r#"{"name":"n"}"#, Command::Add, Code::IncompatibleVersion),
            (r#"{"cniVersion":"0.3.1","name":"n"}"#, Command::Add, Code::IncompatibleVersion),
            (r#"{"cniVersion":"2.0.0","name":"n"}"#, Command::Add, Code::IncompatibleVersion),
            (r#"{"cniVersion":"1.0.0","name":"n"}"#, Command::Status, Code::IncompatibleVersion),
            (r#"{"cniVersion":"0.4.0","name":"n"}"#, Command::Gc, Code::IncompatibleVersion),
            (r#"{"cniVersion":"1.1.0"}"#, Command::Add, Code::InvalidConfig),
            (r#"{"cniVersion":"1.1.0","name":"a b"}"#, Command::Add, Code::InvalidConfig),
            (r#"{"cniVersion":"1.1.0","name":"n","socket":"run/x"}"#, Command::Add, Code::InvalidConfig),
            (r#"{"cniVersion":"1.1.0","name":"n"}"#, Command::Check, Code::InvalidConfig),
            (
                r#"{"cniVersion":"1.1.0","name":"n","ipam":{"type":"host-local"}}"#,
                Command::Add,
                Code::UnsupportedField,
            ),
            (r#"{"cniVersion":"1.1.0","name":"n","ipMasq":true}"#, Command::Add, Code::UnsupportedField),
            (
                r#"{"cniVersion":"1.1.0","name":"n","runtimeConfig":{"mac":"02:00:00:00:00:01"}}"#,
                Command::Add,
                Code::UnsupportedField,
            ),
            (
                r#"{"cniVersion":"1.1.0","name":"n","cni.dev/valid-attachments":[{}]}"#,
                Command::Gc,
                Code::Decode,
            ),
        ] {
            let error = parse(text, command).expect_err(text);
            assert_eq!(error.code, code, "{text}: {error}");
        }
    }

    #[test]
    fn an_unsupported_setting_is_named_with_its_value() {
        let error = parse(r#"{"cniVersion":"1.1.0","name":"n","ipMasq":true}"#, Command::Add).unwrap_err();
        assert_eq!(error.msg, "unsupported field ipMasq: true");
    }

    #[test]
    fn what_says_nothing_is_not_refused() {
        let text = r#"{"cniVersion":"1.1.0","name":"n","ipam":{},"ipMasq":false,"runtimeConfig":{"ips":[]},"later":1}"#;
        let config = parse(text, Command::Add).unwrap();
        assert_eq!(config.socket, DEFAULT_SOCKET);
    }

    #[test]
    fn the_attachments_to_keep_are_read_under_both_names() {
        let text = r#"{"cniVersion":"1.1.0","name":"n",
            "cni.dev/valid-attachments":[{"containerID":"a","ifname":"eth0"}],
            "cni.dev/attachments":[{"containerID":"a","ifname":"eth0"},{"containerID":"b","ifname":"eth0"}]}"#;
        let config = parse(text, Command::Gc).unwrap();
        let containers: Vec<&str> = config.valid.iter().map(Attachment::container).collect();
        assert_eq!(containers, ["a", "b"]);
    }
}
