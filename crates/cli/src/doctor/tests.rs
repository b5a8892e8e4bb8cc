use std::path::Path;

use super::features::FEATURES;
use super::probe::{Outcome, Outcomes};
use super::report::Level;
use super::*;

const INSTALLED: &str = "Package: iproute2\nStatus: install ok installed\nVersion: 6.1.0-3\n";
const REMOVED: &str = "Package: ethtool\nStatus: deinstall ok config-files\nVersion: 1:6.1-1\n";

struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    fn file(self, path: &str, text: &str) -> Self {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, text).expect("a file");
        self
    }

    fn link(self, path: &str, to: &str) -> Self {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::os::unix::fs::symlink(Path::new(to), path).expect("a link");
        self
    }

    fn examine(&self, outcome: &Outcome) -> Report {
        let tried: Outcomes = FEATURES.iter().map(|f| (f.name.to_owned(), outcome.clone())).collect();
        examine(&Host::at(self.dir.path()), &tried)
    }
}

fn untried() -> Outcome {
    Outcome::Untried("not permitted".into())
}

#[test]
fn a_package_that_was_removed_but_not_purged_counts_as_missing() {
    let report = Machine::new()
        .file("var/lib/dpkg/status", &format!("{INSTALLED}\n{REMOVED}"))
        .examine(&Outcome::Works);
    assert_eq!(report.find("iproute2").level, Level::Ok);
    assert_eq!(report.find("iproute2").detail, "6.1.0-3");
    let ethtool = report.find("ethtool");
    assert_eq!(ethtool.level, Level::Missing);
    assert_eq!(ethtool.mend.as_deref(), Some("apt-get install ethtool"));
}

#[test]
fn without_dpkg_the_programs_themselves_are_looked_for() {
    let report = Machine::new().file("usr/sbin/nft", "").examine(&Outcome::Works);
    assert_eq!(report.find("nftables").level, Level::Ok);
    let tcpdump = report.find("tcpdump");
    assert_eq!(tcpdump.level, Level::Warn);
    assert!(tcpdump.mend.as_deref().is_some_and(|m| !m.contains("apt-get")), "{tcpdump:?}");
}

#[test]
fn root_without_the_capabilities_is_not_enough() {
    let as_root = |caps| {
        Machine::new()
            .file("proc/self/status", &format!("Uid:\t0\t0\t0\t0\nCapEff:\t{caps}\n"))
            .examine(&Outcome::Works)
    };
    assert_eq!(as_root("000001ffffffffff").find("CAP_SYS_ADMIN").level, Level::Ok);
    let container = as_root("00000000a80425fb");
    assert_eq!(container.find("CAP_SYS_ADMIN").level, Level::Missing);
    assert_eq!(
        container.find("CAP_NET_ADMIN").mend.as_deref().map(|m| m.contains("--cap-add NET_ADMIN")),
        Some(true)
    );
}

#[test]
fn a_masked_unit_is_fine_and_an_enabled_one_comes_with_the_command_that_masks_it() {
    let report = Machine::new()
        .file("lib/systemd/system/ovn-host.service", "")
        .link(
            "etc/systemd/system/multi-user.target.wants/ovn-host.service",
            "/lib/systemd/system/ovn-host.service",
        )
        .file("lib/systemd/system/ovn-central.service", "")
        .link("etc/systemd/system/ovn-central.service", "/dev/null")
        .file("lib/systemd/system/ovn-controller.service", "")
        .examine(&Outcome::Works);
    assert_eq!(report.find("ovn-central.service").detail, "masked");
    assert_eq!(report.find("ovn-controller.service").level, Level::Ok);
    assert_eq!(report.find("ovn-northd.service").detail, "not installed");
    let enabled = report.find("ovn-host.service");
    assert_eq!(enabled.level, Level::Warn);
    assert_eq!(enabled.mend.as_deref(), Some("systemctl mask --now ovn-host.service"));
}

#[test]
fn a_unit_that_runs_is_reported_whatever_its_files_say() {
    let report = Machine::new()
        .link("etc/systemd/system/ovn-controller.service", "/dev/null")
        .file("proc/812/cgroup", "0::/system.slice/ovn-controller.service\n")
        .examine(&Outcome::Works);
    assert_eq!(report.find("ovn-controller.service").level, Level::Warn);
}

#[test]
fn a_feature_that_cannot_be_tried_is_judged_by_the_kernels_files() {
    let report = Machine::new()
        .file("proc/sys/kernel/osrelease", "6.1.0\n")
        .file("boot/config-6.1.0", "CONFIG_VETH=y\nCONFIG_OPENVSWITCH=m\n# CONFIG_NET_VRF is not set\n")
        .file("lib/modules/6.1.0/modules.dep", "kernel/net/openvswitch/openvswitch.ko.zst: x.ko\n")
        .file("lib/modules/6.1.0/modules.builtin", "kernel/net/bridge/bridge.ko\n")
        .file("proc/modules", "bonding 1 0 - Live 0x0\n")
        .examine(&untried());
    for there in ["veth", "openvswitch", "bridge", "bond"] {
        assert_eq!(report.find(there).level, Level::Ok, "{there}");
        assert!(report.find(there).detail.contains("not tried"), "{there}");
    }
    assert_eq!(report.find("vrf").level, Level::Warn);
    assert_eq!(report.find("nftables").level, Level::Missing);
}

#[test]
fn a_trial_that_failed_outweighs_what_the_files_promise() {
    let report = Machine::new()
        .file("proc/sys/kernel/osrelease", "6.1.0\n")
        .file("lib/modules/6.1.0/modules.dep", "kernel/drivers/net/geneve.ko:\n")
        .examine(&Outcome::Fails("not in this kernel".into()));
    let geneve = report.find("geneve");
    assert_eq!(geneve.level, Level::Warn);
    assert_eq!(geneve.mend.as_deref(), Some("modprobe geneve"));
}

#[test]
fn every_lack_comes_with_a_way_to_mend_it() {
    let report = Machine::new().examine(&Outcome::Fails("no".into()));
    let text = serde_json::to_value(&report).expect("JSON");
    for check in text["checks"].as_array().expect("checks") {
        assert_eq!(check["level"] == "ok", check.get("mend").is_none(), "{check}");
    }
    assert!(report.missing() > 10);
}
