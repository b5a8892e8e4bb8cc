//! Clusters of every kind, of three nodes.

use netferry_lab::{ControlPlane, Families, Options};

use crate::bench::options;

/// One of these families.
pub(crate) fn of(families: Families) -> Options {
    Options { families, ..options(3) }
}

/// One of both families under the real control plane.
pub(crate) fn under_kube() -> anyhow::Result<Options> {
    kube(of(Families::Dual))
}

/// The same under the real control plane.
pub(crate) fn kube(options: Options) -> anyhow::Result<Options> {
    Ok(Options { control_plane: ControlPlane::Kube { assets: netferry_testkit::assets()? }, ..options })
}
