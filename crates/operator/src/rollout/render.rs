//! Configurations: ours from what is applied, and the one of each pool, merged from all that are for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Resource, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::rollout::annotations::{GeneratedByControllerVersion, ROLE_LABEL};
use netferry_api::rollout::{MachineConfig, MachineConfigPool};
use netferry_core::rollout::config::MachineConfig as Config;
use netferry_core::rollout::merge::{Rendered, merge};
use netferry_core::rollout::pool::Pool;
use netferry_core::rollout::sweep::unused;
use netferry_translate::labels::labels;
use netferry_translate::{machine_config, pool as pools};
use serde_json::json;
use tracing::info;

use super::Rollout;
use super::snapshot::{ClusterSnapshot, SeenNode};
use crate::round::RoundError;
use crate::writer::Part;

impl Rollout {
    /// Makes the two pools every cluster has, where nobody made them. Whether it did.
    pub(super) async fn make_pools(&self, snapshot: &ClusterSnapshot) -> Result<bool, RoundError> {
        let there: BTreeSet<&str> = snapshot.pools.iter().map(|seen| seen.pool.name.as_str()).collect();
        // One that is there and cannot be read is there all the same.
        if snapshot.held.is_some() && there.len() < 2 {
            return Ok(false);
        }
        let mut made = false;
        for pool in pools::usual().into_iter().filter(|pool| !there.contains(pool.name_any().as_str())) {
            let name = pool.name_any();
            info!(pool = name, "making a pool");
            let api = Api::<MachineConfigPool>::all(self.context.client.clone());
            self.context.writer.create(&api, &pool).await?;
            made = true;
        }
        Ok(made)
    }

    /// Writes the MachineConfigs of capabilities that are missing or differ. Returns true if any was written: nothing is
    /// merged before the API shows them.
    pub(super) async fn write_configs(
        &self,
        snapshot: &ClusterSnapshot,
        configs: &[Config],
    ) -> Result<bool, RoundError> {
        let mut wrote = false;
        for wanted in configs {
            let now = snapshot.configs.get(&wanted.name);
            let same = now.is_some_and(|now| {
                let read = machine_config::machine_config(now);
                read.is_ok_and(|now| now == *wanted)
            });
            if !same {
                self.write_config(wanted, now).await?;
                wrote = true;
            }
        }
        Ok(wrote)
    }

    async fn write_config(
        &self,
        wanted: &Config,
        now: Option<&Arc<MachineConfig>>,
    ) -> Result<(), RoundError> {
        info!(config = wanted.name, epochs = %wanted.epochs, "writing the MachineConfig of a capability");
        let mut object = MachineConfig::new(&wanted.name, machine_config::printed(&wanted.spec));
        let meta = &mut object.metadata;
        if let Some(now) = now {
            // Labels and annotations of others stay.
            meta.clone_from(&now.metadata);
            meta.managed_fields = None;
        }
        let set = [(ROLE_LABEL.to_owned(), wanted.role.clone())];
        meta.labels.get_or_insert_default().extend(set);
        meta.annotations.get_or_insert_default().extend([machine_config::printed_epochs(&wanted.epochs)]);
        let api = Api::<MachineConfig>::all(self.context.client.clone());
        match now {
            Some(_) => self.context.writer.replace(&api, &object).await.map(drop),
            None => self.context.writer.create(&api, &object).await.map(drop),
        }
    }

    /// Merges the configurations of each pool and tells the pool.
    pub(super) async fn render(&self, snapshot: &mut ClusterSnapshot) -> Result<(), RoundError> {
        for at in 0..snapshot.pools.len() {
            let rendered = match merged(&snapshot.pools[at].pool, snapshot) {
                Ok(rendered) => rendered,
                Err(refused) => {
                    snapshot.pools[at].refused = Some(refused);
                    continue;
                }
            };
            if !snapshot.configs.contains_key(&rendered.name) {
                let made = self.make_rendered(&snapshot.pools[at].object, &rendered).await?;
                snapshot.configs.insert(rendered.name.clone(), Arc::new(made));
            }
            let seen = &mut snapshot.pools[at];
            let wanted = pools::configuration(&rendered.name, &rendered.sources);
            if seen.object.spec.configuration.as_ref() == Some(&wanted) {
                continue;
            }
            let (name, version) = (seen.object.name_any(), seen.object.resource_version());
            info!(pool = name, config = rendered.name, epochs = %rendered.epochs, "the pool has a new target");
            let patch = json!({ "spec": { "configuration": wanted } });
            seen.object = self.context.writer.patch(&name, version, Part::Object, patch).await?;
            seen.pool.target = Some(rendered.name);
        }
        Ok(())
    }

    async fn make_rendered(
        &self,
        pool: &MachineConfigPool,
        rendered: &Rendered,
    ) -> Result<MachineConfig, RoundError> {
        let mut object = MachineConfig::new(&rendered.name, machine_config::printed(&rendered.spec));
        let version = GeneratedByControllerVersion::parse(env!("CARGO_PKG_VERSION"));
        let version = version.expect("this crate has a version").entry();
        object.metadata.annotations =
            Some([machine_config::printed_epochs(&rendered.epochs), version].into());
        object.metadata.owner_references = Some(vec![OwnerReference {
            controller: Some(true),
            // Waiting for it would need a right over pools' finalizers, where that is checked.
            block_owner_deletion: None,
            ..pool.owner_ref(&()).unwrap_or_default()
        }]);
        let api = Api::<MachineConfig>::all(self.context.client.clone());
        match self.context.writer.create(&api, &object).await {
            Ok(made) => Ok(made),
            // Its name follows from its contents: an object of that name is the same.
            Err(failed) if failed.is_overtaken() => Ok(object),
            Err(failed) => Err(failed),
        }
    }

    /// Removes rendered configurations nobody uses, once every node is where it should be.
    pub(super) async fn sweep(&self, snapshot: &ClusterSnapshot) -> Result<(), RoundError> {
        let pools: Vec<&Pool> = snapshot.pools.iter().map(|seen| &seen.pool).collect();
        let pool_of =
            |seen: &SeenNode| pools.iter().find(|pool| Some(&pool.name) == seen.pool.as_ref()).copied();
        let nodes: Vec<_> = snapshot.nodes.iter().map(|seen| (&seen.machine.node, pool_of(seen))).collect();
        let rendered = snapshot.configs.iter().filter(|(_, config)| is_rendered(config));
        let rendered = rendered.map(|(name, _)| name.as_str());
        for name in unused(&pools, &nodes, snapshot.held.is_some(), rendered) {
            let config = &snapshot.configs[name];
            info!(config = name, "removing a rendered configuration nobody uses");
            self.context.writer.delete(config.as_ref()).await?;
        }
        Ok(())
    }
}

/// The configuration of a pool.
fn merged(pool: &Pool, snapshot: &ClusterSnapshot) -> Result<Rendered, String> {
    let takes = |config: &MachineConfig| pool.takes(&labels(config.metadata.labels.as_ref()));
    let selected = snapshot.configs.values().filter(|config| !is_rendered(config) && takes(config));
    let read = selected.map(|config| machine_config::machine_config(config));
    let configs: Vec<Config> = read.collect::<Result<_, _>>().map_err(|wrong| wrong.to_string())?;
    let said = |refusals: Vec<netferry_core::rollout::merge::Refusal>| {
        refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    merge(&pool.name, &configs).map_err(said)
}

fn is_rendered(config: &MachineConfig) -> bool {
    config.annotations().contains_key(GeneratedByControllerVersion::KEY)
}
