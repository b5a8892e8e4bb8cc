//! Calling CNI plugins as a container runtime does: one after another, each told what the one before it made.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::children::Children;
use crate::error::{During, LabError, Result};

const CONFIGURATION: &str = "/etc/cni/net.d";
const PLUGINS: &str = "/opt/cni/bin";
/// The versions we speak, the newest first.
const SPOKEN: [&str; 3] = ["1.1.0", "1.0.0", "0.4.0"];
/// What a kubelet waits for its runtime.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// What is attached, as plugins are told.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Attachment {
    /// The sandbox.
    pub(super) container: String,
    /// Its network's path; empty once that is gone.
    pub(super) netns: String,
    /// The pod.
    pub(super) namespace: String,
    /// The pod.
    pub(super) name: String,
    /// The pod.
    pub(super) uid: String,
}

/// Why pods cannot be attached now, if they cannot: there is no configuration, or its plugins say so. Only those of
/// version 1.1 and later can be asked.
pub(super) async fn trouble(children: &Children) -> Option<String> {
    let config = match configuration() {
        Ok(config) => config,
        Err(error) => return Some(error.chain()),
    };
    if config["cniVersion"] != SPOKEN[0] {
        return None;
    }
    let nothing = Attachment::default();
    for plugin in plugins(&config) {
        if let Err(error) = call(children, "STATUS", &filled(&config, plugin, None), &nothing).await {
            return Some(error.chain());
        }
    }
    None
}

/// The first file in the order of names, as runtimes choose it.
fn file() -> Option<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(CONFIGURATION)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "conflist" || e == "conf" || e == "json"))
        .collect();
    files.sort();
    files.into_iter().next()
}

/// Reads the configuration: a list of plugins, or one alone.
pub(super) fn configuration() -> Result<Value> {
    let path = file().ok_or("no configuration in /etc/cni/net.d").during("reading the CNI configuration")?;
    let attempt = || format!("reading {}", path.display());
    let text = std::fs::read(&path).during(attempt())?;
    let mut config: Value = serde_json::from_slice(&text).during(attempt())?;
    if !config["plugins"].is_array() {
        config = json!({"cniVersion": config["cniVersion"], "name": config["name"], "plugins": [config]});
    }
    config["cniVersion"] = json!(version(&config));
    Ok(config)
}

/// The newest version that both sides speak.
fn version(config: &Value) -> &str {
    let offered: Vec<&str> = match config["cniVersions"].as_array() {
        Some(several) => several.iter().filter_map(Value::as_str).collect(),
        None => vec![],
    };
    let both = SPOKEN.into_iter().find(|version| offered.contains(version));
    both.or(config["cniVersion"].as_str()).unwrap_or("0.4.0")
}

/// Attaches; answers what the last plugin printed.
pub(super) async fn add(children: &Children, config: &Value, to: &Attachment) -> Result<Value> {
    let mut result = None;
    for plugin in plugins(config) {
        let printed = call(children, "ADD", &filled(config, plugin, result.as_ref()), to).await?;
        result = Some(serde_json::from_slice(&printed).during("reading what a CNI plugin printed")?);
    }
    result.ok_or("it names no plugin").during("using the CNI configuration")
}

/// Detaches, in the reverse order.
pub(super) async fn del(
    children: &Children,
    config: &Value,
    to: &Attachment,
    result: Option<&Value>,
) -> Result<()> {
    for plugin in plugins(config).iter().rev() {
        call(children, "DEL", &filled(config, plugin, result), to).await?;
    }
    Ok(())
}

fn plugins(config: &Value) -> &[Value] {
    config["plugins"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn filled(config: &Value, plugin: &Value, result: Option<&Value>) -> Value {
    let mut whole = plugin.clone();
    whole["name"] = config["name"].clone();
    whole["cniVersion"] = config["cniVersion"].clone();
    if let Some(result) = result {
        whole["prevResult"] = result.clone();
    }
    whole
}

async fn call(children: &Children, command: &str, config: &Value, to: &Attachment) -> Result<Vec<u8>> {
    let kind = config["type"].as_str().unwrap_or_default();
    let attempt = match command {
        "STATUS" => format!("CNI {command} of {kind}"),
        _ => format!("CNI {command} of {}/{} by {kind}", to.namespace, to.name),
    };
    if kind.is_empty() || kind.contains('/') {
        return Err(LabError::failed(attempt, "the type of a plugin must be the name of a program"));
    }
    let arguments = format!(
        "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_INFRA_CONTAINER_ID={};K8S_POD_UID={}",
        to.namespace, to.name, to.container, to.uid
    );
    let mut program = Command::new(Path::new(PLUGINS).join(kind));
    program.env("CNI_COMMAND", command).env("CNI_PATH", PLUGINS);
    if command != "STATUS" {
        program
            .env("CNI_CONTAINERID", &to.container)
            .env("CNI_NETNS", &to.netns)
            .env("CNI_IFNAME", "eth0")
            .env("CNI_ARGS", arguments);
    }
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let talk = async {
        let mut child = children.spawn(&mut program).during(attempt.clone())?;
        let mut input = child.pipes().stdin.take();
        let (output, errors) = (child.pipes().stdout.take(), child.pipes().stderr.take());
        let write = async {
            if let Some(input) = &mut input {
                // A plugin that ends before it has read everything says why in its answer.
                let _ = input.write_all(config.to_string().as_bytes()).await;
            }
            drop(input);
        };
        let ((), output, errors) = tokio::join!(write, all_of(output), all_of(errors));
        let status = child.wait().await.during(attempt.clone())?;
        if status.success() {
            return Ok(output);
        }
        let said: Value = serde_json::from_slice(&output).unwrap_or_default();
        let why = match (said["msg"].as_str(), said["details"].as_str()) {
            (Some(msg), Some(details)) if !details.is_empty() => {
                format!("{} ({msg}: {details})", said["code"])
            }
            (Some(msg), _) => format!("{} ({msg})", said["code"]),
            (None, _) => format!("{status}: {}", String::from_utf8_lossy(&errors).trim()),
        };
        Err(LabError::failed(attempt.clone(), why))
    };
    match tokio::time::timeout(ANSWER_WITHIN, talk).await {
        Ok(answer) => answer,
        Err(_) => Err(LabError::TimedOut { waiting_for: attempt, within: ANSWER_WITHIN }),
    }
}

async fn all_of(pipe: Option<impl tokio::io::AsyncRead + Unpin>) -> Vec<u8> {
    use tokio::io::AsyncReadExt;
    let mut all = vec![];
    if let Some(mut pipe) = pipe {
        // What could be read is what there is.
        let _ = pipe.read_to_end(&mut all).await;
    }
    all
}

/// The addresses a result gives the pod, the first of each family first.
pub(super) fn addresses(result: &Value) -> Vec<String> {
    let ips = result["ips"].as_array().map(Vec::as_slice).unwrap_or_default();
    ips.iter()
        .filter_map(|ip| ip["address"].as_str())
        .filter_map(|address| address.split('/').next())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_both_sides_speak_is_used() {
        let chosen = |config: Value| version(&config).to_owned();
        assert_eq!(chosen(json!({"cniVersion": "1.0.0", "cniVersions": ["0.4.0", "1.1.0"]})), "1.1.0");
        assert_eq!(chosen(json!({"cniVersion": "1.0.0", "cniVersions": ["9.9.9"]})), "1.0.0");
        assert_eq!(chosen(json!({"cniVersion": "0.4.0"})), "0.4.0");
    }

    #[test]
    fn a_chained_plugin_is_told_the_lists_name_version_and_what_came_before() {
        let config =
            json!({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "a"}, {"type": "b", "x": 1}]});
        let result = json!({"ips": [{"address": "10.0.0.5/24"}, {"address": "fd00::5/64"}]});
        let second = filled(&config, &plugins(&config)[1], Some(&result));
        let expected =
            json!({"type": "b", "x": 1, "name": "net", "cniVersion": "1.0.0", "prevResult": result});
        assert_eq!(second, expected);
        assert_eq!(addresses(&result), ["10.0.0.5", "fd00::5"]);
    }
}
