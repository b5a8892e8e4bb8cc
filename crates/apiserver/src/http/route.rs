//! Paths: which resource, which object, which part of it.

/// Where a path leads.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Route<'a> {
    /// An object, a collection or a subresource.
    Resource(ResourcePath<'a>),
    /// Everything else: discovery, health, version, OpenAPI.
    Document(Vec<&'a str>),
}

/// A path below `/api/v1` or `/apis/<group>/<version>`.
#[derive(PartialEq, Eq, Debug, Clone, Copy)]
pub(crate) struct ResourcePath<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    /// Empty when the path names none.
    pub(crate) namespace: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) name: &'a str,
    pub(crate) subresource: &'a str,
    /// The old way to watch: `/api/v1/watch/…`.
    pub(crate) watch: bool,
}

pub(crate) fn of(path: &str) -> Route<'_> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Route::Document(segments),
    };
    let (watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let path = |namespace, resource, name, subresource| {
        Route::Resource(ResourcePath { group, version, namespace, resource, name, subresource, watch })
    };
    match rest {
        // A namespace is itself a resource, and has two subresources of its own.
        ["namespaces", name, sub @ ("status" | "finalize")] => path("", "namespaces", *name, *sub),
        ["namespaces", namespace, resource] => path(*namespace, *resource, "", ""),
        ["namespaces", namespace, resource, name] => path(*namespace, *resource, *name, ""),
        ["namespaces", namespace, resource, name, sub @ ..] => path(*namespace, *resource, *name, sub[0]),
        [resource] => path("", *resource, "", ""),
        [resource, name] => path("", *resource, *name, ""),
        [resource, name, sub, ..] => path("", *resource, *name, *sub),
        [] => Route::Document(segments),
    }
}

#[cfg(test)]
mod tests {
    use super::{ResourcePath, Route, of};

    fn path(
        group: &'static str,
        namespace: &'static str,
        resource: &'static str,
        name: &'static str,
        subresource: &'static str,
    ) -> Route<'static> {
        Route::Resource(ResourcePath {
            group,
            version: "v1",
            namespace,
            resource,
            name,
            subresource,
            watch: false,
        })
    }

    #[test]
    fn a_path_names_group_namespace_resource_object_and_part() {
        let table = [
            ("/api/v1/pods", path("", "", "pods", "", "")),
            ("/api/v1/nodes/a", path("", "", "nodes", "a", "")),
            ("/api/v1/nodes/a/status", path("", "", "nodes", "a", "status")),
            ("/api/v1/namespaces", path("", "", "namespaces", "", "")),
            ("/api/v1/namespaces/a", path("", "", "namespaces", "a", "")),
            ("/api/v1/namespaces/a/status", path("", "", "namespaces", "a", "status")),
            ("/api/v1/namespaces/a/finalize", path("", "", "namespaces", "a", "finalize")),
            ("/api/v1/namespaces/a/pods", path("", "a", "pods", "", "")),
            ("/api/v1/namespaces/a/pods/b/eviction", path("", "a", "pods", "b", "eviction")),
            ("/apis/apps/v1/namespaces/a/deployments/b", path("apps", "a", "deployments", "b", "")),
        ];
        for (text, expected) in table {
            assert_eq!(of(text), expected, "{text}");
        }
        assert_eq!(of("/apis/apps/v1"), Route::Document(vec!["apis", "apps", "v1"]));
        assert_eq!(of("/api/v1/"), Route::Document(vec!["api", "v1"]));
    }
}
