//! Why an edit of the operator's `Network` is refused while the cluster runs.

/// Why an edit beside the MTU is refused.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum ChangeRefusal {
    /// No node-by-node change of plugin where the control plane is elsewhere.
    #[error("spec.migration.mode Live is not possible with a hosted control plane")]
    HostedLive,
    /// The target of a running change of plugin was edited.
    #[error("spec.migration.networkType cannot become {asked:?} while a change to {running:?} is under way")]
    MigrationType {
        /// The requested value.
        asked: String,
        /// What is running.
        running: String,
    },
    /// The mode of a running change of plugin was edited.
    #[error("spec.migration.mode cannot become {asked} while a change in mode {running} is under way")]
    MigrationMode {
        /// The requested value.
        asked: &'static str,
        /// What is running.
        running: &'static str,
    },
    /// The plugin was edited without a change being prepared.
    #[error("spec.defaultNetwork.type cannot become {asked:?} without spec.migration")]
    TypeWithoutMigration {
        /// The requested value.
        asked: String,
    },
    /// The plugin was edited to another than the prepared one.
    #[error("spec.defaultNetwork.type cannot become {asked:?}; spec.migration.networkType is {prepared:?}")]
    TypeNotPrepared {
        /// The requested value.
        asked: String,
        /// What was prepared.
        prepared: String,
    },
    /// A range that must stay.
    #[error("{field} cannot be changed {when}")]
    Fixed {
        /// Which field.
        field: &'static str,
        /// When that holds.
        when: &'static str,
    },
    /// A number that must stay.
    #[error("{field} cannot be changed from {old} to {new}")]
    Number {
        /// Which field.
        field: &'static str,
        /// The applied value.
        old: String,
        /// The requested value.
        new: String,
    },
    /// A cluster network was changed beyond what a running cluster can follow.
    #[error("spec.clusterNetwork {old} cannot become {new}: {why}")]
    ClusterNetwork {
        /// The applied value.
        old: String,
        /// The requested value.
        new: String,
        /// Why not.
        why: &'static str,
    },
}

impl ChangeRefusal {
    /// Whether it is the cluster's ranges that must stay.
    pub fn is_of_ranges(&self) -> bool {
        match self {
            ChangeRefusal::Fixed { .. } | ChangeRefusal::ClusterNetwork { .. } => true,
            ChangeRefusal::HostedLive
            | ChangeRefusal::MigrationType { .. }
            | ChangeRefusal::MigrationMode { .. }
            | ChangeRefusal::TypeWithoutMigration { .. }
            | ChangeRefusal::TypeNotPrepared { .. }
            | ChangeRefusal::Number { .. } => false,
        }
    }
}
