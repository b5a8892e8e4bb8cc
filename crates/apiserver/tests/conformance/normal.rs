//! Takes out of an answer what differs from run to run and means nothing: what is left must be the same on both servers.
//!
//! Identity is kept: a uid, an object's resourceVersion, an address or a generated name becomes a placeholder with a
//! number, the same one wherever it comes again. An unwanted bump of a resourceVersion is so seen as a difference.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

fn regex(text: &str) -> Regex {
    Regex::new(text).expect("a fixed expression")
}

static UID: LazyLock<Regex> =
    LazyLock::new(|| regex("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
// Times before 2025 were written by a case.
static TIME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"20(?:2[5-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"));
static IPV4: LazyLock<Regex> = LazyLock::new(|| regex(r"10\.96\.\d{1,3}\.\d{1,3}"));
static IPV6: LazyLock<Regex> = LazyLock::new(|| regex(r"fd00:96::[0-9a-f]{1,4}(?::[0-9a-f]{1,4})?"));
static JWT: LazyLock<Regex> = LazyLock::new(|| regex(r"ey[A-Za-z0-9_-]+\.ey[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"));
static HASH: LazyLock<Regex> = LazyLock::new(|| regex("hash=[0-9A-F]+"));
static REVISIONS: LazyLock<Regex> = LazyLock::new(|| {
    let before = [
        r"too old resource version: ",
        r"Too large resource version: \d+, current: ",
        r"does not match the ResourceVersion in record \(",
    ];
    regex(&format!(r"({})\d+(?: \(\d+\))?", before.join("|")))
});
static WRITTEN_OUT: LazyLock<Regex> = LazyLock::new(|| regex(r#"(resourceVersion\\*":\\*")\d+"#));
static FINGERPRINT: LazyLock<Regex> = LazyLock::new(|| regex("X509SHA256=[0-9a-f]{64}"));
static AGE: LazyLock<Regex> = LazyLock::new(|| regex(r"^(\d+[smhd])+$"));
static MOUNT: LazyLock<Regex> = LazyLock::new(|| regex("kube-api-access-[a-z0-9]{5}"));

/// The placeholders of one case.
pub(crate) struct Normal {
    id: String,
    /// Everything the case itself wrote: what it chose is compared, not replaced.
    literal: String,
    numbers: BTreeMap<&'static str, BTreeMap<String, usize>>,
    /// The front of every name the case has the server make up.
    prefixes: Vec<Regex>,
    unordered: bool,
    /// Whether the case makes a group of its own.
    own_group: bool,
}

impl Normal {
    /// The placeholders of the case that wrote `literal` and has names made up from `prefixes`.
    /// `unordered`: several errors of one answer may come in any order.
    pub(crate) fn new(id: &str, literal: String, prefixes: &[String], unordered: bool) -> Normal {
        let form = |prefix: &String| {
            let prefix = regex::escape(&prefix.replace("${id}", "<id>").replace("${ns}", "<id>"));
            regex(&format!("({prefix})([bcdfghjklmnpqrstvwxz2456789]{{5}})\\b"))
        };
        let prefixes = prefixes.iter().map(form).collect();
        let own_group = literal.contains("${id}.example.com");
        Normal { id: id.to_owned(), literal, numbers: BTreeMap::new(), prefixes, unordered, own_group }
    }

    /// The answer's comparable form.
    pub(crate) fn value(&mut self, value: &Value) -> Value {
        let mut value = self.at("", value);
        if self.unordered {
            sort_causes(&mut value);
        }
        value
    }

    /// The same for a line of text.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let text = text.replace(&self.id, "<id>");
        let text = UID.replace_all(&text, |found: &Captures| self.numbered("uid", &found[0])).into_owned();
        let text = TIME.replace_all(
            &text,
            |found: &Captures| {
                if found.get(1).is_some() { "<microtime>" } else { "<time>" }
            },
        );
        let text = JWT.replace_all(&text, "<token>");
        let text = HASH.replace_all(&text, "hash=<hash>");
        let text = REVISIONS.replace_all(&text, "$1<rv>");
        let text = FINGERPRINT.replace_all(&text, "X509SHA256=<fingerprint>");
        let text = WRITTEN_OUT.replace_all(&text, "$1<rv>");
        let text = MOUNT.replace_all(&text, "kube-api-access-<suffix>").into_owned();
        let text = self.addresses(&IPV4, "ipv4", &text);
        let mut text = self.addresses(&IPV6, "ipv6", &text);
        for form in self.prefixes.clone() {
            let replaced = form.replace_all(&text, |found: &Captures| {
                format!("{}{}", &found[1], self.numbered("suffix", &found[2]))
            });
            text = replaced.into_owned();
        }
        text
    }

    fn addresses(&mut self, form: &Regex, kind: &'static str, text: &str) -> String {
        form.replace_all(text, |found: &Captures| {
            if self.literal.contains(&found[0]) {
                found[0].to_owned()
            } else {
                self.numbered(kind, &found[0])
            }
        })
        .into_owned()
    }

    fn numbered(&mut self, kind: &'static str, actual: &str) -> String {
        let known = self.numbers.entry(kind).or_default();
        let next = known.len() + 1;
        let number = *known.entry(actual.to_owned()).or_insert(next);
        format!("<{kind}-{number}>")
    }

    fn at(&mut self, key: &str, value: &Value) -> Value {
        match value {
            Value::String(s) => match key {
                "continue" if !s.is_empty() => "<continue>".into(),
                // It is made from the group, which is another in every run of the case.
                "storageVersionHash" if self.own_group => "<hash>".into(),
                _ if s.contains("-----BEGIN ") => "<pem>".into(),
                _ => self.text(s).into(),
            },
            Value::Number(n) if matches!(key, "nodePort" | "healthCheckNodePort") => {
                let port = n.to_string();
                if self.literal.contains(&port) { value.clone() } else { self.numbered("port", &port).into() }
            }
            Value::Number(_) | Value::Bool(_) | Value::Null => value.clone(),
            Value::Array(items) => Value::Array(items.iter().map(|v| self.at(key, v)).collect()),
            Value::Object(fields) => self.object(key, fields),
        }
    }

    fn object(&mut self, key: &str, fields: &Map<String, Value>) -> Value {
        let mut fields = fields.clone();
        if key == "metadata" {
            self.metadata(&mut fields);
        }
        if fields.get("kind").is_some_and(|k| k == "Table") {
            ages(&mut fields);
        }
        Value::Object(fields.iter().map(|(k, v)| (self.text(k), self.at(k, v))).collect())
    }

    /// A list's resourceVersion moves with whatever else happens on the server; an object's only with the object.
    fn metadata(&mut self, fields: &mut Map<String, Value>) {
        if let Some(Value::String(rv)) = fields.get("resourceVersion") {
            let placeholder = match rv.as_str() {
                "" | "0" => rv.clone(),
                rv if fields.contains_key("uid") => self.numbered("rv", rv),
                _ => "<rv>".into(),
            };
            fields.insert("resourceVersion".into(), placeholder.into());
        }
        // They are kept in the order of their times, which have a resolution of one second.
        if let Some(Value::Array(managers)) = fields.get_mut("managedFields") {
            let key = |m: &Value, k: &str| m[k].as_str().unwrap_or_default().to_owned();
            managers.sort_by_key(|m| (key(m, "operation"), key(m, "manager"), key(m, "subresource")));
            for manager in managers {
                disown_times(&mut manager["fieldsV1"]);
            }
        }
    }
}

/// Two transitions in one second write the same time twice, and the second writer then does not come to own it.
fn disown_times(owned: &mut Value) {
    let Value::Object(fields) = owned else { return };
    fields.remove("f:lastTransitionTime");
    fields.values_mut().for_each(disown_times);
}

/// Puts the causes of a refusal in order and leaves them out of its message, where each must have been.
fn sort_causes(status: &mut Value) {
    let Some(causes) = status["details"]["causes"].as_array().filter(|causes| causes.len() > 1) else {
        return;
    };
    let mut causes = causes.clone();
    causes.sort_by_key(Value::to_string);
    let message = status["message"].as_str().unwrap_or_default();
    let said = |cause: &Value| cause["message"].as_str().is_some_and(|text| message.contains(text));
    if let Some((before, _)) = message.split_once(": [").filter(|_| causes.iter().all(said)) {
        status["message"] = format!("{before}: [<the causes>]").into();
        status["details"]["causes"] = causes.into();
    }
}

/// Cells that say how long ago something was.
fn ages(table: &mut Map<String, Value>) {
    let dated: Vec<usize> = table
        .get("columnDefinitions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
        .filter(|(_, c)| {
            let name = c["name"].as_str().unwrap_or_default();
            c["type"] == "date"
                || matches!(name, "Age" | "Last Seen" | "First Seen" | "Created At" | "Duration")
        })
        .map(|(index, _)| index)
        .collect();
    for row in table.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        for (index, cell) in row["cells"].as_array_mut().into_iter().flatten().enumerate() {
            let aged = cell.as_str().is_some_and(|c| AGE.is_match(c));
            // Watch events after the first come without column definitions; an age is then known by its form.
            if aged && (dated.is_empty() || dated.contains(&index)) {
                *cell = "<age>".into();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_that_did_not_change_keeps_its_placeholder() {
        let mut normal = Normal::new("t1", String::new(), &[], false);
        let object = |rv: &str| json!({"metadata": {"uid": "11111111-2222-3333-4444-555555555555", "resourceVersion": rv}});
        let first = normal.value(&object("7"));
        assert_eq!(first, normal.value(&object("7")));
        assert_ne!(first, normal.value(&object("8")));
    }

    #[test]
    fn an_address_the_case_chose_is_compared() {
        let mut normal = Normal::new("t1", "clusterIP: 10.96.7.7".into(), &[], false);
        let shown = normal.value(&json!(["10.96.7.7", "10.96.1.2", "10.96.1.2", "fd00:96::a"]));
        assert_eq!(shown, json!(["10.96.7.7", "<ipv4-1>", "<ipv4-1>", "<ipv6-1>"]));
    }

    #[test]
    fn a_generated_name_is_the_same_wherever_it_comes_again() {
        let mut normal = Normal::new("t1", String::new(), &["${id}-a-".into()], false);
        let made = json!({"metadata": {"generateName": "t1-a-", "name": "t1-a-x7k2p"}, "message": "t1-a-x7k2p is new"});
        let shown = normal.value(&made);
        assert_eq!(shown["metadata"]["name"], "<id>-a-<suffix-1>");
        assert_eq!(shown["message"], "<id>-a-<suffix-1> is new");
    }

    #[test]
    fn who_wrote_a_transition_time_last_is_not_compared_but_who_owns_the_condition_is() {
        let mut normal = Normal::new("t1", String::new(), &[], false);
        let mut owned = |condition: Value| {
            normal.value(&json!({"metadata": {"managedFields": [{"fieldsV1": {"f:status": {"f:conditions": condition}}}]}}))
        };
        let with_time = owned(json!({"k:{\"type\":\"A\"}": {"f:status": {}, "f:lastTransitionTime": {}}}));
        assert_eq!(with_time, owned(json!({"k:{\"type\":\"A\"}": {"f:status": {}}})));
        assert_ne!(with_time, owned(json!({})));
    }

    #[test]
    fn a_time_the_case_wrote_is_compared() {
        let mut normal = Normal::new("t1", String::new(), &[], false);
        let shown = normal.value(&json!([
            "2020-01-01T00:00:00Z",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00.000001Z"
        ]));
        assert_eq!(shown, json!(["2020-01-01T00:00:00Z", "<time>", "<microtime>"]));
    }
}
