//! The cells of a truth table.

use std::fmt::{self, Display, Formatter};

use crate::programs::probe::Protocol;

/// The ports pods serve.
pub const PORTS: [u16; 2] = [80, 81];

/// One of the nine pods: a namespace of x, y, z and a name of a, b, c.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId {
    /// x, y or z. Its name in a cluster has a prefix.
    pub namespace: char,
    /// a, b or c.
    pub name: char,
}

impl PodId {
    /// All nine.
    pub fn all() -> impl Iterator<Item = PodId> {
        ['x', 'y', 'z']
            .into_iter()
            .flat_map(|namespace| ['a', 'b', 'c'].map(|name| PodId { namespace, name }))
    }

    /// Reads `x/a`.
    pub fn read(text: &str) -> Option<PodId> {
        PodId::all().find(|pod| pod.to_string() == text)
    }
}

impl Display for PodId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One question of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Who asks.
    pub from: PodId,
    /// Whom.
    pub to: PodId,
    /// By which protocol.
    pub protocol: Protocol,
    /// On which port.
    pub port: u16,
    /// By IPv6.
    pub v6: bool,
}

impl Display for Cell {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        };
        let family = if self.v6 { 6 } else { 4 };
        write!(f, "{} -> {} {protocol} {} IPv{family}", self.from, self.to, self.port)
    }
}

/// All cells of a table in these families.
pub fn cells(families: &[bool]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for from in PodId::all() {
        for to in PodId::all() {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                for port in PORTS {
                    cells.extend(families.iter().map(|v6| Cell { from, to, protocol, port, v6: *v6 }));
                }
            }
        }
    }
    cells
}
