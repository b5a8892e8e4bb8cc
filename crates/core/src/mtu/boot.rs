//! What a node does at boot, before anything on it talks to anybody.
//!
//! What a node runs is fixed here and written down under `/run` ([`Booted`]): an agent that restarts uses that, never
//! a newer object, so that nothing runs ahead of its reboot.

use super::file::HostFile;
use crate::rollout::effect::Effect;
use crate::size::{Envelope, Mtu};

/// The hosts' size before the change, kept durably for as long as the change lasts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Saved {
    /// What the uplink ran at.
    pub original: Mtu,
    /// What the host's own configuration said, if it said anything.
    pub configured: Option<Mtu>,
}

/// What is found at boot.
#[derive(Clone, Copy, Debug)]
pub struct BootFacts<'a> {
    /// [`super::file::PATH`].
    pub file: Option<&'a HostFile>,
    /// What was kept, if anything.
    pub saved: Option<Saved>,
    /// What the uplink came up with.
    pub uplink: Mtu,
    /// What the host's own configuration says of the uplink, if it says anything.
    pub configured: Option<Mtu>,
}

/// One thing to do at boot. They are done in order, and a later one only after an earlier one is durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BootStep {
    /// Keep the size before the change. First: once the host's configuration says something else, nobody knows it.
    Save(Saved),
    /// Let the host's own configuration say this of the uplink; nothing, remove what we wrote.
    Persist(Option<Mtu>),
    /// Run the uplink so, by [`super::steps::steps`].
    Run(Envelope),
    /// Write what is running under `/run`.
    Record(Booted),
    /// Forget the size before the change.
    Forget,
}

/// What a node has been running since it booted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Booted {
    /// Which rendering it is.
    pub epoch: u64,
    /// What pods run at; nothing on a node that was never told, which then asks once
    /// ([`super::admit`]).
    pub network: Option<Envelope>,
    /// What the uplink runs at.
    pub host: Envelope,
    /// What the host's own configuration brings the uplink up with.
    pub own: Mtu,
    /// What the uplink ran at before the change; without one, what it runs at.
    pub original: Mtu,
}

/// Decides what to do at boot.
///
/// # Guarantees
///
/// As long as the file stays the same, every boot runs the same sizes, however many there are and wherever the last
/// one was cut off; that is what the kept size is for.
pub fn boot(facts: &BootFacts) -> Vec<BootStep> {
    let untold = HostFile::default();
    let file = facts.file.unwrap_or(&untold);
    let saved = facts.saved.unwrap_or(Saved { original: facts.uplink, configured: facts.configured });
    let changing = file.changes_hosts();
    let mut steps = Vec::new();
    if changing && facts.saved.is_none() {
        steps.push(BootStep::Save(saved));
    }
    // The change was taken back while the node was not there to be told: so is what it did to the host.
    let returned = facts.saved.is_some() && returns(saved.original, file);
    // What is still kept of any other change that has ended is of no account any more.
    let original = if changing || returned { saved.original } else { facts.uplink };
    let mut own = facts.configured.unwrap_or(original);
    if let Some(target) = file.keeps().or(file.others.filter(|_| returned)) {
        let back = target == saved.original && saved.configured.is_none();
        let wanted = if back { None } else { Some(target) };
        if facts.configured != wanted {
            steps.push(BootStep::Persist(wanted));
        }
        own = target;
    }
    let host = match file.host(saved.original) {
        Some(host) => host,
        None if returned => Envelope::settled(saved.original),
        None => beside(facts.uplink, file.others),
    };
    // Also where nothing differs: a run of this that was cut off may have left pins behind.
    steps.push(BootStep::Run(host));
    steps.push(BootStep::Record(Booted { epoch: file.epoch, network: file.network, host, own, original }));
    if !changing && facts.saved.is_some() {
        steps.push(BootStep::Forget);
    }
    steps
}

/// Whether a change has ended where a host was before it.
fn returns(original: Mtu, file: &HostFile) -> bool {
    !file.changes_hosts() && file.others == Some(original)
}

/// What a host runs at whose own size this is, and which is told no other: what it has, but it sends no more than others
/// take. It was not there for a change.
fn beside(own: Mtu, others: Option<Mtu>) -> Envelope {
    Envelope::spanning(own, others.map_or(own, |others| others.min(own)))
}

/// Returns true if a node that runs `booted` must restart to run by `file`.
///
/// A file in which only the epoch is new needs none: the node takes over the epoch ([`catch_up`]).
pub fn needs_restart(booted: &Booted, file: &HostFile) -> bool {
    let network = file.network.is_some() && file.network != booted.network;
    let host = match file.host(booted.original) {
        Some(run) => run != booted.host,
        None if returns(booted.original, file) => booted.host != Envelope::settled(booted.original),
        None => beside(booted.host.carries(), file.others).pin() != booted.host.pin(),
    };
    network || host || file.keeps().is_some_and(|target| target != booted.own)
}

/// Returns what it takes on a running node until these contents of the host file are in force.
pub fn effect(booted: &Booted, new: Option<&[u8]>) -> Effect {
    let file = match new {
        None => HostFile::default(),
        // What cannot be read is left to the boot to refuse.
        Some(bytes) => match HostFile::parse(&String::from_utf8_lossy(bytes)) {
            Ok(file) => file,
            Err(_) => return Effect::Restart,
        },
    };
    match effect_of_file(booted, &file) {
        // Without a file there is nothing to take over.
        Effect::Apply if new.is_none() => Effect::Nothing,
        effect @ (Effect::Nothing | Effect::Apply | Effect::Restart) => effect,
    }
}

/// Returns what it takes on a running node until this file is in force. What [`catch_up`] takes over is applied.
pub fn effect_of_file(booted: &Booted, file: &HostFile) -> Effect {
    match needs_restart(booted, file) {
        true => Effect::Restart,
        false if catch_up(booted, file).is_some() => Effect::Apply,
        false => Effect::Nothing,
    }
}

/// What a node takes over from a file without a restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CatchUp {
    /// What to write under `/run`, and to report.
    pub booted: Booted,
    /// Whether to forget the size before the change: it has ended. To be done first: once [`CatchUp::booted`] is written
    /// nothing more is to be taken over, and what was kept would be taken for the size before the next change.
    pub forget: bool,
}

/// What is to be taken over from a file that needs no restart, if anything is.
///
/// To be asked whenever the file or what is running changed, not only when the file was written: a node that had not
/// been told the pods' sizes when it took the file may run them now.
pub fn catch_up(booted: &Booted, file: &HostFile) -> Option<CatchUp> {
    if booted.epoch == file.epoch || needs_restart(booted, file) {
        return None;
    }
    let forget = !file.changes_hosts();
    let original = if forget { booted.host.carries() } else { booted.original };
    Some(CatchUp { booted: Booted { epoch: file.epoch, original, ..*booted }, forget })
}

#[cfg(test)]
mod tests {
    use super::super::record::{Change, Ends, Record, Stage};
    use super::*;
    use crate::fixtures::mtu;

    fn record(epoch: u64, stage: Stage, network: (u32, u32), host: (u32, u32)) -> Record {
        let ends = |(from, to)| Ends { from: mtu(from), to: mtu(to) };
        let change = Change { network: ends(network), host: ends(host), stage, back: false };
        Record { epoch, change: Some(change), ..Record::settled(mtu(network.0)) }
    }

    const UP: ((u32, u32), (u32, u32)) = ((1400, 8900), (1500, 9000));
    const DOWN: ((u32, u32), (u32, u32)) = ((8900, 1400), (9000, 1500));

    /// A host's disk: what its own configuration says, and what is kept.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Host {
        default: Mtu,
        configured: Option<Mtu>,
        saved: Option<Saved>,
    }

    impl Host {
        /// Boots, doing only the first `upto` steps, and says what ran if it got so far.
        fn boot(&mut self, file: Option<&HostFile>, upto: usize) -> Option<Booted> {
            let uplink = self.configured.unwrap_or(self.default);
            let facts = BootFacts { file, saved: self.saved, uplink, configured: self.configured };
            let mut booted = None;
            for step in boot(&facts).into_iter().take(upto) {
                match step {
                    BootStep::Save(saved) => self.saved = Some(saved),
                    BootStep::Persist(mtu) => self.configured = mtu,
                    BootStep::Run(_) => {}
                    BootStep::Record(record) => booted = Some(record),
                    BootStep::Forget => self.saved = None,
                }
            }
            booted
        }
    }

    #[test]
    fn any_number_of_boots_cut_off_anywhere_run_the_same_sizes_in_a_stage() {
        for (network, host) in [UP, DOWN] {
            for explicit in [true, false] {
                for configured in [None, Some(mtu(host.0))] {
                    let record = record(1, Stage::Spreading { finish: false }, network, host);
                    let mut file = HostFile::of(&record.rendering());
                    if !explicit {
                        (file.mtu, file.routable) = (None, None);
                    }
                    for cuts in 0..5_usize.pow(3) {
                        let mut disk = Host { default: mtu(host.0), configured, saved: None };
                        for cut in [cuts % 5, cuts / 5 % 5, cuts / 25] {
                            disk.boot(Some(&file), cut);
                        }
                        let booted = disk.boot(Some(&file), 9).unwrap();
                        assert_eq!(booted.host, Ends { from: mtu(host.0), to: mtu(host.1) }.span());
                        assert_eq!(disk.configured, Some(mtu(host.1)), "the target outlives the change");
                    }
                }
            }
        }
    }

    #[test]
    fn a_change_that_ended_leaves_the_target_and_forgets_the_original() {
        for (network, host) in [UP, DOWN] {
            let mut disk = Host { default: mtu(host.0), configured: None, saved: None };
            for stage in [Stage::Spreading { finish: true }, Stage::Settling] {
                disk.boot(Some(&HostFile::of(&record(1, stage, network, host).rendering())), 9);
                assert!(disk.saved.is_some(), "kept until the change has ended everywhere");
            }
            let ended = HostFile::of(&record(2, Stage::Settling, network, host).ended().rendering());
            let booted = disk.boot(Some(&ended), 9).unwrap();
            assert_eq!((booted.host, booted.original), (Envelope::settled(mtu(host.1)), mtu(host.1)));
            assert_eq!(disk, Host { default: mtu(host.0), configured: Some(mtu(host.1)), saved: None });
        }
    }

    #[test]
    fn a_host_that_joined_after_phase_one_keeps_the_target_too() {
        for (network, host) in [UP, DOWN] {
            let settling = HostFile::of(&record(2, Stage::Settling, network, host).rendering());
            let ended = HostFile::of(&record(2, Stage::Settling, network, host).ended().rendering());
            for configured in [None, Some(mtu(host.0))] {
                for cut in 0..5 {
                    let mut disk = Host { default: mtu(host.0), configured, saved: None };
                    disk.boot(Some(&settling), cut);
                    let settled = disk.boot(Some(&settling), 9).unwrap();
                    assert_eq!((settled.host, settled.own), (Envelope::settled(mtu(host.1)), mtu(host.1)));
                    assert!(!needs_restart(&settled, &settling) && !needs_restart(&settled, &ended));
                    let booted = disk.boot(Some(&ended), 9).unwrap();
                    assert_eq!(booted.host, Envelope::settled(mtu(host.1)), "cut off after {cut} steps");
                }
            }
        }
        // A size that somebody wrote by hand, without a target, is for as long as the file says so.
        let by_hand = HostFile { mtu: Some(mtu(9000)), ..HostFile::default() };
        let mut disk = Host { default: mtu(1500), configured: None, saved: None };
        assert_eq!(disk.boot(Some(&by_hand), 9).unwrap().host, Envelope::settled(mtu(9000)));
        assert_eq!(disk.configured, None);
    }

    #[test]
    fn a_host_that_joined_a_cancelled_change_runs_what_the_others_return_to() {
        for (network, host) in [UP, DOWN] {
            let returning = HostFile::of(&record(2, Stage::Returning, network, host).rendering());
            for own in [host.0, host.1, 1450] {
                let mut disk = Host { default: mtu(own), configured: None, saved: None };
                let booted = disk.boot(Some(&returning), 9).unwrap();
                assert_eq!((booted.host, booted.own), (Envelope::settled(mtu(host.0)), mtu(host.0)));
            }
        }
    }

    /// Its object is removed before or in the middle of a change, and made again when that has ended.
    #[test]
    fn a_host_that_missed_the_end_of_a_change_goes_with_where_it_led() {
        for (network, host) in [UP, DOWN] {
            let large = mtu(host.0.max(host.1));
            let spreading =
                HostFile::of(&record(1, Stage::Spreading { finish: true }, network, host).rendering());
            let settling = HostFile::of(&record(2, Stage::Settling, network, host).rendering());
            for seen in [vec![], vec![&spreading], vec![&spreading, &settling]] {
                for (stage, at) in [(Stage::Returning, host.0), (Stage::Settling, host.1)] {
                    let mut disk = Host { default: mtu(host.0), configured: None, saved: None };
                    let mut ran = disk.boot(None, 9).unwrap();
                    for file in &seen {
                        ran = disk.boot(Some(file), 9).unwrap();
                    }
                    let end = HostFile::of(&record(4, stage, network, host).ended().rendering());
                    let restarts = needs_restart(&Booted { network: end.network, ..ran }, &end);
                    // Who was on the way arrives; who was not stays what it was, and sends what the others take.
                    let own = if seen.is_empty() { mtu(host.0) } else { mtu(at) };
                    let runs = Envelope::spanning(own, own.min(mtu(at)));
                    assert!(restarts || ran.host.sends() == runs.sends(), "{seen:?} {stage:?}");
                    for upto in [0, 1, 2, 3, 9, 9] {
                        let Some(booted) = disk.boot(Some(&end), upto) else { continue };
                        assert_eq!((booted.host, booted.own), (runs, own), "{seen:?} {stage:?}");
                        assert!(!needs_restart(&booted, &end), "once it runs so");
                    }
                    assert_eq!(disk.saved, None);
                    // Its owner gives it what the others have, or more.
                    for own in [mtu(at), large] {
                        disk.configured = Some(own);
                        let booted = disk.boot(Some(&end), 9).unwrap();
                        assert_eq!(booted.host, Envelope::spanning(own, mtu(at)));
                    }
                }
            }
        }
    }

    #[test]
    fn a_cancelled_change_leaves_the_host_as_it_was_found() {
        for configured in [None, Some(mtu(1500))] {
            let before = Host { default: mtu(1500), configured, saved: None };
            let mut disk = before;
            let (network, host) = UP;
            for stage in [Stage::Spreading { finish: false }, Stage::Returning] {
                disk.boot(Some(&HostFile::of(&record(1, stage, network, host).rendering())), 9);
            }
            disk.boot(Some(&HostFile::of(&Record::settled(mtu(1400)).rendering())), 9);
            assert_eq!(disk, before);
        }
    }

    #[test]
    fn a_node_restarts_for_new_sizes_and_not_for_a_new_epoch() {
        let (network, host) = UP;
        let file = |epoch, stage| HostFile::of(&record(epoch, stage, network, host).rendering());
        let spreading = Stage::Spreading { finish: false };
        let mut disk = Host { default: mtu(1500), configured: None, saved: None };
        let untouched = disk.boot(Some(&HostFile::of(&Record::settled(mtu(1400)).rendering())), 9).unwrap();
        let spanning = disk.boot(Some(&file(1, spreading)), 9).unwrap();
        for (booted, file, restart) in [
            (untouched, file(1, spreading), true),
            (spanning, file(1, spreading), false),
            (spanning, file(5, spreading), false),
            (spanning, file(2, Stage::Settling), true),
            (spanning, file(2, Stage::Returning), true),
            // Cancelled before this node had moved: nothing to undo.
            (untouched, file(2, Stage::Returning), false),
            (untouched, HostFile { epoch: 9, network: untouched.network, ..HostFile::default() }, false),
        ] {
            assert_eq!(needs_restart(&booted, &file), restart, "{booted:?} {file:?}");
        }
        // Nor for a file a person wrote, once it was booted by.
        let by_hand = HostFile { target: Some(mtu(9000)), ..HostFile::default() };
        assert!(needs_restart(&untouched, &by_hand));
        let mut other = Host { default: mtu(1500), configured: None, saved: None };
        assert!(!needs_restart(&other.boot(Some(&by_hand), 9).unwrap(), &by_hand));
        // The pods' size alone is a reason.
        let other = HostFile { network: Some(Envelope::settled(mtu(1300))), ..HostFile::default() };
        assert!(needs_restart(&untouched, &other));
        // The end of a change is none.
        let settled = disk.boot(Some(&file(2, Stage::Settling)), 9).unwrap();
        let ended = HostFile::of(&record(2, Stage::Settling, network, host).ended().rendering());
        assert!(!needs_restart(&settled, &ended));
        let caught_up = Booted { epoch: 3, original: mtu(9000), ..settled };
        assert_eq!(catch_up(&settled, &ended), Some(CatchUp { booted: caught_up, forget: true }));
        assert_eq!(catch_up(&caught_up, &ended), None);
        assert_eq!(catch_up(&spanning, &file(2, Stage::Settling)), None, "not what needs a restart");
        let text = |file: HostFile| file.to_string().into_bytes();
        assert_eq!(effect(&settled, Some(&text(ended))), Effect::Apply);
        assert_eq!(effect(&caught_up, Some(&text(ended))), Effect::Nothing);
        assert_eq!(effect(&settled, None), Effect::Nothing);
        assert_eq!(effect(&spanning, Some(&text(ended))), Effect::Restart);
        assert_eq!(effect(&spanning, None), Effect::Restart, "pins go only with a boot");
        assert_eq!(effect(&settled, Some(b"MTU=x")), Effect::Restart);
        let again = CatchUp { booted: Booted { epoch: 5, ..spanning }, forget: false };
        assert_eq!(catch_up(&spanning, &file(5, spreading)), Some(again));
    }
}
