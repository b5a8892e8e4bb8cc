use netferry_kernel::link::{Make, VethPeer, Want};
use netferry_kernel::{Kernel, Namespace, Objects};

use crate::world::{kernel, mark, name, run};

#[test]
fn a_namespace_without_a_name_is_new_and_has_only_the_loopback() {
    let here = Namespace::current().unwrap();
    let kernel = kernel();
    assert_ne!(kernel.namespace().id().unwrap(), here.id().unwrap());
    let links = kernel.links().observe().unwrap();
    assert_eq!(links.len(), 1);
    assert!(links[0].loopback && !links[0].up);
}

#[test]
fn running_inside_leaves_the_calling_thread_where_it_is() {
    let before = Namespace::current().unwrap().id().unwrap();
    let other = kernel();
    let inside = other.namespace().run(|| Namespace::current().unwrap().id().unwrap()).unwrap();
    assert_eq!(inside, other.namespace().id().unwrap());
    assert_eq!(Namespace::current().unwrap().id().unwrap(), before);
}

#[test]
fn a_bound_namespace_stays_until_it_is_unbound() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("blue");
    let id = Namespace::bound(&path).unwrap().id().unwrap();
    assert_eq!(Namespace::open(&path).unwrap().id().unwrap(), id, "nobody holds it, it is still there");
    assert!(Namespace::bound(&path).is_err(), "the name is taken");
    assert_eq!(Namespace::open(&path).unwrap().id().unwrap(), id, "and the refusal changed nothing");
    Namespace::unbind(&path).unwrap();
    assert!(!path.exists());
    Namespace::unbind(&path).unwrap();
}

#[test]
fn a_file_that_is_no_namespace_is_refused_when_it_is_opened() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Namespace::open(file.path()).unwrap_err();
    assert!(error.to_string().ends_with("is not a namespace"), "{error}");
    assert!(Namespace::open("/nowhere/at/all").is_err());
}

#[test]
fn the_namespace_of_a_process_is_found() {
    let kernel = kernel();
    let mut child =
        kernel.namespace().run(|| std::process::Command::new("sleep").arg("60").spawn()).unwrap().unwrap();
    let found = Namespace::of_process(child.id()).unwrap().id();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(found.unwrap(), kernel.namespace().id().unwrap());
}

#[test]
fn a_link_moves_to_another_namespace_under_another_name() {
    let (from, to) = (kernel(), kernel());
    from.links().converge(&[Want::make(name("a"), Make::Veth(VethPeer::named(name("b"))))], &mark()).unwrap();
    let index = from.links().named(&name("b")).unwrap().unwrap().index;
    from.links().give(index, to.namespace(), &name("eth0")).unwrap();
    assert_eq!(from.links().named(&name("b")).unwrap(), None);
    run(&to, "ip link show eth0");
    let handle = Kernel::inside(to.namespace().try_clone().unwrap()).unwrap();
    assert!(handle.links().named(&name("eth0")).unwrap().is_some());
}
