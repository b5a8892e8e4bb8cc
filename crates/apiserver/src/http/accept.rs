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
    lists: bool,
) -> Result<(Form, Encoding), ApiError> {
    let include = match include.unwrap_or_default() {
        "" | "Metadata" => Include::Metadata,
        "None" => Include::None,
        "Object" => Include::Object,
        other => {
            let why = format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
                 'Object', 'None', or empty"
            );
            return Err(ApiError::bad_request(why));
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
            ("PartialObjectMetadata", "meta.k8s.io", "v1") => Form::Metadata { list: false },
            ("PartialObjectMetadataList", "meta.k8s.io", "v1") => Form::Metadata { list: true },
            _ => continue,
        };
        return Ok((form, encoding));
    }
    let known = |range: &str| {
        matches!(
            range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str(),
            "application/json"
                | "*/*"
                | "application/*"
                | "application/yaml"
                | "application/vnd.kubernetes.protobuf"
        )
    };
    if accept.split(',').any(known) {
        return Err(ApiError::not_acceptable(
            "only the following media types are accepted: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf",
        ));
    }
    // A real server's router refuses what no handler of the path can write, in its own words.
    let streams = if lists {
        ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    } else {
        ""
    };
    let mut error = ApiError::not_acceptable(format!(
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf{streams}"
    ));
    error.details = Some(serde_json::json!({}));
    Err(error)
}
