//! Names, paths and kernel arguments that a machine configuration may hold.
//!
//! Each of them becomes part of a path or of the kernel's command line. A node that took a wrong one might not boot, so
//! everything is refused that is not known to be right.

/// Where no configuration may write: the daemon's own files, and what does not outlive a boot. `/var/run` and `/var/lock`
/// are links to `/run` on hosts.
const OURS: [&str; 7] = ["/var/lib/netferry", "/run", "/var/run", "/var/lock", "/proc", "/sys", "/dev"];

/// The longest path; the kernel takes 4096 bytes, and names beside it are longer.
const LONGEST_PATH: usize = 1024;

/// The suffixes of units.
const SUFFIXES: [&str; 11] = [
    ".service",
    ".socket",
    ".device",
    ".mount",
    ".automount",
    ".swap",
    ".target",
    ".path",
    ".timer",
    ".slice",
    ".scope",
];

/// Kernel arguments that decide what the host boots. A wrong value leaves a node that no agent can repair.
const BOOT_ARGUMENTS: [&str; 13] = [
    "init",
    "rdinit",
    "root",
    "rootflags",
    "rootfstype",
    "initrd",
    "systemd.unit",
    "systemd.mask",
    "rd.break",
    "emergency",
    "rescue",
    "single",
    "S",
];

/// The most bytes of all kernel arguments together: the kernel of a PC reads 2048 and ignores the rest.
pub(super) const LONGEST_ARGUMENTS: usize = 1024;

/// Checks that a configuration may write a file at a path.
///
/// # Errors
/// Why it may not.
pub fn path(path: &str) -> Result<(), &'static str> {
    let Some(inner) = path.strip_prefix('/') else { return Err("it does not begin with /") };
    if path.len() > LONGEST_PATH {
        return Err("it is too long");
    }
    if path.chars().any(char::is_control) {
        return Err("it contains a control character");
    }
    if inner.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        return Err("a part of it is empty, . or ..");
    }
    if inner.split('/').any(|part| part.len() > 200) {
        return Err("a part of it is too long");
    }
    if OURS
        .iter()
        .any(|ours| path == *ours || path.strip_prefix(ours).is_some_and(|rest| rest.starts_with('/')))
    {
        return Err("it is not for configurations to write");
    }
    if inner.rsplit('/').next().is_some_and(is_beside) {
        return Err("the name is one we use while writing");
    }
    Ok(())
}

/// Returns true if a file's name is one the daemon uses beside the file it writes.
fn is_beside(name: &str) -> bool {
    name.starts_with('.') && name.contains(".netferry-")
}

/// Returns true if systemd takes this as the name of a unit.
pub(super) fn unit_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    let stem = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix));
    // With `.requires` and the like behind it, and the names beside it, a file system takes 255 bytes.
    let fits = name.len() <= 200 && name.chars().all(allowed) && !is_beside(name);
    fits && stem.is_some_and(|stem| !stem.is_empty())
}

/// Returns true if systemd takes this as the name of an addition to a unit.
pub(super) fn dropin_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.@".contains(c);
    let fits = name.len() < 200 && name.chars().all(allowed) && !is_beside(name);
    fits && name.len() > ".conf".len() && name.ends_with(".conf")
}

/// Returns true if this is one kernel argument, as it stands in the boot loader's configuration.
pub(super) fn kernel_argument(argument: &str) -> bool {
    let allowed = |c: char| c.is_ascii_graphic() && !"\"'`$\\".contains(c);
    !argument.is_empty() && argument.chars().all(allowed)
}

/// Returns true if a kernel argument decides what the host boots.
pub(super) fn decides_boot(argument: &str) -> bool {
    let name = argument.split_once('=').map_or(argument, |(name, _)| name);
    // The kernel reads `-` and `_` in names as the same.
    BOOT_ARGUMENTS.contains(&name.replace('_', "-").as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_legal_unit_name_is_one_part_of_a_path(name in ".{0,40}\\.(service|target|mount)|(\\.\\./){1,4}[a-z/]{0,9}\\.service") {
            if unit_name(&name) {
                prop_assert!(!name.contains('/') && name != "." && name != ".." && !name.contains('\0'));
            }
        }

        #[test]
        fn a_legal_path_stays_outside_what_is_ours(parts in proptest::collection::vec("run|var|lib|netferry|\\.\\.|\\.|proc|etc|", 1..6)) {
            let text = format!("/{}", parts.join("/"));
            if path(&text).is_ok() {
                prop_assert!(!text.contains("/../") && !text.starts_with("/run/") && !text.starts_with("/var/run/"));
                prop_assert!(!text.starts_with("/proc/") && !text.starts_with("/var/lib/netferry"));
            }
        }
    }
}
