//! What was found, and how it is shown.

use std::fmt::Write as _;

use serde::Serialize;

use crate::output::Paint;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// Here, and works.
    Ok,
    /// Something will not work, or work worse.
    Warn,
    /// netferry cannot work without it.
    Missing,
}

/// One thing looked at.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Check {
    /// What kind of thing.
    pub(super) group: Group,
    /// Its name, unique in the group.
    pub(super) name: String,
    /// How bad it is.
    pub(super) level: Level,
    /// What was found, and what it means.
    pub(super) detail: String,
    /// The command that mends it. Always there when the level is not `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mend: Option<String>,
}

/// The kinds of things looked at, in the order they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Group {
    Privileges,
    Packages,
    Versions,
    Kernel,
    Units,
}

impl Group {
    const ALL: [Group; 5] = [Self::Privileges, Self::Packages, Self::Versions, Self::Kernel, Self::Units];

    fn title(self) -> &'static str {
        match self {
            Self::Privileges => "Privileges",
            Self::Packages => "Packages",
            Self::Versions => "Versions",
            Self::Kernel => "Kernel",
            Self::Units => "Units of the distribution's OVN",
        }
    }
}

impl Check {
    pub(super) fn ok(group: Group, name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { group, name: name.into(), level: Level::Ok, detail: detail.into(), mend: None }
    }

    /// Something that is not as it should be, and how to mend it.
    pub(super) fn lack(
        level: Level,
        group: Group,
        name: impl Into<String>,
        detail: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self { group, name: name.into(), level, detail: detail.into(), mend: Some(mend.into()) }
    }
}

/// Everything looked at.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    checks: Vec<Check>,
    summary: Summary,
}

#[derive(Debug, Serialize)]
struct Summary {
    ok: usize,
    warn: usize,
    missing: usize,
}

impl Report {
    pub(super) fn new(checks: Vec<Check>) -> Self {
        let count = |level| checks.iter().filter(|c| c.level == level).count();
        let summary =
            Summary { ok: count(Level::Ok), warn: count(Level::Warn), missing: count(Level::Missing) };
        Self { checks, summary }
    }

    pub(super) fn missing(&self) -> usize {
        self.summary.missing
    }

    #[cfg(test)]
    pub(super) fn find(&self, name: &str) -> &Check {
        self.checks.iter().find(|c| c.name == name).expect("the check is in the report")
    }

    pub(super) fn table(&self, paint: Paint) -> String {
        let width = self.checks.iter().map(|c| c.name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for group in Group::ALL {
            let of_group: Vec<&Check> = self.checks.iter().filter(|c| c.group == group).collect();
            if of_group.is_empty() {
                continue;
            }
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", paint.bold(group.title()));
            for check in of_group {
                let level = match check.level {
                    Level::Ok => paint.green("ok     "),
                    Level::Warn => paint.yellow("warn   "),
                    Level::Missing => paint.red("missing"),
                };
                let _ = writeln!(text, "  {level}  {:width$}  {}", check.name, check.detail);
                if let Some(mend) = &check.mend {
                    let _ = writeln!(text, "  {:7}  {:width$}  mend: {mend}", "", "");
                }
            }
            text.push('\n');
        }
        let Summary { ok, warn, missing } = self.summary;
        let _ = writeln!(text, "{ok} ok, {warn} warn, {missing} missing");
        text
    }
}
