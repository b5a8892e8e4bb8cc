//! What a changed file needs on a running node.

use super::layout::{Entry, Layout, layout};
use super::merge::Rendered;

/// What it takes until a change is in force on a running node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Effect {
    /// It is in force.
    #[default]
    Nothing,
    /// The capability that knows the file applies it. The node keeps its pods.
    Apply,
    /// The node restarts, drained before.
    Restart,
}

/// Returns the strongest effect of the files that differ between the configuration of the last boot and a new one.
///
/// `of` returns the effect of each path in `managed` from its contents at the last boot and its new contents. It is asked
/// also where they are the same: what was applied in between may be something else. Any other file that differs needs a
/// restart.
pub fn effect(
    booted: &Rendered,
    new: &Rendered,
    managed: &[&str],
    of: impl Fn(&str, Option<&[u8]>, Option<&[u8]>) -> Effect,
) -> Effect {
    let (old, new) = (layout(&booted.spec), layout(&new.spec));
    let contents = |layout: &Layout, path: &str| match layout.get(path) {
        Some(Entry::File { contents, .. }) => Some(contents.clone()),
        Some(Entry::Symlink(_)) | None => None,
    };
    let known = managed.iter().map(|path| {
        let (was, is) = (contents(&old, path), contents(&new, path));
        of(path, was.as_deref(), is.as_deref())
    });
    let all = old.keys().chain(new.keys()).filter(|path| !managed.contains(&path.as_str()));
    let unknown = all.filter(|path| old.get(*path) != new.get(*path)).map(|_| Effect::Restart);
    known.chain(unknown).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::config::{File, Spec};
    use super::super::epochs::Epochs;
    use super::*;

    fn rendered(files: &[(&str, &str)]) -> Rendered {
        let file = |(path, contents): &(&str, &str)| File {
            path: (*path).into(),
            mode: File::DEFAULT_MODE,
            contents: contents.as_bytes().to_vec(),
        };
        let spec = Spec { files: files.iter().map(file).collect(), ..Spec::default() };
        Rendered { name: "r".into(), spec, sources: vec![], epochs: Epochs::default() }
    }

    #[test]
    fn the_strongest_effect_of_the_files_that_differ_counts() {
        let (one, two) = ([("/etc/a", "1"), ("/etc/b", "1")], [("/etc/a", "2"), ("/etc/b", "1")]);
        let (one, two) = (rendered(&one), rendered(&two));
        let unasked = |_: &str, _: Option<&[u8]>, _: Option<&[u8]>| unreachable!("no file is managed");
        assert_eq!(effect(&one, &two, &[], unasked), Effect::Restart);
        assert_eq!(effect(&one, &one, &[], unasked), Effect::Nothing);
        let known = |path: &str, was: Option<&[u8]>, is: Option<&[u8]>| match (path, was, is) {
            ("/etc/a", Some(b"1"), Some(b"2")) => Effect::Apply,
            ("/etc/a", Some(b"1"), Some(b"1")) => Effect::Nothing,
            _ => Effect::Restart,
        };
        let managed = ["/etc/a"];
        assert_eq!(effect(&one, &two, &managed, known), Effect::Apply);
        assert_eq!(effect(&one, &one, &managed, known), Effect::Nothing);
        assert_eq!(effect(&two, &one, &managed, known), Effect::Restart);
        assert_eq!(effect(&one, &rendered(&[("/etc/a", "2")]), &managed, known), Effect::Restart);
    }

    #[test]
    fn a_managed_file_that_is_as_at_the_last_boot_is_asked_about_too() {
        let (none, one) = (rendered(&[]), rendered(&[("/etc/a", "1")]));
        let applied = |_: &str, _: Option<&[u8]>, _: Option<&[u8]>| Effect::Apply;
        assert_eq!(effect(&one, &one, &["/etc/a"], applied), Effect::Apply);
        assert_eq!(effect(&none, &none, &["/etc/a"], applied), Effect::Apply);
    }
}
