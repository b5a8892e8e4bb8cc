//! How custom resources behave: everything their definition says, applied to their objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex};

use jiff::Timestamp;
use serde_json::Value;

use crate::field::{FieldError, Path, Problem};
use crate::names::finalizer_warnings;
use crate::resource::{Behaviour, Column, Subresource, Through};
use crate::schema::cel::Rules;
use crate::schema::{
    SchemaRef, apply_defaults, drop_nulls, prune, validate_embedded, validate_lists, validate_value,
};

use super::columns::{Columns, printed};
use super::jsonpath::JsonPath;
use super::scale::Scale;

/// The behaviour of one version of a custom resource.
pub struct CustomBehaviour {
    /// The schema as the definition gives it, which knows of `metadata` only what its author restricted.
    schema: SchemaRef,
    /// The schema of the version objects are stored in.
    stored: SchemaRef,
    rules: Rules,
    has_status: bool,
    scale: Option<Scale>,
    columns: Columns,
    selectable: Vec<(&'static str, JsonPath)>,
}

impl CustomBehaviour {
    /// Reads a version of a definition; `schema` is its parsed schema, `stored` that of the storage version.
    pub(super) fn read(version: &Value, schema: SchemaRef, stored: SchemaRef) -> CustomBehaviour {
        let rules = Rules::compile(&schema);
        let selectable = version["selectableFields"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|field| {
                let path = field["jsonPath"].as_str()?;
                Some((interned(path.strip_prefix('.').unwrap_or(path)), JsonPath::parse(path).ok()?))
            })
            .collect();
        CustomBehaviour {
            rules,
            schema,
            stored,
            has_status: version["subresources"]["status"].is_object(),
            scale: Scale::read(version),
            columns: Columns::read(version),
            selectable,
        }
    }

    /// Rules run only on objects whose shape is right: on others they would fail for reasons that are not theirs.
    fn check_rules(&self, errors: &mut Vec<FieldError>, object: &Value, old: Option<&Value>) {
        if self.rules.is_empty() {
            return;
        }
        let blocking = errors.iter().any(|error| {
            matches!(
                error.problem,
                Problem::NotSupported
                    | Problem::Required
                    | Problem::TooLong
                    | Problem::TooMany
                    | Problem::TypeInvalid
            )
        });
        if blocking {
            errors.push(FieldError::invalid(
                Path::root(),
                &Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing errors to \
                 complete validation",
            ));
        } else {
            errors.append(&mut self.rules.validate(&self.schema, object, old).errors);
        }
    }

    fn check_main(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let root = Path::root();
        let mut errors = validate_value(&self.schema, object, old, &root);
        if let Some(scale) = &self.scale {
            errors.append(&mut scale.validate_spec(object));
            errors.append(&mut scale.validate_status(object));
        }
        errors.append(&mut validate_embedded(&self.schema, object));
        errors.append(&mut validate_lists(&self.schema, object, old));
        self.check_rules(&mut errors, object, old);
        errors
    }

    fn check_status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let (Some(schema), Some(status)) = (self.schema.properties.get("status"), object.get("status")) {
            errors.append(&mut validate_value(schema, status, old.get("status"), &Path::new("status")));
        }
        if let Some(scale) = &self.scale {
            errors.append(&mut scale.validate_status(object));
        }
        errors.append(&mut validate_lists(&self.schema, object, Some(old)));
        self.check_rules(&mut errors, object, Some(old));
        errors
    }
}

impl Behaviour for CustomBehaviour {
    fn default(&self, object: &mut Value) {
        drop_nulls(&self.schema, object);
        apply_defaults(&self.schema, object);
    }

    fn freeze(&self, object: &mut Value) {
        prune(&self.stored, object);
    }

    fn thaw(&self, object: &mut Value) {
        prune(&self.stored, object);
        apply_defaults(&self.stored, object);
        prune(&self.schema, object);
    }

    fn default_applied(&self, object: &mut Value) {
        apply_defaults(&self.schema, object);
    }

    fn prepare_create(&self, object: &mut Value) {
        if self.has_status
            && let Some(map) = object.as_object_mut()
        {
            map.remove("status");
        }
    }

    fn prepare_update(&self, through: Through, object: &mut Value, old: &Value) {
        match through {
            Through::Sub(Subresource::Status) => {
                let status = object.get("status").cloned();
                let managed = object["metadata"].get("managedFields").cloned();
                *object = old.clone();
                put(object, "status", status);
                if let Some(metadata) = object.get_mut("metadata") {
                    put(metadata, "managedFields", managed);
                }
            }
            Through::Main | Through::Sub(_) if self.has_status => {
                put(object, "status", old.get("status").cloned())
            }
            Through::Main | Through::Sub(_) => {}
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        self.check_main(object, None)
    }

    fn validate_update(&self, through: Through, object: &Value, old: &Value) -> Vec<FieldError> {
        match through {
            Through::Sub(Subresource::Status) => self.check_status(object, old),
            Through::Main | Through::Sub(_) => self.check_main(object, Some(old)),
        }
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        finalizer_warnings(object, None)
    }

    fn update_warnings(&self, through: Through, object: &Value, old: &Value) -> Vec<String> {
        let mut warnings = Vec::new();
        if through != Through::Sub(Subresource::Status) {
            warnings.append(&mut finalizer_warnings(object, Some(old)));
        }
        if !self.rules.is_empty() {
            warnings.append(&mut self.rules.validate(&self.schema, object, Some(old)).warnings);
        }
        warnings
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        let text = |path: &JsonPath| match path.find(object).ok().and_then(|found| found.into_iter().next()) {
            None => String::new(),
            Some(value) if value.is_null() => String::new(),
            Some(value) => printed(&value),
        };
        self.selectable.iter().map(|(name, path)| (*name, text(path))).collect()
    }

    fn columns(&self) -> Vec<Column> {
        self.columns.headings()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.columns.cells(object, now)
    }

    fn reset_fields(&self, through: Through) -> Vec<Vec<&'static str>> {
        match through {
            Through::Sub(Subresource::Status) => vec![vec!["spec"]],
            Through::Main | Through::Sub(_) if self.has_status => vec![vec!["status"]],
            Through::Main | Through::Sub(_) => Vec::new(),
        }
    }

    /// Anything but metadata counts, and a status that has its own door was put back before this is asked.
    fn spec_changed(&self, through: Through, object: &Value, old: &Value) -> bool {
        let body = |object: &Value| -> BTreeMap<String, Value> {
            let fields = object.as_object().into_iter().flatten();
            let counts = |key: &str| !["apiVersion", "kind", "metadata"].contains(&key);
            fields.filter(|(key, _)| counts(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        through != Through::Sub(Subresource::Status) && body(object) != body(old)
    }

    fn scale(&self) -> Option<&Scale> {
        self.scale.as_ref()
    }

    fn unconditional_update(&self) -> bool {
        false
    }
}

fn put(object: &mut Value, key: &str, value: Option<Value>) {
    if let Some(map) = object.as_object_mut() {
        match value {
            Some(value) => map.insert(key.to_owned(), value),
            None => map.remove(key),
        };
    }
}

static NAMES: LazyLock<Mutex<BTreeSet<&'static str>>> = LazyLock::new(Mutex::default);

/// A name that lives as long as the program. Definitions name few fields, and mostly the same ones again when they
/// are replaced; each distinct name is kept once.
fn interned(name: &str) -> &'static str {
    let mut names = NAMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(kept);
    kept
}

/// The behaviour, shared.
pub(super) fn shared(version: &Value, schema: SchemaRef, stored: SchemaRef) -> Arc<dyn Behaviour> {
    Arc::new(CustomBehaviour::read(version, schema, stored))
}
