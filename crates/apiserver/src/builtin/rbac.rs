//! Roles and bindings: stored and shown, never evaluated.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{items, items_mut, object_at, text};
use super::table::{self, AGE, CREATED_AT, NAME, columns};
use crate::field::{FieldError, Path};
use crate::resource::{Behaviour, Column, NameRule, Through};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Roles and ClusterRoles.
pub(super) struct Roles {
    pub(super) cluster: bool,
}

impl Behaviour for Roles {
    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (at, rule) in items(object, "/rules").iter().enumerate() {
            let path = Path::new("rules").index(at);
            let none = |field: &str| items(rule, &format!("/{field}")).is_empty();
            if none("verbs") {
                errors
                    .push(FieldError::required(path.child("verbs"), "verbs must contain at least one value"));
            }
            if !none("nonResourceURLs") {
                if !self.cluster {
                    errors.push(FieldError::invalid(
                        path.child("nonResourceURLs"),
                        &rule["nonResourceURLs"],
                        "namespaced rules cannot apply to non-resource URLs",
                    ));
                }
                if !none("apiGroups") || !none("resources") || !none("resourceNames") {
                    errors.push(FieldError::invalid(
                        path.child("nonResourceURLs"),
                        &rule["nonResourceURLs"],
                        "rules cannot apply to both regular resources and non-resource URLs",
                    ));
                }
                continue;
            }
            if none("apiGroups") {
                errors.push(FieldError::required(
                    path.child("apiGroups"),
                    "resource rules must supply at least one api group",
                ));
            }
            if none("resources") {
                errors.push(FieldError::required(
                    path.child("resources"),
                    "resource rules must supply at least one resource",
                ));
            }
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns(&[NAME, CREATED_AT])
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        vec![table::name(object), json!(text(object, "/metadata/creationTimestamp"))]
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn has_generation(&self) -> bool {
        false
    }

    fn create_on_update(&self) -> bool {
        true
    }
}

/// RoleBindings and ClusterRoleBindings.
pub(super) struct Bindings {
    pub(super) cluster: bool,
}

impl Behaviour for Bindings {
    fn default(&self, object: &mut Value) {
        let role = object_at(object, "roleRef");
        if role.get("apiGroup").and_then(Value::as_str).unwrap_or_default().is_empty() {
            role.insert("apiGroup".to_owned(), json!(GROUP));
        }
        for subject in items_mut(object, "/subjects") {
            if text(subject, "/apiGroup").is_empty() && matches!(text(subject, "/kind"), "User" | "Group") {
                subject["apiGroup"] = json!(GROUP);
            }
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let role = Path::new("roleRef");
        let mut errors = Vec::new();
        let group = &object["roleRef"]["apiGroup"];
        if group != GROUP {
            errors.push(FieldError::not_supported(role.child("apiGroup"), group, &[GROUP]));
        }
        let kinds: &[&str] = if self.cluster { &["ClusterRole"] } else { &["Role", "ClusterRole"] };
        let kind = &object["roleRef"]["kind"];
        if !kinds.contains(&kind.as_str().unwrap_or_default()) {
            errors.push(FieldError::not_supported(role.child("kind"), kind, kinds));
        }
        if text(object, "/roleRef/name").is_empty() {
            errors.push(FieldError::required(role.child("name"), ""));
        }
        for (at, subject) in items(object, "/subjects").iter().enumerate() {
            self.check_subject(subject, &Path::new("subjects").index(at), &mut errors);
        }
        errors
    }

    fn validate_update(&self, _through: Through, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(object);
        if object.get("roleRef") != old.get("roleRef") {
            // Shown with the names the fields have inside a server, not those of the API.
            let role = json!({
                "APIGroup": object["roleRef"]["apiGroup"],
                "Kind": object["roleRef"]["kind"],
                "Name": object["roleRef"]["name"],
            });
            errors.push(FieldError::invalid(Path::new("roleRef"), &role, "cannot change roleRef"));
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns(&[
            NAME,
            ("Role", "string", 0, "The role that is granted."),
            AGE,
            ("Users", "string", 1, "The users it is granted to."),
            ("Groups", "string", 1, "The groups it is granted to."),
            ("ServiceAccounts", "string", 1, "The service accounts it is granted to."),
        ])
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let of_kind = |kind: &str| -> Value {
            let names: Vec<String> = items(object, "/subjects")
                .iter()
                .filter(|s| text(s, "/kind") == kind)
                .map(|s| match kind {
                    "ServiceAccount" => format!("{}/{}", text(s, "/namespace"), text(s, "/name")),
                    _ => text(s, "/name").to_owned(),
                })
                .collect();
            json!(names.join(", "))
        };
        let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
        vec![
            table::name(object),
            json!(role),
            table::age(object, now),
            of_kind("User"),
            of_kind("Group"),
            of_kind("ServiceAccount"),
        ]
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn has_generation(&self) -> bool {
        false
    }

    fn create_on_update(&self) -> bool {
        true
    }
}

impl Bindings {
    fn check_subject(&self, subject: &Value, path: &Path, errors: &mut Vec<FieldError>) {
        if text(subject, "/name").is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        }
        let group = &subject["apiGroup"];
        let group_is = |wanted: &str| group.as_str().unwrap_or_default() == wanted;
        match text(subject, "/kind") {
            "ServiceAccount" => {
                if !group_is("") {
                    errors.push(FieldError::not_supported(path.child("apiGroup"), group, &[""]));
                }
                if self.cluster && text(subject, "/namespace").is_empty() {
                    errors.push(FieldError::required(path.child("namespace"), ""));
                }
            }
            "User" | "Group" if !group_is(GROUP) => {
                errors.push(FieldError::not_supported(path.child("apiGroup"), group, &[GROUP]));
            }
            "User" | "Group" => {}
            _ => errors.push(FieldError::not_supported(
                path.child("kind"),
                &subject["kind"],
                &["ServiceAccount", "User", "Group"],
            )),
        }
    }
}
