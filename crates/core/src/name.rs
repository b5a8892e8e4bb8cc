//! Names of nodes and of namespaced objects.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

/// Text that is cheap to clone and that values may share: of tens of thousands of pods some hundred namespaces and
/// nodes are spoken of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text(Arc<str>);

impl Text {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether nothing else shares it.
    pub fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(text.into())
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Text {
        Text(text.as_str().into())
    }
}

impl From<Text> for String {
    fn from(text: Text) -> String {
        text.as_str().to_owned()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// The name of a node: what Kubernetes calls a DNS subdomain.
///
/// Invariant: 1 to 253 characters out of `a-z`, `0-9`, `-` and `.`, each part beginning and ending with a letter or a
/// digit. Names of OVN objects are made from it by adding prefixes, so nothing in it needs quoting.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Text);

/// Kubernetes would not accept a node of that name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not the name of a node")]
pub struct NotANodeName(pub String);

impl NodeName {
    /// The only way to a node name.
    pub fn new(name: impl Into<Text>) -> Result<NodeName, NotANodeName> {
        let name = name.into();
        let part = |part: &str| {
            let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
            !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
        };
        if name.len() <= 253 && name.split('.').all(part) {
            Ok(NodeName(name))
        } else {
            Err(NotANodeName(name.into()))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether nothing else shares it.
    pub fn is_alone(&self) -> bool {
        self.0.is_alone()
    }
}

impl FromStr for NodeName {
    type Err = NotANodeName;

    fn from_str(name: &str) -> Result<NodeName, NotANodeName> {
        NodeName::new(name)
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which object of a namespaced kind. Sorts by namespace first, so that a namespace is one range of a map.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// The namespace.
    pub namespace: Text,
    /// The name inside the namespace.
    pub name: Text,
}

impl ObjectName {
    /// The object `name` in `namespace`.
    pub fn new(namespace: impl Into<Text>, name: impl Into<Text>) -> ObjectName {
        ObjectName { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_kubernetes_refuses_is_no_node_name() {
        let long = "a".repeat(254);
        for wrong in ["", "-a", "a-", "A", "a_b", "a..b", "a b", "a\"b", long.as_str()] {
            assert!(NodeName::new(wrong).is_err(), "{wrong:?}");
        }
        for right in ["a", "node-1", "ip-10-0-0-1.example.internal", "1"] {
            assert!(NodeName::new(right).is_ok(), "{right:?}");
        }
    }
}
