//! Control sockets of real daemons.

use crate::daemons::{Daemon, Server, VSWITCH, in_time, need};
use netferry_ovs::Spec;
use netferry_ovs::tables::vswitch::OpenVSwitch;
use netferry_ovs::unixctl::{Control, ControlError};

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
    let limit = std::time::Duration::from_millis(50);
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
