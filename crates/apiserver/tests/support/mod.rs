//! What the tests with a kube client share: the embedded server in process and over TLS, and clients for both.

// Each test program uses its own part of this.
#![allow(dead_code)]

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::ObjectMeta;
use kube::config::{KubeConfigOptions, Kubeconfig};
use netferry_apiserver::pki::Pki;
use netferry_apiserver::{ApiServer, Settings};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A server in memory.
pub(crate) fn opened(settings: Settings) -> ApiServer {
    ApiServer::open(settings).expect("a server in memory opens")
}

/// A client whose transport is the server itself.
pub(crate) fn in_process(server: &ApiServer) -> Client {
    Client::new(server.router(), "default")
}

/// A client with the credentials of a kubeconfig.
pub(crate) async fn by_kubeconfig(text: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(text).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a usable kubeconfig");
    Client::try_from(config).expect("a client")
}

/// The embedded server behind its TLS listener, until this is dropped.
pub(crate) struct Served {
    pub(crate) server: ApiServer,
    pub(crate) pki: Pki,
    pub(crate) address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl Served {
    pub(crate) async fn start(settings: Settings) -> Served {
        let server = opened(settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let pki = Pki::fresh(&[]).expect("certificates");
        let (stop, stopped) = oneshot::channel();
        let (serving, certificates) = (server.clone(), pki.clone());
        tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            serving.serve(listener, &certificates, stopped).await.expect("serves");
        });
        Served { server, pki, address, _stop: stop }
    }

    pub(crate) async fn client(&self) -> Client {
        by_kubeconfig(&self.pki.kubeconfig(&format!("https://{}", self.address))).await
    }
}

/// A ConfigMap of the default namespace with one entry.
pub(crate) fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some([("value".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

/// The entry of such a ConfigMap.
pub(crate) fn value_of(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str)
}

/// The name of such a ConfigMap.
pub(crate) fn name_of(map: &ConfigMap) -> &str {
    map.metadata.name.as_deref().unwrap_or_default()
}
