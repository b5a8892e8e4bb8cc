//! What nftables tells about changes.

use super::message::{self, kind};
use super::{TableFamily, TableId};
use crate::wire::attribute::{be32, str};
use crate::wire::{Attributes, Message};

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Something of a table was made or removed.
    Object {
        /// Which table.
        table: TableId,
        /// What of it.
        what: What,
        /// Its name; of a rule that of its chain, of elements that of their set.
        name: Option<String>,
        /// It is gone, else it is new.
        gone: bool,
    },
    /// A transaction is complete; all of its objects have been told before.
    Committed {
        /// The generation it made.
        generation: u32,
        /// The process that made it.
        process: Option<u32>,
        /// That process's name.
        program: Option<String>,
    },
}

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A table.
    Table,
    /// A chain.
    Chain,
    /// A rule.
    Rule,
    /// A set or map.
    Set,
    /// Elements of a set or map.
    Elements,
}

pub(crate) fn notice(message: Message<'_>) -> Option<Notice> {
    let a = Attributes::after(message.body, message::HEADER);
    let (what, gone, name) = match message.kind {
        kind::NEW_TABLE => (What::Table, false, 1),
        kind::DEL_TABLE => (What::Table, true, 1),
        kind::NEW_CHAIN => (What::Chain, false, 3),
        kind::DEL_CHAIN => (What::Chain, true, 3),
        kind::NEW_RULE => (What::Rule, false, 2),
        kind::DEL_RULE => (What::Rule, true, 2),
        kind::NEW_SET => (What::Set, false, 2),
        kind::DEL_SET => (What::Set, true, 2),
        kind::NEW_ELEMENTS => (What::Elements, false, 2),
        kind::DEL_ELEMENTS => (What::Elements, true, 2),
        kind::NEW_GENERATION => {
            return Some(Notice::Committed {
                generation: a.find(1).and_then(be32)?,
                process: a.find(2).and_then(be32),
                program: a.find(3).and_then(str),
            });
        }
        _ => return None,
    };
    // A rule is told with the name of its chain, elements with that of their set.
    let name = (what != What::Table).then(|| a.find(name).and_then(str)).flatten();
    let family = TableFamily::read(*message.body.first()?);
    Some(Notice::Object { table: TableId { family, name: a.find(1).and_then(str)? }, what, name, gone })
}
