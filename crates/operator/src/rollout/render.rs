//! Configurations: ours from what is applied, and the one of each pool, merged from all that are for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch};
use kube::{Api, Resource, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::rollout::annotations::{GeneratedByControllerVersion, ROLE_LABEL};
use netferry_api::rollout::{MachineConfig, MachineConfigPool};
use netferry_core::label::Labels;
use netferry_core::mtu::file;
use netferry_core::mtu::record::Record;
use netferry_core::rollout::config::MachineConfig as Config;
use netferry_core::rollout::merge::{Rendered, merge};
use netferry_core::rollout::pool::{Pool, WORKER};
use netferry_core::rollout::sweep::unused;
use netferry_translate::labels::labels;
use netferry_translate::{machine_config, pool as pools};
use serde_json::json;
use tracing::info;

use super::Rollout;
use super::world::{Seen, World};
use crate::report::{self, Told};
use crate::round::RoundError;

impl Rollout {
    /// Makes the two pools every cluster has, where nobody made them. Whether it did.
    pub(super) async fn make_pools(&self, world: &World) -> Result<bool, RoundError> {
        let there: BTreeSet<&str> = world.pools.iter().map(|seen| seen.pool.name.as_str()).collect();
        // One that is there and cannot be read is there all the same.
        if world.held.is_some() && there.len() < 2 {
            return Ok(false);
        }
        let mut made = false;
        for pool in pools::usual().into_iter().filter(|pool| !there.contains(pool.name_any().as_str())) {
            let name = pool.name_any();
            info!(pool = name, "making a pool");
            let api = Api::<MachineConfigPool>::all(self.client.clone());
            let params = report::made_by_us();
            let written = self.leadership.act(api.create(&params, &pool)).await;
            written.map_err(RoundError::writing(format!("MachineConfigPool {name}")))?;
            made = true;
        }
        Ok(made)
    }

    /// Writes the MachineConfigs that bring nodes the cluster's sizes, one per class of nodes. Whether any was written:
    /// then nothing is merged before they were seen.
    pub(super) async fn write_configs(&self, world: &mut World, record: &Record) -> Result<bool, RoundError> {
        let rendering = record.rendering();
        let mut roles = BTreeSet::new();
        let mut wrote = false;
        for seen in &world.pools {
            match role(&seen.pool) {
                Some(role) => _ = roles.insert(role),
                None => {
                    let name = &seen.pool.name;
                    let note = format!(
                        "MachineConfigPool {name} selects neither MachineConfigs with the label {ROLE_LABEL}={WORKER} nor \
                         with {ROLE_LABEL}={name}; its nodes are not told the cluster's MTU"
                    );
                    let about = seen.object.object_ref(&());
                    world.told.push(Told::warning(about, "SelectConfigs", "PoolWithoutMTU", note));
                }
            }
        }
        for role in roles {
            let wanted = file::machine_config(&role, &rendering);
            let now = world.configs.get(&wanted.name);
            let same = now.is_some_and(|now| {
                let read = machine_config::machine_config(now);
                read.is_ok_and(|now| now == wanted)
            });
            if !same {
                self.write_config(&wanted, now).await?;
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
        info!(config = wanted.name, epochs = %wanted.epochs, "writing the cluster's sizes for nodes");
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
        let api = Api::<MachineConfig>::all(self.client.clone());
        let params = report::made_by_us();
        let written = match now {
            Some(_) => self.leadership.act(api.replace(&wanted.name, &params, &object)).await,
            None => self.leadership.act(api.create(&params, &object)).await,
        };
        written.map(|_| ()).map_err(RoundError::writing(format!("MachineConfig {}", wanted.name)))
    }

    /// Merges the configurations of each pool and tells the pool.
    pub(super) async fn render(&self, world: &mut World) -> Result<(), RoundError> {
        for at in 0..world.pools.len() {
            let rendered = match merged(&world.pools[at].pool, world) {
                Ok(rendered) => rendered,
                Err(refused) => {
                    world.pools[at].refused = Some(refused);
                    continue;
                }
            };
            if !world.configs.contains_key(&rendered.name) {
                let made = self.make_rendered(&world.pools[at].object, &rendered).await?;
                world.configs.insert(rendered.name.clone(), Arc::new(made));
            }
            let seen = &mut world.pools[at];
            let wanted = pools::configuration(&rendered.name, &rendered.sources);
            if seen.object.spec.configuration.as_ref() == Some(&wanted) {
                continue;
            }
            let (name, version) = (seen.object.name_any(), seen.object.resource_version());
            info!(pool = name, config = rendered.name, epochs = %rendered.epochs, "the pool has a new target");
            let patch = json!({
                "metadata": { "resourceVersion": version }, "spec": { "configuration": wanted },
            });
            let api = Api::<MachineConfigPool>::all(self.client.clone());
            let params = report::written_by_us();
            let patch = Patch::Merge(&patch);
            let written = self.leadership.act(api.patch(&name, &params, &patch)).await;
            seen.object = written.map_err(RoundError::writing(format!("MachineConfigPool {name}")))?;
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
        let api = Api::<MachineConfig>::all(self.client.clone());
        let params = report::made_by_us();
        match self.leadership.act(api.create(&params, &object)).await {
            Ok(made) => Ok(made),
            Err(error) => {
                let failed = RoundError::writing(format!("MachineConfig {}", rendered.name))(error);
                // Its name says what is in it: whoever made it made the same.
                if failed.is_overtaken() { Ok(object) } else { Err(failed) }
            }
        }
    }

    /// Removes rendered configurations nobody uses, once every node is where it should be.
    pub(super) async fn sweep(&self, world: &World) -> Result<(), RoundError> {
        let pools: Vec<&Pool> = world.pools.iter().map(|seen| &seen.pool).collect();
        let pool_of = |seen: &Seen| pools.iter().find(|pool| Some(&pool.name) == seen.pool.as_ref()).copied();
        let nodes: Vec<_> = world.nodes.iter().map(|seen| (&seen.machine.node, pool_of(seen))).collect();
        let rendered = world.configs.iter().filter(|(_, config)| is_rendered(config));
        let rendered = rendered.map(|(name, _)| name.as_str());
        for name in unused(&pools, &nodes, world.held.is_some(), rendered) {
            let config = &world.configs[name];
            info!(config = name, "removing a rendered configuration nobody uses");
            let api = Api::<MachineConfig>::all(self.client.clone());
            let params = DeleteParams {
                preconditions: Some(kube::api::Preconditions { uid: config.uid(), resource_version: None }),
                ..DeleteParams::default()
            };
            let gone = self.leadership.act(api.delete(name, &params)).await;
            gone.map(|_| ()).map_err(RoundError::writing(format!("MachineConfig {name}")))?;
        }
        Ok(())
    }
}

/// The configuration of a pool.
fn merged(pool: &Pool, world: &World) -> Result<Rendered, String> {
    let takes = |config: &MachineConfig| pool.takes(&labels(config.metadata.labels.as_ref()));
    let selected = world.configs.values().filter(|config| !is_rendered(config) && takes(config));
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

/// The class of nodes a pool takes configurations of.
fn role(pool: &Pool) -> Option<String> {
    let takes = |role: &str| pool.takes(&Labels::from_iter([(ROLE_LABEL, role)]));
    [WORKER, &pool.name].into_iter().find(|role| takes(role)).map(str::to_owned)
}
