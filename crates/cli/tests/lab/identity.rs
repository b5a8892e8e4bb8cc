//! A tenant edits its pods to be taken for others, with real packets.

use std::process::Output;
use std::thread;

use netferry_lab::Lab;
use netferry_lab::kills::Part;

use crate::bench::{PATIENCE, options, ran, ready as lab_ready, said, until, up};
use crate::kubectl::{apply, kubectl, namespace, pod, ready};

/// At least as many frames are sent in every attack.
const FRAMES: u64 = 1500;
/// Enough for an agent to be killed and to come back meanwhile.
const LONG: u64 = 2500;

const THIEF: &str = "tenant/thief";

/// The pods of the attack: the tenant's own, and two that let in `app=trusted` alone.
struct Scene {
    lab: Lab,
    thief: String,
    /// On the thief's node, and on another.
    victims: [(&'static str, String); 2],
}

impl Scene {
    fn new() -> Scene {
        let lab = up(&options(2));
        namespace(&lab, "tenant");
        namespace(&lab, "shop");
        pod(&lab, "tenant", "thief", "node-1", "");
        pod(&lab, "shop", "near", "node-1", "");
        pod(&lab, "shop", "far", "node-2", "");
        let address = |namespace, name| ready(&lab, namespace, name).swap_remove(0);
        let (thief, near, far) =
            (address("tenant", "thief"), address("shop", "near"), address("shop", "far"));
        let scene = Scene { lab, thief, victims: [("shop/near", near), ("shop/far", far)] };
        scene.count();
        scene
    }

    /// Has every pod of the scene count the datagrams that reach it, and the thief those it sends.
    fn count(&self) {
        for (at, hook) in [(THIEF, "output"), ("shop/near", "input"), ("shop/far", "input")] {
            let rules = format!(
                "add table inet seen; add chain inet seen datagrams {{ type filter hook {hook} priority 0; }}; \
                 add rule inet seen datagrams udp dport 9 counter"
            );
            said(&self.lab, at, &["nft", &rules]);
        }
    }

    fn counted(&self, at: &str) -> u64 {
        let shown = said(&self.lab, at, &["nft", "list", "chain", "inet", "seen", "datagrams"]);
        let packets = shown.split_once("counter packets ").and_then(|(_, rest)| rest.split(' ').next());
        packets.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{at}: {shown}"))
    }

    /// Sends datagrams to a victim, a few hundred in a second.
    fn send(&self, to: &str, count: u64) -> Output {
        let script =
            format!("for i in $(seq {count}); do echo x >/dev/udp/{to}/9; sleep 0.001; done 2>/dev/null");
        ran(&self.lab, THIEF, &["bash", "-c", &script])
    }

    /// How many frames the thief sends meanwhile, and how many reach the victim.
    fn passing(&self, victim: &(&str, String), work: impl FnOnce()) -> (u64, u64) {
        let before = (self.counted(THIEF), self.counted(victim.0));
        work();
        (self.counted(THIEF) - before.0, self.counted(victim.0) - before.1)
    }

    /// Frames of the thief, whatever it is taken for, do not reach a victim.
    fn nothing_passes(&self, what: &str, victim: &(&str, String), work: impl FnOnce()) {
        let (sent, passed) = self.passing(victim, work);
        assert!(sent >= FRAMES, "{what}: only {sent} frames were sent");
        assert_eq!(passed, 0, "{what}: {passed} of {sent} frames reached {}", victim.0);
    }

    /// The thief sends as `stolen` from now on, as its root may.
    fn pretend(&self, stolen: &str, to: &str) {
        let mac = |address: &str| {
            let bytes: Vec<u8> = address.split('.').map(|byte| byte.parse().expect("IPv4")).collect();
            format!("0a:58:{:02x}:{:02x}:{:02x}:{:02x}", bytes[0], bytes[1], bytes[2], bytes[3])
        };
        let script = format!(
            "ip link set eth0 address {}; ip address replace {stolen}/32 dev eth0; \
             ip neighbour replace {to} lladdr {} dev eth0 nud permanent; ip route replace {to}/32 dev eth0 src {stolen}",
            mac(stolen),
            mac(to)
        );
        said(&self.lab, THIEF, &["sh", "-ec", &script]);
    }

    /// The agent of the thief's node starts anew, and finds that the thief's annotation claims `stolen`.
    fn claim_across_a_restart(&self, stolen: &str) {
        // A running agent would write it again before its successor sees it.
        let agent = said(&self.lab, "node-1", &["sh", "-c", r#"pgrep -f "[n]etferry .*agent --node""#]);
        said(&self.lab, "node-1", &["kill", "-STOP", agent.lines().next().expect("an agent")]);
        claim(&self.lab, "tenant", "thief", stolen);
        let killed =
            Part::Agent.kill(&self.lab, "node-1").unwrap_or_else(|error| panic!("{}", error.chain()));
        killed.replaced(&self.lab, PATIENCE).unwrap_or_else(|error| panic!("{}", error.chain()));
        lab_ready(&self.lab);
    }
}

fn networks(address: &str) -> String {
    format!(r#"{{"default":{{"ip_addresses":["{address}/24"],"mac_address":"0a:58:00:00:00:01"}}}}"#)
}

fn claim(lab: &Lab, namespace: &str, name: &str, address: &str) {
    let annotation = format!("k8s.ovn.org/pod-networks={}", networks(address));
    kubectl(lab, &["annotate", "--overwrite", "-n", namespace, "pod", name, &annotation]);
}

#[test]
fn a_tenant_that_claims_anothers_address_passes_no_policy() {
    let scene = Scene::new();
    let lab = &scene.lab;
    for victim in &scene.victims {
        let (sent, passed) = scene.passing(victim, || drop(scene.send(&victim.1, 20)));
        assert!(passed > 0, "without a policy {passed} of {sent} frames reach {}", victim.0);
    }
    apply(
        lab,
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: trusted, namespace: shop}, \
         spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {}, \
         podSelector: {matchLabels: {app: trusted}}}]}]}}",
    );
    for victim in &scene.victims {
        until("the policy", || scene.passing(victim, || drop(scene.send(&victim.1, 5))).1 == 0);
    }

    // A pod that is let in, of which the API says that it has the thief's address. It is never attached: another has that.
    apply(
        lab,
        &format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: ghost, namespace: tenant, labels: {{app: trusted}}, \
             annotations: {{k8s.ovn.org/pod-networks: '{}'}}}}, spec: {{nodeName: node-1, \
             containers: [{{name: main, image: none}}]}}}}",
            networks(&scene.thief)
        ),
    );
    for victim in &scene.victims {
        let what = "a pending pod with the thief's address";
        scene.nothing_passes(what, victim, || drop(scene.send(&victim.1, FRAMES)));
    }
    kubectl(lab, &["delete", "pod", "-n", "tenant", "ghost", "--grace-period=0", "--force"]);

    // A pod that is let in, and the host, which every policy lets in.
    pod(lab, "tenant", "trusted", "node-1", "");
    let trusted = ready(lab, "tenant", "trusted").swap_remove(0);
    let (subnet, _) = scene.thief.rsplit_once('.').expect("IPv4");
    for stolen in [format!("{subnet}.2"), trusted] {
        let near = &scene.victims[0];
        scene.pretend(&stolen, &near.1);
        scene.nothing_passes(&format!("the thief as {stolen}"), near, || {
            thread::scope(|both| {
                let sending = both.spawn(|| scene.send(&near.1, LONG));
                scene.claim_across_a_restart(&stolen);
                sending.join().expect("they are sent");
            });
        });
    }
}
