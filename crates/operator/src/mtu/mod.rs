//! The cluster side of a change of MTU: what is asked becomes what is applied, one step at a time.
//!
//! The rollout calls [`capability`]'s contribution in every pass ([`pass`]). It reads the record ([`record`]) and the nodes'
//! reports ([`nodes`]), lets `core` decide ([`evaluate`]), and makes at most one step: a new record, or an edit for the
//! administrator ([`status`]). Only when neither is due are conditions, Events and MachineConfigs contributed. Nodes follow
//! what is rendered from the record and nothing else.
//!
//! A refusal changes nothing but its own condition and Event.

mod evaluate;
mod metrics;
mod nodes;
mod pass;
mod record;
mod status;

use std::sync::Arc;

use futures::FutureExt;

pub(crate) use evaluate::{deployed, published};
pub(crate) use record::{Applied, applied};

use crate::capability::{Capability, Pass};
pub(crate) use metrics::Metrics;
use nodes::ReportReader;

/// The capability, as the operator lists it.
pub(crate) fn capability(metrics: &Metrics) -> Capability {
    let (metrics, reader) = (metrics.clone(), Arc::new(ReportReader::default()));
    Capability {
        name: netferry_core::mtu::SOURCE,
        run: None,
        contribute: Some(Arc::new(move |pass: Pass<'_>| {
            let (metrics, reader) = (metrics.clone(), Arc::clone(&reader));
            async move { pass::contribute(pass, &reader, &metrics).await }.boxed()
        })),
        node_annotations: &nodes::ANNOTATIONS,
    }
}
