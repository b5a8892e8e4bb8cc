//! Whether this node may start pods: every owner that has a say must agree.

use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::select_all;
use tokio::sync::watch;

/// One owner's answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Verdict {
    /// The owner has not decided yet.
    #[default]
    Undecided,
    /// Pods must wait, and why.
    Wait(String),
    /// Pods may start, as far as this owner is concerned.
    Serve,
}

/// An owner and its verdict.
type Owner = (&'static str, watch::Receiver<Verdict>);

/// The owners that have a say. Cheap to clone.
///
/// The gate holds back new pods only. Pods that run keep their network.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    owners: Arc<Mutex<Vec<Owner>>>,
}

impl Gate {
    /// Registers an owner, which is undecided until it sends a verdict.
    pub fn register(&self, owner: &'static str) -> watch::Sender<Verdict> {
        let (sender, receiver) = watch::channel(Verdict::default());
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).push((owner, receiver));
        sender
    }

    /// Publishes the verdict of all owners registered so far, for as long as any of them can change its own.
    pub async fn follow(self, into: watch::Sender<Verdict>) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        loop {
            let all = owners.iter_mut().map(|(owner, verdict)| (*owner, verdict.borrow_and_update().clone()));
            let verdict = combined(all);
            into.send_if_modified(|last| {
                let differs = *last != verdict;
                *last = verdict;
                differs
            });
            if owners.is_empty() {
                return;
            }
            let changes = owners.iter_mut().map(|(_, verdict)| verdict.changed().boxed());
            let (changed, index, _) = select_all(changes).await;
            if changed.is_err() {
                // An owner that ended keeps its last verdict.
                let (_, verdict) = owners.swap_remove(index);
                if *verdict.borrow() != Verdict::Serve {
                    return;
                }
            }
        }
    }
}

/// The first owner that does not agree decides.
fn combined(all: impl IntoIterator<Item = (&'static str, Verdict)>) -> Verdict {
    for (owner, verdict) in all {
        match verdict {
            Verdict::Serve => {}
            Verdict::Undecided => return Verdict::Wait(format!("{owner} has not decided yet")),
            Verdict::Wait(_) => return verdict,
        }
    }
    Verdict::Serve
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pods_start_only_once_every_owner_agrees_and_wait_again_when_one_withdraws() {
        let gate = Gate::default();
        let (first, second) = (gate.register("first"), gate.register("second"));
        let (tell, mut verdict) = watch::channel(Verdict::default());
        let task = tokio::spawn(gate.follow(tell));
        let waits = |why: &str| Verdict::Wait(why.to_owned());
        let mut is = async |wanted: Verdict| verdict.wait_for(|now| *now == wanted).await.map(drop).unwrap();
        is(waits("first has not decided yet")).await;
        first.send_replace(Verdict::Serve);
        is(waits("second has not decided yet")).await;
        second.send_replace(waits("a bond has no member"));
        is(waits("a bond has no member")).await;
        second.send_replace(Verdict::Serve);
        is(Verdict::Serve).await;
        first.send_replace(waits("restart"));
        is(waits("restart")).await;
        first.send_replace(Verdict::Serve);
        is(Verdict::Serve).await;
        // An owner that ends after agreeing does not close the gate.
        drop(first);
        second.send_replace(waits("later"));
        is(waits("later")).await;
        task.abort();
    }

    #[tokio::test]
    async fn without_owners_pods_may_start() {
        let (tell, verdict) = watch::channel(Verdict::default());
        Gate::default().follow(tell).await;
        assert_eq!(*verdict.borrow(), Verdict::Serve);
    }
}
