//! What form and encoding the client will take.

use crate::status::ApiError;

use super::present::{Form, Include};

/// How the answer is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    Json,
    Yaml,
}

/// Reads the `Accept` header: the first form the server has wins, as clients order them by preference.
pub(crate) fn negotiate(
    accept: Option<&str>,
    include: Option<&str>,
    watch: bool,
) -> Result<(Form, Encoding), ApiError> {
    let include = match include.unwrap_or_default() {
        "" | "Metadata" => Include::Metadata,
        "None" => Include::None,
        "Object" => Include::Object,
        other => {
            return Err(ApiError::bad_request(format!("unrecognized includeObject value: {other:?}")));
        }
    };
    let accept = accept.unwrap_or_default();
    if accept.trim().is_empty() {
        return Ok((Form::Whole, Encoding::Json));
    }
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let encoding = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "application/json" | "*/*" | "application/*" => Encoding::Json,
            "application/yaml" if !watch => Encoding::Yaml,
            _ => continue,
        };
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let value =
            |name: &str| parameters.iter().find(|(n, _)| *n == name).map(|(_, v)| *v).unwrap_or_default();
        let form = match (value("as"), value("g"), value("v")) {
            ("", _, _) => Form::Whole,
            ("Table", "meta.k8s.io", "v1") => Form::Table(include),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => Form::Metadata,
            _ => continue,
        };
        return Ok((form, encoding));
    }
    Err(ApiError::not_acceptable(
        "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
    ))
}
