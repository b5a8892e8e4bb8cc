//! `MachineConfig`: files, units and kernel arguments of a class of nodes.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// Files, units and kernel arguments of a class of nodes.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfig",
    plural = "machineconfigs",
    shortname = "mc",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "Files, units and kernel arguments of a class of nodes.",
    printcolumn(
        name = "GeneratedByController",
        type_ = "string",
        json_path = r".metadata.annotations.machineconfiguration\.openshift\.io/generated-by-controller-version",
        description = "Version of the controller that rendered it; empty if a person wrote it"
    ),
    printcolumn(
        name = "IgnitionVersion",
        type_ = "string",
        json_path = ".spec.config.ignition.version",
        description = "Version of the Ignition configuration inside"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct MachineConfigSpec {
    /// An Ignition configuration, as an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_form")]
    pub config: Option<Value>,
    /// Arguments added to the kernel's command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true, "x-kubernetes-list-type" = "atomic"))]
    pub kernel_arguments: Option<Vec<String>>,
    /// Additional features of the operating system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub extensions: Vec<String>,
    /// FIPS mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fips: Option<bool>,
    /// `default`, `realtime` or `64k-pages`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_type: Option<String>,
    /// Image of the operating system.
    #[serde(rename = "osImageURL", skip_serializing_if = "Option::is_none")]
    pub os_image_url: Option<String>,
    /// Image of the operating system's extensions.
    #[serde(rename = "baseOSExtensionsContainerImage", skip_serializing_if = "Option::is_none")]
    pub base_os_extensions_container_image: Option<String>,
}
