//! This node's own object in the API, watched once for the whole agent.

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use tokio::sync::watch;

use crate::pause::Patience;

/// Follows the node's object until nothing needs it. An object that is deleted stays as it was last seen: a deletion
/// followed by a registration is one change, and everything derived from the Node would flap in between.
pub async fn follow(nodes: Api<Node>, name: String, into: watch::Sender<Option<Node>>) {
    let events = watch_object(nodes, &name).backoff(Patience::default());
    pin_mut!(events);
    loop {
        let event = tokio::select! {
            Some(event) = events.next() => event,
            () = into.closed() => return,
        };
        if let Ok(Some(node)) = event {
            into.send_replace(Some(node));
        }
    }
}
