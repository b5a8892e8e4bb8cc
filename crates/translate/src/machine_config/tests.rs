use netferry_core::rollout::merge::merge;
use serde_json::json;

use super::*;

fn written(spec: Value) -> Written {
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "50-mine", "labels": { ROLE_LABEL: "worker" } }, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

fn ignition(parts: Value) -> Value {
    let mut config = json!({ "ignition": { "version": "3.2.0" } });
    config.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
    json!({ "config": config })
}

#[test]
fn files_units_and_arguments_are_read_as_people_write_them() {
    let spec = json!({
        "kernelArguments": ["quiet", "hugepages=4"], "osImageURL": "", "kernelType": "default", "fips": false,
        "extensions": [],
        "config": {
            "ignition": { "version": "3.4.0", "config": {}, "proxy": {}, "security": { "tls": {} }, "timeouts": {} },
            "passwd": {}, "kernelArguments": {},
            "storage": {
                "directories": [], "links": null,
                "files": [
                    { "path": "/etc/a", "mode": 384, "overwrite": true, "contents": { "source": "data:,one%0A", "verification": {} } },
                    { "path": "/etc/b", "append": [], "user": { "name": "root" }, "group": { "id": 0 } },
                ],
            },
            "systemd": { "units": [
                { "name": "a.service", "enabled": true, "contents": "[Install]\nWantedBy=x.target\n",
                  "dropins": [{ "name": "10-x.conf", "contents": "[Unit]\n" }] },
                { "name": "b.service", "mask": true },
            ] },
        },
    });
    let config = machine_config(&written(spec)).unwrap();
    assert_eq!(
        (config.name.as_str(), config.role.as_str(), config.epochs),
        ("50-mine", "worker", Epochs::default())
    );
    let file = |path: &str, mode, contents: &str| File { path: path.into(), mode, contents: contents.into() };
    assert_eq!(config.spec.files, [file("/etc/a", 0o600, "one\n"), file("/etc/b", 0o644, "")]);
    assert_eq!(config.spec.units[0].dropins["10-x.conf"], "[Unit]\n");
    assert!(config.spec.units[1].masked);
    assert_eq!(config.spec.kernel_arguments, ["quiet", "hugepages=4"]);
    assert_eq!(config.spec.unsupported, BTreeSet::new());
}

#[test]
fn what_is_rendered_reads_back_as_it_was() {
    let spec = ignition(json!({
        "storage": { "files": [{ "path": "/etc/a", "mode": 493, "contents": { "source": "data:;base64,AP8=" } }] },
        "systemd": { "units": [
            { "name": "a.service", "enabled": false, "contents": "x" },
            { "name": "b.service", "mask": true, "dropins": [{ "name": "1.conf", "contents": "" }] },
        ] },
    }));
    let mut config = machine_config(&written(spec)).unwrap();
    config.spec.kernel_arguments.push("quiet".into());
    let merged = merge("worker", &[config]).unwrap();
    let mut object = Written::new(&merged.name, printed(&merged.spec));
    let newest: Epochs = [("egressip".to_owned(), 2), ("mtu".to_owned(), 7)].into_iter().collect();
    object.metadata.annotations = Some([printed_epochs(&newest)].into());
    let back = rendered(&object).unwrap();
    assert_eq!((back.name, back.spec, back.epochs), (merged.name, merged.spec, newest));
}

#[test]
fn an_empty_configuration_holds_nothing() {
    for spec in [json!({}), json!({ "config": {} }), ignition(json!({}))] {
        assert_eq!(machine_config(&written(spec)).unwrap().spec, Spec::default());
    }
}

#[test]
fn what_we_do_not_do_is_named_as_people_write_it() {
    let storage = |part: Value| ignition(json!({ "storage": part }));
    let file = |part: Value| {
        let mut file = json!({ "path": "/etc/a" });
        file.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        storage(json!({ "files": [file] }))
    };
    for (spec, named) in [
        (json!({ "osImageURL": "registry/os" }), "osImageURL"),
        (json!({ "baseOSExtensionsContainerImage": "x" }), "baseOSExtensionsContainerImage"),
        (json!({ "kernelType": "realtime" }), "kernelType"),
        (json!({ "extensions": ["usbguard"] }), "extensions"),
        (json!({ "fips": true }), "fips"),
        (ignition(json!({ "passwd": { "users": [{ "name": "core" }] } })), "config.passwd"),
        (ignition(json!({ "kernelArguments": { "shouldExist": ["x"] } })), "config.kernelArguments"),
        (storage(json!({ "disks": [{ "device": "/dev/x" }] })), "config.storage.disks"),
        (storage(json!({ "filesystems": [{ "device": "/dev/x" }] })), "config.storage.filesystems"),
        (storage(json!({ "raid": [{ "name": "x" }] })), "config.storage.raid"),
        (storage(json!({ "luks": [{ "name": "x" }] })), "config.storage.luks"),
        (storage(json!({ "directories": [{ "path": "/x" }] })), "config.storage.directories"),
        (storage(json!({ "links": [{ "path": "/x" }] })), "config.storage.links"),
        (file(json!({ "append": [{ "source": "data:,x" }] })), "config.storage.files[].append"),
        (
            file(json!({ "contents": { "source": "https://x/y" } })),
            "config.storage.files[].contents.source other than data:",
        ),
        (file(json!({ "user": { "name": "core" } })), "config.storage.files[].user or group"),
        (file(json!({ "group": { "id": 1000 } })), "config.storage.files[].user or group"),
    ] {
        let config = machine_config(&written(spec)).unwrap();
        let refusal = merge("worker", &[config]).unwrap_err();
        let said: Vec<String> = refusal.iter().map(ToString::to_string).collect();
        assert_eq!(said, [format!("MachineConfig 50-mine: {named} is not supported; remove it")]);
    }
}

#[test]
fn what_cannot_be_understood_is_refused_with_its_place() {
    let file = |contents: Value| {
        ignition(json!({ "storage": { "files": [{ "path": "/etc/a", "contents": contents }] } }))
    };
    for (spec, said) in [
        (
            json!({ "config": { "ignition": { "version": "2.2.0" } } }),
            "MachineConfig 50-mine: spec.config.ignition.version \"2.2.0\" is not 3.x",
        ),
        (
            json!({ "config": { "storage": { "files": [{ "path": "/a" }] } } }),
            "MachineConfig 50-mine: spec.config.ignition.version \"\" is not 3.x",
        ),
        (
            json!({ "config": { "ignition": { "version": "3.2.0", "config": { "merge": [{ "source": "x" }] } } } }),
            "MachineConfig 50-mine: spec.config.ignition.config is not supported; remove it",
        ),
        (
            ignition(json!({ "storage": { "files": [{ "mode": 1 }] } })),
            "MachineConfig 50-mine: spec.config is not a configuration we know",
        ),
        (
            ignition(json!({ "storage": { "floppies": [] } })),
            "MachineConfig 50-mine: spec.config is not a configuration we know",
        ),
        (json!({ "config": "text" }), "MachineConfig 50-mine: spec.config is not a configuration we know"),
        (
            file(json!({ "source": "data:oops" })),
            "MachineConfig 50-mine: contents of /etc/a: the data: URL has no comma before its data",
        ),
        (
            file(json!({ "source": "data:,x", "verification": { "hash": "sha512-0" } })),
            "MachineConfig 50-mine: contents of /etc/a: verification and httpHeaders are not supported; remove them",
        ),
    ] {
        let wrong = machine_config(&written(spec)).unwrap_err().to_string();
        assert!(wrong.starts_with(said), "{wrong}");
    }
    let mut mangled = written(json!({}));
    mangled.metadata.annotations = Some([(WrittenEpochs::KEY.to_owned(), "3".to_owned())].into());
    let wrong = machine_config(&mangled).unwrap_err().to_string();
    assert!(wrong.starts_with("MachineConfig 50-mine: annotation netferry.dev/epochs"), "{wrong}");
}
