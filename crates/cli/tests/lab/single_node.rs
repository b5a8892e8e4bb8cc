//! The network for one machine: who is reached, who is seen, what policies make of it, and what its uplink may do.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use netferry_lab::programs::probe::{Outcome, Probe, Protocol};
use netferry_lab::{Families, Lab, Options, Parts};

use crate::bench::{PATIENCE, options, said, until, up};
use crate::kubectl::{apply, field, ready};

const NODE: &str = "node-1";
/// Where the pods and the server outside listen.
const PORT: u16 = 8080;
/// Where the process of the host listens.
const HOST_PORT: u16 = 9090;

/// One machine, with a pod that serves, one that asks, a process of the host that serves, and Services before them.
struct Box {
    /// A server in the world. It goes before the lab.
    _world: Guest,
    lab: Lab,
    web: Vec<IpAddr>,
    client: Vec<IpAddr>,
}

/// A program in the lab that ends when it is no longer needed. A lab waits for whoever is in it, and nobody but the
/// one who started them sees them off.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Who asks whom, and who must answer having seen whom; nobody may answer where there is none.
struct Case {
    what: &'static str,
    from: &'static str,
    to: SocketAddr,
    answers: Option<(&'static str, IpAddr)>,
}

fn single_node(more: Options) -> Options {
    Options { single_node: true, nodes: 1, families: Families::Dual, ..more }
}

impl Box {
    fn new(options: &Options) -> Box {
        let lab = up(options);
        let pod = |name: &str, labels: &str, more: &str| {
            format!(
                "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{{labels}}}}}, \
                 spec: {{nodeName: {NODE}, terminationGracePeriodSeconds: 0, {more}}}}}\n"
            )
        };
        let service = |name: &str, selector: &str, target: u16, node_port: u16, more: &str| {
            let port = |protocol: &str| {
                format!(
                    "{{name: {}, protocol: {protocol}, port: 80, targetPort: {target}, nodePort: {node_port}}}",
                    protocol.to_lowercase()
                )
            };
            format!(
                "---\n{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, spec: {{type: NodePort, \
                 ipFamilyPolicy: RequireDualStack, selector: {{{selector}}}, ports: [{}, {}]{more}}}}}\n",
                port("TCP"),
                port("UDP")
            )
        };
        let serves = |ports: &str| {
            format!("containers: [{{name: main, image: none, args: [--port, \"{ports}\", --name, NAME]}}]")
        };
        let host =
            format!("hostNetwork: true, {}", serves(&HOST_PORT.to_string()).replace("NAME", "process"));
        // The pod serves the process's port too, for a Service with both behind it.
        let both = format!("{PORT},{HOST_PORT}");
        apply(
            &lab,
            &[
                pod("web", "app: web, mixed: both", &serves(&both).replace("NAME", "web")),
                pod("client", "app: client", &serves(&both).replace("NAME", "client")),
                pod("process", "app: process, mixed: both", &host),
                service("web", "app: web", PORT, 30080, ""),
                service("local", "app: web", PORT, 30081, ", externalTrafficPolicy: Local"),
                service("process", "app: process", HOST_PORT, 30090, ""),
                service("mixed", "mixed: both", HOST_PORT, 30095, ""),
            ]
            .concat(),
        );
        let addresses = |name| ready(&lab, "default", name).iter().map(|ip| ip.parse().unwrap()).collect();
        let (web, client) = (addresses("web"), addresses("client"));
        ready(&lab, "default", "process");
        let mut world = Command::new("netferry");
        world.args(["lab-pod", "--port", &PORT.to_string(), "--name", "world"]);
        world.stdin(Stdio::null()).stdout(Stdio::null());
        let world = Guest(lab.spawn("outside", world).expect("a server in the world"));
        Box { _world: world, lab, web, client }
    }

    fn cluster_ip(&self, service: &str, v6: bool) -> SocketAddr {
        let path = format!(".spec.clusterIPs[{}]", u8::from(v6));
        let ip = field(&self.lab, "default", &format!("service/{service}"), &path);
        SocketAddr::new(ip.parse().expect("an address"), 80)
    }

    /// Every way there is in one family, with whom the answering side must see.
    fn cases(&self, v6: bool) -> Vec<Case> {
        let of = |all: Vec<ipnet::IpNet>| all[usize::from(v6)].addr();
        let (node, world) = (of(Families::Dual.node(0, 1)), of(Families::Dual.outside()));
        let (web, client) = (self.web[usize::from(v6)], self.client[usize::from(v6)]);
        let subnet: [&str; 4] = match v6 {
            false => ["10.244.0.1", "10.244.0.2", "169.254.169.5", "100.64.0.2"],
            true => ["fd00:10:244::1", "fd00:10:244::2", "fd69::5", "fd98::2"],
        };
        let [router, own, hairpin, join] = subnet.map(|ip| ip.parse().unwrap());
        let at = SocketAddr::new;
        let case = |what, from, to, by, seen| Case { what, from, to, answers: Some((by, seen)) };
        vec![
            case("1 pod to outside", "client", at(world, PORT), "world", node),
            case("2 host to ClusterIP of a pod", NODE, self.cluster_ip("web", v6), "web", own),
            case("3 host to NodePort of a pod", NODE, at(node, 30080), "web", own),
            case("4 host to ClusterIP of a process", NODE, self.cluster_ip("process", v6), "process", router),
            case("5 host to NodePort of a process", NODE, at(node, 30090), "process", router),
            case("6 outside to NodePort of a pod", "outside", at(node, 30080), "web", world),
            case("7 outside to NodePort of a process", "outside", at(node, 30090), "process", router),
            case("outside to local NodePort", "outside", at(node, 30081), "web", world),
            case("host to pod", NODE, at(web, PORT), "web", own),
            case("pod to pod", "client", at(web, PORT), "web", client),
            case("pod to ClusterIP of a pod", "client", self.cluster_ip("web", v6), "web", client),
            case(
                "pod to ClusterIP of a process",
                "client",
                self.cluster_ip("process", v6),
                "process",
                client,
            ),
            case("pod to NodePort of a pod", "client", at(node, 30080), "web", client),
            case("pod to NodePort of a process", "client", at(node, 30090), "process", client),
            case("pod to NodePort through the host", "client", at(own, 30080), "web", join),
            case("pod to itself through its Service", "web", self.cluster_ip("web", v6), "web", hairpin),
        ]
    }

    fn all_cases(&self) -> Vec<Case> {
        [false, true].into_iter().flat_map(|v6| self.cases(v6)).collect()
    }

    /// Asks until every case was as it must be, by both protocols. Then nobody who must not be answered is.
    fn is_so(&self, when: &str, cases: &[Case]) {
        let deadline = Instant::now() + PATIENCE;
        let mut open: Vec<&Case> = cases.iter().collect();
        while !open.is_empty() {
            let wrong = self.wrong(&open);
            let said: Vec<&str> = wrong.values().map(String::as_str).collect();
            assert!(wrong.is_empty() || Instant::now() < deadline, "{when}:\n{}", said.join("\n"));
            open = wrong.keys().map(|number| open[*number]).collect();
        }
        let silent: Vec<&Case> = cases.iter().filter(|case| case.answers.is_none()).collect();
        assert_eq!(self.wrong(&silent), BTreeMap::new(), "{when}, once more");
    }

    /// Which cases are not as they must be, and how. Everybody asks at once.
    fn wrong(&self, cases: &[&Case]) -> BTreeMap<usize, String> {
        let mut by_asker: BTreeMap<&str, Vec<Probe>> = BTreeMap::new();
        for (number, case) in cases.iter().enumerate() {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                // Nobody waits longer for an answer than it takes, however busy the machine is.
                let timeout_ms = if case.answers.is_some() { 8000 } else { 1500 };
                let probe = Probe { id: number.to_string(), timeout_ms, ..Probe::new(protocol, case.to) };
                by_asker.entry(case.from).or_default().push(probe);
            }
        }
        let asking: Vec<Child> = by_asker
            .iter()
            .map(|(from, probes)| {
                let mut command = Command::new("netferry");
                command.args(["lab-pod", "probe", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut child = self.lab.spawn(from, command).expect("a prober");
                let mut input = child.stdin.take().expect("a pipe");
                for probe in probes {
                    writeln!(input, "{}", serde_json::to_string(probe).expect("a probe")).expect("it reads");
                }
                child
            })
            .collect();
        let mut wrong = BTreeMap::new();
        for child in asking {
            let output = child.wait_with_output().expect("it ends");
            for line in String::from_utf8(output.stdout).expect("text").lines() {
                let outcome: Outcome = serde_json::from_str(line).expect("an outcome");
                let number: usize = outcome.id.parse().expect("a number");
                let case = cases[number];
                let heard = outcome.answer.as_ref().map(|heard| (heard.name.as_str(), heard.peer.ip()));
                if heard != case.answers {
                    let (what, to, by) = (case.what, outcome.to, outcome.protocol);
                    let says = format!("{what} ({to} {by:?}): {heard:?}, not {:?}", case.answers);
                    wrong.insert(number, says);
                }
            }
        }
        wrong
    }
}

/// The cases of these numbers or names, none of which may be answered.
fn silenced(mut cases: Vec<Case>, what: &[&str]) -> Vec<Case> {
    for case in &mut cases {
        if what.contains(&case.what) {
            case.answers = None;
        }
    }
    cases
}

#[test]
fn everybody_on_one_machine_is_reached_and_seen_as_promised_and_policies_hold_on_every_way() {
    let there = Box::new(&single_node(options(1)));
    let lab = &there.lab;
    // Whoever checks where packets come from finds nothing wrong with ours.
    said(lab, NODE, &["sh", "-c", "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 1 > $f; done"]);
    there.is_so("without policies", &there.all_cases());

    let deny = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: deny}, spec: \
                {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]INGRESS}}";
    apply(lab, &deny.replace("INGRESS", ""));
    let pods = [
        "pod to pod",
        "pod to ClusterIP of a pod",
        "pod to NodePort of a pod",
        "pod to NodePort through the host",
    ];
    let outside = ["6 outside to NodePort of a pod", "outside to local NodePort"];
    let nobody = silenced(silenced(there.all_cases(), &pods), &outside);
    there.is_so("with nobody but the node admitted", &nobody);
    // Of two backends one is forbidden: it must not be reached under the name of the node either.
    for v6 in [false, true] {
        let node = Families::Dual.node(0, 1)[usize::from(v6)].addr();
        let heard = said(
            lab,
            "outside",
            &[
                "sh",
                "-c",
                &format!(
                    "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do netferry lab-pod probe --timeout 700ms {} 2>&1; done; true",
                    SocketAddr::new(node, 30095)
                ),
            ],
        );
        assert!(heard.contains("process answered") && !heard.contains("web answered"), "{heard}");
    }

    let world: Vec<String> = Families::Dual
        .outside()
        .iter()
        .map(|net| format!("{{ipBlock: {{cidr: {}}}}}", net.trunc()))
        .collect();
    let allow = format!(", ingress: [{{from: [{}]}}]", world.join(", "));
    apply(lab, &deny.replace("INGRESS", &allow));
    there.is_so("with the world admitted too", &silenced(there.all_cases(), &pods));
}

#[test]
fn what_needs_no_uplink_works_without_one_and_what_needs_it_follows_it() {
    let there = Box::new(&single_node(Options { networks: 1, ..options(1) }));
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
    let change = format!(
        "ip link set eth0 up && ip addr add {v4}/16 dev eth0 && ip -6 addr add {v6}/64 dev eth0 nodad && \
         ip route add default via 172.30.0.1 && ip -6 route add default via fd00:172:30::1"
    );
    said(lab, NODE, &["sh", "-c", &change]);
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
