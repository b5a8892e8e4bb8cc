//! Server-side apply and field management.
//!
//! Pure functions over objects and their schemas. Whoever serves a write calls, in this order:
//!
//! 1. [`manager_name`] for the name to track it under;
//! 2. for an apply patch [`apply`] on the stored object (or null, to create) and the decoded patch; for create,
//!    update and the other patches [`track_update`] on the stored object and the wanted one. Both come after
//!    decoding and defaulting and before the kind's `prepare_*` steps: what the server adds by itself (addresses,
//!    generations, what admission fills in) belongs to nobody. The result of [`apply`] is not defaulted yet and
//!    holds the nulls the patch holds, so it goes the way of a decoded body;
//!    A write through `/scale` is tracked by [`scale`] instead;
//! 3. [`keep_times`] on an update, right before it is compared with the stored object to see whether there is
//!    anything to write: a write that changed nothing but times is none.

mod apply;
mod compare;
mod empty;
mod fields;
mod last_applied;
mod managed;
mod merge;
mod options;
mod scalar;
mod scale;
mod track;
mod typed;
mod types;
mod update;

#[cfg(test)]
mod tests;

pub use apply::apply;
pub use fields::{BadFields, Element, Set, show};
pub use options::{check_manager, manager_name};
pub use scale::{ScaleWrite, Scaled, scale};
pub use track::{keep_times, track_update};

use crate::resource::{Resource, Through};
use crate::schema::Schema;
use managed::Owner;
use types::Type;
use update::{Place, Versions};

/// The resource a write goes to.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The schema of the whole object.
    pub schema: &'a Schema,
    /// The version of the request: `apps/v1`.
    pub api_version: &'a str,
    /// `Deployment`.
    pub kind: &'a str,
    /// Every `apiVersion` the resource has; fields owned in another are forgotten. Empty: not known, so a built-in
    /// kind has the one of the request and a custom resource all of its group.
    pub served: &'a [String],
    /// `status` for a write through that subresource.
    pub subresource: Option<&'a str>,
    /// Fields this write cannot set (`status` through the main resource), which therefore nobody owns through it.
    pub reset: &'a [Vec<&'static str>],
}

impl<'a> Target<'a> {
    /// The target of a write to `resource`; `api_version` and `reset` are `resource.api_version()` and
    /// `resource.behaviour.reset_fields(through)`, kept by the caller.
    pub fn of(
        resource: &'a Resource,
        through: Through,
        api_version: &'a str,
        reset: &'a [Vec<&'static str>],
    ) -> Target<'a> {
        Target {
            schema: &resource.schema,
            api_version,
            kind: &resource.kind,
            served: &[],
            subresource: match through {
                Through::Main => None,
                Through::Sub(part) => Some(part.name()),
            },
            reset,
        }
    }

    fn place(&self) -> Place<'a> {
        let mut reset = Set::default();
        for path in self.reset {
            reset.insert(&path.iter().map(|name| Element::field(*name)).collect::<Vec<_>>());
        }
        let versions = if !self.served.is_empty() {
            Versions::Listed(self.served)
        } else if empty::is_built_in(self.schema) {
            Versions::One(self.api_version)
        } else {
            Versions::GroupOf(self.api_version)
        };
        Place { ty: Type::object(self.schema), api_version: self.api_version, versions, reset }
    }

    fn owner(&self, manager: &str, applied: bool) -> Owner {
        Owner {
            manager: if manager.is_empty() { "unknown" } else { manager }.to_owned(),
            subresource: self.subresource.unwrap_or_default().to_owned(),
            api_version: self.api_version.to_owned(),
            applied,
            time: None,
            set: Set::default(),
        }
    }
}
