//! Showing what was measured: each path for programs, each kind of path for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use netferry_core::mtu::paths::judge::{Leg, Measured};
use netferry_core::mtu::record::Record;
use netferry_core::net::Family;
use netferry_core::overlay::path::Kind;
use serde::Serialize;

use crate::output::Paint;

/// A path, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Path {
    kind: &'static str,
    family: u8,
    from: String,
    /// The node that answers; nothing for the outside.
    to: Option<String>,
    /// Nothing where it is not ours to say.
    configured: Option<u32>,
    uses: u32,
    passes: u32,
    back: Option<Back>,
    #[serde(skip)]
    sort: (Kind, Family),
}

/// The way back.
#[derive(Debug, Serialize)]
struct Back {
    uses: u32,
    passes: u32,
}

impl Path {
    pub(crate) fn of(record: &Record, measured: &Measured) -> Path {
        let Measured { ask, there, back } = measured;
        let family = ask.target.family();
        Path {
            kind: ask.kind.word(),
            family: match family {
                Family::V4 => 4,
                Family::V6 => 6,
            },
            from: ask.from.to_string(),
            to: ask.to.as_ref().map(ToString::to_string),
            configured: measured.configured(record).map(|bounds| bounds.most.bytes()),
            uses: there.uses,
            passes: there.passes,
            back: back.map(|Leg { uses, passes }| Back { uses, passes }),
            sort: (ask.kind, family),
        }
    }
}

/// A line for each kind of path and family, with the least and the most of what was measured, both ways.
pub(crate) fn table(paths: &[Path], paint: Paint) -> String {
    let mut kinds: BTreeMap<(Kind, Family), Vec<&Path>> = BTreeMap::new();
    for path in paths {
        kinds.entry(path.sort).or_default().push(path);
    }
    let row = |kind: &str, family: &str, count: &str, configured: &str, uses: &str, passes: &str| {
        format!("{kind:23}  {family:6}  {count:>5}  {configured:>10}  {uses:>9}  {passes:>9}")
    };
    let mut text =
        format!("{}\n", paint.bold(&row("PATH", "FAMILY", "COUNT", "CONFIGURED", "USES", "PASSES")));
    for ((kind, family), all) in kinds {
        let both = |of: fn(&Path) -> u32, back: fn(&Back) -> u32| {
            let back = all.iter().filter_map(|path| path.back.as_ref()).map(back);
            range(all.iter().map(|path| of(path)).chain(back))
        };
        let (uses, passes) =
            (both(|path| path.uses, |back| back.uses), both(|path| path.passes, |back| back.passes));
        let configured = all.iter().find_map(|path| path.configured);
        let configured = configured.map_or_else(|| "-".to_owned(), |size| size.to_string());
        let line = row(kind.word(), &family.to_string(), &all.len().to_string(), &configured, &uses, &passes);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

/// The least and the most of some numbers; one of both where they are the same.
fn range(numbers: impl Iterator<Item = u32>) -> String {
    let (mut least, mut most) = (u32::MAX, 0);
    for number in numbers {
        (least, most) = (least.min(number), most.max(number));
    }
    if least == most { most.to_string() } else { format!("{least}-{most}") }
}
