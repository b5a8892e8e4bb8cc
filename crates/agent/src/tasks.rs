//! The tasks of an agent.

use tokio::task::{JoinError, JoinSet};

/// Waits for a task to panic. A task that ends has nothing left to do.
pub(crate) async fn failure(tasks: Option<&mut JoinSet<()>>) -> JoinError {
    if let Some(tasks) = tasks {
        while let Some(ended) = tasks.join_next().await {
            if let Err(failed) = ended {
                return failed;
            }
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_task_that_panics_is_reported_whatever_the_others_do() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async {});
        tasks.spawn(std::future::pending());
        tasks.spawn(async { panic!("a defect") });
        let failed = tokio::time::timeout(Duration::from_secs(10), failure(Some(&mut tasks))).await;
        assert!(failed.expect("the panic is reported").is_panic());
    }
}
