use super::*;

const BUILT_IN: Rules = Rules { name: NameRule::Subdomain, namespaced: true, qualified_finalizers: true };
const CUSTOM: Rules = Rules { qualified_finalizers: false, ..BUILT_IN };

fn told(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn rule(kind: &str) -> NameRule {
    let resources = crate::builtin::resources();
    let resource = resources.iter().find(|resource| resource.kind == kind).expect("the kind is built in");
    resource.behaviour.name_rule()
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n"}})
}

#[test]
fn names_follow_the_rule_of_their_kind() {
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let label1035 = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let long = "must be no more than 63 characters";
    let sixty_four = "x".repeat(64);
    for (kind, name, wanted) in [
        ("ConfigMap", "a.b", vec![]),
        ("ConfigMap", "A b", vec![subdomain]),
        ("ConfigMap", "a..b", vec![subdomain]),
        ("ConfigMap", &sixty_four, vec![]),
        ("Namespace", "1a", vec![]),
        ("Namespace", "a.b", vec!["must not contain dots"]),
        ("Namespace", "A b", vec![label]),
        ("Namespace", &sixty_four, vec![long]),
        ("Service", "1a", vec![label1035]),
        ("Service", "a-1", vec![]),
        ("Role", "A b:c", vec![]),
        ("Role", "a/b", vec!["may not contain '/'"]),
        ("Role", "..", vec!["may not be '..'"]),
        ("Role", "a%b", vec!["may not contain '%'"]),
    ] {
        assert_eq!(rule(kind).check(name, false), wanted, "{kind} {name}");
    }
}

#[test]
fn a_prefix_may_end_in_a_dash() {
    assert!(NameRule::Subdomain.check("abc-", true).is_empty());
    assert!(!NameRule::Subdomain.check("abc-", false).is_empty());
    assert!(!NameRule::Subdomain.check("-", true).is_empty());
    assert!(!NameRule::Subdomain.check("Bad_", true).is_empty());
    assert!(NameRule::PathSegment.check("..", true).is_empty());
}

#[test]
fn a_generated_name_is_its_prefix_and_five_letters_that_make_no_words() {
    let mut next = 0;
    let mut count = || {
        next += 1;
        next - 1
    };
    assert_eq!(generate("web-", &mut count), "web-bcdfg");
    let long = generate(&"a".repeat(80), &mut count);
    assert_eq!(long.len(), 63);
    assert!(long.starts_with(&"a".repeat(58)));
    assert_eq!(generate("x", || 26), "x99999");
    assert_eq!(generate("x", || 27), "xbbbbb");
}

#[test]
fn a_name_is_required() {
    let object = json!({"metadata": {"namespace": "n"}});
    assert_eq!(
        told(&validate(&object, BUILT_IN)),
        ["metadata.name: Required value: name or generateName is required"]
    );
    assert_eq!(told(&validate(&named("x"), BUILT_IN)), Vec::<String>::new());
}

#[test]
fn labels_and_annotations_are_checked_key_by_key() {
    let mut object = named("x");
    object["metadata"]["labels"] = json!({"": "c", "d": "-e"});
    object["metadata"]["annotations"] = json!({"UPPER.example/x": "y", "a/b/c": ""});
    let told = told(&validate(&object, BUILT_IN));
    assert_eq!(told[0], "metadata.labels: Invalid value: \"\": name part must be non-empty");
    assert!(told[1].starts_with("metadata.labels: Invalid value: \"\": name part must consist of"));
    assert!(told[2].starts_with(
        "metadata.labels: Invalid value: \"-e\": a valid label must be an empty string or consist of"
    ));
    assert!(
        told[3]
            .starts_with("metadata.annotations: Invalid value: \"a/b/c\": a qualified name must consist of")
    );
    assert_eq!(told.len(), 4);
}

#[test]
fn annotations_are_limited_in_total() {
    let mut object = named("x");
    object["metadata"]["annotations"] = json!({"a": "x".repeat(256 * 1024)});
    assert_eq!(
        told(&validate(&object, CUSTOM)),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
    object["metadata"]["annotations"] = json!({"a": "x".repeat(256 * 1024 - 1)});
    assert!(validate(&object, CUSTOM).is_empty());
}

#[test]
fn finalizers_of_built_ins_need_a_domain() {
    let mut object = named("x");
    object["metadata"]["finalizers"] = json!(["bad", "x/y", "kubernetes"]);
    assert_eq!(
        told(&validate(&object, BUILT_IN)),
        [
            "metadata.finalizers[0]: Invalid value: \"bad\": name is neither a standard finalizer name nor is it fully qualified"
        ]
    );
    assert!(validate(&object, CUSTOM).is_empty());
    assert_eq!(
        finalizer_warnings(&object, None),
        [
            "metadata.finalizers: \"bad\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
        ]
    );
    object["metadata"]["finalizers"] = json!(["orphan", "foregroundDeletion"]);
    assert_eq!(
        told(&validate(&object, BUILT_IN)),
        [
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set"
        ]
    );
}

#[test]
fn owners_are_complete_and_only_one_is_the_controller() {
    let mut object = named("x");
    object["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1"},
        {"apiVersion": "", "kind": "", "name": "", "uid": ""},
        {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "2", "controller": true},
        {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "3", "controller": true},
    ]);
    let told = told(&validate(&object, CUSTOM));
    assert_eq!(
        told[..5],
        [
            "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"e\",\"uid\":\"1\"}: /v1, Kind=Event is disallowed from being an owner",
            "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ]
    );
    assert_eq!(
        told[5],
        "metadata.ownerReferences: Invalid value: [\
         {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"e\",\"uid\":\"1\"},\
         {\"apiVersion\":\"\",\"kind\":\"\",\"name\":\"\",\"uid\":\"\"},\
         {\"apiVersion\":\"v1\",\"kind\":\"A\",\"name\":\"a\",\"uid\":\"2\",\"controller\":true},\
         {\"apiVersion\":\"v1\",\"kind\":\"B\",\"name\":\"b\",\"uid\":\"3\",\"controller\":true}]: \
         Only one reference can have Controller set to true. Found \"true\" in references for A/a and B/b"
    );
}

#[test]
fn what_the_server_sets_cannot_be_changed_by_a_replacement() {
    let old = json!({"metadata": {"name": "x", "namespace": "n", "uid": "u", "creationTimestamp": "2024-01-01T00:00:00Z", "generation": 3}});
    let mut new = json!({"metadata": {"name": "x", "namespace": "n", "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 9}});
    inherit(&mut new, &old);
    assert_eq!(new, old);
    assert!(validate_update(&new, &old, BUILT_IN).is_empty());
    new["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    new["metadata"]["deletionGracePeriodSeconds"] = json!(5);
    assert_eq!(
        told(&validate_update(&new, &old, BUILT_IN)),
        [
            "metadata.deletionTimestamp: Invalid value: \"2020-01-01T00:00:00Z\": field is immutable",
            "metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable",
        ]
    );
}

#[test]
fn an_object_on_its_way_out_takes_no_new_finalizers() {
    let old = json!({"metadata": {"name": "x", "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a/b"]}});
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!(["a/b", "c/d"]);
    assert_eq!(
        told(&validate_update(&new, &old, BUILT_IN)),
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"c/d\"}"
        ]
    );
    new["metadata"]["finalizers"] = json!([]);
    assert!(validate_update(&new, &old, BUILT_IN).is_empty());
}

#[test]
fn an_object_belongs_to_the_namespace_of_its_request() {
    let mut object = json!({"metadata": {"name": "x"}});
    match_namespace(&mut object, "n").unwrap();
    assert_eq!(object["metadata"]["namespace"], "n");
    let refusal = match_namespace(&mut object, "other").unwrap_err();
    assert_eq!(
        refusal.message,
        "the namespace of the provided object does not match the namespace sent on the request"
    );
    match_namespace(&mut object, "").unwrap();
    assert_eq!(object, json!({"metadata": {"name": "x"}}));
}

#[test]
fn a_replacement_names_the_object_of_its_url() {
    assert!(match_name(&named("x"), "x").is_ok());
    assert_eq!(
        match_name(&named("y"), "x").unwrap_err().message,
        "the name of the object (y) does not match the name on the URL (x)"
    );
    assert_eq!(
        match_name(&json!({}), "x").unwrap_err().message,
        "the name of the object (x based on URL) was undeterminable: name must be provided"
    );
}

#[test]
fn an_owner_that_stands_twice_is_dropped_with_a_warning() {
    let owner = json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": "2"});
    let mut object = json!({"metadata": {"ownerReferences": [owner, owner]}});
    let warning = dedup_owners(&mut object, false).unwrap();
    assert!(warning.starts_with(".metadata.ownerReferences contains duplicate entries; API server dedups"));
    assert!(warning.ends_with("duplicate UID(s) observed: 2"));
    assert_eq!(object["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(dedup_owners(&mut object, false), None);
}

#[test]
fn a_port_name_is_short_and_has_a_letter() {
    assert!(port_name("http-2").is_empty());
    for (name, why) in [
        ("this-is-too-long-x", "must be no more than 15 characters"),
        ("HTTP", "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        ("80", "must contain at least one letter (a-z)"),
        ("a--b", "must not contain consecutive hyphens"),
        ("a-", "must not begin or end with a hyphen"),
    ] {
        assert!(port_name(name).contains(&why.to_owned()), "{name}");
    }
}

/// How often a real server lists one bad label, one bad finalizer and one bad `generateName` among the causes.
#[test]
fn a_fault_is_listed_as_often_as_a_real_server_finds_it() {
    let resources = crate::builtin::resources();
    for (group, kind, created, updated) in [
        ("", "ConfigMap", (1, 1), (4, 2, 1)),
        ("", "Secret", (1, 1), (4, 2, 1)),
        ("", "ServiceAccount", (1, 1), (4, 2, 1)),
        ("", "Pod", (1, 1), (4, 2, 1)),
        ("", "Service", (1, 1), (3, 1, 0)),
        ("", "Node", (1, 1), (4, 2, 1)),
        ("", "Namespace", (1, 1), (4, 2, 1)),
        ("", "Event", (1, 0), (2, 0, 0)),
        ("coordination.k8s.io", "Lease", (1, 0), (3, 0, 0)),
        ("discovery.k8s.io", "EndpointSlice", (1, 1), (3, 1, 1)),
        ("networking.k8s.io", "NetworkPolicy", (1, 1), (4, 2, 1)),
        ("apps", "Deployment", (1, 1), (3, 1, 0)),
        ("apps", "ReplicaSet", (1, 1), (3, 1, 0)),
        ("apps", "DaemonSet", (1, 1), (3, 1, 0)),
        ("policy", "PodDisruptionBudget", (1, 0), (2, 0, 0)),
        ("rbac.authorization.k8s.io", "Role", (1, 1), (5, 3, 0)),
        ("rbac.authorization.k8s.io", "ClusterRole", (1, 1), (5, 3, 0)),
    ] {
        let resource = resources
            .iter()
            .find(|resource| resource.group == group && resource.kind == kind)
            .unwrap_or_else(|| panic!("{kind} is built in"));
        let mut old = json!({"metadata": {"name": "x"}});
        if resource.namespaced {
            old["metadata"]["namespace"] = json!("n");
        }
        let with = |field: &str, value: Value| {
            let mut object = old.clone();
            object["metadata"][field] = value;
            object
        };
        let label = with("labels", json!({"a b": "c"}));
        let finalizer = with("finalizers", json!(["bad"]));
        let prefix = with("generateName", json!("B b"));
        let create = |object: &Value| create_errors(object, resource, Vec::new()).len();
        let update = |object: &Value| update_errors(object, &old, resource, Vec::new()).len();
        assert_eq!((create(&label), create(&finalizer)), created, "creating a {kind}");
        assert_eq!((update(&label), update(&finalizer), update(&prefix)), updated, "updating a {kind}");
    }
}

#[test]
fn a_kind_that_leaves_metadata_for_last_tells_its_own_faults_alone() {
    let resources = crate::builtin::resources();
    let budget = resources.iter().find(|resource| resource.kind == "PodDisruptionBudget").unwrap();
    let mut object = named("x");
    object["metadata"]["labels"] = json!({"a b": "c"});
    let own = FieldError::required(Path::new("spec"), "");
    assert_eq!(told(&create_errors(&object, budget, vec![own])), ["spec: Required value"]);
    assert_eq!(create_errors(&object, budget, Vec::new()).len(), 1);
}
