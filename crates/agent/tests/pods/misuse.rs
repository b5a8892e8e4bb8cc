//! What a runtime can get wrong, and the code the specification has for it.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::json;

use crate::node;
use crate::world::{Plan, World, message};

#[tokio::test(flavor = "multi_thread")]
async fn every_misuse_that_reaches_the_agent_has_its_code_and_changes_nothing() {
    let world = World::with(Plan { pod_limit: Duration::from_secs(1), ..Plan::default() }).await;
    let uid = world.pod("a").await;
    let sandbox = || world.sandbox("a", &uid);

    let mut gone = sandbox();
    gone.netns = "/run/netns/gone".to_owned();
    let mut file = sandbox();
    file.netns = "/etc/hostname".to_owned();
    let mut own = sandbox();
    own.netns = {
        use std::os::fd::{AsFd, AsRawFd};
        format!("/proc/{}/fd/{}", std::process::id(), world.host.namespace().as_fd().as_raw_fd())
    };
    let nobody = world.sandbox("nobody", "u");
    let mut elsewhere = sandbox();
    let pod = json!({ "metadata": { "name": "elsewhere" },
        "spec": { "nodeName": "n2", "containers": [{ "name": "c", "image": "i" }] } });
    let pod = serde_json::from_value(pod).unwrap();
    world.api().create(&Default::default(), &pod).await.unwrap();
    elsewhere.args = "K8S_POD_NAMESPACE=web;K8S_POD_NAME=elsewhere".to_owned();
    for (what, sandbox, code, named) in [
        ("a namespace that is gone", &gone, 3, "/run/netns/gone"),
        ("a file that is no namespace", &file, 4, "/etc/hostname"),
        ("the host's own namespace", &own, 4, "the host's own"),
        ("a pod the API does not have", &nobody, 11, "web/nobody"),
        ("a pod of another node", &elsewhere, 100, "bound to node n2"),
    ] {
        let error = sandbox.ask("ADD").await.unwrap_err();
        assert_eq!(error["code"], code, "{what}: {error}");
        assert!(format!("{error}").contains(named), "{what}: {error}");
        assert!(world.pod_links().is_empty(), "{what}");
        assert!(world.claims("a").is_empty(), "{what}");
    }
    let never = sandbox();
    let unknown = never.check(&json!({ "interfaces": [] })).await.unwrap_err();
    assert_eq!(unknown["code"], 3, "a container nobody attached: {unknown}");
    assert!(message(&unknown).contains(&never.container), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_is_roots_alone_and_one_left_behind_is_replaced() {
    let mut world = World::new().await;
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(world.socket()), 0o600);
    world.start_agent();
    let asked = world.sandbox("a", "u");
    assert!(asked.ask("STATUS").await.is_ok(), "the next agent answers at the same place");
    world.agent = None;
    let error = asked.ask("STATUS").await.unwrap_err();
    assert_eq!(error["code"], 50, "{error}");
    let error = asked.ask("ADD").await.unwrap_err();
    assert_eq!(error["code"], 11, "{error}");
    assert!(message(&error).contains(world.socket().to_str().unwrap()), "{error}");

    // who says nonsense is told so, who says nothing is not waited for
    world.start_agent();
    let socket = world.socket();
    let talk = move |say: &'static [u8]| {
        use std::io::{Read, Write};
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        stream.write_all(say).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        heard
    };
    let (nonsense, silence) = tokio::task::spawn_blocking(move || (talk(b"{}\n"), talk(b""))).await.unwrap();
    assert!(nonsense.contains("\"code\":6"), "{nonsense}");
    assert_eq!(silence.lines().count(), 1, "the greeting: {silence}");
    node::in_time("it still answers", async { assert!(asked.ask("STATUS").await.is_ok()) }).await;
}
