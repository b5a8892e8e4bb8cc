//! The parts of a cluster that are killed on purpose while packets flow, and what packets may notice of it.

use std::time::{Duration, Instant};

use crate::error::{LabError, Result};
use crate::meter::Limits;
use crate::{Lab, Name};

/// Between two looks whether another process has taken a killed one's place.
const LOOK: Duration = Duration::from_millis(20);
/// A gap that people would notice.
const GAP: Duration = Duration::from_secs(2);

/// Something that can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Our agent on a node.
    Agent,
    /// Our operator.
    Operator,
    /// The API server.
    ApiServer,
    /// `ovn-northd` of a node's zone.
    Northd,
    /// The northbound database of a node's zone.
    Northbound,
    /// The southbound database of a node's zone.
    Southbound,
    /// The database of a node's switch.
    SwitchDatabase,
    /// `ovn-controller` of a node's zone.
    Controller,
    /// A node's switch itself.
    Switch,
}

impl Part {
    /// All of them, those that carry packets themselves last.
    pub const ALL: [Part; 9] = [
        Part::Agent,
        Part::Operator,
        Part::ApiServer,
        Part::Northd,
        Part::Northbound,
        Part::Southbound,
        Part::SwitchDatabase,
        Part::Controller,
        Part::Switch,
    ];

    /// How it is called.
    pub fn word(self) -> &'static str {
        match self {
            Part::Agent => "agent",
            Part::Operator => "operator",
            Part::ApiServer => "API server",
            Part::Northd => "ovn-northd",
            Part::Northbound => "ovsdb-server (northbound)",
            Part::Southbound => "ovsdb-server (southbound)",
            Part::SwitchDatabase => "ovsdb-server (switch)",
            Part::Controller => "ovn-controller",
            Part::Switch => "ovs-vswitchd",
        }
    }

    /// Whether every node has one; else it is the cluster's.
    pub fn on_nodes(self) -> bool {
        match self {
            Part::Operator | Part::ApiServer => false,
            Part::Agent
            | Part::Northd
            | Part::Northbound
            | Part::Southbound
            | Part::SwitchDatabase
            | Part::Controller
            | Part::Switch => true,
        }
    }

    /// What flows may notice of the end of one; nothing is said of the switch that carries them.
    ///
    /// A new `ovn-controller` takes over the old one's flows as one bundle, and a packet that is being looked up at that
    /// moment can be lost. A switch without a datapath in the kernel stands still until its database is back; what comes
    /// meanwhile waits in its sockets.
    pub fn limits(self) -> Option<Limits> {
        let gap = Some(GAP);
        match self {
            Part::Agent
            | Part::Operator
            | Part::ApiServer
            | Part::Northd
            | Part::Northbound
            | Part::Southbound
            | Part::SwitchDatabase => Some(Limits { lost: 0, gap }),
            Part::Controller => Some(Limits { lost: 1, gap }),
            Part::Switch => None,
        }
    }

    /// Where it runs, by the names a lab knows.
    pub fn places(self, nodes: &[Name]) -> Vec<String> {
        if self.on_nodes() {
            return nodes.iter().map(ToString::to_string).collect();
        }
        vec!["control".to_owned()]
    }

    /// Prints the number of its process, where it runs.
    fn finder(self) -> &'static str {
        // A pattern that does not match the command line it stands in.
        match self {
            Part::Agent => r#"pgrep -f "[n]etferry .*(agent|solo) --node""#,
            Part::Operator => r#"pgrep -f "[n]etferry .* operator""#,
            Part::ApiServer => r#"pgrep -f "[n]etferry apiserver|[k]ube-apiserver""#,
            Part::Northd => "cat /run/ovn/ovn-northd.pid",
            Part::Northbound => "cat /run/ovn/ovnnb_db.pid",
            Part::Southbound => "cat /run/ovn/ovnsb_db.pid",
            Part::SwitchDatabase => "cat /run/openvswitch/ovsdb-server.pid",
            Part::Controller => "cat /run/ovn/ovn-controller.pid",
            Part::Switch => "cat /run/openvswitch/ovs-vswitchd.pid",
        }
    }

    /// Kills the one at a place, without a goodbye. With an agent goes its whole process group, as a service manager
    /// ends it: what the agent started for its node is to outlive that.
    pub fn kill(self, lab: &Lab, place: &str) -> Result<Killed> {
        let whole = if self == Part::Agent { "-" } else { "" };
        let script = format!("pid=$({}) && kill -9 {whole}$pid && echo $pid", self.finder());
        let done = lab.exec(place, "sh", &["-c", &script])?;
        if !done.status.success() {
            let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
            return Err(LabError::failed(format!("killing the {} of {place}", self.word()), why));
        }
        let process = String::from_utf8_lossy(&done.stdout).trim().to_owned();
        Ok(Killed { part: self, place: place.to_owned(), process, at: Instant::now() })
    }
}

/// A process that was killed.
#[derive(Clone, Debug)]
pub struct Killed {
    part: Part,
    place: String,
    process: String,
    at: Instant,
}

impl Killed {
    /// Waits until another process has its place; answers how long that took.
    pub fn replaced(&self, lab: &Lab, patience: Duration) -> Result<Duration> {
        let script = format!("pid=$({}) && kill -0 $pid && echo $pid", self.part.finder());
        loop {
            let done = lab.exec(&self.place, "sh", &["-c", &script])?;
            let process = String::from_utf8_lossy(&done.stdout).trim().to_owned();
            if done.status.success() && process != self.process {
                return Ok(self.at.elapsed());
            }
            if self.at.elapsed() > patience {
                let waiting_for = format!("another {} in {}", self.part.word(), self.place);
                return Err(LabError::TimedOut { waiting_for, within: patience });
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// What keeps everybody from the API server. Its own name, so that nothing else is meant by it.
const WALL: &str = "netferry-lab-api-away";

/// Takes the API away from everybody: its server is killed, and connections to the next one are refused until
/// [`bring_api_back`].
pub fn take_api_away(lab: &Lab) -> Result<()> {
    let wall = format!(
        "table inet {WALL} {{\nchain refuse {{ type filter hook input priority 0; tcp dport 6443 reject with tcp reset; }}\n}}"
    );
    in_control(lab, "taking the API away", &["nft", &wall])?;
    Part::ApiServer.kill(lab, "control").map(drop)
}

/// Lets everybody reach the API again.
pub fn bring_api_back(lab: &Lab) -> Result<()> {
    in_control(lab, "bringing the API back", &["nft", "delete", "table", "inet", WALL])
}

fn in_control(lab: &Lab, attempt: &str, command: &[&str]) -> Result<()> {
    let done = lab.exec("control", command[0], &command[1..])?;
    if done.status.success() {
        return Ok(());
    }
    Err(LabError::failed(attempt, String::from_utf8_lossy(&done.stderr).trim()))
}
