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
    let said = set(&disk, "eth0", &found.owner, Mtu::new(9000).ok()).unwrap_err().to_string();
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
