//! The Go types of a type's fields and when they are written, read from the structs.
//!
//! OpenAPI does not say whether `replicas: 0` survives a round trip (a pointer does), whether `hostNetwork: false`
//! does (a plain `omitempty` does not), or whether an absent list comes back as `null`. The struct tags do. And a
//! message about a bad pull policy calls it a `v1.PullPolicy`, where OpenAPI knows a string.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

/// The sources of the types: the module's directory (up to its version), the package in it, the OpenAPI prefix.
pub(crate) const PACKAGES: &[(&str, &str, &str)] = &[
    ("api@", "apps/v1", "io.k8s.api.apps.v1"),
    ("api@", "authentication/v1", "io.k8s.api.authentication.v1"),
    ("api@", "authorization/v1", "io.k8s.api.authorization.v1"),
    ("api@", "autoscaling/v1", "io.k8s.api.autoscaling.v1"),
    ("api@", "coordination/v1", "io.k8s.api.coordination.v1"),
    ("api@", "core/v1", "io.k8s.api.core.v1"),
    ("api@", "discovery/v1", "io.k8s.api.discovery.v1"),
    ("api@", "events/v1", "io.k8s.api.events.v1"),
    ("api@", "networking/v1", "io.k8s.api.networking.v1"),
    ("api@", "policy/v1", "io.k8s.api.policy.v1"),
    ("api@", "rbac/v1", "io.k8s.api.rbac.v1"),
    ("apimachinery@", "pkg/apis/meta/v1", "io.k8s.apimachinery.pkg.apis.meta.v1"),
    (
        "apiextensions-apiserver@",
        "pkg/apis/apiextensions/v1",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    ),
];

/// One field of a struct, or a struct whose fields it has inlined.
enum Field {
    Named { name: String, declared: String },
    Inlined(String),
}

/// For every type in `wanted`: its fields, each as `type` with `,omitempty` and `,omitzero` as its tag has them.
pub(crate) fn fields(modules: &Path, wanted: &BTreeMap<String, Value>) -> anyhow::Result<Value> {
    let mut structs = BTreeMap::new();
    for (module, package, prefix) in PACKAGES {
        let directory = find_module(modules, module)?.join(package);
        for entry in
            std::fs::read_dir(&directory).with_context(|| format!("reading {}", directory.display()))?
        {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".go") && !name.ends_with("_test.go") && !name.contains("generated") {
                read_structs(&std::fs::read_to_string(&path)?, prefix, &mut structs);
            }
        }
    }
    let mut out = serde_json::Map::new();
    for name in wanted.keys() {
        let mut fields = serde_json::Map::new();
        flatten(name, &structs, &mut fields);
        if !fields.is_empty() {
            out.insert(name.clone(), Value::Object(fields));
        }
    }
    Ok(Value::Object(out))
}

pub(crate) fn find_module(modules: &Path, prefix: &str) -> anyhow::Result<std::path::PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(modules)
        .with_context(|| format!("reading {}", modules.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(prefix)))
        .collect();
    found.sort();
    found.pop().with_context(|| format!("no module {prefix}… in {}", modules.display()))
}

fn read_structs(source: &str, prefix: &str, into: &mut BTreeMap<String, Vec<Field>>) {
    let mut current: Option<(String, Vec<Field>)> = None;
    for line in source.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (&mut current, &words[..]) {
            (None, ["type", name, "struct", "{"]) => current = Some((format!("{prefix}.{name}"), Vec::new())),
            (Some(_), ["}"]) if line.starts_with('}') => into.extend(current.take()),
            (Some((_, fields)), _) => fields.extend(field_of(line, prefix)),
            (None, _) => {}
        }
    }
}

/// `Name Type `json:"name,omitempty"``; nothing for comments and untagged lines.
fn field_of(line: &str, prefix: &str) -> Option<Field> {
    let line = line.trim();
    if line.starts_with("//") {
        return None;
    }
    let (declaration, rest) = line.split_once("`")?;
    let tag = rest.split_once("json:\"")?.1.split('"').next()?;
    let mut parts = tag.split(',');
    let name = parts.next()?;
    let options: Vec<&str> = parts.collect();
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let type_name = words.last()?;
    if options.contains(&"inline") {
        return Some(Field::Inlined(match type_name.split_once('.') {
            Some(("metav1", name)) => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
            Some(("v1", name)) => format!("io.k8s.api.core.v1.{name}"),
            Some((_, name)) => name.to_owned(),
            None => format!("{prefix}.{type_name}"),
        }));
    }
    let mut declared = go_type(type_name);
    for option in ["omitempty", "omitzero"].into_iter().filter(|option| options.contains(option)) {
        declared.push(',');
        declared.push_str(option);
    }
    Some(Field::Named { name: name.to_owned(), declared })
}

/// A type as Go's reflection prints it, which is how messages name it: with the name of its package, not the one
/// the file imports it by.
fn go_type(written: &str) -> String {
    if let Some(of) = written.strip_prefix('*') {
        return format!("*{}", go_type(of));
    }
    if let Some(of) = written.strip_prefix("[]") {
        return format!("[]{}", go_type(of));
    }
    if let Some((key, of)) = written.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        return format!("map[{}]{}", go_type(key), go_type(of));
    }
    match written.split_once('.') {
        Some(("metav1" | "corev1", name)) => format!("v1.{name}"),
        Some(_) => written.to_owned(),
        None if written == "byte" => "uint8".to_owned(),
        None if written.starts_with(|c: char| c.is_ascii_uppercase()) => format!("v1.{written}"),
        None => written.to_owned(),
    }
}

fn flatten(name: &str, structs: &BTreeMap<String, Vec<Field>>, into: &mut serde_json::Map<String, Value>) {
    for field in structs.get(name).into_iter().flatten() {
        match field {
            Field::Named { name, declared } => {
                into.insert(name.clone(), json!(declared));
            }
            Field::Inlined(other) => flatten(other, structs, into),
        }
    }
}
