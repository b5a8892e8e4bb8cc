//! One machine with pods, a process of its own and Services before them; who must be reached from where, and seen as whom.

#![allow(dead_code, reason = "the soak suite uses it too, and each its part")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use netferry_lab::programs::probe::{Outcome, Probe, Protocol};
use netferry_lab::{Families, Lab, Options};

use crate::bench::{PATIENCE, said, up};
use crate::kubectl::{apply, field, ready};

pub(crate) const NODE: &str = "node-1";
/// Where the pods and the server outside listen.
const PORT: u16 = 8080;
/// Where the process of the host listens.
const HOST_PORT: u16 = 9090;

/// One machine, with a pod that serves, one that asks, a process of the host that serves, and Services before them.
pub(crate) struct Machine {
    /// A server in the world. It goes before the lab.
    _world: Guest,
    pub(crate) lab: Lab,
    families: Families,
    web: Vec<IpAddr>,
    client: Vec<IpAddr>,
}

/// A program in the lab that ends when it is no longer needed. A lab waits for whoever is in it, and nobody but the
/// one who started them sees them off.
pub(crate) struct Guest(pub(crate) Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Who asks whom, and who must answer having seen whom; nobody may answer where there is none.
pub(crate) struct Case {
    pub(crate) what: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: SocketAddr,
    pub(crate) answers: Option<(&'static str, IpAddr)>,
}

impl Machine {
    pub(crate) fn new(options: &Options) -> Machine {
        let families = options.families;
        let policy = if families == Families::Dual { "RequireDualStack" } else { "SingleStack" };
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
                 ipFamilyPolicy: {policy}, selector: {{{selector}}}, ports: [{}, {}]{more}}}}}\n",
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
                service("process", "app: process", HOST_PORT, 30082, ""),
                service("mixed", "mixed: both", HOST_PORT, 30095, ""),
            ]
            .concat(),
        );
        let addresses =
            |name| ready(&lab, "default", name).iter().map(|ip| ip.parse().expect("an address")).collect();
        let (web, client) = (addresses("web"), addresses("client"));
        ready(&lab, "default", "process");
        let mut world = Command::new("netferry");
        world.args(["lab-pod", "--port", &PORT.to_string(), "--name", "world"]);
        world.stdin(Stdio::null()).stdout(Stdio::null());
        let world = Guest(lab.spawn("outside", world).expect("a server in the world"));
        Machine { _world: world, lab, families, web, client }
    }

    /// Which of its addresses is of a family.
    fn at(&self, v6: bool) -> usize {
        usize::from(v6 && self.families == Families::Dual)
    }

    fn six(&self) -> Vec<bool> {
        match self.families {
            Families::V4 => vec![false],
            Families::V6 => vec![true],
            Families::Dual => vec![false, true],
        }
    }

    fn cluster_ip(&self, service: &str, v6: bool) -> SocketAddr {
        let path = format!(".spec.clusterIPs[{}]", self.at(v6));
        let ip = field(&self.lab, "default", &format!("service/{service}"), &path);
        SocketAddr::new(ip.parse().expect("an address"), 80)
    }

    /// Every way there is in one family, with whom the answering side must see.
    pub(crate) fn cases(&self, v6: bool) -> Vec<Case> {
        let at = self.at(v6);
        let (node, world) = (self.families.node(0, 1)[at].addr(), self.families.outside()[at].addr());
        let (web, client) = (self.web[at], self.client[at]);
        let subnet: [&str; 4] = match v6 {
            false => ["10.244.0.1", "10.244.0.2", "169.254.169.5", "100.64.0.2"],
            true => ["fd00:10:244::1", "fd00:10:244::2", "fd69::5", "fd98::2"],
        };
        let [router, own, hairpin, join] = subnet.map(|ip| ip.parse().expect("an address"));
        let at = SocketAddr::new;
        let case = |what, from, to, by, seen| Case { what, from, to, answers: Some((by, seen)) };
        vec![
            case("1 pod to outside", "client", at(world, PORT), "world", node),
            case("2 host to ClusterIP of a pod", NODE, self.cluster_ip("web", v6), "web", own),
            case("3 host to NodePort of a pod", NODE, at(node, 30080), "web", own),
            case("4 host to ClusterIP of a process", NODE, self.cluster_ip("process", v6), "process", router),
            case("5 host to NodePort of a process", NODE, at(node, 30082), "process", router),
            case("6 outside to NodePort of a pod", "outside", at(node, 30080), "web", world),
            case("7 outside to NodePort of a process", "outside", at(node, 30082), "process", router),
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
            case("pod to NodePort of a process", "client", at(node, 30082), "process", client),
            case("pod to NodePort through the host", "client", at(own, 30080), "web", join),
            case("pod to itself through its Service", "web", self.cluster_ip("web", v6), "web", hairpin),
        ]
    }

    pub(crate) fn all_cases(&self) -> Vec<Case> {
        self.six().into_iter().flat_map(|v6| self.cases(v6)).collect()
    }

    /// Asks until every case was as it must be, by both protocols. Then nobody who must not be answered is.
    pub(crate) fn is_so(&self, when: &str, cases: &[Case]) {
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

/// Everybody is reached and seen as promised, and policies hold on every way.
pub(crate) fn policies_hold(there: &Machine) {
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
    for node in there.families.node(0, 1) {
        let node = node.addr();
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

    let world: Vec<String> = there
        .families
        .outside()
        .iter()
        .map(|net| format!("{{ipBlock: {{cidr: {}}}}}", net.trunc()))
        .collect();
    let allow = format!(", ingress: [{{from: [{}]}}]", world.join(", "));
    apply(lab, &deny.replace("INGRESS", &allow));
    there.is_so("with the world admitted too", &silenced(there.all_cases(), &pods));
}
