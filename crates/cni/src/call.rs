//! What a runtime says in the environment.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{CniError, Code};

/// The verbs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Command {
    /// Attaches a container.
    Add,
    /// Takes an attachment away.
    Del,
    /// Looks whether an attachment is as it was made.
    Check,
    /// Whether containers can be attached.
    Status,
    /// Takes away every attachment that is not listed.
    Gc,
    /// Says which versions are spoken.
    Version,
}

impl Command {
    fn parse(text: &str) -> Option<Command> {
        Some(match text {
            "ADD" => Command::Add,
            "DEL" => Command::Del,
            "CHECK" => Command::Check,
            "STATUS" => Command::Status,
            "GC" => Command::Gc,
            "VERSION" => Command::Version,
            _ => return None,
        })
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Command::Add => "ADD",
            Command::Del => "DEL",
            Command::Check => "CHECK",
            Command::Status => "STATUS",
            Command::Gc => "GC",
            Command::Version => "VERSION",
        })
    }
}

/// One container's interface: what an ADD makes and everything else is about.
///
/// Invariant: both parts are such as the specification allows, so that an interface and a record can be named by
/// them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "AttachmentWire", into = "AttachmentWire")]
pub struct Attachment {
    container: String,
    ifname: String,
}

#[derive(Serialize, Deserialize)]
struct AttachmentWire {
    #[serde(rename = "containerID")]
    container: String,
    ifname: String,
}

impl From<Attachment> for AttachmentWire {
    fn from(attachment: Attachment) -> AttachmentWire {
        AttachmentWire { container: attachment.container, ifname: attachment.ifname }
    }
}

impl TryFrom<AttachmentWire> for Attachment {
    type Error = CniError;

    fn try_from(wire: AttachmentWire) -> Result<Attachment, CniError> {
        Attachment::new(wire.container, wire.ifname)
    }
}

impl Attachment {
    /// The only way to one.
    ///
    /// # Errors
    /// Code 4 for names the specification does not allow.
    pub fn new(container: impl Into<String>, ifname: impl Into<String>) -> Result<Attachment, CniError> {
        let (container, ifname) = (container.into(), ifname.into());
        if !is_name(&container) {
            return Err(wrong(
                "CNI_CONTAINERID",
                &container,
                "must begin with a letter or digit and hold letters, digits, '_', '.' and '-' only",
            ));
        }
        let refuse = |why| Err(wrong("CNI_IFNAME", &ifname, why));
        if ifname.is_empty() || ifname.len() > 15 {
            return refuse("must have 1 to 15 characters");
        }
        if ifname == "." || ifname == ".." {
            return refuse("must not be . or ..");
        }
        if ifname.contains(|c: char| c.is_whitespace() || matches!(c, '/' | ':' | '%' | '\0')) {
            return refuse("must not hold '/', ':', '%' or white space");
        }
        Ok(Attachment { container, ifname })
    }

    /// The container.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// The interface's name inside.
    pub fn ifname(&self) -> &str {
        &self.ifname
    }
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of container {}", self.ifname, self.container)
    }
}

/// Which pod a container belongs to, as the runtime says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID; older runtimes do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// What the environment asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// See [`Command::Add`].
    Add {
        /// What to make.
        attachment: Attachment,
        /// Where.
        netns: String,
        /// For whom.
        pod: PodRef,
    },
    /// See [`Command::Del`].
    Del {
        /// What to take away.
        attachment: Attachment,
        /// Where it was, if the runtime still knows.
        netns: Option<String>,
    },
    /// See [`Command::Check`].
    Check {
        /// What to look at.
        attachment: Attachment,
        /// Where.
        netns: String,
    },
    /// See [`Command::Status`].
    Status,
    /// See [`Command::Gc`].
    Gc,
    /// See [`Command::Version`].
    Version,
}

impl Call {
    /// Reads the environment, variable by variable.
    ///
    /// # Errors
    /// Code 4, naming every variable that is missing, or the one that is wrong.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Call, CniError> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let command = given("CNI_COMMAND").ok_or_else(|| missing(&["CNI_COMMAND"]))?;
        let command = Command::parse(&command).ok_or_else(|| {
            wrong("CNI_COMMAND", &command, "must be ADD, DEL, CHECK, STATUS, GC or VERSION")
        })?;
        let demand = |names: &[&'static str]| -> Result<(), CniError> {
            let absent: Vec<&str> = names.iter().copied().filter(|name| given(name).is_none()).collect();
            if absent.is_empty() { Ok(()) } else { Err(missing(&absent)) }
        };
        let text = |name: &str| given(name).unwrap_or_default();
        let attachment = || Attachment::new(text("CNI_CONTAINERID"), text("CNI_IFNAME"));
        Ok(match command {
            Command::Add => {
                demand(&["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"])?;
                let pod = pod(&text("CNI_ARGS"))?;
                Call::Add { attachment: attachment()?, netns: text("CNI_NETNS"), pod }
            }
            Command::Check => {
                demand(&["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"])?;
                Call::Check { attachment: attachment()?, netns: text("CNI_NETNS") }
            }
            Command::Del => {
                demand(&["CNI_CONTAINERID", "CNI_IFNAME"])?;
                Call::Del { attachment: attachment()?, netns: given("CNI_NETNS") }
            }
            Command::Status => Call::Status,
            Command::Gc => Call::Gc,
            Command::Version => Call::Version,
        })
    }

    /// The verb.
    pub fn command(&self) -> Command {
        match self {
            Call::Add { .. } => Command::Add,
            Call::Del { .. } => Command::Del,
            Call::Check { .. } => Command::Check,
            Call::Status => Command::Status,
            Call::Gc => Command::Gc,
            Call::Version => Command::Version,
        }
    }
}

/// The pod among `KEY=value` pairs joined by semicolons. Keys that are not ours are others' business.
fn pod(args: &str) -> Result<PodRef, CniError> {
    let (mut namespace, mut name, mut uid) = (None, None, None);
    for pair in args.split(';').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(wrong("CNI_ARGS", pair, "must be KEY=value pairs with ';' between"));
        };
        match key {
            "K8S_POD_NAMESPACE" => namespace = Some(value.to_owned()),
            "K8S_POD_NAME" => name = Some(value.to_owned()),
            "K8S_POD_UID" => uid = Some(value.to_owned()).filter(|uid| !uid.is_empty()),
            _ => {}
        }
    }
    let demand = |value: Option<String>, key: &str| {
        let why = "names no pod: it must be a Kubernetes name";
        match value {
            Some(value) if is_dns_name(&value) => Ok(value),
            Some(value) => Err(wrong(&format!("{key} in CNI_ARGS"), &value, why)),
            None => Err(missing(&[&format!("{key} in CNI_ARGS")])),
        }
    };
    Ok(PodRef {
        namespace: demand(namespace, "K8S_POD_NAMESPACE")?,
        name: demand(name, "K8S_POD_NAME")?,
        uid,
    })
}

/// What the specification allows for container ids and names of networks.
pub(crate) fn is_name(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-');
    text.bytes().next().is_some_and(|c| c.is_ascii_alphanumeric()) && text.bytes().all(inner)
}

fn is_dns_name(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.');
    !text.is_empty() && text.len() <= 253 && text.bytes().all(inner)
}

fn missing(names: &[&str]) -> CniError {
    let verb = if names.len() == 1 { "is" } else { "are" };
    CniError::new(
        Code::InvalidEnvironment,
        format!("{} {verb} missing from the environment", names.join(", ")),
    )
}

fn wrong(name: &str, value: &str, why: &str) -> CniError {
    CniError::new(Code::InvalidEnvironment, format!("{name} {value:?} {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn read(pairs: &[(&str, &str)]) -> Result<Call, CniError> {
        let map: BTreeMap<_, _> = pairs.iter().copied().collect();
        Call::read(|name| map.get(name).map(|v| (*v).to_owned()))
    }

    const ARGS: &str = "IgnoreUnknown=1;K8S_POD_NAMESPACE=web;K8S_POD_NAME=a-0;K8S_POD_UID=u-1";

    #[test]
    fn a_runtimes_environment_is_understood() {
        let env = [
            ("CNI_COMMAND", "ADD"),
            ("CNI_CONTAINERID", "c0ffee"),
            ("CNI_NETNS", "/run/netns/x"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_ARGS", ARGS),
        ];
        let Call::Add { attachment, netns, pod } = read(&env).unwrap() else { panic!("not an ADD") };
        assert_eq!((attachment.container(), attachment.ifname()), ("c0ffee", "eth0"));
        assert_eq!(netns, "/run/netns/x");
        assert_eq!(pod, PodRef { namespace: "web".into(), name: "a-0".into(), uid: Some("u-1".into()) });
    }

    #[test]
    fn deleting_needs_neither_a_namespace_nor_a_pod() {
        let env =
            [("CNI_COMMAND", "DEL"), ("CNI_CONTAINERID", "c"), ("CNI_IFNAME", "eth0"), ("CNI_NETNS", "")];
        let Call::Del { netns, .. } = read(&env).unwrap() else { panic!("not a DEL") };
        assert_eq!(netns, None);
    }

    #[test]
    fn every_missing_variable_is_named() {
        let error = read(&[("CNI_COMMAND", "ADD"), ("CNI_IFNAME", "eth0")]).unwrap_err();
        assert_eq!(error.code, Code::InvalidEnvironment);
        assert_eq!(error.msg, "CNI_CONTAINERID, CNI_NETNS, CNI_ARGS are missing from the environment");
    }

    #[test]
    fn values_that_could_lead_astray_are_refused() {
        let base = |name: &'static str, value: &'static str| {
            let mut env = BTreeMap::from([
                ("CNI_COMMAND", "ADD"),
                ("CNI_CONTAINERID", "c"),
                ("CNI_NETNS", "/run/netns/x"),
                ("CNI_IFNAME", "eth0"),
                ("CNI_ARGS", ARGS),
            ]);
            env.insert(name, value);
            read(&env.into_iter().collect::<Vec<_>>())
        };
        for (name, value) in [
            ("CNI_COMMAND", "add"),
            ("CNI_CONTAINERID", "../etc"),
            ("CNI_CONTAINERID", "-x"),
            ("CNI_IFNAME", "a/b"),
            ("CNI_IFNAME", "sixteen-bytes-xx"),
            ("CNI_IFNAME", "veth%d"),
            ("CNI_ARGS", "K8S_POD_NAMESPACE"),
            ("CNI_ARGS", "K8S_POD_NAMESPACE=web"),
            ("CNI_ARGS", "K8S_POD_NAMESPACE=web;K8S_POD_NAME=A_b"),
        ] {
            let error = base(name, value).unwrap_err();
            assert_eq!(error.code, Code::InvalidEnvironment, "{name}={value}");
        }
    }
}
