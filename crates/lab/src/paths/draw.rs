//! The sites as text.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::sites::{Pod, Sites};
use crate::meter::Flow;

/// Draws nodes, pods, Services and the outside, and how many flows of each kind go between them.
pub fn draw(sites: &Sites, flows: &[Flow]) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(outside) = &sites.outside {
        let _ = writeln!(text, "outside  {}", list(&outside.addresses));
        let _ = writeln!(text, "   │");
        let _ = writeln!(text, " router");
        let _ = writeln!(text, "   │");
    }
    let _ = writeln!(text, "═══╪═══ underlay ═══════════════════════════════════════════");
    let last = sites.nodes.len().saturating_sub(1);
    for (at, node) in sites.nodes.iter().enumerate() {
        let (branch, stem) = if at == last { ("   └─", "     ") } else { ("   ├─", "   │ ") };
        let ranges = if node.pod_ranges.is_empty() {
            String::new()
        } else {
            format!("   zone {}: {}", node.name, node.pod_ranges.join(" "))
        };
        let _ = writeln!(text, "{branch} {}  {}{ranges}", node.name, list(&node.addresses));
        let pods: Vec<&Pod> = sites.pods_on(&node.name).collect();
        for (at, pod) in pods.iter().enumerate() {
            let twig = if at + 1 == pods.len() { "└─" } else { "├─" };
            let service = sites.service_of(pod).map(|service| {
                let port = service.node_port_udp.map(|port| format!(" and every node's port {port}"));
                format!("   ◀ {} {}{}", service.name, list(&service.cluster_ips), port.unwrap_or_default())
            });
            let _ = writeln!(
                text,
                "{stem}   {twig} {}  {}{}",
                pod.name,
                list(&pod.addresses),
                service.unwrap_or_default()
            );
        }
    }
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for flow in flows {
        match kinds.iter_mut().find(|(kind, _)| *kind == flow.kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((&flow.kind, 1)),
        }
    }
    if !kinds.is_empty() {
        let _ = writeln!(text, "\nflows:");
        for (kind, count) in kinds {
            let example = flows.iter().find(|flow| flow.kind == kind).map_or("", |flow| flow.name.as_str());
            let _ = writeln!(text, "  {count:>4} {kind:<24} {example}{}", if count > 1 { " …" } else { "" });
        }
    }
    text
}

fn list(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
