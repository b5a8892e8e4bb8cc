//! What is applied, in the API: one object, written whole and only over the version that was read.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use kube::{Api, Client};
use netferry_core::mtu::check::Plugin;
use netferry_core::mtu::cni::artifact;
use netferry_core::mtu::record::Record;
use netferry_translate::mtu::{printed_record, record};

use crate::lead::Leadership;
use crate::report;
use crate::round::{RoundError, read};

/// The ConfigMap that holds it, in the operator's namespace.
pub const NAME: &str = "applied-cluster";
/// Where the record stands in it.
pub const RECORD: &str = "mtu";
/// When the record was written.
const SINCE: &str = "since";

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Applied {
    /// Nothing yet.
    Nothing,
    /// Something that cannot be understood.
    Unreadable(String),
    /// This.
    Is {
        /// The record.
        record: Record,
        /// The version it was read at.
        version: String,
        /// When it was written.
        since: Option<Timestamp>,
    },
}

/// Reads it, from the store and not from a cache.
pub(crate) async fn applied(client: &Client, namespace: &str) -> Result<Applied, RoundError> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let found = read("what is applied", api.get_opt(NAME)).await?;
    let Some(object) = found else { return Ok(Applied::Nothing) };
    let data = object.data.unwrap_or_default();
    let since = data.get(SINCE).and_then(|text| text.parse().ok());
    let text = data.get(RECORD).map(String::as_str).unwrap_or_default();
    Ok(match record(text) {
        Ok(record) => {
            let version = object.metadata.resource_version.unwrap_or_default();
            Applied::Is { record, version, since }
        }
        Err(wrong) => Applied::Unreadable(format!("ConfigMap {namespace}/{NAME}, {RECORD}: {wrong}")),
    })
}

/// Writes it over the version that was read, or anew where there was none, together with what the plugin's own
/// configuration says by it.
pub(crate) async fn apply(
    client: &Client,
    leadership: &Leadership,
    namespace: &str,
    over: Option<&str>,
    record: &Record,
    plugin: Plugin,
) -> Result<(), RoundError> {
    let artifact = artifact(plugin, record);
    let mut data = BTreeMap::from([
        (RECORD.to_owned(), printed_record(record)),
        (SINCE.to_owned(), Timestamp::now().to_string()),
    ]);
    data.extend(artifact.text.map(|text| (artifact.key.to_owned(), text)));
    let object = ConfigMap {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            resource_version: over.map(str::to_owned),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    };
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let params = report::made_by_us();
    let written = match over {
        Some(_) => leadership.act(api.replace(NAME, &params, &object)).await,
        None => leadership.act(api.create(&params, &object)).await,
    };
    written.map(|_| ()).map_err(RoundError::writing("what is applied"))
}
