//! The plugin, without the process around it.

use serde_json::{Value, json};

use crate::call::Call;
use crate::config::{NetworkConfig, answer_version};
use crate::error::{CniError, Code};
use crate::protocol::{Ask, Patience, ask};
use crate::version::Version;

/// What the process prints and how it ends.
#[derive(Clone, PartialEq, Debug)]
pub struct Output {
    /// For standard output; nothing for verbs that have no result.
    pub print: Option<Value>,
    /// Whether it worked.
    pub success: bool,
}

/// Does what the environment and the configuration ask for.
///
/// The environment is read before the configuration: what is wrong with it is reported also when standard input is
/// broken too, and a runtime that calls wrongly gets the same answer every time.
pub fn run(variable: impl Fn(&str) -> Option<String>, input: &[u8], patience: Patience) -> Output {
    match answer(variable, input, patience) {
        Ok(print) => Output { print, success: true },
        Err(error) => Output { print: Some(error.to_json(answer_version(input))), success: false },
    }
}

fn answer(
    variable: impl Fn(&str) -> Option<String>,
    input: &[u8],
    patience: Patience,
) -> Result<Option<Value>, CniError> {
    let call = Call::read(variable)?;
    if call == Call::Version {
        return versions(input).map(Some);
    }
    let config = NetworkConfig::parse(input, call.command())?;
    let question = question(call, &config)?;
    let answer = ask(&config.socket, &question, patience).map_err(|error| as_status(&question, error))?;
    Ok(match question {
        Ask::Add { .. } => {
            let mut made = answer.result.unwrap_or_default();
            made.dns = made.dns.or(config.dns);
            Some(made.after(config.previous).to_json(config.version))
        }
        Ask::Del { .. } | Ask::Check { .. } | Ask::Status | Ask::Gc { .. } => None,
    })
}

fn question(call: Call, config: &NetworkConfig) -> Result<Ask, CniError> {
    let network = config.name.clone();
    Ok(match call {
        Call::Add { attachment, netns, pod } => Ask::Add { attachment, network, netns, pod },
        Call::Del { attachment, netns: _ } => Ask::Del { attachment, network },
        Call::Check { attachment, netns } => {
            let previous = config.previous.clone().unwrap_or_default();
            Ask::Check { attachment, network, netns, previous }
        }
        Call::Status => Ask::Status,
        Call::Gc => Ask::Gc { network, valid: config.valid.clone() },
        Call::Version => {
            return Err(CniError::new(Code::InvalidEnvironment, "VERSION is answered without the agent"));
        }
    })
}

/// The specification has numbers of its own for a plugin that is not available. What is attached stays attached when
/// the agent is gone, so it is never the number that says otherwise.
fn as_status(question: &Ask, error: CniError) -> CniError {
    match (question, error.code) {
        (Ask::Status, Code::TryAgain | Code::Io) => CniError { code: Code::NotAvailable, ..error },
        _ => error,
    }
}

fn versions(input: &[u8]) -> Result<Value, CniError> {
    // Runtimes send the version they would like; some send nothing.
    let asked = if input.iter().all(u8::is_ascii_whitespace) {
        Version::NEWEST.as_str().to_owned()
    } else {
        let object: Value = serde_json::from_slice(input).map_err(|error| {
            CniError::new(Code::Decode, "the input of VERSION is not JSON").with_details(error.to_string())
        })?;
        object.get("cniVersion").and_then(Value::as_str).unwrap_or(Version::NEWEST.as_str()).to_owned()
    };
    Ok(json!({ "cniVersion": asked, "supportedVersions": Version::ALL.map(Version::as_str) }))
}

/// How the plugin is called when a human starts it by hand.
pub fn usage() -> String {
    format!(
        "netferry-cni {}: the CNI plugin of netferry. Runtimes start it with CNI_COMMAND and friends in the\n\
         environment and the network configuration on standard input. CNI versions: {}.\n\
         It asks the agent at {} (\"socket\" in the configuration).",
        env!("CARGO_PKG_VERSION"),
        Version::ALL.map(Version::as_str).join(", "),
        crate::protocol::DEFAULT_SOCKET,
    )
}

/// Whether the environment is a runtime's at all.
pub fn called_by_runtime(variable: impl Fn(&str) -> Option<String>) -> bool {
    variable("CNI_COMMAND").is_some()
}
