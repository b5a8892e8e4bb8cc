use std::path::Path;

use super::*;

fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Disk) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let disk = Disk::open(dir.path()).unwrap();
    (dir, disk)
}

fn files(root: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let name = format!("/{}", path.strip_prefix(root).unwrap().display());
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// Each service's own way: said, changed, changed back, and taken away again.
#[test]
fn whoever_owns_an_interface_says_another_mtu_and_then_again_what_it_said() {
    let unit = "[Match]\nName=eth*\n\n[Network]\nDHCP=yes\n\n[Link]\nMTUBytes=1500\n";
    type Host<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<u32>);
    let hosts: [Host<'_>; 5] = [
        (
            "ifupdown",
            &[
                ("/etc/network/interfaces", "source interfaces.d/*\n"),
                ("/etc/network/interfaces.d/lan", "iface eth0 inet static\n    mtu 1500\n"),
            ],
            Some(1500),
        ),
        (
            "keyfile",
            &[(
                "/etc/NetworkManager/system-connections/a.nmconnection",
                "[connection]\ninterface-name=eth0\n\n[ipv4]\nmethod=auto\n",
            )],
            None,
        ),
        ("networkd", &[("/usr/lib/systemd/network/10-lan.network", unit)], Some(1500)),
        (
            "netplan",
            &[(
                "/etc/netplan/50-cloud-init.yaml",
                "network: {version: 2, ethernets: {eth0: {dhcp4: true}}}\n",
            )],
            None,
        ),
        (
            "netplan before the unit it makes",
            &[
                ("/etc/netplan/50.yaml", "network: {version: 2, ethernets: {eth0: {mtu: 1500}}}\n"),
                ("/run/systemd/network/10-netplan-eth0.network", unit),
            ],
            Some(1500),
        ),
    ];
    for (what, before, said) in hosts {
        let (dir, disk) = host(before);
        let untouched = files(dir.path());
        let first = find(&disk, "eth0", None).unwrap().expect(what);
        assert_eq!(first.mtu.map(Mtu::bytes), said, "{what}");
        for mtu in [9000, 1400] {
            let mtu = Mtu::new(mtu).ok();
            set(&disk, "eth0", &first.owner, mtu).unwrap();
            let now = find(&disk, "eth0", None).unwrap().unwrap();
            assert_eq!(now, Configured { mtu, owner: first.owner.clone() }, "{what}");
        }
        set(&disk, "eth0", &first.owner, first.mtu).unwrap();
        assert_eq!(find(&disk, "eth0", None).unwrap().unwrap(), first, "{what}");
        assert_eq!(files(dir.path()), untouched, "{what}: nothing of ours is left");
    }
}

#[test]
fn what_an_editor_left_beside_a_connection_is_not_read() {
    let (dir, disk) = host(&[(
        "/etc/NetworkManager/system-connections/a.nmconnection",
        "[connection]\ninterface-name=eth0\n",
    )]);
    let beside = dir.path().join("etc/NetworkManager/system-connections");
    for name in [".a.nmconnection.swp", ".a", "a~"] {
        std::fs::write(beside.join(name), b"\xff[connection]\ninterface-name=eth0\n").unwrap();
    }
    let file = "/etc/NetworkManager/system-connections/a.nmconnection".to_owned();
    let found = find(&disk, "eth0", None).unwrap().unwrap();
    assert_eq!(found, Configured { owner: Owner::NetworkManager { file }, mtu: None });
}

#[test]
fn a_vlan_is_not_taken_for_what_it_stands_on() {
    let mac = "0a:00:00:00:00:01";
    let card = format!("[connection]\ntype=ethernet\n\n[ethernet]\nmac-address={mac}\nmtu=9000\n");
    let (_dir, disk) = host(&[
        ("/etc/NetworkManager/system-connections/card.nmconnection", &card),
        ("/etc/NetworkManager/system-connections/lan.nmconnection", "[connection]\ninterface-name=eth0.5\n"),
    ]);
    let said = |link| find(&disk, link, Some(mac)).unwrap().unwrap().mtu.map(Mtu::bytes);
    assert_eq!((said("eth0"), said("eth0.5")), (Some(9000), None));
    let plan = "network: {ethernets: {eth0: {}}, vlans: {eth0.5: {id: 5, link: eth0}}}\n";
    let (_dir, disk) = host(&[("/etc/netplan/50.yaml", plan)]);
    let sizes =
        || ["eth0", "eth0.5"].map(|link| find(&disk, link, None).unwrap().unwrap().mtu.map(Mtu::bytes));
    for (link, shall) in [("eth0", [Some(9000), None]), ("eth0.5", [Some(9000), Some(9000)])] {
        let owner = find(&disk, link, None).unwrap().unwrap().owner;
        set(&disk, link, &owner, Mtu::new(9000).ok()).unwrap();
        assert_eq!(sizes(), shall, "each in one file of ours");
    }
}

#[test]
fn an_interface_that_nobody_describes_is_nobodys() {
    let all = "[Match]\nName=*\n";
    let (_dir, disk) = host(&[
        ("/etc/network/interfaces", "iface lo inet loopback\n"),
        ("/usr/lib/systemd/network/80-all.network", all),
    ]);
    assert_eq!(find(&disk, "eth0", None).unwrap(), None);
    let (_dir, empty) = host(&[]);
    assert_eq!(find(&empty, "eth0", None).unwrap(), None);
}

#[test]
fn what_cannot_be_read_or_does_not_last_is_refused_by_its_file() {
    let (_dir, disk) = host(&[("/etc/netplan/a.yaml", "network: [\n")]);
    let said = find(&disk, "eth0", None).unwrap_err().to_string();
    assert!(said.starts_with("/etc/netplan/a.yaml cannot be read: "), "{said}");
    let fleeting = "/run/NetworkManager/system-connections/a.nmconnection";
    let (_dir, disk) = host(&[(fleeting, "[connection]\ninterface-name=eth0\n")]);
    let found = find(&disk, "eth0", None).unwrap().unwrap();
    let said = check(&disk, "eth0", &found, Mtu::new(9000).ok(), &[]).unwrap_err().to_string();
    assert_eq!(
        said,
        format!(
            "{fleeting} describes eth0 only until the next restart: describe it below /etc/NetworkManager"
        )
    );
    let (dir, disk) = host(&[("/etc/network/interfaces", "iface eth0 inet static\n")]);
    let found = find(&disk, "eth0", None).unwrap().unwrap();
    std::fs::remove_file(dir.path().join("etc/network/interfaces")).unwrap();
    std::fs::create_dir(dir.path().join("etc/network/interfaces")).unwrap();
    let said = set(&disk, "eth0", &found.owner, None).unwrap_err().to_string();
    assert_eq!(said, "/etc/network/interfaces cannot be read: it is not a file any more");
}

#[test]
fn a_link_is_read_and_edited_where_it_leads_and_one_to_nothing_says_nothing() {
    let stanza = "iface eth0 inet static\n    mtu 1500\n";
    let (dir, disk) = host(&[
        ("/srv/interfaces", stanza),
        ("/usr/lib/systemd/network/10-lan.network", "[Match]\nName=eth0\n"),
        ("/etc/systemd/network/20-other.network", "[Match]\nName=eth1\n"),
        ("/etc/network/keep", ""),
    ]);
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, dir.path().join(at)).unwrap();
    // systemd's way of leaving a unit out, and a link that leads nowhere.
    link("/dev/null", "etc/systemd/network/10-lan.network");
    link("/nowhere", "etc/systemd/network/05-gone.network");
    link("../../srv/interfaces", "etc/network/interfaces");
    let found = find(&disk, "eth0", None).unwrap().expect("the link leads to it");
    let file = "/etc/network/interfaces".to_owned();
    assert_eq!(found, Configured { owner: Owner::Ifupdown { file }, mtu: Mtu::new(1500).ok() });
    set(&disk, "eth0", &found.owner, Mtu::new(9000).ok()).unwrap();
    let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).unwrap();
    assert_eq!(read("srv/interfaces"), stanza.replace("1500", "9000"));
    assert!(std::fs::symlink_metadata(dir.path().join("etc/network/interfaces")).unwrap().is_symlink());
    // As on a running host, where it is there.
    std::fs::create_dir(dir.path().join("dev")).unwrap();
    nix::unistd::mkfifo(&dir.path().join("dev/null"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(find(&disk, "eth0", None).unwrap().is_some());

    let unit = find(&disk, "eth1", None).unwrap().unwrap();
    std::fs::create_dir(dir.path().join("etc/systemd/network/20-other.network.d")).unwrap();
    link("/dev/null", "etc/systemd/network/20-other.network.d/90-netferry-mtu.conf");
    let said = check(&disk, "eth1", &unit, Mtu::new(9000).ok(), &[]).unwrap_err().to_string();
    assert!(said.starts_with("/etc/systemd/network/20-other.network.d/90-netferry-mtu.conf is a"), "{said}");
    assert!(set(&disk, "eth1", &unit.owner, Mtu::new(9000).ok()).is_err());
    // Taking away what is not there is nothing, and ends a change.
    check(&disk, "eth1", &unit, None, &[]).unwrap();
    set(&disk, "eth1", &unit.owner, None).unwrap();
    let theirs = dir.path().join("etc/systemd/network/20-other.network.d/90-netferry-mtu.conf");
    assert!(std::fs::symlink_metadata(theirs).unwrap().is_symlink());
}

#[test]
fn a_size_is_not_said_of_an_interface_that_is_described_along_with_ours() {
    let unit = "[Match]\nName=en*\n\n[Link]\nMTUBytes=1500\n";
    let plan = "network: {version: 2, ethernets: {any: {match: {name: en*}, mtu: 1500}}}\n";
    let (new, own) = (Mtu::new(9000).ok(), Mtu::new(1500).ok());
    let others = [("lo".to_owned(), None), ("ensan".to_owned(), None)];
    for (file, text, named) in [
        ("/usr/lib/systemd/network/10-lan.network", unit, "/usr/lib/systemd/network/10-lan.network"),
        ("/etc/netplan/50.yaml", plan, "/etc/netplan (under any)"),
    ] {
        let (_dir, disk) = host(&[(file, text)]);
        let found = find(&disk, "enlan", None).unwrap().unwrap();
        let said = check(&disk, "enlan", &found, new, &others).unwrap_err().to_string();
        assert!(said.starts_with(&format!("{named} describes ensan as well as enlan")), "{said}");
        // What is said already, and a host that has no other.
        check(&disk, "enlan", &found, own, &others).unwrap();
        check(&disk, "enlan", &found, None, &others).unwrap();
        check(&disk, "enlan", &found, new, &others[..1]).unwrap();
    }
    // A unit before it, for one of them alone.
    let apart = "[Match]\nName=enlan\n";
    let (_dir, disk) = host(&[
        ("/usr/lib/systemd/network/10-lan.network", unit),
        ("/etc/systemd/network/05-lan.network", apart),
    ]);
    let found = find(&disk, "enlan", None).unwrap().unwrap();
    check(&disk, "enlan", &found, new, &others).unwrap();
    // A unit that asks for more than the pattern.
    let (mac, one) = ("0a:00:00:00:00:01", "[Match]\nName=en*\nMACAddress=0a:00:00:00:00:01\n");
    let (_dir, disk) = host(&[("/etc/systemd/network/10-lan.network", one)]);
    let found = find(&disk, "enlan", Some(mac)).unwrap().unwrap();
    assert_eq!(find(&disk, "ensan", Some("0a:00:00:00:00:02")).unwrap(), None);
    check(&disk, "enlan", &found, new, &others).unwrap();
    let (_dir, disk) = host(&[("/etc/network/interfaces", "iface enlan inet dhcp\niface ensan inet dhcp\n")]);
    let found = find(&disk, "enlan", None).unwrap().unwrap();
    check(&disk, "enlan", &found, new, &others).unwrap();
}
