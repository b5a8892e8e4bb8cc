//! What runs in a pod of the lab that says nothing of its own: a small server that echoes and says who it is, and a
//! prober that asks such servers.
//!
//! One thread, a poll loop and standard sockets: a lab runs hundreds of them.
//!
//! - [`serve`] is the server. Every port answers both protocols, and each in two ways: what looks like a question
//!   ([`who`]) is answered with the server's name and the address the question came from, everything else is echoed.
//! - [`probe`] asks many such servers at once, from whatever namespace the calling thread is in.

pub mod probe;
pub mod serve;
pub mod who;
