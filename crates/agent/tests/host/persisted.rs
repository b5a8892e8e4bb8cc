//! What an uplink stands on has to carry what it carries, also after the next boot.

use std::path::Path;
use std::sync::Arc;

use netferry_agent::host_init::{Options, prepare};
use netferry_core::overlay::zone::Datapath;
use netferry_kernel::Kernel;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::init::{FILE, INTERFACES, SAVED, options, read, write};
use crate::world::{Switch, name, namespace, run};

/// A host whose uplink is a bridge, `br0`, on `card`.
pub(crate) fn host() -> Arc<Kernel> {
    let kernel = namespace();
    run(
        &kernel,
        "set -e
        ip link add card type vxlan id 5 dstport 4789
        ip link add br0 type bridge
        ip link set card master br0 up
        ip link set br0 up
        ip addr add 172.30.0.2/16 dev br0
        ip route add default via 172.30.255.254",
    );
    Arc::new(kernel)
}

fn sizes(kernel: &Kernel) -> [u32; 2] {
    ["card", "br0"].map(|link| kernel.links().named(&name(link)).unwrap().unwrap().mtu)
}

/// A bond hands its size to its ports, a bridge does not.
#[tokio::test]
async fn what_an_uplink_stands_on_is_told_its_size_by_whoever_configures_it_or_the_change_is_refused() {
    let kernel = host();
    let switch = Switch::start(&kernel).await;
    let options = Options { datapath: Some(Datapath::Kernel), ..options(&switch) };
    write(&switch, FILE, "TARGET_MTU=9000\n");
    let own = "iface br0 inet static\n    address 172.30.0.2/16\n";

    write(&switch, INTERFACES, own);
    let refused = prepare(&kernel, &options, |_| ()).await.unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("describes card"), "{refused}");
    assert_eq!(sizes(&kernel), [1500; 2], "a refusal changes nothing");
    assert_eq!((read(&switch, INTERFACES).as_deref(), read(&switch, SAVED)), (Some(own), None));

    write(&switch, INTERFACES, &format!("iface card inet manual\n{own}"));
    let record = prepare(&kernel, &options, |_| ()).await.unwrap();
    assert_eq!((sizes(&kernel), record.sized.as_deref()), ([9000; 2], Some("br0")));
    let both = "iface card inet manual\n    mtu 9000\niface br0 inet static\n    mtu 9000\n    address 172.30.0.2/16\n";
    assert_eq!(read(&switch, INTERFACES).as_deref(), Some(both));
}

/// Who once said it of the bridge alone had a bridge as small as its port; a change that says nothing of the port would last
/// for one boot.
#[tokio::test]
async fn what_an_uplink_stands_on_is_told_its_size_though_the_uplinks_own_configuration_says_it_already() {
    let kernel = host();
    let switch = Switch::start(&kernel).await;
    let options = Options { datapath: Some(Datapath::Kernel), ..options(&switch) };
    write(&switch, FILE, "TARGET_MTU=9000\n");
    let bridge = "iface br0 inet static\n    mtu 9000\n    address 172.30.0.2/16\n";
    write(&switch, INTERFACES, &format!("iface card inet manual\n    mtu 1500\n{bridge}"));
    prepare(&kernel, &options, |_| ()).await.unwrap();
    assert_eq!(sizes(&kernel), [9000; 2]);
    let both = format!("iface card inet manual\n    mtu 9000\n{bridge}");
    assert_eq!(read(&switch, INTERFACES), Some(both));
}

/// Gives the host's files a file system that holds no more than so much. The calling thread sees it alone.
fn confine(root: &Path, size: &str) {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS).unwrap();
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let options = format!("size={size},nr_inodes=0");
    mount(Some("netferry"), root, Some("tmpfs"), MsFlags::empty(), Some(options.as_str())).unwrap();
}

/// However little room there is, nothing runs at a size that the next boot would not know, and nothing is half written.
#[tokio::test]
async fn a_full_disk_leaves_a_host_where_it_is_and_room_takes_it_on() {
    const PAGE: usize = 4096;
    let kernel = host();
    let switch = Switch::start(&kernel).await;
    let options = Options { datapath: Some(Datapath::Kernel), ..options(&switch) };
    confine(&options.root, "256k");
    write(&switch, FILE, "TARGET_MTU=9000\n");
    let before = "iface card inet manual\niface br0 inet static\n    address 172.30.0.2/16\n";
    write(&switch, INTERFACES, before);
    let filler = options.root.join("filler");
    std::fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    let full = usize::try_from(std::fs::metadata(&filler).unwrap().len()).unwrap();
    let mut failed = 0;
    for pages in 0.. {
        std::fs::File::options()
            .write(true)
            .open(&filler)
            .unwrap()
            .set_len((full - pages * PAGE) as u64)
            .unwrap();
        match prepare(&kernel, &options, |_| ()).await {
            Err(error) => {
                assert!(!error.is_refusal(), "{error}: it is tried again at the next boot");
                assert_eq!(sizes(&kernel), [1500; 2], "with {pages} pages");
                let said = read(&switch, INTERFACES).unwrap();
                let [one, both] = [1, 2].map(|links| grown(before, links));
                assert!([before.to_owned(), one, both].contains(&said), "with {pages} pages: {said}");
                failed += 1;
            }
            Ok(_) => break,
        }
    }
    assert!(failed > 1, "it took no room");
    assert_eq!((sizes(&kernel), read(&switch, INTERFACES)), ([9000; 2], Some(grown(before, 2))));
}

/// What the host's configuration says once so many of its links were given their size.
fn grown(before: &str, links: usize) -> String {
    let lines = before.replacen("manual\n", "manual\n    mtu 9000\n", 1);
    if links == 1 { lines } else { lines.replacen("static\n", "static\n    mtu 9000\n", 1) }
}

/// What one unit describes gets one size; the network beside the uplink would not be asked.
#[tokio::test]
async fn a_size_that_another_link_would_get_as_well_is_refused_before_anything_changes() {
    let kernel = host();
    run(&kernel, "ip link add bridle type vxlan id 6 dstport 4790");
    let switch = Switch::start(&kernel).await;
    let options = Options { datapath: Some(Datapath::Kernel), ..options(&switch) };
    let (unit, apart) = ("etc/systemd/network/20-lan.network", "etc/systemd/network/10-br0.network");
    write(&switch, FILE, "TARGET_MTU=9000\n");
    write(&switch, INTERFACES, "iface card inet manual\n");
    write(&switch, unit, "[Match]\nName=br*\n");
    let refused = prepare(&kernel, &options, |_| ()).await.unwrap_err();
    let said = "/etc/systemd/network/20-lan.network describes bridle as well as br0";
    assert!(refused.is_refusal() && refused.to_string().starts_with(said), "{refused}");
    assert_eq!(sizes(&kernel), [1500; 2], "a refusal changes nothing");
    assert_eq!(read(&switch, SAVED), None);

    write(&switch, apart, "[Match]\nName=br0\n");
    prepare(&kernel, &options, |_| ()).await.unwrap();
    assert_eq!(sizes(&kernel), [9000; 2]);
    let said = read(&switch, "etc/systemd/network/10-br0.network.d/90-netferry-mtu.conf");
    assert!(said.is_some_and(|said| said.contains("MTUBytes=9000")));
}
