//! Faults on request.

use clap::Args;
use netferry_lab::{Fault, Lab};

use crate::exit::Failure;

/// Pull a cable, or keep two ends from hearing each other
#[derive(Debug, Args)]
#[command(after_help = "\
Ends are nodes, `api` (the control plane) and `outside` (the way to it).

Examples:
  netferry lab cut node-2               its cable is pulled
  netferry lab cut node-1 node-2        they do not hear each other, others hear both
  netferry lab cut node-3 api           it does not reach the API
  netferry lab cut api                  nobody does")]
pub(crate) struct CutArgs {
    #[command(flatten)]
    ends: Ends,
}

/// Undo cut and lose
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  netferry lab heal                     everything
  netferry lab heal node-1 node-2       whatever is wrong between these two")]
pub(crate) struct HealArgs {
    /// One end; without it, everything is healed
    end: Option<String>,
    /// The other
    peer: Option<String>,
    /// The underlay network
    #[arg(long, value_name = "K", default_value_t = 0)]
    network: u8,
}

/// Lose some packets, each by chance
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  netferry lab lose 1 node-2            one of a hundred, of and to node-2
  netferry lab lose 0.5 node-1 node-2   between these two only")]
pub(crate) struct LoseArgs {
    /// How many of a hundred
    #[arg(value_name = "PERCENT", value_parser = share)]
    share: u32,
    #[command(flatten)]
    ends: Ends,
}

/// Where it happens.
#[derive(Debug, Args)]
struct Ends {
    /// One end
    end: String,
    /// The other; without it, everything of and to the first
    peer: Option<String>,
    /// The underlay network
    #[arg(long, value_name = "K", default_value_t = 0)]
    network: u8,
}

/// Per cent, as parts of a million.
fn share(text: &str) -> Result<u32, String> {
    let percent: f64 = text.parse().map_err(|_| format!("{text:?}: expected a number such as 0.5"))?;
    if !(0.0001..=100.0).contains(&percent) {
        return Err(format!("{text:?}: expected 0.0001 to 100"));
    }
    Ok((percent * 10_000.0).round() as u32)
}

pub(super) fn cut(lab: &Lab, args: &CutArgs) -> Result<(), Failure> {
    harm(lab, cut_of(&args.ends.end, args.ends.peer.as_ref(), args.ends.network))
}

pub(super) fn lose(lab: &Lab, args: &LoseArgs) -> Result<(), Failure> {
    harm(lab, loss_of(&args.ends.end, args.ends.peer.as_ref(), args.ends.network, args.share))
}

fn harm(lab: &Lab, fault: Fault) -> Result<(), Failure> {
    lab.harm(fault.clone())?;
    eprintln!("{fault}; netferry lab heal undoes it");
    Ok(())
}

pub(super) fn heal(lab: &Lab, args: &HealArgs) -> Result<(), Failure> {
    let Some(end) = &args.end else { return Ok(lab.heal(None)?) };
    let cut = lab.heal(Some(cut_of(end, args.peer.as_ref(), args.network)));
    let lost = lab.heal(Some(loss_of(end, args.peer.as_ref(), args.network, 0)));
    // One of the two is enough: whichever there was.
    match (cut, lost) {
        (Ok(()), _) | (_, Ok(())) => Ok(()),
        (Err(error), Err(_)) => Err(error.into()),
    }
}

fn cut_of(end: &str, peer: Option<&String>, network: u8) -> Fault {
    match peer {
        None => Fault::Cut { end: end.to_owned(), network },
        Some(peer) => Fault::Part { a: end.to_owned(), b: peer.clone(), network },
    }
}

fn loss_of(end: &str, peer: Option<&String>, network: u8, of_a_million: u32) -> Fault {
    Fault::Lose { end: end.to_owned(), peer: peer.cloned(), network, of_a_million }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_share_is_more_than_nothing_and_at_most_everything() {
        assert_eq!(share("1"), Ok(10_000));
        assert_eq!(share("0.5"), Ok(5_000));
        assert_eq!(share("100"), Ok(1_000_000));
        for wrong in ["0", "-1", "101", "", "many", "NaN"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
