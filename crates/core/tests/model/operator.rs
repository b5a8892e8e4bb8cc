//! The operator: what it writes from what it read, and what becomes of that.

use std::collections::BTreeMap;

use netferry_core::label::{LabelSelector, Labels};
use netferry_core::mtu::check::{Asked, AskedChange, AskedEnds, Cluster, Plugin, Transport};
use netferry_core::mtu::equipment::Equipped;
use netferry_core::mtu::plan::{Facts, Mode, NodeFacts, Rollout, SpecEdit};
use netferry_core::mtu::probe::judge::{Lost, Pair, Probes, Trouble};
use netferry_core::name::NodeName;
use netferry_core::probe::Way;
use netferry_core::rollout::choose::{Choice, Hold};
use netferry_core::rollout::pool::{Identity, MaxUnavailable, Node, NodeState, Pool, Truth};
use netferry_core::size::Mtu;

use crate::cluster::{MOST_AWAY, NAMES, NODES, Object, PoolObject, State, World, Write, config, mtu};
use crate::promises;

impl World {
    pub(crate) fn facts_of(object: &Object) -> NodeFacts {
        let done = object
            .current
            .filter(|_| object.current == object.desired && object.state == Some(NodeState::Done));
        NodeFacts { done, observed: object.observed, unclaimed: false }
    }

    pub(crate) fn node_of(at: usize, object: &Object) -> Node {
        Node {
            name: NAMES[at].clone(),
            uid: object.life.to_string(),
            labels: Labels::default(),
            created: at as u64,
            ready: Some(if object.ready { Truth::True } else { Truth::False }),
            disk_pressure: None,
            network_unavailable: None,
            unschedulable: object.cordoned,
            current: object.current.map(config),
            desired: object.desired.map(config),
            state: object.state,
            reason: object.reason.clone(),
            waits: object.waits,
        }
    }

    /// What nodes found out about the ways between them. Which way is too narrow changes no decision.
    fn probes(&self, state: &State) -> Probes {
        let pair = Pair { from: NAMES[0].clone(), to: NAMES[1].clone() };
        let (way, lost) = (Way::ALL[0].0, Lost::Above(mtu(self.host.0.min(self.host.1))));
        let failed = state.narrow.then_some(Trouble { pair, way, lost });
        Probes { failed: failed.into_iter().collect(), ..Probes::default() }
    }

    /// One pass of the operator: what it writes, from what it read.
    pub(crate) fn think(&self, state: &State, objects: &[Option<Object>; NODES]) -> Vec<Write> {
        let nodes: BTreeMap<NodeName, NodeFacts> = objects
            .iter()
            .enumerate()
            .filter_map(|(at, object)| Some((NAMES[at].clone(), World::facts_of(object.as_ref()?))))
            .collect();
        let (equipped, probes) = (Equipped::new(), self.probes(state));
        let mode = Mode { unattended: state.unattended, on_loss: state.on_loss, paused: state.paused };
        let cluster = Cluster { plugin: Plugin::OvnKubernetes(Transport::Geneve), v6: false };
        let facts =
            Facts { cluster, asked: state.spec, mode, nodes: &nodes, equipped: &equipped, probes: &probes };
        let decision = (self.planner.decide)(&state.record, &facts);
        if decision.record != state.record {
            return vec![Write::Record { read: state.record, new: decision.record }];
        }
        if let Some(edit) = decision.edit {
            let new = match edit {
                SpecEdit::Finish(mtu) => Asked { mtu: Some(mtu.bytes()), migration: None },
                SpecEdit::Migrate { from, to, machine_from, machine_to } => Asked {
                    mtu: state.spec.mtu,
                    migration: Some(AskedChange {
                        network: Some(AskedEnds { from: Some(from.bytes()), to: Some(to.bytes()) }),
                        machine: Some(AskedEnds {
                            from: machine_from.map(Mtu::bytes),
                            to: Some(machine_to.bytes()),
                        }),
                    }),
                },
            };
            return vec![Write::Spec { read: state.spec, paused: state.paused, new }];
        }
        if decision.forget {
            return vec![Write::Forget { read: state.spec, paused: state.paused }];
        }
        if state.pool.target != state.record.epoch {
            let new = PoolObject { target: state.record.epoch, ..state.pool };
            return vec![Write::Pool { read: state.pool, new }];
        }
        let pool = Pool {
            name: "worker".into(),
            nodes: Some(LabelSelector::all()),
            configs: None,
            paused: false,
            max_unavailable: MaxUnavailable::Number(MOST_AWAY as u32),
            target: Some(config(state.pool.target)),
            finished: None,
            taken: (0..NODES).filter_map(|at| Some(identity(at, state.pool.taken[at]?))).collect(),
        };
        let nodes: Vec<Node> = objects
            .iter()
            .enumerate()
            .filter_map(|(at, object)| Some(World::node_of(at, object.as_ref()?)))
            .collect();
        let held = match decision.rollout {
            Rollout::Go => None,
            Rollout::Paused => Some(Hold::Taking("paused".to_owned())),
            Rollout::Losing(_) => Some(Hold::Taking("packets are lost".to_owned())),
        };
        let Choice { taken, tell: told, tell_waiting, .. } =
            (self.planner.choose)(&pool, &nodes, None, held.as_ref());
        let life = |at: usize| {
            let taken = taken.iter().find(|taken| taken.name == NAMES[at])?;
            Some(taken.uid.parse().expect("the model gave it"))
        };
        let new = PoolObject { taken: std::array::from_fn(life), ..state.pool };
        let mut writes = Vec::new();
        if new != state.pool {
            writes.push(Write::Pool { read: state.pool, new });
        }
        let index = |name: &NodeName| NAMES.iter().position(|n| n == name).expect("it was given");
        let epoch = state.pool.target;
        let tell = |if_waiting| {
            move |name: &NodeName| {
                let node = index(name);
                let object = objects[node].as_ref().expect("it was given");
                let version = self.versions.then(|| object.version());
                Write::Tell { node, life: object.life, version, epoch, if_waiting }
            }
        };
        writes.extend(told.iter().map(tell(false)).chain(tell_waiting.iter().map(tell(true))));
        writes
    }

    /// Carries a write out; whether it was accepted.
    pub(crate) fn write(&self, state: &mut State, write: Write) -> Result<bool, String> {
        match write {
            Write::Record { read, new } if read == state.record => {
                promises::advance(self, state, &new)?;
                if new.epoch != state.record.epoch {
                    assert_eq!(new.epoch as usize, state.renderings.len(), "epochs are counted one by one");
                    state.renderings.push(new.rendering());
                }
                state.record = new;
                Ok(true)
            }
            // One object holds both, so whoever read either before it changed is refused.
            Write::Spec { read, paused, new } if (read, paused) == (state.spec, state.paused) => {
                state.spec = new;
                Ok(true)
            }
            Write::Forget { read, paused } if (read, paused) == (state.spec, state.paused) => {
                (state.unattended, state.on_loss) = (false, None);
                Ok(true)
            }
            Write::Pool { read, new } if read == state.pool => {
                state.pool = new;
                Ok(true)
            }
            // Who is refused is left for the next pass; the others are told.
            Write::Tell { node, life, version, epoch, if_waiting } => {
                let object = state.machines[node].object.as_mut().filter(|object| {
                    object.life == life
                        && version.is_none_or(|version| version == object.version())
                        && (object.waits || !if_waiting)
                });
                if let Some(object) = object {
                    object.desired = Some(epoch);
                }
                Ok(true)
            }
            Write::Record { .. } | Write::Spec { .. } | Write::Forget { .. } | Write::Pool { .. } => {
                Ok(false)
            }
        }
    }
}

fn identity(at: usize, life: u8) -> Identity {
    Identity { name: NAMES[at].clone(), uid: life.to_string() }
}
