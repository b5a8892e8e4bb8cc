//! Carrying out changes of links.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};

use super::{Changes, Link, Make, Want, diff, wire};
use crate::error::{Attempt, Error, Result};
use crate::kernel::Kernel;
use crate::mark::Mark;
use crate::name::IfName;
use crate::netns::Namespace;
use crate::objects::Objects;
use crate::tun::Tun;
use crate::wire::{Batch, flag};

/// See [`Kernel::links`].
#[derive(Debug)]
pub struct Links<'k>(pub(crate) &'k Kernel);

impl Links<'_> {
    /// One link, if it is there.
    pub fn named(&self, name: &IfName) -> Result<Option<Link>> {
        let found = self.0.route_socket().ask(
            wire::GET,
            &format!("link {name}"),
            |w| {
                wire::header(w, 0, None);
                w.u32(wire::EXT_MASK, wire::SKIP_STATISTICS);
                wire::name(w, name);
            },
            wire::read,
        );
        match found {
            Ok(link) => Ok(Some(link)),
            Err(error) if error.errno() == Some(nix::errno::Errno::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Moves a link to another namespace, under a name that is free there. It arrives switched off, without
    /// addresses and routes.
    pub fn give(&self, index: u32, to: &Namespace, name: &IfName) -> Result<()> {
        let mut batch = Batch::default();
        let object = format!("link {index}, to {name} in {to}");
        batch.push(wire::SET, flag::ACK, Attempt::Setting, object, |w| {
            wire::header(w, index, None);
            w.bytes(wire::NAMESPACE_FD, &to.as_fd().as_raw_fd().to_ne_bytes());
            wire::name(w, name);
        });
        self.0.route_socket().run(batch)
    }

    /// Gives a link, which must be switched off, another name.
    pub fn rename(&self, index: u32, name: &IfName) -> Result<()> {
        let mut batch = Batch::default();
        batch.push(wire::SET, flag::ACK, Attempt::Setting, format!("name {name} of link {index}"), |w| {
            wire::header(w, index, None);
            wire::name(w, name);
        });
        self.0.route_socket().run(batch)
    }

    fn remove(&self, links: &[Link]) -> Result<()> {
        let mut batch = Batch::default();
        for link in links {
            batch.push(wire::DEL, flag::ACK, Attempt::Removing, format!("link {}", link.name), |w| {
                wire::header(w, link.index, None);
            });
        }
        // A link takes with it what stands on it, and the other end of its pair.
        already_gone(self.0.route_socket().run(batch))
    }

    /// One at a time: a later one may stand on an earlier one, whose number only the kernel knows.
    ///
    /// The alias cannot be given at birth. It follows in the same datagram, so that no crash of ours can leave
    /// a link without its mark.
    fn create(&self, want: &Want) -> Result<()> {
        let Some(make) = &want.make else { return Ok(()) };
        let mut batch = Batch::default();
        let object = format!("link {}", want.name);
        match make {
            Make::Tun(mode) => drop(Tun::persistent(&self.0.namespace().try_clone()?, &want.name, *mode)?),
            Make::Veth(_) | Make::Bridge(_) | Make::Vxlan(_) | Make::Macvlan { .. } => {
                let parent = match make {
                    Make::Macvlan { parent, .. } => Some(self.index(parent)?),
                    Make::Veth(_) | Make::Bridge(_) | Make::Vxlan(_) | Make::Tun(_) => None,
                };
                let flags = flag::ACK | flag::CREATE | flag::EXCLUSIVE;
                batch.push(wire::NEW, flags, Attempt::Adding, object, |w| {
                    wire::header(w, 0, None);
                    wire::name(w, &want.name);
                    wire::properties(w, want, None);
                    wire::make(w, make, parent);
                });
            }
        }
        batch.push(wire::SET, flag::ACK, Attempt::Setting, format!("alias of link {}", want.name), |w| {
            wire::header(w, 0, None);
            wire::name(w, &want.name);
            wire::alias(w, want);
        });
        // A birth that is refused makes the alias fail as well; the first refusal says why.
        self.0.route_socket().run(batch).map_err(Error::first)
    }

    /// Everything that can be changed on a link that is there, in one datagram.
    fn settle(&self, wants: &[&Want]) -> Result<()> {
        if wants.is_empty() {
            return Ok(());
        }
        let indexes: BTreeMap<IfName, u32> = self.observe()?.into_iter().map(|l| (l.name, l.index)).collect();
        let find = |name: &IfName| {
            indexes.get(name).copied().ok_or_else(|| {
                Error::refused(Attempt::Setting, format!("link {name}"), nix::errno::Errno::ENODEV)
            })
        };
        let mut batch = Batch::default();
        for want in wants {
            let index = find(&want.name)?;
            let master = match &want.master {
                None => None,
                Some(None) => Some(0),
                Some(Some(name)) => Some(find(name)?),
            };
            let object = format!("properties of link {}", want.name);
            batch.push(wire::SET, flag::ACK, Attempt::Setting, object, |w| {
                wire::header(w, index, want.up);
                wire::properties(w, want, master);
                wire::alias(w, want);
            });
            if !want.alt_names.is_empty() {
                let flags = flag::ACK | flag::CREATE | flag::EXCLUSIVE | flag::APPEND;
                let object = format!("further names of link {}", want.name);
                batch.push(wire::NEW_PROPERTY, flags, Attempt::Adding, object, |w| {
                    wire::header(w, index, None);
                    wire::alt_names(w, &want.alt_names);
                });
            }
        }
        self.0.route_socket().run(batch)
    }

    fn index(&self, name: &IfName) -> Result<u32> {
        self.named(name)?.map(|link| link.index).ok_or_else(|| {
            Error::refused(Attempt::Reading, format!("link {name}"), nix::errno::Errno::ENODEV)
        })
    }
}

fn already_gone(result: Result<()>) -> Result<()> {
    let gone = |error: &Error| error.errno() == Some(nix::errno::Errno::ENODEV);
    match result {
        Err(Error::Several { mut failed, of }) => {
            failed.retain(|e| !gone(e));
            if failed.is_empty() { Ok(()) } else { Err(Error::Several { failed, of }) }
        }
        Err(error) if gone(&error) => Ok(()),
        other => other,
    }
}

impl Objects for Links<'_> {
    type Want = [Want];
    type State = Vec<Link>;
    type Changes = Changes;

    fn observe(&self) -> Result<Vec<Link>> {
        self.0.route_socket().dump(
            wire::GET,
            "links",
            |w| {
                w.raw(&[0; wire::HEADER]).u32(wire::EXT_MASK, wire::SKIP_STATISTICS);
            },
            |message, found| found.extend(wire::read(message)),
        )
    }

    fn diff(want: &[Want], have: &Vec<Link>, mark: &Mark) -> Changes {
        diff(want, have, mark)
    }

    fn apply(&self, changes: &Changes) -> Result<()> {
        self.remove(&changes.remove)?;
        for want in &changes.create {
            self.create(want)?;
        }
        self.settle(&changes.create.iter().chain(&changes.set).collect::<Vec<_>>())
    }
}
