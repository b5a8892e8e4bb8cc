use std::sync::atomic::Ordering;

use kube::api::{Patch, PatchParams};
use netferry_agent::mtu::boot;
use netferry_core::mtu::file::PATH;
use netferry_testkit::wait::until;
use serde_json::json;

use crate::world::{MCO, World, below};

/// By these names the world renders them; their real names follow from their contents.
const FIRST: &str = "rendered-worker-first";
const SECOND: &str = "rendered-worker-second";

#[tokio::test]
async fn a_node_is_drained_takes_its_configuration_restarts_and_says_so() {
    let mut world = World::new().await;
    world.boot(0, Some(1400));
    world.render(FIRST, 0, "/etc/a", "one").await;
    world.render(SECOND, 0, "/etc/a", "two").await;
    world.start();
    world.tell(FIRST).await;
    world.fulfil(&format!("drain-{FIRST}")).await;
    world.restarts_are(1).await;
    assert_eq!(world.file("/etc/a").as_deref(), Some("one"));
    assert_eq!(world.annotation(&format!("{MCO}/post-config-action")).await, "Rebooting");
    assert_eq!(world.annotation(&format!("{MCO}/state")).await, "Working");

    // The host goes down and comes up again.
    world.stop().await;
    world.boot(0, Some(1400));
    world.start();
    world.fulfil(&format!("uncordon-{FIRST}")).await;
    world.says("state", "Done").await;
    world.says("currentConfig", FIRST).await;
    assert_eq!(world.annotation(&format!("{MCO}/post-config-action")).await, "");

    // The next one, with the power lost after it was taken.
    world.tell(SECOND).await;
    world.says("desiredDrain", &format!("drain-{SECOND}")).await;
    assert_eq!(world.file("/etc/a").as_deref(), Some("one"), "nothing is written before the node is drained");
    world.fulfil(&format!("drain-{SECOND}")).await;
    world.restarts_are(2).await;
    world.stop().await;
    world.boot(0, Some(1400));
    world.start();
    world.fulfil(&format!("uncordon-{SECOND}")).await;
    world.says("currentConfig", SECOND).await;
    assert_eq!(world.file("/etc/a").as_deref(), Some("two"));
}

#[tokio::test]
async fn sizes_the_node_runs_already_are_taken_over_without_a_restart() {
    let mut world = World::new().await;
    world.boot(0, Some(1400));
    world.render(FIRST, 3, PATH, "EPOCH=3\nCNI_MTU=1400\n").await;
    world.start();
    world.tell(FIRST).await;
    world.says("state", "Done").await;
    world.says("currentConfig", FIRST).await;
    assert_eq!(world.annotation(&format!("{MCO}/desiredDrain")).await, "", "nobody was drained");
    world.restarts_are(0).await;
    until("the epoch is taken over", async || match boot::read(&world.run()).unwrap().unwrap() {
        booted if booted.epoch == 3 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    // Other sizes are not.
    world.render(SECOND, 4, PATH, "EPOCH=4\nCNI_MTU=1300\n").await;
    world.tell(SECOND).await;
    world.says("desiredDrain", &format!("drain-{SECOND}")).await;
    // And an older order than what the disk holds is refused with both names.
    world.render("rendered-worker-zero", 2, PATH, "EPOCH=2\nCNI_MTU=1400\n").await;
    world.tell("rendered-worker-zero").await;
    world.says("state", "Degraded").await;
    let why = "rendered-worker-zero is older (mtu epoch 2) than what this node has taken, rendered-worker-first (mtu epoch 3)";
    let why = world.real(why);
    world.until(&format!("{MCO}/reason"), |said| said.starts_with(&why), &why).await;
}

#[tokio::test]
async fn a_configuration_that_the_next_boot_would_refuse_is_not_taken_nobody_is_drained_and_another_is() {
    let mut world = World::new().await;
    world.boot(0, Some(1400));
    world.render(FIRST, 3, PATH, "EPOCH=3\nTARGET_MTU=9000\nCNI_MTU=8900\n").await;
    world.render(SECOND, 4, PATH, "EPOCH=4\nCNI_MTU=1400\n").await;
    *world.refuses.lock().unwrap() = Some("eth0, eth1".to_owned());
    world.start();
    world.tell(FIRST).await;
    world.says("state", "Unreconcilable").await;
    let why =
        format!("{FIRST} would not boot: host-init would not know which link to give its size: eth0, eth1");
    world.says("reason", &why).await;
    assert_eq!(world.annotation(&format!("{MCO}/desiredDrain")).await, "", "nobody was drained");
    assert_eq!(world.file(PATH), None);
    // It is there to hear that the change was taken back.
    *world.refuses.lock().unwrap() = None;
    world.tell(SECOND).await;
    world.says("state", "Done").await;
    world.says("currentConfig", SECOND).await;
    world.restarts_are(0).await;
}

#[tokio::test]
async fn a_managed_file_that_strays_is_named_until_it_is_as_it_should_be() {
    let mut world = World::new().await;
    world.boot(0, None);
    world.render(FIRST, 0, "/etc/a", "one").await;
    world.annotate(&format!("{MCO}/controlPlaneTopology"), Some("SingleReplica")).await;
    world.start();
    world.tell(FIRST).await;
    world.restarts_are(1).await;
    world.stop().await;
    world.boot(0, None);
    world.start();
    world.says("state", "Done").await;
    std::fs::write(below(&world.root(), "/etc/a"), "mine").unwrap();
    world.says("state", "Degraded").await;
    world.says("reason", "/etc/a has other contents").await;
    // Not even another configuration is taken before somebody has looked at it.
    world.render(SECOND, 0, "/etc/b", "two").await;
    world.tell(SECOND).await;
    // What it says after it was told is what it thinks of it.
    world.annotate(&format!("{MCO}/reason"), Some("")).await;
    world.says("reason", "/etc/a has other contents").await;
    assert_eq!(world.file("/etc/b"), None);
    std::fs::write(below(&world.root(), "/etc/a"), "one").unwrap();
    world.restarts_are(2).await;
    assert_eq!((world.file("/etc/a"), world.file("/etc/b").as_deref()), (None, Some("two")));
}

#[tokio::test]
async fn what_cannot_be_carried_out_is_said_by_name_and_withdrawing_it_is_enough() {
    let mut world = World::new().await;
    world.boot(0, None);
    world.annotate(&format!("{MCO}/controlPlaneTopology"), Some("SingleReplica")).await;
    world.start();
    world.tell("rendered-worker-none").await;
    world.says("reason", "MachineConfig rendered-worker-none does not exist").await;
    let fips = json!({"fips": true, "config": {"ignition": {"version": "3.2.0"}}});
    world.render_spec("rendered-worker-fips", 0, fips).await;
    world.tell("rendered-worker-fips").await;
    world.says("reason", "MachineConfig rendered-worker-fips: fips is not supported; remove it").await;
    world.says("state", "Unreconcilable").await;
    world.render("rendered-worker-run", 0, "/run/x", "x").await;
    world.tell("rendered-worker-run").await;
    let why = "MachineConfig rendered-worker-run: \"/run/x\" cannot be the path of a file: it is not for configurations to write";
    world.says("reason", why).await;
    // Something of the host's is in the way, and goes away.
    std::fs::create_dir_all(below(&world.root(), "/etc/a")).unwrap();
    world.render(FIRST, 0, "/etc/a", "one").await;
    world.tell(FIRST).await;
    world.says("state", "Degraded").await;
    let why = world.real(&format!("taking {FIRST} failed and what was there was put back: linking /etc/a"));
    world.until(&format!("{MCO}/reason"), |said| said.starts_with(&why), &why).await;
    world.restarts_are(0).await;
    std::fs::remove_dir(below(&world.root(), "/etc/a")).unwrap();
    world.restarts_are(1).await;
    assert_eq!(world.file("/etc/a").as_deref(), Some("one"));
}

#[tokio::test]
async fn kernel_arguments_are_told_to_the_boot_loader_and_a_node_that_was_started_without_them_is_not_done() {
    let mut world = World::new().await;
    world.boot(0, Some(1400));
    std::fs::write(world.started_with(), "root=/dev/vda1 quiet\n").unwrap();
    let spec = json!({"config": {"ignition": {"version": "3.2.0"}}, "kernelArguments": ["quiet", "debug"]});
    world.render_spec(FIRST, 0, spec).await;
    world.render(SECOND, 0, "/etc/a", "two").await;
    world.start();
    world.tell(FIRST).await;
    world.fulfil(&format!("drain-{FIRST}")).await;
    let reason = format!("{MCO}/reason");
    world.until(&reason, |said| said.contains("kernelArguments need"), "no boot loader").await;
    world.says("state", "Degraded").await;
    assert_eq!(world.restarts.load(Ordering::SeqCst), 0, "it would be for nothing");
    std::fs::create_dir(below(&world.root(), "/boot")).unwrap();
    world.restarts_are(1).await;

    // The host comes up as before: its boot loader did not read them, or was not told before its power failed.
    let told = world.renewals.load(Ordering::SeqCst);
    world.stop().await;
    world.boot(0, Some(1400));
    world.start();
    world.until(&reason, |said| said.contains("started without debug:"), "what is not in force").await;
    world.says("state", "Degraded").await;
    assert_eq!(world.renewals.load(Ordering::SeqCst), told + 1, "told again, once");
    world.stop().await;
    std::fs::write(world.started_with(), "root=/dev/vda1 quiet debug\n").unwrap();
    world.start();
    world.fulfil(&format!("uncordon-{FIRST}")).await;
    world.says("state", "Done").await;

    // Taken out again; it is no reason to stay that they were not in force.
    std::fs::write(world.started_with(), "quiet\n").unwrap();
    world.tell(SECOND).await;
    world.fulfil(&format!("drain-{SECOND}")).await;
    world.restarts_are(2).await;
    assert_eq!(world.renewals.load(Ordering::SeqCst), told + 2);
    world.stop().await;
    world.boot(0, Some(1400));
    world.start();
    world.fulfil(&format!("uncordon-{SECOND}")).await;
    world.says("state", "Done").await;
}

#[tokio::test]
async fn a_rendered_configuration_that_was_edited_is_not_taken() {
    let mut world = World::new().await;
    world.boot(0, None);
    world.annotate(&format!("{MCO}/controlPlaneTopology"), Some("SingleReplica")).await;
    world.render(FIRST, 0, "/etc/a", "one").await;
    let edited = json!({"spec": {"config": {"storage": {"files": [
        {"path": "/etc/a", "mode": 420, "contents": {"source": "data:,mine"}}]}}}});
    let name = world.real(FIRST);
    world.configs.patch(&name, &PatchParams::default(), &Patch::Merge(edited)).await.unwrap();
    world.start();
    world.tell(FIRST).await;
    world.says("state", "Unreconcilable").await;
    let why = format!("MachineConfig {name}: its contents are not those it is named after");
    world.until(&format!("{MCO}/reason"), |said| said.starts_with(&why), &why).await;
    world.restarts_are(0).await;
    assert_eq!(world.file("/etc/a"), None);
}

#[tokio::test]
async fn a_path_that_leads_astray_on_this_host_is_refused_before_the_node_is_drained() {
    let mut world = World::new().await;
    world.boot(0, None);
    std::fs::create_dir_all(below(&world.root(), "/run")).unwrap();
    std::os::unix::fs::symlink("../run", below(&world.root(), "/etc/link")).unwrap();
    world.render(FIRST, 0, "/etc/link/deep/x", "one").await;
    world.start();
    world.tell(FIRST).await;
    world.says("state", "Unreconcilable").await;
    let why = format!(
        "{FIRST}: /etc/link/deep/x cannot be written: on this host it leads to /run/deep/x, and it is not for \
         configurations to write"
    );
    world.says("reason", &why).await;
    assert_eq!(world.annotation(&format!("{MCO}/desiredDrain")).await, "", "nobody was drained");
    assert!(!below(&world.root(), "/run/deep").exists());
}
