//! The file a node boots by.

use std::collections::BTreeMap;
use std::fmt;

use super::SOURCE;
use super::record::{HostRendering, Rendering};
use crate::rollout::config::{File, MachineConfig, Spec};
use crate::rollout::epochs::Epochs;
use crate::size::{Envelope, Mtu};

/// Where the file is.
pub const PATH: &str = "/etc/cno/mtu-migration/config";

/// What a node runs from its next boot on.
///
/// Part of the machine configuration: a node is drained and restarted because this file changes. A person may write it
/// too, with no more than `TARGET_MTU` in it; what is missing then follows from the size before the change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct HostFile {
    /// `EPOCH`: which rendering it is.
    pub epoch: u64,
    /// `TARGET_MTU`: what the host's own configuration is to say from now on.
    pub target: Option<Mtu>,
    /// `MTU`: what the host's interfaces carry.
    pub mtu: Option<Mtu>,
    /// `ROUTABLE_MTU`: what the host's routes let out.
    pub routable: Option<Mtu>,
    /// `OTHERS_MTU`: what the other hosts take. A host that is larger by its own configuration sends no more than that.
    pub others: Option<Mtu>,
    /// `CNI_MTU` and `CNI_ROUTABLE_MTU`: what pods run at.
    pub network: Option<Envelope>,
}

/// A line that cannot be understood. The node must not go on with half of what it was told.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unreadable {
    /// Not `KEY=VALUE`.
    #[error("line {line} of {PATH}: {text:?} is not KEY=VALUE")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What it says.
        text: String,
    },
    /// Not a number, or not one that can be.
    #[error("{key} in {PATH}: {value:?} is not {expected}")]
    Value {
        /// Which.
        key: &'static str,
        /// What it says.
        value: String,
        /// What it could.
        expected: &'static str,
    },
    /// Twice, with different values.
    #[error("{0} is in {PATH} twice")]
    Twice(String),
    /// Routes that let out more than interfaces carry.
    #[error("{larger} in {PATH} is {sends}, more than {smaller}, {carries}")]
    Inverted {
        /// The key of the routes.
        larger: &'static str,
        /// Its value.
        sends: Mtu,
        /// The key of the interfaces.
        smaller: &'static str,
        /// Its value.
        carries: Mtu,
    },
}

impl HostFile {
    /// The file that makes a node run what is rendered.
    pub fn of(rendering: &Rendering) -> HostFile {
        let untold =
            HostFile { epoch: rendering.epoch, network: Some(rendering.network), ..HostFile::default() };
        match rendering.host {
            HostRendering::Own { others } => HostFile { others, ..untold },
            // The routes' size also where it is the interfaces': left out, a host that joined with a smaller one of its
            // own would send no more than that.
            HostRendering::Towards { run, target } => {
                let (mtu, routable) = (Some(run.carries()), Some(run.sends()));
                HostFile { target: Some(target), mtu, routable, ..untold }
            }
            HostRendering::At(mtu) => HostFile { mtu: Some(mtu), ..untold },
        }
    }

    /// Reads it. Keys of others are left alone; comments, blank lines and quotes are what a shell would take.
    ///
    /// # Errors
    /// The first thing that cannot be understood.
    pub fn parse(text: &str) -> Result<HostFile, Unreadable> {
        let mut values: BTreeMap<&str, &str> = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let broken = || Unreadable::Line { line: number + 1, text: line.to_owned() };
            let (key, value) = line.split_once('=').ok_or_else(broken)?;
            let key = key.strip_prefix("export ").unwrap_or(key).trim();
            if key.is_empty() || key.contains(char::is_whitespace) {
                return Err(broken());
            }
            let value = value.trim();
            let unquoted = ['"', '\''].iter().find_map(|q| value.strip_prefix(*q)?.strip_suffix(*q));
            let value = unquoted.unwrap_or(value);
            if values.insert(key, value).is_some_and(|before| before != value) {
                return Err(Unreadable::Twice(key.to_owned()));
            }
        }
        let size = |key: &'static str| match values.get(key).filter(|value| !value.is_empty()) {
            None => Ok(None),
            Some(value) => match value.parse().ok().and_then(|bytes| Mtu::new(bytes).ok()) {
                Some(mtu) => Ok(Some(mtu)),
                None => {
                    let expected = "an MTU between 576 and 65536";
                    Err(Unreadable::Value { key, value: (*value).to_owned(), expected })
                }
            },
        };
        let epoch = match values.get("EPOCH") {
            None => 0,
            Some(value) => value.parse().map_err(|_| Unreadable::Value {
                key: "EPOCH",
                value: (*value).to_owned(),
                expected: "a number",
            })?,
        };
        let (mtu, routable) = (size("MTU")?, size("ROUTABLE_MTU")?);
        ordered(("ROUTABLE_MTU", routable), ("MTU", mtu))?;
        let (carries, sends) = (size("CNI_MTU")?, size("CNI_ROUTABLE_MTU")?);
        ordered(("CNI_ROUTABLE_MTU", sends), ("CNI_MTU", carries))?;
        let network = carries.map(|carries| Envelope::spanning(carries, sends.unwrap_or(carries)));
        let (target, others) = (size("TARGET_MTU")?, size("OTHERS_MTU")?);
        Ok(HostFile { epoch, target, mtu, routable, others, network })
    }

    /// Whether it tells hosts what to run: there is a change.
    pub fn changes_hosts(&self) -> bool {
        self.target.is_some() || self.mtu.is_some() || self.routable.is_some()
    }

    /// What the host's own configuration is to say from now on.
    ///
    /// In phase two that is the size itself, although no target is said any more: hosts that went through phase one
    /// have it already, those that joined since would fall back to their own at the first boot after the change.
    pub fn keeps(&self) -> Option<Mtu> {
        let settles = self.epoch > 0 && self.routable.is_none();
        self.target.or(self.mtu.filter(|_| settles))
    }

    /// What the host runs at by this file, if the size before the change was `original`; nothing when the file leaves
    /// it to the host's own configuration.
    pub fn host(&self, original: Mtu) -> Option<Envelope> {
        let default = self.target.map(|target| Envelope::spanning(target, original));
        let carries = self.mtu.or(default.map(Envelope::carries));
        let sends = self.routable.or(match (self.mtu, default) {
            // What is said of the interfaces alone is said of the routes too.
            (Some(mtu), None) => Some(mtu),
            (_, default) => default.map(Envelope::sends),
        });
        match (carries, sends) {
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => Some(Envelope::spanning(one, original)),
            (Some(carries), Some(sends)) => Some(Envelope::spanning(carries, sends.min(carries))),
        }
    }
}

/// The machine configuration that brings a class of nodes the file.
pub fn machine_config(role: &str, rendering: &Rendering) -> MachineConfig {
    let contents = HostFile::of(rendering).to_string().into_bytes();
    let file = File { path: PATH.into(), mode: File::DEFAULT_MODE, contents };
    MachineConfig {
        // Late in the alphabet: a configuration of somebody's own does not override it by accident.
        name: format!("98-{role}-netferry-mtu"),
        role: role.to_owned(),
        spec: Spec { files: vec![file], ..Spec::default() },
        epochs: Epochs::of(SOURCE, rendering.epoch),
    }
}

fn ordered(
    (larger, sends): (&'static str, Option<Mtu>),
    (smaller, carries): (&'static str, Option<Mtu>),
) -> Result<(), Unreadable> {
    match (sends, carries) {
        (Some(sends), Some(carries)) if sends > carries => {
            Err(Unreadable::Inverted { larger, sends, smaller, carries })
        }
        _ => Ok(()),
    }
}

impl fmt::Display for HostFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# What this node runs from its next boot on. Written by netferry, read by netferry host-init."
        )?;
        writeln!(f, "EPOCH={}", self.epoch)?;
        let cni = self.network;
        for (key, value) in [
            ("TARGET_MTU", self.target),
            ("MTU", self.mtu),
            ("ROUTABLE_MTU", self.routable),
            ("OTHERS_MTU", self.others),
            ("CNI_MTU", cni.map(Envelope::carries)),
            ("CNI_ROUTABLE_MTU", cni.and_then(Envelope::pin)),
        ] {
            if let Some(value) = value {
                writeln!(f, "{key}={value}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Change, Ends, Record, Stage};
    use super::*;
    use crate::fixtures::mtu;

    fn at(stage: Stage) -> Record {
        let ends = |from, to| Ends { from: mtu(from), to: mtu(to) };
        let change = Change { network: ends(1400, 8900), host: ends(1500, 9000), stage, back: false };
        Record { epoch: 7, change: Some(change), ..Record::settled(mtu(1400)) }
    }

    fn written(record: &Record) -> String {
        let text = HostFile::of(&record.rendering()).to_string();
        text.lines().skip(1).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_stage_has_its_file() {
        for (record, text) in [
            (
                at(Stage::Spreading { finish: true }),
                "EPOCH=7 TARGET_MTU=9000 MTU=9000 ROUTABLE_MTU=1500 CNI_MTU=8900 CNI_ROUTABLE_MTU=1400",
            ),
            (at(Stage::Settling), "EPOCH=7 MTU=9000 CNI_MTU=8900"),
            (at(Stage::Returning), "EPOCH=7 TARGET_MTU=1500 MTU=1500 ROUTABLE_MTU=1500 CNI_MTU=1400"),
            (at(Stage::Settling).ended(), "EPOCH=8 OTHERS_MTU=9000 CNI_MTU=8900"),
            (at(Stage::Returning).ended(), "EPOCH=8 OTHERS_MTU=1500 CNI_MTU=1400"),
            (Record::settled(mtu(1400)), "EPOCH=0 CNI_MTU=1400"),
        ] {
            assert_eq!(written(&record), text);
        }
    }

    #[test]
    fn a_change_of_the_pods_size_alone_is_another_configuration_and_so_is_another_epoch() {
        let named = |record: &Record| {
            let config = machine_config("worker", &record.rendering());
            crate::rollout::merge::merge("worker", &[config]).unwrap()
        };
        let record = Record::settled(mtu(1400));
        assert_ne!(named(&record).name, named(&Record::settled(mtu(1300))).name);
        let later = named(&Record { epoch: 3, ..record });
        assert_ne!(named(&record).name, later.name);
        assert_eq!(later.epochs, Epochs::of(SOURCE, 3));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for stage in [Stage::Spreading { finish: false }, Stage::Settling, Stage::Returning] {
            let file = HostFile::of(&at(stage).rendering());
            assert_eq!(HostFile::parse(&file.to_string()), Ok(file));
            let ended = HostFile::of(&at(stage).ended().rendering());
            assert_eq!(HostFile::parse(&ended.to_string()), Ok(ended));
        }
    }

    #[test]
    fn a_file_written_by_hand_is_read_as_a_shell_would() {
        let text = "# mine\n\nexport TARGET_MTU=\"9100\"\nNETWORK_TYPE='x'\nMTU=\n";
        let file = HostFile::parse(text).unwrap();
        assert_eq!(file, HostFile { target: Some(mtu(9100)), ..HostFile::default() });
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_refused_by_what_is_wrong() {
        for (text, said) in [
            (
                "TARGET_MTU 9000",
                "line 1 of /etc/cno/mtu-migration/config: \"TARGET_MTU 9000\" is not KEY=VALUE",
            ),
            (
                "TARGET_MTU=9k",
                "TARGET_MTU in /etc/cno/mtu-migration/config: \"9k\" is not an MTU between 576 and 65536",
            ),
            (
                "OTHERS_MTU=0",
                "OTHERS_MTU in /etc/cno/mtu-migration/config: \"0\" is not an MTU between 576 and 65536",
            ),
            ("EPOCH=x", "EPOCH in /etc/cno/mtu-migration/config: \"x\" is not a number"),
            ("MTU=1500\nMTU=1400", "MTU is in /etc/cno/mtu-migration/config twice"),
            (
                "MTU=1400\nROUTABLE_MTU=1500",
                "ROUTABLE_MTU in /etc/cno/mtu-migration/config is 1500, more than MTU, 1400",
            ),
            (
                "CNI_MTU=1400\nCNI_ROUTABLE_MTU=1500",
                "CNI_ROUTABLE_MTU in /etc/cno/mtu-migration/config is 1500, more than CNI_MTU, 1400",
            ),
        ] {
            assert_eq!(HostFile::parse(text).unwrap_err().to_string(), said);
        }
    }

    /// The defaults of the specification: the higher for interfaces, the lower for routes.
    #[test]
    fn what_the_file_leaves_out_follows_from_the_size_before_the_change() {
        type Row = (Option<u32>, Option<u32>, Option<u32>, u32, Option<(u32, u32)>);
        #[rustfmt::skip]
        let rows: &[Row] = &[
            // target, MTU, ROUTABLE_MTU, before -> carries, sends
            (None, None, None, 1500, None),
            (Some(9100), None, None, 1500, Some((9100, 1500))),
            (Some(1500), None, None, 9100, Some((9100, 1500))),
            (Some(1500), None, None, 1500, Some((1500, 1500))),
            (Some(9100), Some(9100), None, 1500, Some((9100, 1500))),
            (Some(9100), None, Some(1400), 1500, Some((9100, 1400))),
            (Some(9100), Some(9100), Some(1500), 4000, Some((9100, 1500))),
            (None, Some(9100), None, 1500, Some((9100, 9100))),
            (None, None, Some(1400), 1500, Some((1500, 1400))),
        ];
        for (target, carries, sends, original, run) in rows {
            let size = |bytes: &Option<u32>| bytes.map(mtu);
            let file = HostFile {
                target: size(target),
                mtu: size(carries),
                routable: size(sends),
                ..HostFile::default()
            };
            let host = file.host(mtu(*original)).map(|e| (e.carries().bytes(), e.sends().bytes()));
            assert_eq!(host, *run, "{target:?} {carries:?} {sends:?} {original}");
        }
    }
}
