//! A change of MTU from the cluster's side, on the API server in process and in virtual time: what is refused, what
//! waits and says so, and what becomes of it when something dies.

#[path = "../support/mod.rs"]
mod support;

mod alone;
mod apart;
mod away;
mod edits;
mod held;
mod kills;
mod moves;
mod old_news;
mod pools;
mod probes;
mod refusals;
