//! The definitions users apply are the ones the types print.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[test]
fn the_crds_on_disk_are_what_the_types_say() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let mut on_disk = BTreeMap::new();
    for entry in fs::read_dir(&directory).expect("deploy/crds is part of the tree") {
        let path = entry.expect("a readable directory").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        on_disk.insert(name, fs::read_to_string(&path).expect("a readable file"));
    }
    let printed: BTreeMap<_, _> = netferry_api::crds().into_iter().collect();

    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&on_disk), names(&printed), "`make crds` brings the files up to date");
    for (name, yaml) in printed {
        assert!(on_disk[&name] == yaml, "{name} is stale; `make crds` brings it up to date");
    }
}

#[test]
fn printing_twice_gives_the_same_bytes() {
    assert_eq!(netferry_api::crds(), netferry_api::crds());
}
