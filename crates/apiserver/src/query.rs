//! The options clients put in the query string (and, for deletes, in the body), parsed once.

use serde_json::{Value, json};

use crate::field::{FieldError, Path, quoted};
use crate::status::ApiError;

/// A decoded query string: names with their values in order.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Splits and unescapes a query string. A broken escape is taken literally.
    pub fn parse(raw: &str) -> Query {
        let pairs = raw.split('&').filter(|part| !part.is_empty()).map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (unescape(name), unescape(value))
        });
        Query(pairs.collect())
    }

    fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str()).unwrap_or_default()
    }

    fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str()).collect()
    }

    /// Kubernetes reads `?watch`, `?watch=1` and `?watch=yes` as true.
    fn flag(&self, name: &str) -> Option<bool> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| !(v == "0" || v.eq_ignore_ascii_case("false")))
    }

    /// Whether a flag is set.
    pub fn is_set(&self, name: &str) -> bool {
        self.flag(name).unwrap_or_default()
    }

    /// `includeObject`, for tables.
    pub fn include_object(&self) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == "includeObject").map(|(_, v)| v.as_str())
    }

    fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str()) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
                    "strconv.ParseInt: parsing {}: {}",
                    quoted(text),
                    go_number_error(text)
                ))
            }),
        }
    }
}

fn go_number_error(text: &str) -> &'static str {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        "value out of range"
    } else {
        "invalid syntax"
    }
}

fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = (byte == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, escaped) {
            (_, Some(decoded)) => {
                out.push(decoded);
                at += 2;
            }
            (b'+', None) => out.push(b' '),
            (other, None) => out.push(other),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Which of the two exact meanings a resourceVersion on a list has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Match {
    /// At that revision and no other.
    Exact,
    /// That revision or a newer one.
    NotOlderThan,
}

/// `ListOptions`.
#[derive(Clone, Debug)]
pub struct ListOptions {
    /// `labelSelector`, unparsed.
    pub labels: String,
    /// `fieldSelector`, unparsed.
    pub fields: String,
    /// `limit`; 0 for all.
    pub limit: usize,
    /// `continue`.
    pub from: String,
    /// `resourceVersion`; `None` when not given.
    pub revision: Option<u64>,
    /// `resourceVersionMatch`.
    pub revision_match: Option<Match>,
    /// `watch`.
    pub watch: bool,
    /// `allowWatchBookmarks`.
    pub bookmarks: bool,
    /// `sendInitialEvents`.
    pub initial_events: Option<bool>,
    /// `timeoutSeconds`.
    pub timeout: Option<u64>,
}

impl ListOptions {
    /// Reads and checks them.
    pub fn parse(query: &Query) -> Result<ListOptions, ApiError> {
        ListOptions::parse_for(query, query.is_set("watch"))
    }

    /// Those of a list, or of a watch whatever the query says.
    pub(crate) fn parse_for(query: &Query, watch: bool) -> Result<ListOptions, ApiError> {
        let limit = query.number("limit")?.unwrap_or_default();
        let timeout = query.number("timeoutSeconds")?;
        let revision_text = query.text("resourceVersion");
        let match_text = query.text("resourceVersionMatch");
        let initial_events = query.flag("sendInitialEvents");
        check_list(watch, revision_text, match_text, initial_events, query.text("continue"))?;
        Ok(ListOptions {
            labels: query.text("labelSelector").to_owned(),
            fields: query.text("fieldSelector").to_owned(),
            limit: usize::try_from(limit).unwrap_or_default(),
            from: query.text("continue").to_owned(),
            revision: revision(revision_text, watch)?,
            revision_match: match match_text {
                "Exact" => Some(Match::Exact),
                "NotOlderThan" => Some(Match::NotOlderThan),
                _ => None,
            },
            watch,
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or_default(),
            initial_events,
            timeout: timeout.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0),
        })
    }
}

/// The rules that tie `resourceVersionMatch` and `sendInitialEvents` to the rest, in the order they are reported.
fn check_list(
    watch: bool,
    revision: &str,
    matching: &str,
    initial_events: Option<bool>,
    from: &str,
) -> Result<(), ApiError> {
    let at = || Path::new("resourceVersionMatch");
    let mut errors = Vec::new();
    if watch {
        if initial_events.is_some() && matching != "NotOlderThan" {
            errors.push(FieldError::forbidden(
                at(),
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if !matching.is_empty() {
            if initial_events.is_none() {
                errors.push(FieldError::forbidden(
                    at(),
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if matching != "NotOlderThan" {
                errors.push(FieldError::not_supported(at(), &json!(matching), &["NotOlderThan"]));
            }
            if !from.is_empty() {
                errors.push(FieldError::forbidden(
                    at(),
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
        }
    } else {
        if !matching.is_empty() {
            if revision.is_empty() {
                errors.push(FieldError::forbidden(
                    at(),
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !from.is_empty() {
                errors.push(FieldError::forbidden(
                    at(),
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if matching != "Exact" && matching != "NotOlderThan" {
                errors.push(FieldError::not_supported(
                    at(),
                    &json!(matching),
                    &["Exact", "NotOlderThan", ""],
                ));
            }
            if matching == "Exact" && revision == "0" {
                errors.push(FieldError::forbidden(
                    at(),
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if initial_events.is_some() {
            errors.push(FieldError::forbidden(
                Path::new("sendInitialEvents"),
                "sendInitialEvents is forbidden for list",
            ));
        }
    }
    refused("ListOptions", &errors)
}

fn refused(kind: &str, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", kind, "", errors)) }
}

/// A resourceVersion in a query. Lists refuse a malformed one as a bad request; gets and watches, like the real
/// server, as an unclassified failure.
fn revision(text: &str, raw_failure: bool) -> Result<Option<u64>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let why = format!(
            "resourceVersion: Invalid value: {0}: strconv.ParseUint: parsing {0}: {1}",
            quoted(text),
            if text.starts_with('-') { "invalid syntax" } else { go_number_error(text) }
        );
        if raw_failure {
            ApiError::unclassified(why)
        } else {
            ApiError::bad_request(format!("invalid resource version: {why}"))
        }
    })
}

/// `resourceVersion` of a get.
pub fn get_revision(query: &Query) -> Result<Option<u64>, ApiError> {
    revision(query.text("resourceVersion"), true)
}

/// What to do about fields the schema does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and say so in a warning.
    Warn,
    /// Refuse the request.
    Strict,
}

/// The options of a create, update or patch.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// `dryRun=All`.
    pub dry_run: bool,
    /// `fieldManager`; empty when not given.
    pub manager: String,
    /// `fieldValidation`.
    pub validation: FieldValidation,
    /// `force`, on an apply.
    pub force: bool,
}

/// Which options a write carries, for the name in a refusal and the rules only a patch has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteKind {
    /// `CreateOptions`
    Create,
    /// `UpdateOptions`
    Update,
    /// `PatchOptions` of a JSON, merge or strategic patch.
    Patch,
    /// `PatchOptions` of a server-side apply.
    Apply,
}

impl WriteOptions {
    /// Those of a write that has none of its own (a delete).
    pub(crate) fn silent(dry_run: bool) -> WriteOptions {
        WriteOptions { dry_run, manager: String::new(), validation: FieldValidation::Ignore, force: false }
    }

    /// Reads and checks them.
    pub fn parse(query: &Query, kind: WriteKind) -> Result<WriteOptions, ApiError> {
        let name = match kind {
            WriteKind::Create => "CreateOptions",
            WriteKind::Update => "UpdateOptions",
            WriteKind::Patch | WriteKind::Apply => "PatchOptions",
        };
        let manager = query.text("fieldManager");
        let mut errors = Vec::new();
        let force = query.flag("force");
        if kind == WriteKind::Patch && force.is_some() {
            errors
                .push(FieldError::forbidden(Path::new("force"), "may not be specified for non-apply patch"));
        }
        if kind == WriteKind::Apply && manager.is_empty() {
            errors.push(FieldError::required(Path::new("fieldManager"), "is required for apply patch"));
        }
        errors.extend(crate::ssa::check_manager(manager, &Path::new("fieldManager")));
        check_dry_run(&query.all("dryRun"), &mut errors);
        let validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let allowed = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported(Path::new("fieldValidation"), &json!(other), &allowed));
                FieldValidation::Ignore
            }
        };
        refused(name, &errors)?;
        Ok(WriteOptions {
            dry_run: !query.all("dryRun").is_empty(),
            manager: manager.to_owned(),
            validation,
            force: force.unwrap_or_default(),
        })
    }
}

fn check_dry_run(values: &[&str], errors: &mut Vec<FieldError>) {
    if values.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported(Path::new("dryRun"), &json!(values), &["All"]));
    }
}

/// What becomes of an object's dependents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Propagation {
    /// They lose their owner and stay.
    Orphan,
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
}

/// `DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// `gracePeriodSeconds`.
    pub grace: Option<i64>,
    /// `propagationPolicy` (or the old `orphanDependents`).
    pub propagation: Option<Propagation>,
    /// `orphanDependents: false` was said: a deletion that has to wait answers 202.
    pub orphan_dependents: Option<bool>,
    /// `preconditions.uid`.
    pub uid: Option<String>,
    /// `preconditions.resourceVersion`.
    pub revision: Option<String>,
    /// `dryRun=All`.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// From the body when there is one, else from the query.
    pub fn parse(query: &Query, body: Option<&Value>) -> Result<DeleteOptions, ApiError> {
        let (grace, policy, orphan, dry_run): (Option<i64>, String, Option<bool>, Vec<String>);
        let (mut uid, mut revision) = (None, None);
        match body {
            Some(body) => {
                grace = body["gracePeriodSeconds"].as_i64();
                policy = body["propagationPolicy"].as_str().unwrap_or_default().to_owned();
                orphan = body["orphanDependents"].as_bool();
                dry_run = crate::object::strings(&body["dryRun"]);
                uid = body["preconditions"]["uid"].as_str().map(str::to_owned);
                revision = body["preconditions"]["resourceVersion"].as_str().map(str::to_owned);
            }
            None => {
                grace = query.number("gracePeriodSeconds")?;
                policy = query.text("propagationPolicy").to_owned();
                orphan = query.flag("orphanDependents");
                dry_run = query.all("dryRun").into_iter().map(str::to_owned).collect();
            }
        }
        let mut errors = Vec::new();
        let path = || Path::new("propagationPolicy");
        let propagation = match policy.as_str() {
            "" => orphan.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background }),
            "Orphan" => Some(Propagation::Orphan),
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            other => {
                let allowed = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(path(), &json!(other), &allowed));
                None
            }
        };
        if !policy.is_empty() && orphan.is_some() {
            errors.insert(
                0,
                FieldError::invalid(
                    path(),
                    &json!(policy),
                    "orphanDependents and deletionPropagation cannot be both set",
                ),
            );
        }
        check_dry_run(&dry_run.iter().map(String::as_str).collect::<Vec<_>>(), &mut errors);
        refused("DeleteOptions", &errors)?;
        Ok(DeleteOptions {
            grace,
            propagation,
            orphan_dependents: orphan,
            uid,
            revision,
            dry_run: !dry_run.is_empty(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_options_are_refused_in_the_words_of_the_real_server() {
        let long = format!("fieldManager={}", "a".repeat(129));
        let cases = [
            (
                WriteKind::Apply,
                "",
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ),
            (
                WriteKind::Patch,
                "fieldManager=m&force=true",
                "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
            ),
            (
                WriteKind::Create,
                long.as_str(),
                "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes",
            ),
            (
                WriteKind::Update,
                "fieldManager=a%01b",
                "UpdateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\x01b\": \
                 invalid character U+0001 (at position 1)",
            ),
        ];
        for (kind, query, message) in cases {
            let error = WriteOptions::parse(&Query::parse(query), kind).expect_err("refused");
            assert_eq!((error.code.as_u16(), error.message.as_str()), (422, message));
        }
        for (kind, query) in [(WriteKind::Apply, "fieldManager=m&force=true"), (WriteKind::Create, "")] {
            assert!(WriteOptions::parse(&Query::parse(query), kind).is_ok(), "{query}");
        }
    }
}
