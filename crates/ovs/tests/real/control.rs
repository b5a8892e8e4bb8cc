//! Control sockets of real daemons.

use crate::daemons::{Daemon, SOUTHBOUND, Server, VSWITCH, in_time, need};
use netferry_ovs::Spec;
use netferry_ovs::tables::southbound::Chassis;
use netferry_ovs::tables::vswitch::OpenVSwitch;
use netferry_ovs::unixctl::{Control, ControlError};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Between two looks at what does not tell by itself.
const LOOK: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_daemon_answers_commands_and_refuses_unknown_ones_by_name() {
    let server = Server::start(VSWITCH);
    server.client(Spec::new("Open_vSwitch").table::<OpenVSwitch>()).await;
    let control = Control::at(server.path("ctl"));
    assert!(control.version().await.unwrap().starts_with("ovsdb-server (Open vSwitch) "));
    assert_eq!(control.command("ovsdb-server/list-dbs", &[]).await.unwrap(), "Open_vSwitch\n_Server\n");
    assert!(control.counter("unixctl_received").await.unwrap() >= 2);
    assert!(!control.coverage().await.unwrap().contains_key("no_such_point"));
    let refused = control.command("make/coffee", &[]).await.unwrap_err();
    let ControlError::Refused { source, .. } = &refused else { panic!("{refused:?}") };
    assert!(source.to_string().contains("\"make/coffee\" is not a valid command"), "{source}");
}

#[tokio::test]
async fn a_daemon_that_does_not_answer_is_an_error_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("ovn-controller.1.ctl");
    let _mute = tokio::net::UnixListener::bind(&socket).unwrap();
    let control = Control::find(dir.path(), "ovn-controller").await.unwrap();
    assert_eq!(control.socket(), socket);
    let limit = Duration::from_millis(50);
    let late = in_time("giving up", control.within(limit).command("version", &[])).await.unwrap_err();
    assert!(matches!(late, ControlError::Io { source, .. } if source.kind() == std::io::ErrorKind::TimedOut));
    let none = Control::find(dir.path(), "ovs-vswitchd").await.unwrap_err();
    assert_eq!(none.to_string(), format!("no control socket of ovs-vswitchd in {}", dir.path().display()));
}

#[tokio::test]
async fn the_switch_is_told_a_tunnel_neighbour_before_it_asks() {
    need("/usr/sbin/ovs-vswitchd");
    let server = Server::start(VSWITCH);
    server.client(Spec::new("Open_vSwitch").table::<OpenVSwitch>()).await;
    let arguments = [
        server.remote().to_string(),
        format!("--unixctl={}", server.path("vswitchd.ctl").display()),
        "--no-chdir".to_owned(),
        "--disable-system".to_owned(),
    ];
    let _switch = Daemon::start("ovs-vswitchd", &arguments);
    let neighbour = "192.0.2.7".parse().unwrap();
    // The socket is there before all of its commands are.
    let control = in_time("starting", async {
        loop {
            if let Ok(control) = Control::find(server.dir.path(), "vswitchd").await
                && control.set_tunnel_neighbour("br-ex", neighbour, "02:00:00:00:00:07").await.is_ok()
            {
                return control;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let shown = control.command("tnl/neigh/show", &[]).await.unwrap();
    let line = shown.lines().find(|l| l.contains("192.0.2.7")).expect("the neighbour is there");
    assert!(line.contains("02:00:00:00:00:07") && line.contains("br-ex"), "{line}");
    control.exit(&["--cleanup"]).await.unwrap();
}

#[tokio::test]
async fn a_controller_that_ends_for_a_restart_leaves_its_flows_and_its_chassis() {
    need("/usr/bin/ovn-controller");
    let (switch, south) = (Server::start(VSWITCH), Server::start(SOUTHBOUND));
    switch.client(Spec::new("Open_vSwitch").table::<OpenVSwitch>()).await;
    let sb = south.client(Spec::new("OVN_Southbound").table::<Chassis>()).await;
    let run = |program: &str, arguments: &[&str]| {
        let done = Command::new(program).args(["--timeout=30"]).args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{program} {arguments:?}: {errors}");
        String::from_utf8(done.stdout).unwrap()
    };
    run("ovn-sbctl", &[&format!("--db={}", south.remote()), "init"]);
    // Its bridges are made of nothing but memory: none of them is a link of this machine.
    let remote = format!("external-ids:ovn-remote=\"{}\"", south.remote());
    let database = format!("--db={}", switch.remote());
    let settings = ["external-ids:system-id=c1", "external-ids:ovn-encap-type=geneve", &remote];
    let bridge = ["add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=dummy"];
    run("ovs-vsctl", &[&[&database, "--no-wait"], &bridge[..], &["fail-mode=secure"]].concat());
    let encap = ["external-ids:ovn-encap-ip=127.0.0.1"];
    run("ovs-vsctl", &[&[&database, "--no-wait", "set", "open", "."], &settings[..], &encap].concat());
    let start = |program: &str, more: &[&str]| {
        let mut arguments: Vec<String> = ["OVS_RUNDIR", "OVN_RUNDIR"]
            .map(|variable| format!("{variable}={}", switch.dir.path().display()))
            .into();
        arguments.extend([program, &switch.remote().to_string(), "--no-chdir"].map(str::to_owned));
        arguments.extend(more.iter().map(ToString::to_string));
        Daemon::start("env", &arguments)
    };
    let _switch = start("ovs-vswitchd", &["--disable-system", "--enable-dummy"]);
    let flows = || {
        let bridge = format!("unix:{}", switch.path("br-int.mgmt").display());
        let shown = Command::new("ovs-ofctl").args(["--no-stats", "dump-flows", &bridge]).output().unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        text.lines().map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let chassis = || sb.snapshot().named::<Chassis>("c1").unwrap();
    let there = sb.until(|now| now.named::<Chassis>("c1").unwrap());

    let _first = start("ovn-controller", &[]);
    in_time("a chassis", there).await;
    // A bridge nobody set up knows one flow at most.
    in_time("its flows", async {
        while flows().len() < 3 {
            tokio::time::sleep(LOOK).await;
        }
    })
    .await;
    let made = flows();
    let row = chassis().unwrap().uuid;
    connected(switch.dir.path()).await.exit(&["--restart"]).await.unwrap();
    assert!(made.is_subset(&flows()), "of {made:#?} there are {:#?}", flows());
    assert_eq!(chassis().map(|chassis| chassis.uuid), Some(row));

    // One that ends for good takes its chassis along.
    let _second = start("ovn-controller", &[]);
    connected(switch.dir.path()).await.exit(&[]).await.unwrap();
    let gone = sb.until(|now| now.named::<Chassis>("c1").unwrap().is_none().then_some(()));
    in_time("no chassis", gone).await;
}

/// The controller that runs, when it has read its database.
async fn connected(directory: &Path) -> Control {
    in_time("connecting", async {
        loop {
            if let Ok(control) = Control::find(directory, "ovn-controller").await
                && control.command("connection-status", &[]).await.is_ok_and(|said| said == "connected\n")
            {
                return control;
            }
            tokio::time::sleep(LOOK).await;
        }
    })
    .await
}
