//! What a scenario says of the table, written by hand: `deny * -> x/a`, `allow y/* -> x/a TCP 80`.

use std::str::FromStr;

use super::cell::{Cell, PodId};
use crate::programs::probe::Protocol;

/// One line: it decides the cells it fits, unless a later one does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    allow: bool,
    from: Pattern,
    to: Pattern,
    protocol: Option<Protocol>,
    port: Option<u16>,
}

/// A line nobody can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not like \"deny * -> x/a\" or \"allow y/* -> x/a TCP 80\"")]
pub struct NotAnExpectation(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pattern {
    namespace: Option<char>,
    name: Option<char>,
}

impl Pattern {
    fn read(text: &str) -> Option<Pattern> {
        if text == "*" {
            return Some(Pattern { namespace: None, name: None });
        }
        let part = |text: &str, known: &str| match text {
            "*" => Some(None),
            one => known.chars().find(|known| known.to_string() == one).map(Some),
        };
        let (namespace, name) = text.split_once('/')?;
        Some(Pattern { namespace: part(namespace, "xyz")?, name: part(name, "abc")? })
    }

    fn fits(self, pod: PodId) -> bool {
        self.namespace.is_none_or(|namespace| namespace == pod.namespace)
            && self.name.is_none_or(|name| name == pod.name)
    }
}

impl FromStr for Expectation {
    type Err = NotAnExpectation;

    fn from_str(text: &str) -> Result<Expectation, NotAnExpectation> {
        let wrong = || NotAnExpectation(text.to_owned());
        let words: Vec<&str> = text.split_whitespace().collect();
        let [verdict, from, "->", to, rest @ ..] = words.as_slice() else { return Err(wrong()) };
        let allow = match *verdict {
            "allow" => true,
            "deny" => false,
            _ => return Err(wrong()),
        };
        let protocol = match rest.first().copied() {
            None => None,
            Some("TCP") => Some(Protocol::Tcp),
            Some("UDP") => Some(Protocol::Udp),
            Some(_) => return Err(wrong()),
        };
        let port = match rest.get(1) {
            None => None,
            Some(port) => Some(port.parse().map_err(|_| wrong())?),
        };
        if rest.len() > 2 {
            return Err(wrong());
        }
        let from = Pattern::read(from).ok_or_else(wrong)?;
        let to = Pattern::read(to).ok_or_else(wrong)?;
        Ok(Expectation { allow, from, to, protocol, port })
    }
}

/// Whether a cell is to be open. A pod always reaches itself.
pub(super) fn open(expectations: &[Expectation], cell: &Cell) -> bool {
    let fits = |line: &&Expectation| {
        line.from.fits(cell.from)
            && line.to.fits(cell.to)
            && line.protocol.is_none_or(|protocol| protocol == cell.protocol)
            && line.port.is_none_or(|port| port == cell.port)
    };
    cell.from == cell.to || expectations.iter().rev().find(fits).is_none_or(|line| line.allow)
}
