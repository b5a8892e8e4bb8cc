//! `MachineConfig`: what people write, and what is rendered for a pool.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use netferry_api::annotation::{Annotation, AnnotationError};
use netferry_api::rollout::annotations::ROLE_LABEL;
use netferry_api::rollout::{Epochs as WrittenEpochs, MachineConfig as Written, MachineConfigSpec};
use netferry_core::rollout::config::{File, MachineConfig, Spec, Unit, Unsupported};
use netferry_core::rollout::epochs::Epochs;
use netferry_core::rollout::merge::Rendered;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::data_url;

/// The version of the format we write.
const IGNITION: &str = "3.2.0";

/// A configuration that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("MachineConfig {config}: {problem}")]
pub struct NotAConfig {
    /// Which one.
    pub config: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// It has another shape than configurations have.
    #[error("spec.config is not a configuration we know: {0}")]
    Shape(serde_json::Error),
    /// Its format has another version.
    #[error("spec.config.ignition.version {0:?} is not 3.x")]
    Version(String),
    /// It asks for more configuration from elsewhere.
    #[error("spec.config.ignition.{0} is not supported; remove it")]
    Elsewhere(&'static str),
    /// A file's contents cannot be read.
    #[error("contents of {path}: {problem}")]
    Contents {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// An annotation of ours cannot be read.
    #[error("{0}")]
    Annotation(AnnotationError),
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Ignition {
    #[serde(default)]
    ignition: Header,
    storage: Option<Storage>,
    systemd: Option<Systemd>,
    passwd: Option<Value>,
    #[serde(rename = "kernelArguments")]
    kernel_arguments: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Header {
    version: Option<String>,
    config: Option<Value>,
    proxy: Option<Value>,
    security: Option<Value>,
    timeouts: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Storage {
    files: Option<Vec<WrittenFile>>,
    disks: Option<Value>,
    filesystems: Option<Value>,
    raid: Option<Value>,
    luks: Option<Value>,
    directories: Option<Value>,
    links: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    path: String,
    mode: Option<u32>,
    /// A rendered configuration always overwrites.
    #[serde(rename = "overwrite")]
    _overwrite: Option<bool>,
    contents: Option<Contents>,
    append: Option<Value>,
    user: Option<Value>,
    group: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Contents {
    source: Option<String>,
    compression: Option<String>,
    verification: Option<Value>,
    #[serde(rename = "httpHeaders")]
    http_headers: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Systemd {
    units: Option<Vec<WrittenUnit>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenUnit {
    name: String,
    enabled: Option<bool>,
    mask: Option<bool>,
    contents: Option<String>,
    dropins: Option<Vec<Dropin>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dropin {
    name: String,
    contents: Option<String>,
}

/// What a MachineConfig holds.
///
/// # Errors
/// If it cannot be understood. What is understood and not supported is left in it by name, for [`merge`] to refuse.
///
/// [`merge`]: netferry_core::rollout::merge::merge
pub fn machine_config(written: &Written) -> Result<MachineConfig, NotAConfig> {
    let name = written.metadata.name.clone().unwrap_or_default();
    let role = written.metadata.labels.as_ref().and_then(|labels| labels.get(ROLE_LABEL).cloned());
    let read = || {
        let epochs = epochs(&written.metadata).map_err(Problem::Annotation)?;
        Ok((spec(&written.spec)?, epochs))
    };
    let (spec, epochs) = read().map_err(|problem| NotAConfig { config: name.clone(), problem })?;
    Ok(MachineConfig { name, role: role.unwrap_or_default(), spec, epochs })
}

/// What a rendered MachineConfig holds. Where it came from is written on the pool, not on it.
///
/// # Errors
/// If it cannot be understood.
pub fn rendered(written: &Written) -> Result<Rendered, NotAConfig> {
    let MachineConfig { name, spec, epochs, .. } = machine_config(written)?;
    Ok(Rendered { name, spec, sources: Vec::new(), epochs })
}

/// Reads which rendering of each capability a MachineConfig carries.
///
/// # Errors
/// If the annotation is malformed.
pub fn epochs(meta: &ObjectMeta) -> Result<Epochs, AnnotationError> {
    let written = meta.annotations.as_ref().map(WrittenEpochs::read).transpose()?.flatten();
    Ok(written.unwrap_or_default().get().clone().into_iter().collect())
}

/// The annotation of a MachineConfig that carries these renderings.
pub fn printed_epochs(epochs: &Epochs) -> (String, String) {
    let written = epochs.iter().map(|(source, epoch)| (source.to_owned(), epoch));
    WrittenEpochs::new(written).expect("a capability has a name").entry()
}

/// A configuration as an object's spec.
pub fn printed(spec: &Spec) -> MachineConfigSpec {
    let files = spec.files.iter().map(|File { path, mode, contents }| {
        json!({
            "path": path, "mode": mode, "overwrite": true,
            "contents": { "source": data_url::print(contents) },
        })
    });
    let units = spec.units.iter().map(|unit| {
        let Unit { name, enabled, masked, contents, dropins } = unit;
        let mut printed = json!({ "name": name });
        if let Some(enabled) = enabled {
            printed["enabled"] = json!(enabled);
        }
        if *masked {
            printed["mask"] = json!(true);
        }
        if let Some(contents) = contents {
            printed["contents"] = json!(contents);
        }
        if !dropins.is_empty() {
            let each = dropins.iter().map(|(name, contents)| json!({"name": name, "contents": contents}));
            printed["dropins"] = each.collect();
        }
        printed
    });
    let mut config = json!({ "ignition": { "version": IGNITION } });
    if !spec.files.is_empty() {
        config["storage"] = json!({ "files": files.collect::<Value>() });
    }
    if !spec.units.is_empty() {
        config["systemd"] = json!({ "units": units.collect::<Value>() });
    }
    MachineConfigSpec {
        config: Some(config),
        kernel_arguments: Some(spec.kernel_arguments.clone()).filter(|arguments| !arguments.is_empty()),
        ..MachineConfigSpec::default()
    }
}

fn spec(written: &MachineConfigSpec) -> Result<Spec, Problem> {
    let MachineConfigSpec {
        config,
        kernel_arguments,
        extensions,
        fips,
        kernel_type,
        os_image_url,
        base_os_extensions_container_image,
    } = written;
    let says = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let other_kernel = kernel_type.as_ref().is_some_and(|kind| !kind.is_empty() && kind != "default");
    let mut unsupported = BTreeSet::new();
    let mut note = |there: bool, what: Unsupported| {
        if there {
            unsupported.insert(what);
        }
    };
    note(says(os_image_url), Unsupported::OsImageUrl);
    note(says(base_os_extensions_container_image), Unsupported::ExtensionsImage);
    note(other_kernel, Unsupported::KernelType);
    note(!extensions.is_empty(), Unsupported::Extensions);
    note(*fips == Some(true), Unsupported::Fips);
    let ignition = match config.as_ref().filter(|config| !empty(config)) {
        None => Ignition {
            ignition: Header { version: Some(IGNITION.into()), ..Header::default() },
            ..Ignition::default()
        },
        Some(config) => Ignition::deserialize(config).map_err(Problem::Shape)?,
    };
    header(&ignition.ignition)?;
    note(asks(ignition.passwd.as_ref()), Unsupported::Passwd);
    note(asks(ignition.kernel_arguments.as_ref()), Unsupported::IgnitionKernelArguments);
    let storage = ignition.storage.unwrap_or_default();
    for (value, what) in [
        (&storage.disks, Unsupported::Disks),
        (&storage.filesystems, Unsupported::Filesystems),
        (&storage.raid, Unsupported::Raid),
        (&storage.luks, Unsupported::Luks),
        (&storage.directories, Unsupported::Directories),
        (&storage.links, Unsupported::Links),
    ] {
        note(asks(value.as_ref()), what);
    }
    let mut files = Vec::new();
    for written in storage.files.unwrap_or_default() {
        note(asks(written.append.as_ref()), Unsupported::Append);
        note(elses(written.user.as_ref()) || elses(written.group.as_ref()), Unsupported::Owner);
        let contents = written.contents.unwrap_or_default();
        if asks(contents.verification.as_ref()) || asks(contents.http_headers.as_ref()) {
            let problem = "verification and httpHeaders are not supported; remove them".to_owned();
            return Err(Problem::Contents { path: written.path, problem });
        }
        let source = contents.source.unwrap_or_default();
        let contents = match data_url::read(&source, contents.compression.as_deref()) {
            None => {
                note(true, Unsupported::RemoteContents);
                Vec::new()
            }
            Some(Ok(contents)) => contents,
            Some(Err(problem)) => return Err(Problem::Contents { path: written.path, problem }),
        };
        files.push(File { path: written.path, mode: written.mode.unwrap_or(File::DEFAULT_MODE), contents });
    }
    let units =
        ignition.systemd.unwrap_or_default().units.unwrap_or_default().into_iter().map(unit).collect();
    let kernel_arguments = kernel_arguments.clone().unwrap_or_default();
    Ok(Spec { files, units, kernel_arguments, unsupported })
}

fn header(header: &Header) -> Result<(), Problem> {
    let version = header.version.clone().unwrap_or_default();
    if !version.starts_with("3.") {
        return Err(Problem::Version(version));
    }
    let others = [
        ("config", &header.config),
        ("proxy", &header.proxy),
        ("security", &header.security),
        ("timeouts", &header.timeouts),
    ];
    match others.into_iter().find(|(_, value)| asks(value.as_ref())) {
        Some((name, _)) => Err(Problem::Elsewhere(name)),
        None => Ok(()),
    }
}

fn unit(written: WrittenUnit) -> Unit {
    let dropins: BTreeMap<String, String> = written
        .dropins
        .unwrap_or_default()
        .into_iter()
        .map(|dropin| (dropin.name, dropin.contents.unwrap_or_default()))
        .collect();
    Unit {
        name: written.name,
        enabled: written.enabled,
        masked: written.mask.unwrap_or(false),
        contents: written.contents,
        dropins,
    }
}

/// Whether a part says anything: programs write empty lists and objects where people leave things out.
fn asks(part: Option<&Value>) -> bool {
    part.is_some_and(|part| !empty(part))
}

fn empty(part: &Value) -> bool {
    match part {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(parts) => parts.iter().all(empty),
        Value::Object(parts) => parts.values().all(empty),
    }
}

/// Whether a file is to belong to somebody else than root.
fn elses(owner: Option<&Value>) -> bool {
    let Some(owner) = owner else { return false };
    let root = owner.get("id").is_none_or(|id| id.is_null() || id.as_u64() == Some(0))
        && owner.get("name").is_none_or(|name| name.is_null() || name.as_str() == Some("root"));
    !root
}

#[cfg(test)]
mod tests;
