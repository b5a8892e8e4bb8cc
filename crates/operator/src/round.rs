//! Why a controller's pass over the cluster may not come to its end.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

use crate::lead::{ActError, Lost};

/// How long the API may take to answer a read. It only costs time: whether a write is allowed is asked at the write.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a round was not finished.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RoundError {
    #[error("reading {what}")]
    Read {
        what: &'static str,
        #[source]
        source: kube::Error,
    },
    #[error("reading {what}: no answer for {} s", PATIENCE.as_secs())]
    Silence { what: &'static str },
    #[error("writing {what}")]
    Write {
        what: String,
        #[source]
        source: kube::Error,
    },
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error("the lease names another process")]
    Deposed,
}

impl RoundError {
    /// Whether somebody else wrote meanwhile: what was decided is decided again, and that is all there is to it.
    pub(crate) fn is_overtaken(&self) -> bool {
        match self {
            RoundError::Write { source: kube::Error::Api(status), .. } => matches!(status.code, 404 | 409),
            RoundError::Write { .. }
            | RoundError::Read { .. }
            | RoundError::Silence { .. }
            | RoundError::Lost(_)
            | RoundError::Deposed => false,
        }
    }

    pub(crate) fn writing(what: impl Into<String>) -> impl FnOnce(ActError) -> RoundError {
        move |error| match error {
            ActError::Lost(lost) => RoundError::Lost(lost),
            ActError::Api(source) => RoundError::Write { what: what.into(), source },
        }
    }
}

/// Reads something from the API, in reasonable time.
pub(crate) async fn read<T>(
    what: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, RoundError> {
    match timeout(PATIENCE, request).await {
        Ok(answer) => answer.map_err(|source| RoundError::Read { what, source }),
        Err(_) => Err(RoundError::Silence { what }),
    }
}
