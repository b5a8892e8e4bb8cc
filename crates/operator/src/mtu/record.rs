//! What is applied, in the API: one object, written whole and only over the version that was read.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ObjectMeta;
use netferry_api::overlay::OperatorNetwork;
use netferry_core::mtu::cni::artifact;
use netferry_core::mtu::record::Record;
use netferry_core::overlay::topology::Mode;
use netferry_translate::mtu::{self as wire, APPLIED, RECORD, printed_record};

use crate::capability::Context;
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

/// Reads the applied record, from the store and not from a cache.
pub(crate) async fn applied(context: &Context) -> Result<Applied, RoundError> {
    let namespace = &context.namespace;
    let api = Api::<ConfigMap>::namespaced(context.client.clone(), namespace);
    let found = read("the applied record", api.get_opt(APPLIED)).await?;
    let Some(object) = found else { return Ok(Applied::Nothing) };
    Ok(match wire::applied(&object) {
        Ok(record) => {
            let since = object.data.as_ref().and_then(|data| data.get(SINCE)?.parse().ok());
            let version = object.metadata.resource_version.unwrap_or_default();
            Applied::Is { record, version, since }
        }
        Err(wrong) => Applied::Unreadable(format!("ConfigMap {namespace}/{APPLIED}, {RECORD}: {wrong}")),
    })
}

/// Writes the record over the version that was read, or anew if there was none, together with the plugin's own
/// configuration that follows from it.
pub(super) async fn store(
    context: &Context,
    network: &OperatorNetwork,
    over: Option<&str>,
    record: &Record,
) -> Result<(), RoundError> {
    // Only the plugin matters here, not the transport between nodes.
    let Some(cluster) = wire::cluster(&network.spec, Mode::default()) else { return Ok(()) };
    let artifact = artifact(cluster.plugin, record);
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
    let api = Api::<ConfigMap>::namespaced(context.client.clone(), &context.namespace);
    match over {
        Some(_) => context.writer.replace(&api, &object).await.map(drop),
        None => context.writer.create(&api, &object).await.map(drop),
    }
}
