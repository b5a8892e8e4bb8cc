use netferry_core::mtu::boot::Booted;
use netferry_kernel::Objects as _;
use netferry_kernel::link::Make;
use netferry_kernel::route::{Hop, Route};
use netferry_testkit::wait;
use tokio::task::JoinHandle;

use super::super::tests::{Host, size};
use super::*;
use crate::fixtures::name;

/// A host whose agent can be asked for trials, killed and started again.
struct Agent {
    host: Host,
    ask: watch::Sender<Option<Node>>,
    tell: watch::Sender<Option<TrialObserved>>,
    uplink: &'static str,
    task: JoinHandle<()>,
}

const HELD: [&str; 6] = ["1500", "1500", "1500", "1300", "1500", "1500"];
const FREE: [&str; 6] = ["-", "-", "-", "1300", "-", "-"];

impl Agent {
    fn new(booted: Option<Envelope>) -> Agent {
        let host = Host::new();
        if let Some(host_) = booted {
            let own = host_.carries();
            let booted = Booted { epoch: 0, network: None, host: host_, own, original: own };
            Running::open(host.run.path()).set(booted).unwrap();
        }
        let task = tokio::spawn(async {});
        let mut agent = Agent {
            host,
            ask: watch::Sender::new(None),
            tell: watch::Sender::new(None),
            uplink: "eth0",
            task,
        };
        agent.start();
        agent
    }

    fn settled() -> Agent {
        Agent::new(Some(Envelope::settled(size(1500))))
    }

    /// Kills it, whatever it is doing, and starts another.
    fn start(&mut self) {
        self.task.abort();
        let parts = Parts {
            kernel: Arc::clone(&self.host.kernel),
            uplinks: vec![name(self.uplink)],
            bridge: None,
            running: Running::open(self.host.run.path()),
            node: self.ask.subscribe(),
            run: self.host.run.path().to_owned(),
        };
        self.task = tokio::spawn(keep_trials(parts, self.tell.clone()));
    }

    fn ask(&self, annotation: Option<&str>) {
        let mut node = Node::default();
        node.annotations_mut().extend(annotation.map(|value| (MtuTrial::KEY.to_owned(), value.to_owned())));
        self.ask.send_replace(Some(node));
    }

    fn ask_for(&self, host: u32, time: Duration) {
        let until = Timestamp::now() + time;
        self.ask(Some(&MtuTrial { host, until }.to_string()));
    }

    /// What it says, what the link carries and what routes let out.
    async fn until(&self, told: Option<TrialObserved>, mtu: u32, routes: [&str; 6]) {
        let wanted = (told, mtu, routes.map(str::to_owned));
        wait::until(&format!("{wanted:?}"), async || {
            let has = (self.tell.borrow().clone(), self.host.mtu(), self.host.routes());
            if has == wanted { Ok(()) } else { Err(format!("{has:?}")) }
        })
        .await;
    }

    fn leftovers(&self) -> bool {
        self.host.run.path().join(DIRECTORY).exists()
    }
}

const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn links_carry_more_for_as_long_as_it_is_asked_and_routes_let_out_no_more() {
    let agent = Agent::settled();
    agent.ask_for(9000, LONG);
    agent.until(Some(TrialObserved::Before(1500)), 9000, HELD).await;
    assert_eq!(agent.host.advertised(), 1500);
    // A route that appears meanwhile is held as well, and had nothing of its own.
    let via = Hop::via(agent.host.index, "172.30.255.254".parse().unwrap());
    agent.host.add(Route::new("10.7.0.0/16".parse().unwrap(), vec![via]));
    wait::until("the new route is held", async || {
        let has = agent.host.route("10.7.0.0/16");
        if has == "1500" { Ok(()) } else { Err(has) }
    })
    .await;
    agent.ask(None);
    agent.until(None, 1500, FREE).await;
    assert_eq!((agent.host.route("10.7.0.0/16").as_str(), agent.host.advertised()), ("-", 1500));
    wait::until(
        "nothing is left of it",
        async || if agent.leftovers() { Err(String::new()) } else { Ok(()) },
    )
    .await;
}

#[tokio::test]
async fn a_trial_ends_when_its_time_is_over_without_anybodys_help() {
    let agent = Agent::settled();
    agent.ask_for(9000, Duration::from_millis(500));
    agent.until(Some(TrialObserved::Before(1500)), 9000, HELD).await;
    agent.until(None, 1500, FREE).await;
    // Nor does it begin again with what is still written there.
    agent.ask(Some(&MtuTrial { host: 9000, until: Timestamp::now() }.to_string()));
    agent.ask_for(9001, LONG);
    agent.until(Some(TrialObserved::Before(1500)), 9001, HELD).await;
}

#[tokio::test]
async fn an_agent_ends_what_its_predecessor_began_though_it_hears_of_nobody() {
    let mut agent = Agent::settled();
    agent.ask_for(9000, LONG);
    agent.until(Some(TrialObserved::Before(1500)), 9000, HELD).await;
    agent.ask = watch::Sender::new(None);
    agent.tell = watch::Sender::new(begun(agent.host.run.path()));
    assert_eq!(*agent.tell.borrow(), Some(TrialObserved::Before(1500)));
    agent.start();
    agent.until(None, 1500, FREE).await;
    assert!(!agent.leftovers());
}

#[tokio::test]
async fn what_stands_below_an_uplink_is_as_it_was_too() {
    let mut agent = Agent::settled();
    let bridge = Make::Bridge(netferry_kernel::link::Bridge::default());
    let made = super::super::Want::make(name("br0"), bridge).up();
    let mark = netferry_kernel::Mark { link_alias: "bridge".into(), ..Default::default() };
    let port = super::super::Want::adjust(name("eth0")).port_of(name("br0"));
    agent.host.kernel.links().converge(&[made, port], &mark).unwrap();
    agent.uplink = "br0";
    agent.start();
    agent.ask_for(9000, LONG);
    let sizes = |agent: &Agent| {
        let of = |link: &str| agent.host.kernel.links().named(&name(link)).unwrap().unwrap().mtu;
        (of("br0"), of("eth0"))
    };
    for (asked, wanted) in [(true, (9000, 9000)), (false, (1500, 1500))] {
        if !asked {
            agent.ask(None);
        }
        wait::until(&format!("bridge and port carry {wanted:?}"), async || {
            let has = sizes(&agent);
            if has == wanted { Ok(()) } else { Err(format!("{has:?}")) }
        })
        .await;
    }
}

#[tokio::test]
async fn what_cannot_be_tried_is_refused_and_changes_nothing() {
    let refused = |why: &str| Some(TrialObserved::Refused(why.to_owned()));
    let agent = Agent::settled();
    agent.ask_for(70_000, LONG);
    agent.until(refused("MTU 70000 is not between 576 and 65536"), 1500, FREE).await;
    agent.ask_for(65_536, LONG);
    let said = "link eth0 takes an MTU of at most 65535, and 65536 is asked";
    agent.until(refused(said), 1500, FREE).await;
    agent.ask_for(1400, LONG);
    agent.until(refused("links carry 1500, and 1400 is not more"), 1500, FREE).await;
    agent.ask(Some("9000"));
    wait::until("an ask that is none is refused", async || match agent.tell.borrow().clone() {
        Some(TrialObserved::Refused(why))
            if why.starts_with("annotation netferry.dev/mtu-trial is not the JSON") =>
        {
            Ok(())
        }
        other => Err(format!("{other:?}")),
    })
    .await;
    agent.ask(None);
    agent.until(None, 1500, FREE).await;
    set_link(&agent.host.kernel, "eth0", size(1480)).unwrap();
    agent.ask_for(9000, LONG);
    agent.until(refused("link eth0 carries 1480, and not 1500 as it should"), 1480, FREE).await;
    assert!(!agent.leftovers());

    let fresh = Agent::new(None);
    fresh.ask_for(9000, LONG);
    fresh.until(refused("host-init has not run since this node came up"), 1500, FREE).await;
}
