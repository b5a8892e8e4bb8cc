//! Getting and listing.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD};
use base64::{Engine as _, alphabet};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::query::{ListOptions, Match};
use crate::resource::Resource;
use crate::selector::{FieldSelector, LabelSelector};
use crate::server::Core;
use crate::status::ApiError;
use crate::store::{Key, Stored};

/// What a list selects.
#[derive(Clone)]
pub(crate) struct Selection {
    pub(crate) namespace: String,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    resource: Arc<Resource>,
}

impl Selection {
    pub(crate) fn parse(
        resource: &Arc<Resource>,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Selection, ApiError> {
        let labels = LabelSelector::parse(&options.labels)?;
        let fields = FieldSelector::parse(&options.fields)?;
        fields.check_for(resource)?;
        Ok(Selection { namespace: namespace.to_owned(), labels, fields, resource: resource.clone() })
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        (self.namespace.is_empty() || stored.key.namespace == self.namespace)
            && self.labels.matches_labels(Some(&stored.labels))
            && self.fields_match(stored)
    }

    fn fields_match(&self, stored: &Stored) -> bool {
        if self.fields.is_empty() {
            return true;
        }
        if !self.resource.verbatim() {
            return self.fields.matches_object(&self.resource, &super::presented(&self.resource, stored));
        }
        self.fields.matches(|name| match name {
            "metadata.name" => stored.key.name.clone(),
            "metadata.namespace" => stored.key.namespace.clone(),
            other => stored
                .fields
                .iter()
                .find(|(field, _)| *field == other)
                .map(|(_, v)| v.clone())
                .unwrap_or_default(),
        })
    }

    fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

/// A page of a list.
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) revision: u64,
    /// Where the next page starts; empty on the last one.
    pub(crate) next: String,
    pub(crate) remaining: Option<usize>,
}

#[derive(Serialize, Deserialize)]
struct Continue {
    v: String,
    rv: i64,
    start: String,
}

/// One object, or 404.
pub(crate) fn get(
    core: &Core,
    resource: &Resource,
    namespace: &str,
    name: &str,
    not_before: Option<u64>,
) -> Result<Arc<Stored>, ApiError> {
    let missing = || ApiError::not_found(&resource.group, &resource.plural, name);
    let key = Key::new(namespace, name);
    let state = core.lock();
    fresh_enough(state.store.revision(), not_before)?;
    let table = state.store.table(&resource.store_name()).ok_or_else(missing)?;
    if let Some(past) = core.faults.stale_revision("get", resource, name) {
        return table.as_of(past).ok().and_then(|objects| objects.get(&key).cloned()).ok_or_else(missing);
    }
    table.get(&key).cloned().ok_or_else(missing)
}

fn fresh_enough(current: u64, asked: Option<u64>) -> Result<(), ApiError> {
    match asked {
        Some(asked) if asked > current => Err(ApiError::revision_too_large(asked, current)),
        Some(_) | None => Ok(()),
    }
}

/// One page of the objects selected.
pub(crate) fn list(
    core: &Core,
    resource: &Resource,
    selection: &Selection,
    options: &ListOptions,
) -> Result<Page, ApiError> {
    let state = core.lock();
    let current = state.store.revision();
    let mut start: Option<Key> = None;
    let mut at: Option<u64> = None;
    let mut inconsistent = false;
    if options.from.is_empty() {
        fresh_enough(current, options.revision)?;
        if options.revision_match == Some(Match::Exact)
            || (options.revision_match.is_none()
                && options.limit > 0
                && options.revision.is_some_and(|r| r > 0))
        {
            at = options.revision;
        }
    } else {
        let token = parse_continue(&options.from)?;
        if options.revision.is_some_and(|revision| revision > 0) {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        // Tokens of a list in one namespace leave the namespace out.
        let (namespace, name) = token.start.split_once('/').unwrap_or((&selection.namespace, &token.start));
        start = Some(Key::new(namespace, name));
        match u64::try_from(token.rv) {
            Ok(revision) => at = Some(revision),
            Err(_) => inconsistent = true,
        }
    }
    if at.is_none() && !inconsistent {
        at = core.faults.stale_revision("list", resource, "");
    }
    let Some(table) = state.store.table(&resource.store_name()) else {
        return Ok(Page { items: Vec::new(), revision: current, next: String::new(), remaining: None });
    };
    let past: Option<BTreeMap<Key, Arc<Stored>>> = match at.filter(|at| *at < current) {
        None => None,
        Some(at) => Some(table.as_of(at).map_err(|_| match &start {
            None => ApiError::expired("The resourceVersion for the provided list is too old."),
            Some(start) => expired_continue(start),
        })?),
    };
    let all: Box<dyn Iterator<Item = &Arc<Stored>>> = match &past {
        Some(objects) => Box::new(objects.values()),
        None => Box::new(table.in_namespace(&selection.namespace)),
    };
    let mut selected = all
        .filter(|stored| start.as_ref().is_none_or(|start| stored.key >= *start))
        .filter(|stored| selection.matches(stored));
    let revision = at.unwrap_or(current);
    if options.limit == 0 {
        let items = selected.cloned().collect();
        return Ok(Page { items, revision, next: String::new(), remaining: None });
    }
    let items: Vec<Arc<Stored>> = selected.by_ref().take(options.limit).cloned().collect();
    let mut left = selected.peekable();
    let Some(first_left) = left.peek() else {
        return Ok(Page { items, revision, next: String::new(), remaining: None });
    };
    let next = print_continue(&first_left.key, i64::try_from(revision).unwrap_or(i64::MAX));
    let remaining = selection.is_everything().then(|| left.count());
    Ok(Page { items, revision, next, remaining })
}

fn print_continue(start: &Key, revision: i64) -> String {
    let token = Continue {
        v: "meta.k8s.io/v1".to_owned(),
        rv: revision,
        start: format!("{}/{}", start.namespace, start.name),
    };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("a token can be printed"))
}

/// Go does not mind what the unused bits of the last letter say.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

fn parse_continue(text: &str) -> Result<Continue, ApiError> {
    let refused = |why: String| {
        ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
    };
    let bytes = LENIENT.decode(text).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _)
            | base64::DecodeError::InvalidLastSymbol { offset: at, .. } => at,
            base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => {
                text.len() - text.len() % 4
            }
        };
        refused(format!("illegal base64 data at input byte {at}"))
    })?;
    let document = crate::decode::json::parse(&bytes).map_err(refused)?;
    let token: Continue =
        serde_json::from_value(document.to_value()).map_err(|error| refused(error.to_string()))?;
    if token.v != "meta.k8s.io/v1" {
        return Err(refused(format!("server does not recognize this encoded version {:?}", token.v)));
    }
    Ok(token)
}

/// 410, with a token to go on from here at the price of consistency.
fn expired_continue(start: &Key) -> ApiError {
    let mut error = ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    error.metadata = Some(json!({"continue": print_continue(start, -1)}));
    error
}
