//! Annotations on namespaces and network policies.

use serde::{Deserialize, Serialize};

use crate::annotation::{Wired, any_value, flag, json_annotation, names, text_annotation};

text_annotation! {
    /// `k8s.ovn.org/multicast-enabled`, on a namespace: its pods may use multicast among themselves.
    MulticastEnabled(bool), "k8s.ovn.org/multicast-enabled", flag
}
text_annotation! {
    /// `k8s.ovn.org/acl-stateless`, on a network policy: its rules are checked packet by packet.
    AclStateless(bool), "k8s.ovn.org/acl-stateless", flag
}
any_value!(MulticastEnabled(bool), AclStateless(bool));

names! {
    /// How loudly a decision of a network policy is recorded.
    AclLogLevel {
        /// As an alert.
        Alert = "alert",
        /// As a warning.
        Warning = "warning",
        /// As a notice.
        Notice = "notice",
        /// As information.
        Info = "info",
        /// For developers.
        Debug = "debug",
    }
}

/// `k8s.ovn.org/acl-logging`, on a namespace: which decisions of its network policies are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AclLogging {
    /// Record what was denied.
    pub deny: Option<AclLogLevel>,
    /// Record what was allowed.
    pub allow: Option<AclLogLevel>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct AclLoggingWire {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    deny: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    allow: String,
}

impl Wired for AclLogging {
    type Wire = AclLoggingWire;

    fn from_wire(wire: AclLoggingWire) -> Result<Self, String> {
        let level = |of: &str, text: &str| match text {
            "" => Ok(None),
            text => match AclLogLevel::named(text) {
                Some(level) => Ok(Some(level)),
                None => Err(format!("{of}: {text:?} is not alert, warning, notice, info or debug")),
            },
        };
        Ok(AclLogging { deny: level("deny", &wire.deny)?, allow: level("allow", &wire.allow)? })
    }

    fn to_wire(&self) -> AclLoggingWire {
        let print = |level: Option<AclLogLevel>| level.map(|l| l.as_str().to_owned()).unwrap_or_default();
        AclLoggingWire { deny: print(self.deny), allow: print(self.allow) }
    }
}

json_annotation!(AclLogging, "k8s.ovn.org/acl-logging");
