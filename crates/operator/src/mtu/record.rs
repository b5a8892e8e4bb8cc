//! What is applied, in the API: one object, written whole and only over the version that was read.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use kube::{Api, Client};
use netferry_core::mtu::check::Plugin;
use netferry_core::mtu::cni::artifact;
use netferry_core::mtu::record::Record;
use netferry_translate::mtu::{self as translate, APPLIED, RECORD, printed_record};

use crate::lead::Leadership;
use crate::report;
use crate::round::{RoundError, read};

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
    let found = read("what is applied", api.get_opt(APPLIED)).await?;
    let Some(object) = found else { return Ok(Applied::Nothing) };
    Ok(match translate::applied(&object) {
        Ok(record) => {
            let since = object.data.as_ref().and_then(|data| data.get(SINCE)?.parse().ok());
            let version = object.metadata.resource_version.unwrap_or_default();
            Applied::Is { record, version, since }
        }
        Err(wrong) => Applied::Unreadable(format!("ConfigMap {namespace}/{APPLIED}, {RECORD}: {wrong}")),
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
            name: Some(APPLIED.to_owned()),
            resource_version: over.map(str::to_owned),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    };
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let params = report::made_by_us();
    let written = match over {
        Some(_) => leadership.act(api.replace(APPLIED, &params, &object)).await,
        None => leadership.act(api.create(&params, &object)).await,
    };
    written.map(|_| ()).map_err(RoundError::writing("what is applied"))
}
