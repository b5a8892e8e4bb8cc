//! What the uplink's card does to frames, switched off while a userspace switch reads them, and on again after it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use netferry_kernel::offload::Offload;
use netferry_kernel::{IfName, Kernel, Objects};

use super::{InitError, tell};
use crate::kept;
use crate::overlay::host::guard;

/// In our run directory, which is empty at boot: so are the switches of a card as its driver has them.
const FILE: &str = "offloads-before.json";

/// What was on, by link, in the kernel's own words.
type Before = BTreeMap<String, BTreeSet<String>>;

/// Switches them off, and keeps what was on before the first time.
pub(super) fn off(kernel: &Kernel, link: &IfName, run: &Path) -> Result<(), InitError> {
    let failed = |source| InitError::Record { run: run.to_owned(), source };
    let attempt = || format!("switching offloads of {link} off");
    let mut before: Before = kept::read(run, FILE).map_err(failed)?.unwrap_or_default();
    if !before.contains_key(link.as_str()) {
        let features = tell(kernel.offloads().of(link), attempt)?;
        let ours = |feature: &&String| Offload::ALL.iter().any(|offload| offload.covers(feature));
        let on = features.active.intersection(&features.switchable).filter(ours).cloned().collect();
        before.insert(link.to_string(), on);
        kept::write(run, FILE, &before).map_err(failed)?;
    }
    tell(guard::offloads_off(kernel, link), attempt)
}

/// Switches on again what was on. A link that is gone needs nothing.
pub(super) fn restore(kernel: &Kernel, run: &Path) -> Result<(), InitError> {
    let failed = |source| InitError::Record { run: run.to_owned(), source };
    let before: Before = kept::read(run, FILE).map_err(failed)?.unwrap_or_default();
    for (link, features) in before {
        let Ok(link) = IfName::new(link) else { continue };
        let attempt = || format!("switching offloads of {link} on again");
        if tell(kernel.links().named(&link), attempt)?.is_some() && !features.is_empty() {
            let on = features.into_iter().map(|feature| (feature, true)).collect();
            tell(kernel.offloads().apply(&BTreeMap::from([(link.clone(), on)])), attempt)?;
        }
    }
    kept::remove(&run.join(FILE)).map_err(failed)
}
