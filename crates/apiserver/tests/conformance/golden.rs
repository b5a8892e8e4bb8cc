//! The recorded answers of a case, one file each.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::case::{Case, accepted_everywhere, directory};
use crate::diff;

/// Whether this run writes the answers down instead of comparing them.
pub(crate) fn recording() -> bool {
    std::env::var("NETFERRY_RECORD").is_ok_and(|v| v == "1")
}

/// Where the answers of `case` are.
pub(crate) fn path(case: &Case) -> PathBuf {
    directory().join("golden").join(&case.topic).join(format!("{}.json", case.slug()))
}

/// Writes the answers down, without what may differ: that would change with every recording.
pub(crate) fn write(case: &Case, answers: &[Value]) {
    let mut answers = answers.to_vec();
    for ignore in &case.ignore {
        forget(case, &ignore.at, &mut answers);
    }
    let path = path(case);
    std::fs::create_dir_all(path.parent().expect("in a directory"))
        .expect("the directory of the golden files");
    let mut text = String::new();
    print(&json!({"case": case.case, "answers": answers}), 0, &mut text);
    std::fs::write(&path, text + "\n").unwrap_or_else(|e| panic!("writing {}: {e}", path.display()));
}

/// What differs from what was recorded, accepted differences aside.
pub(crate) fn differences(case: &Case, answers: &[Value]) -> Vec<String> {
    let path = path(case);
    let Ok(text) = std::fs::read_to_string(&path) else {
        return vec![format!(
            "nothing was recorded yet: {} is missing (NETFERRY_RECORD=1 writes it)",
            path.display()
        )];
    };
    let golden: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut recorded = golden["answers"].as_array().cloned().unwrap_or_default();
    let mut got = answers.to_vec();
    for ignore in &case.ignore {
        for side in [&mut recorded, &mut got] {
            forget(case, &ignore.at, side);
        }
    }
    let everywhere = if case.exact { Vec::new() } else { accepted_everywhere() };
    for ignore in &everywhere {
        let pointer: Vec<_> = ignore.at.split('/').skip(1).collect();
        recorded.iter_mut().chain(&mut got).for_each(|answer| diff::remove(answer, &pointer));
    }
    let mut out = Vec::new();
    for (index, (recorded, got)) in recorded.iter().zip(&got).enumerate() {
        let found = diff::lines(recorded, got);
        if !found.is_empty() {
            let what = got["step"].as_str().unwrap_or_default();
            out.push(format!("answer {} ({what}):", index + 1));
            out.extend(found.into_iter().map(|line| format!("  {line}")));
        }
    }
    if recorded.len() != got.len() {
        out.push(format!("{} answers were recorded, {} came", recorded.len(), got.len()));
    }
    out
}

fn forget(case: &Case, at: &str, answers: &mut [Value]) {
    let segments: Vec<_> = at.split('/').collect();
    let (step, pointer) = segments.split_first().expect("split gives one at least");
    let compared = case.steps.iter().enumerate().filter(|(_, s)| !s.quiet && !s.compact);
    for ((index, this), answer) in compared.zip(answers) {
        if this.called(index) == *step || *step == "*" {
            diff::remove(answer, pointer);
        }
    }
}

/// How wide a line may be before a value is spread over several.
const WIDTH: usize = 120;
/// What a reader wants to see first.
const FIRST: [&str; 4] = ["case", "step", "status", "type"];

/// Prints JSON so that it can be reviewed: small values on one line.
fn print(value: &Value, indent: usize, out: &mut String) {
    let flat = value.to_string();
    let pad = "  ".repeat(indent + 1);
    match value {
        Value::Object(fields) if indent < 3 || flat.len() + indent * 2 > WIDTH => {
            let mut keys: Vec<_> = fields.keys().collect();
            keys.sort_by_key(|key| FIRST.iter().position(|f| f == key).unwrap_or(FIRST.len()));
            for (index, key) in keys.into_iter().enumerate() {
                out.push_str(if index == 0 { "{\n" } else { ",\n" });
                out.push_str(&format!("{pad}{}: ", Value::from(key.as_str())));
                print(&fields[key], indent + 1, out);
            }
            out.push_str(&format!("\n{}}}", &pad[2..]));
        }
        Value::Array(items) if !items.is_empty() && (indent < 3 || flat.len() + indent * 2 > WIDTH) => {
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "[\n" } else { ",\n" });
                out.push_str(&pad);
                print(item, indent + 1, out);
            }
            out.push_str(&format!("\n{}]", &pad[2..]));
        }
        Value::Object(_)
        | Value::Array(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_) => {
            out.push_str(&flat);
        }
    }
}
