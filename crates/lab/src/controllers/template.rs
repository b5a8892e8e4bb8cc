//! From a template to a pod, and a short name for what a template says.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::write::{Kind, What, Write};

/// A name for what a template says: the same for the same, and of letters Kubernetes uses for it.
pub(crate) fn hash_of(template: &PodTemplateSpec) -> String {
    let text = serde_json::to_string(template).expect("a template is JSON");
    // FNV-1a: it names, it does not protect.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // Without vowels, so that no word comes out by chance.
    let letters = b"bcdfghjklmnpqrstvwxz2456789";
    let letter = |n: u32| char::from(letters[usize::try_from((hash >> (n * 6)) % 27).unwrap_or(0)]);
    (0..10).map(letter).collect()
}

/// Who a pod is made for.
pub(crate) fn owner<K: Resource<DynamicType = ()>>(object: &K) -> Value {
    json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "name": object.name_any(),
        "uid": object.uid().unwrap_or_default(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The write that makes a pod of a template.
pub(crate) fn pod<K: Resource<DynamicType = ()>>(
    object: &K,
    template: &PodTemplateSpec,
    change: impl FnOnce(&mut Value),
) -> Write {
    let namespace = object.namespace().unwrap_or_default();
    let metadata = template.metadata.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        labels: metadata.labels,
        annotations: metadata.annotations,
        finalizers: metadata.finalizers,
        generate_name: Some(format!("{}-", object.name_any())),
        namespace: Some(namespace.clone()),
        ..ObjectMeta::default()
    };
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": metadata,
        "spec": template.spec.clone().unwrap_or_default(),
    });
    pod["metadata"]["ownerReferences"] = json!([owner(object)]);
    change(&mut pod);
    Write::new(Kind::Pod, &namespace, "", What::Create(pod))
}
