//! Keeps the annotation of attached pods.
//!
//! Users and other programs read it. The agents do not: everyone who may edit a pod may change it.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use netferry_api::annotation::Annotation as _;
use netferry_api::overlay::annotations::PodNetworks;
use netferry_translate::pod::{has_ended, runtime_uid};

use super::add::{carries, networks};
use super::record::{self, Record};
use super::{Pods, chain, port};
use crate::pause::Pause;

/// After a write the API did not take.
const PAUSE: Pause = Pause::new(Duration::from_millis(200), Duration::from_secs(30));

impl Pods {
    /// Writes the annotation of attached pods again that somebody took away or changed, for as long as it is run.
    pub async fn keep_annotations(&self) {
        let mut news = self.0.objects.news();
        let mut pause = PAUSE;
        while news.next().await.is_some() {
            while !self.annotate_again().await {
                pause.wait().await;
            }
            pause.reset();
        }
    }

    /// Whether every attached pod says what it has, those the API does not show left out.
    async fn annotate_again(&self) -> bool {
        let mut all_written = true;
        for record in record::all(&self.0.switch.snapshot()) {
            // One that is not in the datapath yet is being attached, and annotated with that.
            if record.installed {
                all_written &= self.annotate_one(&record).await;
            }
        }
        all_written
    }

    /// Notes by which UID the runtime knows a pod, for as long as the API shows the mirror whose UID was noted: the next
    /// mirror has another.
    async fn know_by_runtime(&self, record: &Record, object: &Pod) -> bool {
        let uid = runtime_uid(object);
        if uid == record.runtime_uid {
            return true;
        }
        match port::note(&self.0.switch, &record.link, record::RUNTIME_UID, uid).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(pod = %record.pod, error = chain(&error), "noting how the runtime knows a pod");
                false
            }
        }
    }

    async fn annotate_one(&self, record: &Record) -> bool {
        let Some(object) = self.0.objects.shown(&record.pod, &record.runtime_uid) else { return true };
        if !self.know_by_runtime(record, &object).await {
            return false;
        }
        let Ok(place) = self.place() else { return true };
        let Some(end) = self.end_of(&place, record) else { return true };
        let networks = networks(&place, &end);
        if has_ended(&object) || carries(&object, &networks) {
            return true;
        }
        match self.0.objects.annotate(&object, &networks).await {
            Ok(()) => {
                let key = PodNetworks::KEY;
                let claims = object.metadata.annotations.as_ref().and_then(|all| all.get(key));
                tracing::warn!(
                    pod = %record.pod, key, claims, attached = ?record.addresses,
                    "refused an annotation that differs from the attachment; written again"
                );
                true
            }
            Err(error) if error.gone => true,
            Err(error) => {
                tracing::warn!(pod = %record.pod, error = chain(&error), "writing its annotation again");
                false
            }
        }
    }
}
