//! Many runs at once, each in a world and a time of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Runs each of these, as many at once as there are processors, in a runtime whose time is virtual; `told` hears what came
/// of each, in the order they end. What a run panicked with is its outcome.
pub(crate) fn each<J: Clone + Send, T>(
    jobs: impl IntoIterator<Item = J, IntoIter: Send>,
    run: impl AsyncFn(J) -> T + Sync,
    told: impl FnMut(J, Result<T, String>) + Send,
) {
    let (jobs, told) = (Mutex::new(jobs.into_iter()), Mutex::new(told));
    let next = || jobs.lock().expect("nobody panicked").next();
    let work = || {
        while let Some(job) = next() {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
            let runtime = runtime.expect("a runtime");
            let done = catch_unwind(AssertUnwindSafe(|| runtime.block_on(run(job.clone()))));
            let done = done.map_err(|cause| {
                let text = cause.downcast_ref::<String>().map(String::as_str);
                text.or(cause.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
            });
            (told.lock().expect("nobody panicked"))(job, done);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}
