//! How long a change of the API takes to change what becomes of packets.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use netferry_testkit::page::{at, shown};
use serde_json::{Value, json};

use crate::ground::{Ground, NODE, PATIENCE};

pub(crate) const TITLE: &str = "From a change to the datapath";

const NAMESPACE: &str = "default";
const PORT: u16 = 7000;
/// How often each change is made.
const ROUNDS: usize = 60;
/// How long an answer may take before there is none.
const ANSWER_WITHIN: Duration = Duration::from_millis(25);
/// Between two packets.
const BETWEEN: Duration = Duration::from_millis(1);
/// Between two changes, so that one does not wait for what the other left behind.
const REST: Duration = Duration::from_millis(150);
/// So many packets in a row without an answer are no accident.
const SILENT: usize = 3;

/// Who is to answer.
type Expected = Option<u8>;

pub(crate) fn measure(ground: &Ground) -> anyhow::Result<String> {
    let pods = [("client", "node-1"), ("server-a", NODE), ("server-b", NODE)];
    let [_, a, b] = pods.map(|(name, node)| pod(ground, name, node));
    let (a, b) = (a?, b?);
    serve(ground, "server-a", b'a')?;
    serve(ground, "server-b", b'b')?;
    let prober = Prober::start(ground)?;
    let service = service(ground, a)?;
    prober.until(SocketAddr::new(service, PORT), Some(b'a'))?;

    let slices: Api<EndpointSlice> = Api::namespaced(ground.client.clone(), NAMESPACE);
    let policies: Api<NetworkPolicy> = Api::namespaced(ground.client.clone(), NAMESPACE);
    let patches = PatchParams { field_manager: Some("bench".to_owned()), ..PatchParams::default() };
    let mut rows: [(&str, Vec<Duration>); 3] = [
        ("a Service's endpoint: the first packet that goes to the new one", Vec::new()),
        ("a policy that denies, made: the first packet that does not arrive", Vec::new()),
        ("the same policy removed: the first packet that arrives", Vec::new()),
    ];
    eprintln!("changing a Service and a policy, {ROUNDS} times");
    for round in 0..ROUNDS {
        let (to, name) = if round % 2 == 0 { (b, b'b') } else { (a, b'a') };
        let patch = json!({"endpoints": endpoints(to)});
        rows[0].1.push(prober.timed(ground, SocketAddr::new(service, PORT), Some(name), async {
            slices.patch("bench", &patches, &Patch::Merge(&patch)).await.map(drop)
        })?);
        let policy: NetworkPolicy = serde_json::from_value(json!({
            "metadata": {"name": "bench"},
            "spec": {"podSelector": {"matchLabels": {"bench": "server-a"}}, "policyTypes": ["Ingress"]},
        }))?;
        let direct = SocketAddr::new(a, PORT);
        rows[1].1.push(prober.timed(ground, direct, None, async {
            policies.create(&PostParams::default(), &policy).await.map(drop)
        })?);
        rows[2].1.push(prober.timed(ground, direct, Some(b'a'), async {
            policies.delete("bench", &DeleteParams::default()).await.map(drop)
        })?);
    }
    Ok(report(&rows))
}

fn report(rows: &[(&str, Vec<Duration>)]) -> String {
    let mut out = String::from("| | half within | 99 of 100 within |\n| --- | ---: | ---: |\n");
    for (what, took) in rows {
        let _ = writeln!(out, "| {what} | {} | {} |", shown(at(took, 0.5)), shown(at(took, 0.99)));
    }
    let _ = write!(
        out,
        "\n{ROUNDS} changes of each kind, from the instant the request to the API is sent until the first packet that meets\n\
         the new state is. Packets come from a pod on another node, one a millisecond, each of a new connection.\n"
    );
    out
}

fn endpoints(address: IpAddr) -> Value {
    json!([{"addresses": [address], "conditions": {"ready": true}}])
}

/// A pod that runs, and its address.
fn pod(ground: &Ground, name: &str, node: &str) -> anyhow::Result<IpAddr> {
    let api: Api<Pod> = Api::namespaced(ground.client.clone(), NAMESPACE);
    let pod = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"bench": name}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    }))?;
    ground.runtime.block_on(async {
        api.create(&PostParams::default(), &pod).await?;
        let began = Instant::now();
        loop {
            let status = api.get(name).await?.status.unwrap_or_default();
            if let Some(address) = status.pod_ip.filter(|_| status.phase.as_deref() == Some("Running")) {
                return Ok(address.parse()?);
            }
            if began.elapsed() > PATIENCE {
                bail!("pod {name} does not run: {:?} {:?}", status.phase, status.message);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
}

fn service(ground: &Ground, to: IpAddr) -> anyhow::Result<IpAddr> {
    let service = serde_json::from_value(json!({
        "metadata": {"name": "bench"},
        "spec": {"ports": [{"port": PORT, "protocol": "UDP"}]},
    }))?;
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"name": "bench", "labels": {"kubernetes.io/service-name": "bench"}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": PORT, "protocol": "UDP"}],
        "endpoints": endpoints(to),
    }))?;
    ground.runtime.block_on(async {
        let services: Api<Service> = Api::namespaced(ground.client.clone(), NAMESPACE);
        let made = services.create(&PostParams::default(), &service).await?;
        let slices: Api<EndpointSlice> = Api::namespaced(ground.client.clone(), NAMESPACE);
        slices.create(&PostParams::default(), &slice).await?;
        let address = made.spec.and_then(|spec| spec.cluster_ip).context("a Service without an address")?;
        Ok(address.parse()?)
    })
}

/// Answers with `name` in a pod, until this process ends.
fn serve(ground: &Ground, pod: &str, name: u8) -> anyhow::Result<()> {
    let way = ground.lab.way(&format!("{NAMESPACE}/{pod}"))?;
    let socket = way.run(|| UdpSocket::bind(("0.0.0.0", PORT)))??;
    std::thread::spawn(move || {
        let mut question = [0; 64];
        while let Ok((_, from)) = socket.recv_from(&mut question) {
            // An answer that cannot be sent is one that does not arrive, which is what is measured.
            let _ = socket.send_to(&[name], from);
        }
    });
    Ok(())
}

/// A thread in a pod that sends packets until what is expected happens.
struct Prober {
    asks: Sender<(SocketAddr, Expected)>,
    found: Receiver<std::io::Result<Option<Instant>>>,
}

impl Prober {
    fn start(ground: &Ground) -> anyhow::Result<Prober> {
        let way = ground.lab.way(&format!("{NAMESPACE}/client"))?;
        let (asks, asked) = channel::<(SocketAddr, Expected)>();
        let (finds, found) = channel();
        std::thread::spawn(move || {
            way.run(move || {
                while let Ok((to, expected)) = asked.recv() {
                    if finds.send(probe(to, expected)).is_err() {
                        return;
                    }
                }
            })
        });
        Ok(Prober { asks, found })
    }

    fn until(&self, to: SocketAddr, expected: Expected) -> anyhow::Result<Instant> {
        self.asks.send((to, expected)).context("the prober ended")?;
        let found = self.found.recv().context("the prober ended")??;
        found.with_context(|| format!("{to}: not as expected ({expected:?}) after {PATIENCE:?}"))
    }

    /// From before a change is asked for to the first packet that meets it.
    fn timed(
        &self,
        ground: &Ground,
        to: SocketAddr,
        expected: Expected,
        change: impl Future<Output = kube::Result<()>>,
    ) -> anyhow::Result<Duration> {
        std::thread::sleep(REST);
        self.asks.send((to, expected)).context("the prober ended")?;
        std::thread::sleep(REST);
        let began = Instant::now();
        ground.runtime.block_on(change)?;
        let found = self.found.recv().context("the prober ended")??;
        let found =
            found.with_context(|| format!("{to}: not as expected ({expected:?}) after {PATIENCE:?}"))?;
        Ok(found.saturating_duration_since(began))
    }
}

/// When the first packet was sent that met what is expected.
fn probe(to: SocketAddr, expected: Expected) -> std::io::Result<Option<Instant>> {
    let began = Instant::now();
    let mut silent: Vec<Instant> = Vec::new();
    while began.elapsed() < PATIENCE {
        // A new port each time: a new connection.
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        socket.connect(to)?;
        socket.set_read_timeout(Some(ANSWER_WITHIN))?;
        let sent = Instant::now();
        let mut answer = [0; 8];
        let heard = socket.send(b"?").and_then(|_| socket.recv(&mut answer)).ok().map(|_| answer[0]);
        match (heard, expected) {
            (None, None) => {
                silent.push(sent);
                if silent.len() == SILENT {
                    return Ok(silent.first().copied());
                }
            }
            (Some(heard), Some(expected)) if heard == expected => return Ok(Some(sent)),
            (_, _) => silent.clear(),
        }
        std::thread::sleep(BETWEEN);
    }
    Ok(None)
}
