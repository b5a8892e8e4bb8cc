use super::*;
use crate::overlay::names::marked;
use crate::overlay::rows::{Acl, AddressSet, LogicalSwitchPort, Map, PortGroup, PortKind};

fn rows() -> Rows {
    let port = |name: &str| LogicalSwitchPort {
        name: name.to_owned(),
        switch: "n0".to_owned(),
        kind: PortKind::Interface,
        addresses: vec![],
        port_security: vec![],
        options: Map::new(),
        external_ids: marked([]),
    };
    let group = PortGroup { name: "pg".into(), ports: ["a".to_owned()].into(), external_ids: marked([]) };
    let addresses = ["10.0.0.1/32".parse().unwrap(), "10.1.0.0/16".parse().unwrap()].into();
    Rows::default().with(port("a")).with(port("b")).with(group).with(AddressSet {
        name: "as".into(),
        addresses,
        external_ids: marked([]),
    })
}

fn acl(id: &str, priority: u16, matches: &str, action: AclAction) -> Acl {
    Acl {
        id: id.to_owned(),
        name: String::new(),
        on: AclOn::PortGroup("pg".into()),
        direction: AclDirection::ToPort,
        priority,
        matches: matches.to_owned(),
        action,
        options: Map::new(),
        external_ids: marked([]),
    }
}

fn packet() -> Packet {
    Packet {
        inport: "b".into(),
        outport: "a".into(),
        source: "10.1.2.3".parse().unwrap(),
        destination: "10.0.0.9".parse().unwrap(),
        protocol: Protocol::Tcp,
        port: Port::new(80).unwrap(),
    }
}

#[test]
fn a_match_fits_what_ovn_says_it_fits() {
    for (text, fits) in [
        ("ip4", true),
        ("ip6", false),
        ("(ip4 || ip6)", true),
        ("ip4.src == {$as}", true),
        ("ip4.src == 10.1.2.3", true),
        ("ip4.src == 10.1.0.0/16 && ip4.src != {10.1.2.0/24, 10.1.3.0/24}", false),
        ("ip4.src == 10.1.0.0/16 && ip4.src != {10.1.3.0/24}", true),
        ("ip4.src == 0.0.0.0/0", true),
        ("ip6.src == ::/0", false),
        ("ip6.src != ::1", false),
        ("tcp && tcp.dst == 80", true),
        ("tcp && (tcp.dst == 81 || 79 <= tcp.dst <= 82)", true),
        ("81 <= tcp.dst <= 82", false),
        ("udp.dst == 80", false),
        ("outport == @pg", true),
        ("inport == @pg", false),
        ("outport == @pg && (arp || nd)", false),
    ] {
        assert_eq!(parse(text).unwrap().fits(&rows(), &packet()), Ok(fits), "{text}");
    }
}

#[test]
fn what_ovn_would_not_read_is_not_read_here() {
    for text in [
        "",
        "ip4 && ip6 || tcp",
        "(ip4",
        "ip4)",
        "ip4.src ==",
        "ip4.src == {",
        "a <= tcp.dst <= 9",
        "ip4 ip6",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    for (text, name) in [("ip4.src == $no", "$no"), ("outport == @no", "@no"), ("vlan", "vlan")] {
        assert_eq!(parse(text).unwrap().fits(&rows(), &packet()), Err(name.to_owned()));
    }
}

#[test]
fn the_highest_priority_decides_and_none_means_pass() {
    let judge = |acls: &[Acl]| {
        let rows = acls.iter().cloned().fold(rows(), Rows::with);
        evaluate(&rows, "n0", AclDirection::ToPort, &packet())
    };
    let drop = acl("drop", 1000, "outport == @pg", AclAction::Drop);
    let allow = acl("allow", 1001, "tcp", AclAction::AllowRelated);
    let other = acl("other", 1001, "udp", AclAction::AllowRelated);
    assert_eq!(judge(&[]), Ok(true));
    assert_eq!(judge(std::slice::from_ref(&drop)), Ok(false));
    assert_eq!(judge(&[drop.clone(), allow.clone()]), Ok(true));
    assert_eq!(judge(&[drop.clone(), other]), Ok(false));
    let torn = acl("torn", 1001, "tcp", AclAction::Drop);
    assert_eq!(judge(&[allow, torn]), Err(Trouble::Undecided { priority: 1001 }));
    let elsewhere = Acl { on: AclOn::Switch("n1".into()), ..drop };
    assert_eq!(judge(&[elsewhere]), Ok(true));
}
