//! The kernel features netferry uses, and what a lack of each means.

use super::evidence::{Evidence, Provided};
use super::host::Host;
use super::probe::{Outcome, Outcomes};
use super::report::{Check, Group, Level};

/// One thing the kernel should be able to do.
#[derive(Debug)]
pub(super) struct Feature {
    pub(super) name: &'static str,
    /// How to find out.
    pub(super) trial: Trial,
    module: &'static str,
    option: &'static str,
    /// How bad a lack is.
    level: Level,
    /// What does not work then.
    without: &'static str,
}

/// How a feature is tried.
#[derive(Debug)]
pub(super) enum Trial {
    /// Enter new mount, host-name and process namespaces.
    Namespaces,
    /// Make a link of this kind.
    Link(&'static str),
    /// Look up a generic netlink family.
    Family(&'static str),
    /// Add a routing rule by mark, in both address families.
    Rules,
    /// Put a queueing discipline on the loopback.
    Qdisc(&'static str),
    /// Make an nft table with a NAT chain.
    NatChain,
    /// Ask the connection tracker.
    Conntrack,
    /// Open a device.
    Device(&'static str),
}

const fn feature(
    name: &'static str,
    trial: Trial,
    module: &'static str,
    option: &'static str,
    level: Level,
    without: &'static str,
) -> Feature {
    Feature { name, trial, module, option, level, without }
}

/// Every feature looked at, the indispensable ones first.
pub(super) const FEATURES: [Feature; 16] = [
    feature(
        "namespaces",
        Trial::Namespaces,
        "",
        "CONFIG_NAMESPACES",
        Level::Missing,
        "pods and lab nodes live in namespaces",
    ),
    feature("veth", Trial::Link("veth"), "veth", "CONFIG_VETH", Level::Missing, "pods cannot be connected"),
    feature(
        "bridge",
        Trial::Link("bridge"),
        "bridge",
        "CONFIG_BRIDGE",
        Level::Missing,
        "no bridges on hosts, no lab fabric",
    ),
    feature(
        "tun",
        Trial::Device("/dev/net/tun"),
        "tun",
        "CONFIG_TUN",
        Level::Missing,
        "the userspace switch has no internal ports",
    ),
    feature(
        "nftables",
        Trial::NatChain,
        "nf_tables",
        "CONFIG_NF_TABLES",
        Level::Missing,
        "no source address translation, no egress addresses",
    ),
    feature(
        "conntrack",
        Trial::Conntrack,
        "nf_conntrack",
        "CONFIG_NF_CONNTRACK",
        Level::Missing,
        "no translation survives its first packet",
    ),
    feature(
        "policy-routing",
        Trial::Rules,
        "",
        "CONFIG_IP_MULTIPLE_TABLES",
        Level::Missing,
        "egress traffic cannot be steered",
    ),
    feature(
        "openvswitch",
        Trial::Family("ovs_datapath"),
        "openvswitch",
        "CONFIG_OPENVSWITCH",
        Level::Warn,
        "the userspace datapath is used instead, which is slower",
    ),
    feature(
        "geneve",
        Trial::Link("geneve"),
        "geneve",
        "CONFIG_GENEVE",
        Level::Warn,
        "the kernel datapath cannot tunnel to OVN nodes; the userspace one does so itself",
    ),
    feature(
        "vxlan",
        Trial::Link("vxlan"),
        "vxlan",
        "CONFIG_VXLAN",
        Level::Warn,
        "the kernel datapath cannot tunnel to SDN nodes; the userspace one does so itself",
    ),
    feature(
        "macvlan",
        Trial::Link("macvlan"),
        "macvlan",
        "CONFIG_MACVLAN",
        Level::Warn,
        "no macvlan interfaces in host network policies",
    ),
    feature(
        "vlan",
        Trial::Link("vlan"),
        "8021q",
        "CONFIG_VLAN_8021Q",
        Level::Warn,
        "no VLAN interfaces in host network policies",
    ),
    feature(
        "bond",
        Trial::Link("bond"),
        "bonding",
        "CONFIG_BONDING",
        Level::Warn,
        "no bonds in host network policies",
    ),
    feature(
        "dummy",
        Trial::Link("dummy"),
        "dummy",
        "CONFIG_DUMMY",
        Level::Warn,
        "no dummy interfaces in host network policies",
    ),
    feature(
        "vrf",
        Trial::Link("vrf"),
        "vrf",
        "CONFIG_NET_VRF",
        Level::Warn,
        "no VRFs in host network policies",
    ),
    feature(
        "netem",
        Trial::Qdisc("netem"),
        "sch_netem",
        "CONFIG_NET_SCH_NETEM",
        Level::Warn,
        "the lab cannot delay or lose packets on purpose",
    ),
];

pub(super) fn checks(host: &Host, tried: &Outcomes) -> Vec<Check> {
    let evidence = Evidence::gather(host);
    let untried = Outcome::Untried("the probe says nothing of it".into());
    FEATURES
        .iter()
        .map(|feature| {
            let provided = evidence.of(feature.module, feature.option);
            judge(feature, tried.get(feature.name).unwrap_or(&untried), provided, host)
        })
        .collect()
}

fn judge(feature: &Feature, outcome: &Outcome, provided: Provided, host: &Host) -> Check {
    let ok = |detail: String| Check::ok(Group::Kernel, feature.name, detail);
    let lack = |found: &str| {
        let detail = format!("{found}: {}", feature.without);
        Check::lack(feature.level, Group::Kernel, feature.name, detail, mend(feature, provided, host))
    };
    match (outcome, provided) {
        (Outcome::Works, _) => ok("tried, works".into()),
        (Outcome::Fails(why), _) => lack(why),
        (Outcome::Untried(why), Provided::BuiltIn) => ok(format!("in the kernel; not tried, {why}")),
        (Outcome::Untried(why), Provided::Loaded) => ok(format!("module loaded; not tried, {why}")),
        (Outcome::Untried(why), Provided::Loadable) => ok(format!("module at hand; not tried, {why}")),
        (Outcome::Untried(_), Provided::Off) => lack("switched off in this kernel"),
        (Outcome::Untried(why), Provided::Unknown) => lack(&format!("no sign of it, and not tried ({why})")),
    }
}

fn mend(feature: &Feature, provided: Provided, host: &Host) -> String {
    let Feature { module, option, .. } = feature;
    let distribution = host.distribution().unwrap_or_default();
    let at_hand = matches!(provided, Provided::Loaded | Provided::Loadable) && !module.is_empty();
    let debian_kernel = match std::env::consts::ARCH {
        "x86_64" => "linux-image-amd64",
        "aarch64" => "linux-image-arm64",
        _ => "linux-image",
    };
    match distribution.as_str() {
        _ if at_hand => format!("modprobe {module}"),
        "ubuntu" if provided == Provided::Unknown && !module.is_empty() => {
            format!("apt-get install linux-modules-extra-{}", host.kernel_release())
        }
        "ubuntu" => format!("apt-get install linux-image-generic, and boot it: it has {option}"),
        "debian" => format!("apt-get install {debian_kernel}, and boot it: it has {option}"),
        _ => format!("boot a kernel that has {option}"),
    }
}
