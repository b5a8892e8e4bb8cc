//! The cluster side of a change of MTU: what is asked becomes what is applied, one step at a time.

mod evaluate;
mod record;

pub(crate) use evaluate::*;
pub(crate) use record::{Applied, applied, apply};
