//! Where a server is, and how to get there.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// A server's address, written as Open vSwitch writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remote {
    /// `unix:/path`
    Unix(PathBuf),
    /// `tcp:host:port`; unprotected, so for tests and loopback only.
    Tcp(String),
}

/// A text that was to be a [`Remote`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no remote: unix:/path or tcp:host:port is")]
pub struct NotARemote(String);

impl FromStr for Remote {
    type Err = NotARemote;
    fn from_str(text: &str) -> Result<Remote, NotARemote> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Remote::Unix(path.into())),
            Some(("tcp", address)) if address.contains(':') => Ok(Remote::Tcp(address.to_owned())),
            _ => Err(NotARemote(text.to_owned())),
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Unix(path) => write!(f, "unix:{}", path.display()),
            Remote::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Remote {
    pub(super) async fn connect(&self) -> std::io::Result<Box<dyn Stream>> {
        Ok(match self {
            Remote::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Remote::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        })
    }
}
