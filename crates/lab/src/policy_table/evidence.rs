//! What a cluster's nodes know while a cell is wrong.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use crate::Lab;
use crate::paths::in_lab::ready_nodes;

/// What to ask, and under which name the answer is kept.
const QUESTIONS: [(&str, &str); 8] = [
    (
        "northbound",
        "for t in ACL Port_Group Address_Set; do ovn-nbctl --db=unix:/run/ovn/ovnnb_db.sock list $t; done",
    ),
    (
        "southbound",
        "for t in Port_Group Address_Set Port_Binding; do ovn-sbctl --db=unix:/run/ovn/ovnsb_db.sock list $t; done",
    ),
    ("logical-flows", "ovn-sbctl --db=unix:/run/ovn/ovnsb_db.sock lflow-list"),
    ("rules", "ovs-ofctl -O OpenFlow15 dump-flows br-int"),
    ("decisions", "ovs-appctl dpctl/dump-flows -m"),
    ("connections", "ovs-appctl dpctl/dump-conntrack"),
    ("logs", "for f in $(find /var/log -name '*.log'); do echo \"== $f\"; tail -n 300 $f; done"),
    ("switch-ended", "grep -rh 'killed\\|assertion\\|crash' /var/log/openvswitch || true"),
];

/// Writes into a directory what every node of a lab knows: rows, flows, connections, logs. It tells why a cell was
/// wrong, as long as nothing has changed since.
pub fn gather(lab: &Lab, into: &Path) -> io::Result<PathBuf> {
    let status = lab.status().map_err(io::Error::other)?;
    let nodes = ready_nodes(&status).map_err(io::Error::other)?;
    std::fs::create_dir_all(into)?;
    for node in &nodes {
        for (name, question) in QUESTIONS {
            let mut text = String::new();
            match lab.exec(node, "sh", &["-c", question]) {
                Ok(output) => {
                    text.push_str(&String::from_utf8_lossy(&output.stdout));
                    text.push_str(&String::from_utf8_lossy(&output.stderr));
                }
                Err(error) => drop(write!(text, "{}", error.chain())),
            }
            std::fs::write(into.join(format!("{node}.{name}")), text)?;
        }
    }
    Ok(into.to_owned())
}
