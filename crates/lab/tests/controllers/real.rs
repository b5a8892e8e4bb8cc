//! The same stories, told to kube-controller-manager and kube-scheduler: the same words must come back.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use netferry_testkit::{RealControlPlane, assets};

use super::crew::Crew;
use super::stories;

/// A program beside the control plane of the test kit, which starts only what the API suite needs.
struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The controllers the lab has its own of.
const CONTROLLERS: &str = "deployment-controller,replicaset-controller,daemonset-controller,endpointslice-controller,\
                           node-lifecycle-controller,taint-eviction-controller,pod-garbage-collector-controller";

fn beside(plane: &RealControlPlane, dir: &std::path::Path, program: &str, more: &[String]) -> Beside {
    let log = File::create(dir.join(format!("{program}.log"))).expect("a log file");
    let child = Command::new(assets().expect("the real programs").join(program))
        .arg("--kubeconfig")
        .arg(plane.kubeconfig())
        .args(["--leader-elect=false", "--secure-port=0"])
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::from(log))
        .spawn()
        .expect("a program starts");
    Beside(child)
}

async fn client(plane: &RealControlPlane) -> Client {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a usable kubeconfig");
    Client::try_from(config).expect("a client")
}

macro_rules! told_alike {
    ($(fn $name:ident() = $story:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let assets = assets().expect("the real programs");
            let plane = RealControlPlane::start(&assets).await.expect("a control plane");
            let _scheduler = beside(&plane, dir.path(), "kube-scheduler", &[]);
            let controllers = [format!("--controllers={CONTROLLERS}")];
            let _controllers = beside(&plane, dir.path(), "kube-controller-manager", &controllers);
            let real = stories::$story(&Crew::with(client(&plane).await).await).await;
            let ours = stories::$story(&Crew::embedded().await).await;
            assert_eq!(ours, real);
        }
    )*};
}

told_alike! {
    fn a_deployment_lives_alike_on_the_real_controllers() = a_deployment_through_its_life;
    fn daemons_live_alike_on_the_real_controllers() = daemons_follow_the_nodes;
    fn pods_go_where_they_may_alike_on_the_real_scheduler() = pods_go_where_they_may;
    fn endpoints_say_the_same_as_those_of_the_real_controllers() = endpoints_say_who_serves;
}
