//! The shapes of `metadata` (custom resources' own schemas leave it out) and of a delete's options, as Go has them:
//! messages about them name the Go structs.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::schema::{Additional, Kind, Limits, Schema, SchemaRef};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The schema of `ObjectMeta`.
pub(crate) fn schema() -> &'static Schema {
    static META_SCHEMA: OnceLock<Schema> = OnceLock::new();
    META_SCHEMA.get_or_init(|| {
        let text = || scalar(Kind::String, None);
        let time = || scalar(Kind::String, Some("date-time"));
        let long = || scalar(Kind::Integer, Some("int64"));
        let flag = || scalar(Kind::Boolean, None);
        let texts = || Schema {
            kind: Some(Kind::Object),
            additional: Additional::Of(SchemaRef::new(text())),
            ..Schema::default()
        };
        let raw = Schema { kind: Some(Kind::Object), additional: Additional::Any, ..Schema::default() };
        let owner = structure(
            "OwnerReference",
            [
                ("apiVersion", text()),
                ("kind", text()),
                ("name", text()),
                ("uid", text()),
                ("controller", flag()),
                ("blockOwnerDeletion", flag()),
            ],
        );
        let manager = structure(
            "ManagedFieldsEntry",
            [
                ("manager", text()),
                ("operation", text()),
                ("apiVersion", text()),
                ("time", time()),
                ("fieldsType", text()),
                ("fieldsV1", raw),
                ("subresource", text()),
            ],
        );
        structure(
            "ObjectMeta",
            [
                ("name", text()),
                ("generateName", text()),
                ("namespace", text()),
                ("selfLink", text()),
                ("uid", text()),
                ("resourceVersion", text()),
                ("generation", long()),
                ("creationTimestamp", time()),
                ("deletionTimestamp", time()),
                ("deletionGracePeriodSeconds", long()),
                ("labels", texts()),
                ("annotations", texts()),
                ("ownerReferences", list(owner)),
                ("finalizers", list(text())),
                ("managedFields", list(manager)),
            ],
        )
    })
}

/// The schema of `DeleteOptions`.
pub(crate) fn delete_options() -> &'static Schema {
    static OPTIONS: OnceLock<Schema> = OnceLock::new();
    OPTIONS.get_or_init(|| {
        let text = || scalar(Kind::String, None);
        let flag = || scalar(Kind::Boolean, None);
        let preconditions = structure("Preconditions", [("uid", text()), ("resourceVersion", text())]);
        structure(
            "DeleteOptions",
            [
                ("apiVersion", text()),
                ("kind", text()),
                ("gracePeriodSeconds", scalar(Kind::Integer, Some("int64"))),
                ("preconditions", preconditions),
                ("orphanDependents", flag()),
                ("propagationPolicy", text()),
                ("dryRun", list(text())),
                ("ignoreStoreReadErrorWithClusterBreakingPotential", flag()),
            ],
        )
    })
}

fn structure<const N: usize>(name: &str, fields: [(&str, Schema); N]) -> Schema {
    let properties: BTreeMap<String, SchemaRef> =
        fields.into_iter().map(|(name, schema)| (name.to_owned(), SchemaRef::new(schema))).collect();
    Schema { name: Some(format!("{META}.{name}")), kind: Some(Kind::Object), properties, ..Schema::default() }
}

fn scalar(kind: Kind, format: Option<&str>) -> Schema {
    let limits = Limits { format: format.map(str::to_owned), ..Limits::default() };
    Schema { kind: Some(kind), limits, ..Schema::default() }
}

fn list(item: Schema) -> Schema {
    Schema { kind: Some(Kind::Array), items: Some(SchemaRef::new(item)), ..Schema::default() }
}
