//! What the next boot would refuse is known while the node still runs.

use std::sync::Arc;

use netferry_agent::host_init::{Options, prepare};
use netferry_agent::machine::Disk;
use netferry_agent::mtu::host::preview::Foresight;
use netferry_agent::node::NodeFacts;
use netferry_core::mtu::file::HostFile;
use netferry_core::overlay::zone::Datapath;
use netferry_kernel::Kernel;
use tokio::sync::watch;

use crate::facts::on_link;
use crate::init::{FILE, INTERFACES, SAVED, options, read, write};
use crate::persisted::host;
use crate::world::{Switch, run};

fn foresight(kernel: &Arc<Kernel>, options: &Options, leads: Option<NodeFacts>) -> Foresight {
    Foresight {
        kernel: Arc::clone(kernel),
        disk: Arc::new(Disk::open(&options.root).unwrap()),
        run: options.run.clone(),
        facts: watch::channel(leads).1,
    }
}

fn told(text: &str) -> HostFile {
    HostFile::parse(text).unwrap()
}

const UP: &str = "EPOCH=1\nTARGET_MTU=9000\nMTU=9000\nROUTABLE_MTU=1500\n";
const DOWN: &str = "EPOCH=1\nTARGET_MTU=1400\nMTU=1500\nROUTABLE_MTU=1400\n";

/// Whatever a boot refuses is foreseen in its words, and what is foreseen as possible a boot does.
#[tokio::test]
async fn what_the_next_boot_would_refuse_is_foreseen_in_its_own_words_and_nothing_is_changed() {
    let kernel = host();
    let switch = Switch::start(&kernel).await;
    let options = Options { datapath: Some(Datapath::Kernel), ..options(&switch) };
    let own = "iface br0 inet static\n    address 172.30.0.2/16\n";
    write(&switch, INTERFACES, own);
    prepare(&kernel, &options, |_| ()).await.unwrap();
    let ahead = foresight(&kernel, &options, None);

    // It can shrink, and not grow: nobody describes what it stands on.
    let refused = ahead.of(&told(UP)).unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    ahead.of(&told(DOWN)).unwrap();
    let fixed = ahead.fixed();
    assert_eq!(fixed.change, None);
    assert!(fixed.growth.is_some_and(|why| why.contains("describes card")));
    assert_eq!((read(&switch, INTERFACES).as_deref(), read(&switch, SAVED)), (Some(own), None));
    std::fs::remove_file(options.run.join("booted.json")).unwrap();
    write(&switch, FILE, UP);
    let at_boot = prepare(&kernel, &options, |_| ()).await.unwrap_err();
    assert_eq!(at_boot.to_string(), refused.to_string());

    write(&switch, INTERFACES, &format!("iface card inet manual\n{own}"));
    ahead.of(&told(UP)).unwrap();
    assert_eq!(ahead.fixed(), Default::default());
    prepare(&kernel, &options, |_| ()).await.unwrap();

    // Nobody describes it at all.
    write(&switch, INTERFACES, "");
    for asked in [UP, DOWN] {
        assert!(ahead.of(&told(asked)).unwrap_err().to_string().contains("describes br0"), "{asked}");
    }
    assert!(ahead.fixed().change.is_some_and(|why| why.contains("describes br0")));
    ahead.of(&told("EPOCH=2\nCNI_MTU=1300\n")).unwrap();
}

#[tokio::test]
async fn a_link_that_host_init_could_not_choose_or_would_choose_wrongly_is_foreseen() {
    let kernel = host();
    run(
        &kernel,
        "ip link add other type vxlan id 6 dstport 4790; ip link set other up; ip addr add 172.31.0.2/16 dev other",
    );
    let switch = Switch::start(&kernel).await;
    let options = Options { datapath: Some(Datapath::Kernel), ..options(&switch) };
    write(&switch, INTERFACES, "iface card inet manual\niface br0 inet static\niface other inet static\n");
    prepare(&kernel, &options, |_| ()).await.unwrap();
    foresight(&kernel, &options, Some(on_link("br0", 1500))).of(&told(UP)).unwrap();
    let astray = foresight(&kernel, &options, Some(on_link("other", 1500)));
    let why = astray.of(&told(UP)).unwrap_err();
    assert!(why.is_refusal() && why.to_string().contains("--uplink other"), "{why}");
    assert_eq!(astray.fixed().change, Some(why.to_string()));

    // Two ways out that are as good as each other: nobody asks for sizes yet, so the boot goes on.
    run(
        &kernel,
        "ip -6 addr add fd00:31::2/64 dev other nodad; ip -6 route add default via fd00:31::1 dev other",
    );
    std::fs::remove_dir_all(&options.run).unwrap();
    std::fs::create_dir_all(&options.run).unwrap();
    prepare(&kernel, &options, |_| ()).await.unwrap();
    let why = foresight(&kernel, &options, None).of(&told(UP)).unwrap_err();
    assert!(why.is_refusal() && why.to_string().contains("br0, other"), "{why}");
}
