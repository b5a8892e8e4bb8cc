//! A report as text.

use std::fmt::{self, Display, Formatter};

use super::report::{Direction, FlowReport, Limits, Report};

/// Up to so many flows have a line each; of more, each kind of path has one and only flows with problems their own.
const LINES: usize = 60;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows = vec![HEAD.map(str::to_owned)];
        if self.flows.len() <= LINES {
            rows.extend(
                self.flows
                    .iter()
                    .map(|flow| row(&flow.name, &flow.traffic, &flow.family.to_string(), &[flow])),
            );
        } else {
            rows.extend(by_kind(&self.flows));
            let troubled = |flow: &&FlowReport| flow.lost() > 0 || flow.forward.received == 0;
            for flow in self.flows.iter().filter(troubled) {
                rows.push(row(&flow.name, &flow.traffic, &flow.family.to_string(), &[flow]));
            }
        }
        aligned(f, &rows)?;
        let totals = &self.totals;
        let seconds = self.elapsed_ms as f64 / 1000.0;
        writeln!(
            f,
            "{} flows, {:.1} s: {} sent, {} lost, {} duplicated, {} reordered, longest gap {}{}",
            totals.flows,
            seconds,
            totals.sent,
            totals.lost,
            totals.duplicated,
            totals.reordered,
            gap(totals.longest_gap_ms),
            if self.running { " (still running)" } else { "" }
        )?;
        for problem in self.verdict(Limits::NONE_LOST).problems {
            writeln!(f, "! {problem}")?;
        }
        Ok(())
    }
}

const HEAD: [&str; 10] = ["PATH", "TRAFFIC", "IP", "SENT", "LOST", "DUP", "REORD", "GAP", "SIZE", "NOTES"];

fn by_kind(flows: &[FlowReport]) -> Vec<[String; 10]> {
    let key = |flow: &FlowReport| (flow.kind.clone(), flow.traffic.clone(), flow.family);
    let mut groups: Vec<Vec<&FlowReport>> = Vec::new();
    for flow in flows {
        match groups.iter_mut().find(|group| key(group[0]) == key(flow)) {
            Some(group) => group.push(flow),
            None => groups.push(vec![flow]),
        }
    }
    groups
        .iter()
        .map(|group| {
            let (kind, traffic, family) = key(group[0]);
            row(&format!("{kind} ×{}", group.len()), &traffic, &family.to_string(), group)
        })
        .collect()
}

fn row(name: &str, traffic: &str, family: &str, flows: &[&FlowReport]) -> [String; 10] {
    let directions = || flows.iter().flat_map(|flow| flow.directions());
    let sum = |of: fn(&Direction) -> u64| directions().map(of).sum::<u64>();
    let sizes: Vec<u32> = directions().map(|d| d.largest_passed).filter(|size| *size > 0).collect();
    let size = match (sizes.iter().min(), sizes.iter().max()) {
        _ if traffic == "tcp" => "-".to_owned(),
        (Some(least), Some(most)) if least == most => most.to_string(),
        (Some(least), Some(most)) => format!("{least}-{most}"),
        _ => "-".to_owned(),
    };
    // Where both directions are counted, a loss says which way it went.
    let lost = match flows {
        [FlowReport { forward, backward: Some(backward), .. }] if forward.lost + backward.lost > 0 => {
            format!("{}>{}<", forward.lost, backward.lost)
        }
        _ => sum(|d| d.lost).to_string(),
    };
    [
        name.to_owned(),
        traffic.to_owned(),
        family.to_owned(),
        sum(|d| d.sent).to_string(),
        lost,
        sum(|d| d.duplicated).to_string(),
        sum(|d| d.reordered).to_string(),
        gap(directions().map(|d| d.longest_gap_ms).fold(0.0, f64::max)),
        size,
        notes(flows),
    ]
}

fn notes(flows: &[&FlowReport]) -> String {
    let mut notes = Vec::new();
    let broken: u64 = flows.iter().filter_map(|flow| flow.stream.as_ref()).map(|stream| stream.broken).sum();
    if broken > 0 {
        notes.push(format!("broke {broken}×"));
    }
    if flows.iter().any(|flow| flow.paused) {
        notes.push("paused".to_owned());
    }
    if let [flow] = flows {
        if let Some(requests) = &flow.requests {
            notes.extend(requests.failed.iter().map(|(why, count)| format!("{count} {why}")));
            notes.push(format!("{} backends", requests.answered_by.len()));
        }
        notes.extend(flow.errors.iter().map(|(what, count)| format!("{what} {count}×")));
    }
    notes.join(", ")
}

fn gap(ms: f64) -> String {
    if ms >= 10_000.0 { format!("{:.1}s", ms / 1000.0) } else { format!("{ms:.0}ms") }
}

fn aligned(f: &mut Formatter<'_>, rows: &[[String; 10]]) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            // Numbers to the right, words to the left.
            let (left, right) =
                if (3..=8).contains(&column) { (pad.as_str(), "") } else { ("", pad.as_str()) };
            line.push_str(&format!("{left}{cell}{right}  "));
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}
