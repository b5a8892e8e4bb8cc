//! Writes to the API. Each is refused once this process no longer leads, and given up when its right to act ends.

use std::fmt::Debug;
use std::future::Future;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use kube::{Api, Client, Resource, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::LeadershipMark;
use serde::Serialize;
use serde_json::{Value, json};

use crate::lead::{ActError, Leadership};
use crate::round::RoundError;

/// The name under which the API records our writes.
const FIELD_MANAGER: &str = "netferry-operator";

/// Writes for as long as this process leads.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    leadership: Leadership,
}

/// Which part of an object a patch is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Metadata and spec.
    Object,
    /// The status, which is written apart.
    Status,
}

impl Writer {
    pub(crate) fn new(client: &Client, leadership: &Leadership) -> Writer {
        Writer { client: client.clone(), leadership: leadership.clone() }
    }

    /// Carries out a request that no other function here makes.
    pub(crate) async fn act<T>(
        &self,
        what: impl Into<String>,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RoundError> {
        self.leadership.act(request).await.map_err(RoundError::writing(what))
    }

    /// Patches a cluster-scoped object, if it is still at this version; at any version if that is `None`.
    pub(crate) async fn patch<K>(
        &self,
        name: &str,
        version: Option<String>,
        part: Part,
        mut patch: Value,
    ) -> Result<K, RoundError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        if version.is_some() {
            patch["metadata"]["resourceVersion"] = json!(version);
        }
        let (api, params, patch) = (Api::<K>::all(self.client.clone()), patch_params(), Patch::Merge(patch));
        match part {
            Part::Object => self.act(called::<K>(name), api.patch(name, &params, &patch)).await,
            Part::Status => {
                let what = format!("the status of {}", called::<K>(name));
                self.act(what, api.patch_status(name, &params, &patch)).await
            }
        }
    }

    /// Patches a Node that is still at this version, with the mark of this leadership; returns the new version.
    pub(crate) async fn patch_node(
        &self,
        name: &str,
        version: Option<&str>,
        mut patch: Value,
    ) -> Result<Option<String>, ActError> {
        let (key, mark) = LeadershipMark::from(self.leadership.mark().to_owned()).entry();
        patch["metadata"]["resourceVersion"] = json!(version);
        patch["metadata"]["annotations"][key] = json!(mark);
        let (api, params, patch) =
            (Api::<Node>::all(self.client.clone()), patch_params(), Patch::Merge(patch));
        let written = self.leadership.act(api.patch_metadata(name, &params, &patch)).await?;
        Ok(written.metadata.resource_version)
    }

    /// Creates an object.
    pub(crate) async fn create<K>(&self, api: &Api<K>, object: &K) -> Result<K, RoundError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Serialize,
    {
        self.act(called::<K>(&object.name_any()), api.create(&post_params(), object)).await
    }

    /// Replaces an object that is still at the version it names.
    pub(crate) async fn replace<K>(&self, api: &Api<K>, object: &K) -> Result<K, RoundError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Serialize,
    {
        let name = object.name_any();
        self.act(called::<K>(&name), api.replace(&name, &post_params(), object)).await
    }

    /// Deletes a cluster-scoped object, unless another of that name has taken its place.
    pub(crate) async fn delete<K>(&self, object: &K) -> Result<(), RoundError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let (api, name) = (Api::<K>::all(self.client.clone()), object.name_any());
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: object.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        self.act(called::<K>(&name), api.delete(&name, &params)).await.map(drop)
    }

    /// Asks for the eviction of a pod.
    pub(crate) async fn evict(
        &self,
        namespace: &str,
        name: &str,
        eviction: &Eviction,
    ) -> Result<(), ActError> {
        let (api, params) = (Api::<Pod>::namespaced(self.client.clone(), namespace), post_params());
        let request = api.create_subresource::<Eviction, Status>("eviction", name, &params, eviction);
        self.leadership.act(request).await.map(drop)
    }
}

fn called<K: Resource<DynamicType = ()>>(name: &str) -> String {
    match K::group(&()).as_ref() {
        "" => format!("{} {name}", K::kind(&())),
        group => format!("{}.{group} {name}", K::kind(&())),
    }
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

fn post_params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}
