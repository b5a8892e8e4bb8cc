//! Why something is refused.

use std::fmt;

use crate::mtu::equipment::Card;
use crate::name::NodeName;
use crate::size::Mtu;

/// A field of the operator's `Network`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Field {
    /// `spec.migration.mtu`
    Migration,
    /// `spec.migration.mtu.network`
    Network,
    /// `spec.migration.mtu.machine`
    Machine,
    /// `spec.migration.mtu.network.from`
    NetworkFrom,
    /// `spec.migration.mtu.network.to`
    NetworkTo,
    /// `spec.migration.mtu.machine.from`
    MachineFrom,
    /// `spec.migration.mtu.machine.to`
    MachineTo,
    /// `spec.defaultNetwork.ovnKubernetesConfig.mtu`
    OvnMtu,
    /// `spec.defaultNetwork.openshiftSDNConfig.mtu`
    SdnMtu,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Field::Migration => "spec.migration.mtu",
            Field::Network => "spec.migration.mtu.network",
            Field::Machine => "spec.migration.mtu.machine",
            Field::NetworkFrom => "spec.migration.mtu.network.from",
            Field::NetworkTo => "spec.migration.mtu.network.to",
            Field::MachineFrom => "spec.migration.mtu.machine.from",
            Field::MachineTo => "spec.migration.mtu.machine.to",
            Field::OvnMtu => "spec.defaultNetwork.ovnKubernetesConfig.mtu",
            Field::SdnMtu => "spec.defaultNetwork.openshiftSDNConfig.mtu",
        })
    }
}

/// Why a size, or a change of size, is refused.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum Refusal {
    /// A change names what it needs only in part.
    #[error("a change of MTU needs network.from, network.to and machine.to; missing: {}", list(.0))]
    Missing(Vec<Field>),
    /// The change does not begin where the cluster is.
    #[error("{} is {asked}, but the MTU that is applied is {applied}", Field::NetworkFrom)]
    From {
        /// The requested value.
        asked: u32,
        /// The applied value.
        applied: Mtu,
    },
    /// Outside what links and families allow.
    #[error("{field} is {asked}, not between {least} and {most}")]
    OutOfRange {
        /// Where it stands.
        field: Field,
        /// The requested value.
        asked: u32,
        /// The smallest allowed.
        least: u32,
        /// The largest allowed.
        most: u32,
    },
    /// The hosts would not carry the pods' packets with their headers.
    #[error(
        "{} is {asked}, but must be at least {needs}: {} {network} and {budget} for the encapsulation",
        Field::MachineTo,
        Field::NetworkTo
    )]
    MachineTooSmall {
        /// What was asked of the hosts.
        asked: u32,
        /// What was asked of the pods.
        network: u32,
        /// What the encapsulation takes.
        budget: u32,
        /// The smallest acceptable.
        needs: u64,
    },
    /// The MTU was edited without a change being asked.
    #[error(
        "{field} is {asked}, but {applied} is applied; a running cluster moves only through spec.migration.mtu \
         (from {applied} to {asked})"
    )]
    WithoutMigration {
        /// Where it stands.
        field: Field,
        /// The requested value.
        asked: u32,
        /// The applied value.
        applied: Mtu,
    },
    /// The network is for one machine.
    #[error(
        "{field}: the MTU of one machine's pods, {applied}, is not changed while they run; set {} and delete the Node: \
         it joins anew with that, once it restarts",
        Field::OvnMtu
    )]
    OneMachine {
        /// Where something else is asked for.
        field: Field,
        /// The applied value.
        applied: Mtu,
    },
    /// `spec.migration` was removed while nodes are under way and the MTU does not say where to.
    #[error(
        "spec.migration was removed while the MTU changes from {from} to {to}, and {field} is {}; to finish set it \
         to {to}; to cancel set spec.migration.mtu to network from {from} to {from}, machine to {host_from}",
        asked.map_or_else(|| "not set".to_owned(), |asked| asked.to_string())
    )]
    Removed {
        /// Where the MTU stands.
        field: Field,
        /// What stands there.
        asked: Option<u32>,
        /// The old end.
        from: Mtu,
        /// The new end.
        to: Mtu,
        /// The hosts' old end.
        host_from: Mtu,
    },
    /// `spec.migration` was removed while nodes go back to where they were, and the MTU says something else.
    #[error(
        "spec.migration was removed while the change of MTU from {from} to {to} is taken back, and {field} is {asked}; \
         set it to {from}; to go on with the change set spec.migration.mtu to network from {from} to {to}, machine to \
         {host_to}"
    )]
    RemovedReturning {
        /// Where the MTU stands.
        field: Field,
        /// What stands there.
        asked: u32,
        /// The old end, which nodes go back to.
        from: Mtu,
        /// The new end.
        to: Mtu,
        /// The hosts' new end.
        host_to: Mtu,
    },
    /// Another change is under way.
    #[error(
        "the MTU is being changed from {from} to {to}; {} the reverse (network from {to} to {from}, machine to \
         {host_from}){}",
        if *.settling { "this is looked at again when every node has settled, or ask for" } else { "finish it, or ask for" },
        if *.settling { "" } else { " first" }
    )]
    ChangeRunning {
        /// Its old end.
        from: Mtu,
        /// Its new end.
        to: Mtu,
        /// The hosts' old end.
        host_from: Mtu,
        /// Whether it ends by itself.
        settling: bool,
    },
    /// It is not known where the hosts are.
    #[error(
        "it is not known yet what MTU hosts run at ({}); wait, or say it in {}",
        silent(.0), Field::MachineFrom
    )]
    HostUnknown(Vec<NodeName>),
    /// Hosts run at different sizes, so there is no one size to come from.
    #[error("hosts run at different MTUs ({}); say which is the old one in {}", each(.0), Field::MachineFrom)]
    HostsDiffer(Vec<(NodeName, Mtu)>),
    /// A host is at neither end of the change.
    #[error("hosts run at neither {from} nor {to}: {}", each(.nodes))]
    HostElsewhere {
        /// The old end.
        from: Mtu,
        /// The new end.
        to: Mtu,
        /// Which, and where they are.
        nodes: Vec<(NodeName, Mtu)>,
    },
    /// No host is where they are said to come from.
    #[error(
        "{} is {asked}, but every host that has reported runs at {run}; set it to that",
        Field::MachineFrom
    )]
    HostsNotAtFrom {
        /// The requested value.
        asked: Mtu,
        /// Where they are.
        run: Mtu,
    },
    /// Cards do not carry what hosts would have to.
    #[error("hosts would have to carry {needs}, and {}", each_card(.cards, |card| format!("at most {}", card.most)))]
    CardTooSmall {
        /// What they would have to.
        needs: Mtu,
        /// Which do not.
        cards: Vec<(NodeName, Card)>,
    },
    /// Cards cannot be set as low.
    #[error("hosts would have to run at {needs}, and {}", each_card(.cards, |card| format!("at least {}", card.least)))]
    CardTooLarge {
        /// What they would have to run at.
        needs: Mtu,
        /// Which cannot.
        cards: Vec<(NodeName, Card)>,
    },
    /// Hosts whose own configuration cannot be told another size, and why.
    #[error("hosts' own configuration would have to say another MTU, and that of {}", each_why(.0))]
    HostFixed(Vec<(NodeName, String)>),
    /// Nobody does without the encapsulation.
    #[error(
        "spec.defaultNetwork.ovnKubernetesConfig.transport is NoOverlay, but nodes wrap packets in Geneve all the same; \
         make the Network anew with the transport Geneve"
    )]
    TransportNotServed,
    /// The plugin's pods are run by somebody else.
    #[error(
        "the MTU of OpenShiftSDN is checked and not changed: its pods are not ours to run; a change that is under way \
         goes on when spec.defaultNetwork.type is OVNKubernetes again"
    )]
    PluginNotServed,
}

impl Refusal {
    /// The refusal in one word, for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Refusal::Missing(_) => "FieldMissing",
            Refusal::From { .. } => "FromIsNotApplied",
            Refusal::OutOfRange { .. } => "OutOfRange",
            Refusal::MachineTooSmall { .. } => "MachineTooSmall",
            Refusal::WithoutMigration { .. } => "WithoutMigration",
            Refusal::OneMachine { .. } => "OneMachine",
            Refusal::Removed { .. } | Refusal::RemovedReturning { .. } => "MigrationRemoved",
            Refusal::ChangeRunning { .. } => "ChangeRunning",
            Refusal::HostUnknown(_) => "HostUnknown",
            Refusal::HostsDiffer(_) => "HostsDiffer",
            Refusal::HostElsewhere { .. } => "HostElsewhere",
            Refusal::HostsNotAtFrom { .. } => "HostsNotAtFrom",
            Refusal::CardTooSmall { .. } => "CardTooSmall",
            Refusal::CardTooLarge { .. } => "CardTooLarge",
            Refusal::HostFixed(_) => "HostFixed",
            Refusal::TransportNotServed => "TransportNotServed",
            Refusal::PluginNotServed => "PluginNotServed",
        }
    }
}

fn list(fields: &[Field]) -> String {
    fields.iter().map(Field::to_string).collect::<Vec<_>>().join(", ")
}

fn silent(nodes: &[NodeName]) -> String {
    let names: Vec<String> = nodes.iter().map(NodeName::to_string).collect();
    match names.as_slice() {
        [] => "there are no nodes".into(),
        names => format!("not reported by {}", names.join(", ")),
    }
}

fn each(nodes: &[(NodeName, Mtu)]) -> String {
    nodes.iter().map(|(node, mtu)| format!("{node} at {mtu}")).collect::<Vec<_>>().join(", ")
}

fn each_why(nodes: &[(NodeName, String)]) -> String {
    nodes
        .iter()
        .map(|(node, why)| format!("node {node} cannot: {why}"))
        .collect::<Vec<_>>()
        .join("; that of ")
}

fn each_card(cards: &[(NodeName, Card)], takes: impl Fn(&Card) -> String) -> String {
    let each =
        cards.iter().map(|(node, card)| format!("card {} of node {node} takes {}", card.name, takes(card)));
    each.collect::<Vec<_>>().join(", ")
}
