//! The tables we use, declared once.
//!
//! Exactly the columns our code reads or writes; a server that lacks one of them is refused at connect
//! ([`crate::schema::Refusal`]). Columns newer than OVN 23.03 are `[optional]`.

use std::collections::{BTreeMap, BTreeSet};

pub mod northbound;
pub mod southbound;
pub mod vswitch;

/// A map column of texts: `external_ids`, `options`, `other_config`.
pub type Strings = BTreeMap<String, String>;
/// A set column of texts.
pub type StringSet = BTreeSet<String>;
/// A set column of references.
pub type Refs = BTreeSet<crate::shape::Ref>;
