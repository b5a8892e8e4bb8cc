//! The lease in the API: read as a record, written under a precondition.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};

use super::decide::Record;

/// One lease.
#[derive(Clone)]
pub(crate) struct Leases {
    api: Api<Lease>,
    name: String,
}

/// Who writes what into the lease.
pub(crate) struct Entry<'a> {
    /// The holder; nobody when it is released.
    pub(crate) holder: Option<&'a str>,
    /// How often it has changed hands.
    pub(crate) transitions: u32,
    /// How long it lasts.
    pub(crate) duration: Duration,
}

impl Leases {
    pub(crate) fn new(client: Client, namespace: &str, name: &str) -> Leases {
        Leases { api: Api::namespaced(client, namespace), name: name.to_owned() }
    }

    pub(crate) async fn read(&self) -> Result<Option<Record>, kube::Error> {
        Ok(self.api.get_opt(&self.name).await?.map(|lease| record(&lease)))
    }

    /// Makes the lease; refused if it is there.
    pub(crate) async fn create(&self, entry: &Entry<'_>) -> Result<Record, kube::Error> {
        let lease = self.lease(entry, None, true);
        Ok(record(&self.api.create(&PostParams::default(), &lease).await?))
    }

    /// Writes the lease; refused if it is no longer the one with this version.
    ///
    /// Not a patch: a process that slept between reading and writing must not renew, or clear, what is somebody
    /// else's by now.
    pub(crate) async fn replace(
        &self,
        version: &str,
        entry: &Entry<'_>,
        taken: bool,
    ) -> Result<Record, kube::Error> {
        let lease = self.lease(entry, Some(version.to_owned()), taken);
        Ok(record(&self.api.replace(&self.name, &PostParams::default(), &lease).await?))
    }

    fn lease(&self, entry: &Entry<'_>, version: Option<String>, taken: bool) -> Lease {
        // For people who read the lease, and for the change itself; nobody decides by these times.
        let now = MicroTime(Timestamp::now());
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                resource_version: version,
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                // Other implementations read a missing holder and an empty one alike; an empty one survives their
                // round trip.
                holder_identity: Some(entry.holder.unwrap_or_default().to_owned()),
                lease_transitions: Some(i32::try_from(entry.transitions).unwrap_or(i32::MAX)),
                lease_duration_seconds: Some(
                    i32::try_from(entry.duration.as_secs()).unwrap_or(i32::MAX).max(1),
                ),
                acquire_time: taken.then(|| now.clone()),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        }
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    // A lease written by hand may say anything; what makes no sense is read as the most careful thing it could mean.
    let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0);
    Record {
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        transitions: spec.lease_transitions.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        duration: Duration::from_secs(seconds.unwrap_or(60)),
    }
}
