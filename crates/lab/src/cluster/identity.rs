//! Whom our programs are to an API server that asks: the accounts and roles that are deployed, and no others.

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::bootstrap::apply;
use crate::error::{During, LabError, Result};

const NAMESPACE: &str = "netferry";
/// Longer than any lab.
const SECONDS: i64 = 365 * 24 * 3600;
/// What is deployed of accounts and roles, from the files an administrator applies.
const DEPLOYED: [(&str, &str); 5] = [
    ("namespace.yaml", include_str!("../../../../deploy/namespace.yaml")),
    ("operator/account.yaml", include_str!("../../../../deploy/operator/account.yaml")),
    ("operator/role.yaml", include_str!("../../../../deploy/operator/role.yaml")),
    ("agent/account.yaml", include_str!("../../../../deploy/agent/account.yaml")),
    ("agent/role.yaml", include_str!("../../../../deploy/agent/role.yaml")),
];

/// Creates accounts and roles.
pub(super) async fn deploy(client: &Client) -> Result<()> {
    for (file, text) in DEPLOYED {
        for document in text.split("\n---\n").filter(|document| !document.trim().is_empty()) {
            let object: Value = serde_saphyr::from_str(document).during(format!("reading deploy/{file}"))?;
            apply(client, object).await?;
        }
    }
    Ok(())
}

/// The same way to the API, as an account of ours.
pub(super) async fn kubeconfig(client: &Client, account: &str, of: &Kubeconfig) -> Result<Kubeconfig> {
    let attempt = || format!("asking for a token of {NAMESPACE}/{account}");
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let spec = TokenRequestSpec { expiration_seconds: Some(SECONDS), ..TokenRequestSpec::default() };
    let asked = TokenRequest { spec, ..TokenRequest::default() };
    let given =
        accounts.create_token_request(account, &PostParams::default(), &asked).await.during(attempt())?;
    let token =
        given.status.map(|status| status.token).ok_or_else(|| LabError::failed(attempt(), "none came"))?;
    let mut whole = serde_json::to_value(of).during(attempt())?;
    for user in whole["users"].as_array_mut().into_iter().flatten() {
        user["user"] = json!({"token": token});
    }
    serde_json::from_value(whole).during(attempt())
}
