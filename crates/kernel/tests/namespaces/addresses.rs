use std::collections::BTreeMap;
use std::net::IpAddr;

use netferry_kernel::address::{Address, Lifetime};
use netferry_kernel::neighbour::{Neighbour, Neighbourhood};
use netferry_kernel::sysctl::{Key, Of};
use netferry_kernel::{Changes, Error, Mac, Objects, Then};
use nix::errno::Errno;

use crate::world::{ip, json, mark, name, net, pair, run};

#[test]
fn addresses_of_both_families_are_read_back_as_written() {
    let pair = pair();
    let kernel = &pair.here;
    let mut egress = Address::new(pair.index, net("2001:db8::100/128"));
    egress.preferred = Lifetime::Seconds(0);
    egress.no_dad = true;
    let mut leased = Address::new(pair.index, net("10.9.3.3/24"));
    leased.valid = Lifetime::Seconds(5000);
    leased.preferred = Lifetime::Seconds(4000);
    leased.no_prefix_route = true;
    let wants = [
        Address::new(pair.index, net("10.9.0.1/24")).labelled("here:nf"),
        Address::new(pair.index, net("10.9.9.9/32")),
        leased,
        egress,
        Address { no_dad: true, ..Address::new(pair.index, net("2001:db8:1::1/64")) },
    ];
    let changes = kernel.addresses().converge(&wants, &mark()).unwrap();
    assert_eq!(changes.add.len(), wants.len());
    let again = kernel.addresses().converge(&wants, &mark()).unwrap();
    assert!(again.is_empty(), "{again:?}");

    let seen = json(kernel, "ip -j -d addr show here");
    let find = |local: &str| {
        let all = seen[0]["addr_info"].as_array().unwrap();
        all.iter().find(|a| a["local"] == local).unwrap_or_else(|| panic!("{local} in {all:?}")).clone()
    };
    assert_eq!(find("10.9.0.1")["label"], "here:nf");
    assert_eq!(find("10.9.0.1")["broadcast"], "10.9.0.255");
    assert_eq!(find("10.9.9.9")["prefixlen"], 32);
    assert_eq!(find("10.9.3.3")["noprefixroute"], true);
    assert!(find("10.9.3.3")["valid_life_time"].as_u64().unwrap() <= 5000);
    assert_eq!(find("2001:db8::100")["deprecated"], true);
    assert_eq!(find("2001:db8::100")["nodad"], true);
    assert_eq!(find("2001:db8::100")["preferred_life_time"], 0);
    assert_eq!(find("2001:db8:1::1")["prefixlen"], 64);

    kernel.addresses().converge(&[], &mark()).unwrap();
    let left = kernel.addresses().observe().unwrap();
    assert!(left.iter().all(|a| a.protocol != mark().protocol), "{left:?}");
}

#[test]
fn addresses_of_others_are_in_the_way_and_stay() {
    let pair = pair();
    let kernel = &pair.here;
    run(kernel, "ip addr add 10.9.0.1/24 dev here");
    run(kernel, "ip addr add 10.9.1.1/24 dev here");
    let want = [Address::new(pair.index, net("10.9.0.1/24")), Address::new(pair.index, net("10.9.2.1/24"))];
    let changes = kernel.addresses().converge(&want, &mark()).unwrap();
    assert_eq!(changes.conflicts.len(), 1);
    assert_eq!(changes.conflicts[0].have.net, net("10.9.0.1/24"));
    assert_eq!(changes.add.len(), 1);
    kernel.addresses().converge(&[], &mark()).unwrap();
    let left = kernel.addresses().observe().unwrap();
    let v4: Vec<IpAddr> = left.iter().map(|a| a.net.addr()).filter(IpAddr::is_ipv4).collect();
    assert_eq!(v4, [ip("10.9.0.1"), ip("10.9.1.1")]);
}

#[test]
fn removing_the_first_address_of_a_network_leaves_those_of_others_in_it() {
    let pair = pair();
    let kernel = &pair.here;
    let setting = Key::promote_secondaries(&Of::Link(name("here")));
    kernel.sysctls().apply(&BTreeMap::from([(setting, "0".to_owned())])).unwrap();
    kernel.addresses().converge(&[Address::new(pair.index, net("10.9.0.1/24"))], &mark()).unwrap();
    run(kernel, "ip addr add 10.9.0.2/24 dev here");
    run(kernel, "ip addr add 10.9.0.3/24 dev here");
    kernel.addresses().converge(&[], &mark()).unwrap();
    let left = kernel.addresses().observe().unwrap();
    let v4: Vec<IpAddr> = left.iter().map(|a| a.net.addr()).filter(IpAddr::is_ipv4).collect();
    assert_eq!(v4, [ip("10.9.0.2"), ip("10.9.0.3")]);
    let setting = run(kernel, "cat /proc/sys/net/ipv4/conf/here/promote_secondaries");
    assert_eq!(setting.trim(), "0", "and the setting is what it was");
}

#[test]
fn an_address_marked_by_its_label_alone_is_adopted_once() {
    let pair = pair();
    let kernel = &pair.here;
    run(kernel, "ip addr add 10.9.0.1/24 dev here label here:nf");
    let want = [Address::new(pair.index, net("10.9.0.1/24")).labelled("here:nf")];
    kernel.addresses().converge(&want, &mark()).unwrap();
    assert!(kernel.addresses().converge(&want, &mark()).unwrap().is_empty());
    kernel.addresses().converge(&[], &mark()).unwrap();
    assert_eq!(run(kernel, "ip -4 -o addr show here"), "");
}

#[test]
fn what_cannot_be_changed_in_place_is_made_again() {
    let pair = pair();
    let kernel = &pair.here;
    let plain = Address::new(pair.index, net("10.9.0.1/24"));
    kernel.addresses().converge(std::slice::from_ref(&plain), &mark()).unwrap();
    let changes = kernel.addresses().converge(&[plain.clone().labelled("here:nf")], &mark()).unwrap();
    assert_eq!((changes.remove.len(), changes.add.len(), changes.replace.len()), (1, 1, 0));
    let longer = Address { valid: Lifetime::Seconds(900), preferred: Lifetime::Seconds(900), ..plain };
    let changes = kernel.addresses().converge(&[longer], &mark()).unwrap();
    assert_eq!((changes.remove.len(), changes.add.len(), changes.replace.len()), (0, 0, 1));
    assert_eq!(json(kernel, "ip -j addr show here")[0]["addr_info"][0]["dynamic"], true);
}

#[test]
fn a_refused_address_is_named_and_the_others_of_its_batch_are_there() {
    let pair = pair();
    let kernel = &pair.here;
    let good = Address::new(pair.index, net("10.9.0.1/24"));
    let bad = Address::new(9999, net("10.9.0.2/24"));
    let changes = Changes { add: vec![bad, good], ..Changes::default() };
    let error = kernel.addresses().apply(&changes).unwrap_err();
    let Error::Several { failed, of: 2 } = &error else { panic!("{error:?}") };
    assert_eq!(failed.len(), 1);
    assert!(failed[0].to_string().contains("address 10.9.0.2/24 on link 9999"), "{error}");
    assert_eq!(failed[0].errno(), Some(Errno::ENODEV));
    assert_eq!(error.then(), Then::Replan);
    assert!(run(kernel, "ip -o -4 addr show here").contains("10.9.0.1/24"));
    let long = Address::new(pair.index, net("10.9.0.3/24")).labelled("sixteen-bytes-xx");
    let error = kernel.addresses().converge(&[long], &mark()).unwrap_err();
    assert_eq!(error.then(), Then::Bug);
}

#[test]
fn permanent_neighbours_are_written_replaced_and_removed() {
    let pair = pair();
    let kernel = &pair.here;
    run(kernel, "ip addr add 10.9.0.1/24 dev here");
    run(kernel, "ip addr add 2001:db8::1/64 dev here nodad");
    run(kernel, "ip neigh add 10.9.0.77 lladdr 02:00:00:00:00:77 nud permanent dev here");
    run(kernel, "ip neigh add 10.9.0.5 lladdr 02:00:00:00:00:99 nud stale dev here");
    let mac = |last| Mac([2, 0, 0, 0, 0, last]);
    let entry = |of: &str, last| Neighbour::permanent(pair.index, ip(of), mac(last));
    let wants = [entry("10.9.0.5", 5), entry("2001:db8::5", 6)];
    let changes = kernel.neighbours().converge(&wants, &mark()).unwrap();
    assert_eq!(changes.replace.len(), 1, "what the kernel learned by itself yields");
    assert!(kernel.neighbours().converge(&wants, &mark()).unwrap().is_empty());
    let seen = json(kernel, "ip -j neigh show dev here nud permanent");
    let find = |dst: &str| seen.as_array().unwrap().iter().find(|n| n["dst"] == dst).cloned();
    assert_eq!(find("10.9.0.5").unwrap()["lladdr"], "02:00:00:00:00:05");
    assert_eq!(find("2001:db8::5").unwrap()["lladdr"], "02:00:00:00:00:06");

    let moved = [entry("10.9.0.5", 8)];
    let changes = kernel.neighbours().converge(&moved, &mark()).unwrap();
    assert_eq!((changes.replace.len(), changes.remove.len()), (1, 1));
    let conflict = kernel.neighbours().converge(&[entry("10.9.0.77", 1)], &mark()).unwrap();
    assert_eq!(conflict.conflicts.len(), 1, "somebody else's permanent entry does not yield");
    let left = kernel.neighbours().observe().unwrap();
    let permanent: Vec<_> = left.iter().filter(|n| n.state == Neighbourhood::Permanent).collect();
    assert_eq!(permanent.len(), 1);
    assert_eq!(permanent[0].ip, ip("10.9.0.77"));
}
