//! A watch, read in the background while the case goes on.

use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use crate::case::Step;
use crate::server::Answer;

pub(crate) struct Watch {
    events: UnboundedReceiver<Result<Value, String>>,
    reader: tokio::task::JoinHandle<()>,
}

impl Watch {
    /// Starts to read the events of an answered watch.
    pub(crate) fn read(answer: Answer) -> Watch {
        let (sender, events) = unbounded_channel();
        let mut stream = answer.into_body();
        let reader = tokio::spawn(async move {
            let mut line = Vec::new();
            while let Some(part) = stream.next().await {
                let part = match part {
                    Ok(part) => part,
                    Err(e) => return drop(sender.send(Err(e))),
                };
                for byte in part {
                    if byte != b'\n' {
                        line.push(byte);
                        continue;
                    }
                    let text = || format!("{:?} is no event", String::from_utf8_lossy(&line));
                    let event = serde_json::from_slice(&line).map_err(|_| text());
                    line.clear();
                    if sender.send(event).is_err() {
                        return;
                    }
                }
            }
        });
        Watch { events, reader }
    }

    /// Takes the events `step` asks for. Bookmarks come when the server pleases, so they are left out unless asked for;
    /// then any number in a row counts as one.
    pub(crate) async fn collect(&mut self, step: &Step, patience: Duration) -> Result<Vec<Value>, String> {
        let wants_bookmarks = step.through.as_deref() == Some("BOOKMARK") || step.end;
        let mut taken: Vec<Value> = Vec::new();
        loop {
            if step.events.is_some_and(|wanted| taken.len() >= wanted) {
                return Ok(taken);
            }
            let next = timeout(patience, self.events.recv()).await;
            let event = match next {
                Err(_) => return Err(format!("no further event came after {}", Value::from(taken))),
                Ok(None) if step.end => return Ok(taken),
                Ok(None) => return Err(format!("the watch ended after {}", Value::from(taken))),
                Ok(Some(event)) => event?,
            };
            if event["type"] == "BOOKMARK" {
                let repeated = taken.last().is_some_and(|last| last["type"] == "BOOKMARK");
                if !wants_bookmarks || repeated {
                    continue;
                }
            }
            let last = step.through.as_deref().is_some_and(|wanted| event["type"] == wanted);
            taken.push(event);
            if last {
                return Ok(taken);
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
