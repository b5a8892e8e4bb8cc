//! How the operator runs.

use std::net::SocketAddr;

use crate::lead::Timing;
use crate::{overlay, rollout};

/// How the operator runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of its lease.
    pub namespace: String,
    /// Its name in the lease.
    pub identity: String,
    /// How long the lease lasts.
    pub timing: Timing,
    /// How the overlay works.
    pub overlay: overlay::Settings,
    /// How the rollout works.
    pub rollout: rollout::Settings,
    /// Where metrics and health are answered; nowhere if `None`.
    pub listen: Option<SocketAddr>,
}
