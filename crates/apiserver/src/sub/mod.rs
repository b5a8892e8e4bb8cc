//! The subresources that are verbs of their own, and the reviews that are answered without being stored.

pub(crate) mod binding;
pub(crate) mod eviction;
pub(crate) mod review;
pub(crate) mod scale;
pub(crate) mod token;

use std::sync::LazyLock;

use serde_json::Value;

use crate::builtin;
use crate::decode::{self, Decoded, Expect, FieldValidation};
use crate::http::Call;
use crate::ssa;
use crate::status::ApiError;

/// A kind that is sent but never stored. `document` is the group whose OpenAPI document describes it.
fn sent(document: &str, package: &str, group: &str, kind: &str) -> Expect {
    Expect {
        group: group.to_owned(),
        version: "v1".to_owned(),
        also: &[],
        kind: kind.to_owned(),
        schema: builtin::schema(document, &format!("io.k8s.api.{package}.v1.{kind}")),
        custom: false,
    }
}

pub(crate) static BINDING: LazyLock<Expect> = LazyLock::new(|| sent("", "core", "", "Binding"));
pub(crate) static EVICTION: LazyLock<Expect> =
    LazyLock::new(|| Expect { also: &["v1beta1"], ..sent("", "policy", "policy", "Eviction") });
static SCALE: LazyLock<Expect> = LazyLock::new(|| sent("apps", "autoscaling", "autoscaling", "Scale"));
static TOKEN_REQUEST: LazyLock<Expect> =
    LazyLock::new(|| sent("", "authentication", token::GROUP, "TokenRequest"));
static SELF_REVIEW: LazyLock<Expect> = LazyLock::new(|| {
    sent("authentication.k8s.io", "authentication", "authentication.k8s.io", "SelfSubjectReview")
});
static ACCESS_REVIEW: LazyLock<Expect> = LazyLock::new(|| {
    sent("authorization.k8s.io", "authorization", "authorization.k8s.io", "SelfSubjectAccessReview")
});

/// The body of a call to a kind that is never stored.
pub(crate) fn decoded(
    call: &Call,
    expect: &Expect,
    validation: FieldValidation,
) -> Result<Decoded, ApiError> {
    decode::object(decode::media(call.content_type())?, &call.body, expect, validation)
}

/// A new object with its fields as their writer's, for a kind nobody reads again.
fn tracked(
    expect: &Expect,
    subresource: Option<&'static str>,
    object: Value,
    manager: &str,
    now: &str,
) -> Value {
    let api_version = expect.api_version();
    let target = ssa::Target {
        schema: &expect.schema,
        api_version: &api_version,
        kind: &expect.kind,
        served: &[],
        subresource,
        reset: &[vec!["status"]],
    };
    ssa::track_update(&target, &Value::Null, object, manager, now)
}
