//! The zone's daemons: started, adopted, started again.

use netferry_agent::overlay::ovn::daemons::Daemons;
use netferry_testkit::wait::{in_time, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid, getsid};

use crate::world::World;

const DAEMONS: [&str; 4] = ["ovnnb_db", "ovnsb_db", "ovn-northd", "ovn-controller"];

#[tokio::test(flavor = "multi_thread")]
async fn daemons_outlive_the_agent_are_adopted_and_come_back_when_killed() {
    let world = World::start().await;
    let paths = world.paths();
    let daemons = in_time("starting", Daemons::keep(&paths)).await.expect("they start");
    let first: Vec<i32> = DAEMONS.iter().map(|name| world.pid(name).expect("a pid")).collect();
    for pid in &first {
        let of = Some(Pid::from_raw(*pid));
        assert_ne!(getpgid(of).unwrap(), getpgid(None).unwrap(), "killing our group must not kill it");
        assert_ne!(getsid(of).unwrap(), getsid(None).unwrap(), "nor closing our session");
    }
    drop(daemons);

    let _daemons = in_time("adopting", Daemons::keep(&paths)).await.expect("they are adopted");
    let again: Vec<i32> = DAEMONS.iter().map(|name| world.pid(name).expect("a pid")).collect();
    assert_eq!(first, again, "those that ran go on running");

    for name in DAEMONS {
        let before = world.pid(name).expect("a pid");
        kill(Pid::from_raw(before), Signal::SIGKILL).expect("it runs");
        until(name, async || world.pid(name).filter(|pid| *pid != before)).await;
    }
    until("the northbound database", async || world.nbctl(&["show"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_whose_file_is_damaged_is_put_aside_and_made_anew() {
    let world = World::start().await;
    let paths = world.paths();
    std::fs::create_dir_all(&paths.ovn_data).unwrap();
    std::fs::write(paths.ovn_data.join("ovnnb_db.db"), "OVSDB JSON 5 nonsense\n").unwrap();
    let _daemons = in_time("starting", Daemons::keep(&paths)).await.expect("they start");
    assert!(world.nbctl(&["show"]).is_some());
    let files = std::fs::read_dir(&paths.ovn_data).unwrap().flatten().map(|f| f.file_name());
    let aside = files.filter(|name| name.to_string_lossy().contains("damaged")).count();
    assert_eq!(aside, 1, "what was there is kept for whoever wants to look");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_whose_sockets_were_removed_is_replaced() {
    let world = World::start().await;
    let paths = world.paths();
    let _daemons = in_time("starting", Daemons::keep(&paths)).await.expect("they start");
    let before = world.pid("ovnnb_db").unwrap();
    std::fs::remove_file(paths.northbound_socket()).unwrap();
    until("another server", async || world.nbctl(&["show"])).await;
    assert_ne!(world.pid("ovnnb_db"), Some(before));
}
