//! The network for one machine: who is reached, who is seen, what policies make of it, and what its uplink may do.

use std::net::IpAddr;
use std::process::{Command, Stdio};

use netferry_lab::{Families, Lab, Options, Parts};
use netferry_testkit::wait::until_blocking_for;

use crate::bench::{PATIENCE, options, said, until, up};
use crate::kubectl::field;
use crate::one_machine::{Case, Guest, Machine, NODE, policies_hold};

fn single_node(more: Options) -> Options {
    Options { single_node: true, nodes: 1, families: Families::Dual, ..more }
}

#[test]
fn everybody_on_one_machine_is_reached_and_seen_as_promised_and_policies_hold_on_every_way() {
    policies_hold(&Machine::new(&single_node(options(1))));
}

#[test]
fn what_needs_no_uplink_works_without_one_and_what_needs_it_follows_it() {
    let there = Machine::new(&single_node(Options { networks: 1, ..options(1) }));
    let lab = &there.lab;
    let needs = |case: &Case| case.from == "outside" || case.answers.is_some_and(|(by, _)| by == "world");
    let in_the_box = || {
        let mut cases = there.all_cases();
        // An address that is gone is nobody's, and nobody can be asked there.
        cases.retain(|case| !needs(case) && !case.what.contains("NodePort"));
        cases
    };
    there.is_so("before", &there.all_cases());
    let down = "ip addr flush dev eth0 scope global; ip link set eth0 down";
    let cases = in_the_box();
    said(lab, NODE, &["sh", "-c", down]);
    there.is_so("without an uplink", &cases);

    // Another one, with other addresses: what leaves carries them, and what comes in is taken there.
    let (v4, v6) = ("172.30.9.9", "fd00:172:30::909");
    let on = |script: &str| said(lab, NODE, &["sh", "-c", script]);
    on(&format!(
        "ip -6 addr flush dev eth1 scope global && ip link set eth0 up && ip addr add {v4}/16 dev eth0 && \
         ip route add default via 172.30.0.1"
    ));
    is_told(lab, Some("node-1: it has no IPv6 address"));
    there.is_so("without IPv6", &in_the_box());
    on(&format!("ip -6 addr add {v6}/64 dev eth0 nodad && ip -6 route add default via fd00:172:30::1"));
    let moved: Vec<Case> = [(false, v4), (true, v6)]
        .into_iter()
        .flat_map(|(six, new)| {
            let old = Families::Dual.node(0, 1)[usize::from(six)].addr();
            let new: IpAddr = new.parse().unwrap();
            let mut cases = there.cases(six);
            for case in &mut cases {
                if case.to.ip() == old {
                    case.to.set_ip(new);
                }
                if let Some((_, seen)) = &mut case.answers
                    && *seen == old
                {
                    *seen = new;
                }
            }
            cases
        })
        .collect();
    there.is_so("with another uplink", &moved);
    is_told(lab, None);

    // Its network comes to overlap the pods': that is said, and what worked goes on.
    on("ip addr add 10.244.200.7/16 dev eth0");
    is_told(lab, Some("node-1: its network 10.244.0.0/16 overlaps the cluster range 10.244.0.0/16"));
    there.is_so("with an uplink that overlaps", &moved);
    on("ip addr del 10.244.200.7/16 dev eth0");
    is_told(lab, None);
}

/// What the operator says of the cluster's state.
fn conditions(lab: &Lab) -> String {
    field(lab, "", "network.operator.openshift.io/cluster", ".status.conditions")
}

/// Waits until they say it, with the reason there is for it; or, of nothing, that they do not say it any more.
fn is_told(lab: &Lab, what: Option<&str>) {
    until_blocking_for(PATIENCE, &format!("the condition: {what:?}"), || {
        let said = conditions(lab);
        let told = said.contains("HostNetworkMisfit");
        let so = what.map_or(!told, |what| told && said.contains(what));
        if so { Ok(()) } else { Err(said) }
    });
}

/// Everything of the uplink that somebody could have touched, line by line.
fn uplink(lab: &Lab) -> Vec<String> {
    let ask = "ip -d -o link show dev eth0; ip -o addr show dev eth0; ip route show table all dev eth0; \
               ip -6 route show table all dev eth0; ip rule; ip -6 rule; tc qdisc show dev eth0; \
               ip -s -o link show type bridge; \
               find /proc/sys/net -path '*/eth0/*' | xargs grep -Hs .; true";
    let text = said(lab, NODE, &["sh", "-c", ask]);
    // One is rolled by the kernel, one cannot be read, and the anycast routes come and go with forwarding.
    let random = ["base_reachable_time", "stable_secret", "anycast "];
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !random.iter().any(|word| line.contains(word)))
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

#[test]
fn the_uplink_of_one_machine_is_what_it_was_before_the_agent_came() {
    let lab = up(&single_node(Options { parts: Parts { agent: false, ..Parts::ALL }, ..options(1) }));
    let before = uplink(&lab);
    let mut agent = Command::new("netferry");
    agent.args(["--kubeconfig", "/etc/netferry/kubeconfig", "agent", "--node", NODE]);
    agent.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _agent = Guest(lab.spawn(NODE, agent).expect("an agent"));
    until("the readiness of the agent", || {
        said(&lab, NODE, &["ls", "/etc/cni/net.d"]).contains("10-netferry.conflist")
    });
    let after = uplink(&lab);
    let changed: Vec<&String> = after.iter().filter(|line| !before.contains(line)).collect();
    let forwards = |family: &str| format!("/proc/sys/net/{family}/conf/eth0/forwarding:1");
    assert_eq!(changed, [&forwards("ipv4"), &forwards("ipv6")], "only what forwards on every link");
    assert_eq!(before.len(), after.len());
    assert_eq!(said(&lab, NODE, &["ovs-vsctl", "list-br"]).trim(), "br-int");
}
