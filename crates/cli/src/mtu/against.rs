//! What speaks against a change and was not accepted.

use std::collections::BTreeSet;

use anyhow::anyhow;
use netferry_core::mtu::preflight::{Finding, weigh};

use crate::exit::Failure;

/// Refuses a change something speaks against.
pub(super) fn refuse(findings: Vec<Finding>, accept: &[String]) -> Result<(), Failure> {
    let against = left(findings, accept)?;
    if against.is_empty() {
        return Ok(());
    }
    let said: Vec<String> = against.iter().map(|one| format!("{one} ({})", one.name())).collect();
    let noted = against.iter().any(|one| matches!(one, Finding::Noted(_)));
    let again = if noted { "; --probe-underlay tries it again" } else { "" };
    Err(Failure::Refused(anyhow!("nothing was changed: {}{again}", said.join("; "))))
}

/// Says that a change would be refused. What each finding is about was shown already.
pub(super) fn foretell(findings: Vec<Finding>, accept: &[String]) -> Result<(), Failure> {
    let names: BTreeSet<String> = left(findings, accept)?.iter().map(Finding::name).collect();
    if names.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = names.into_iter().collect();
    Err(Failure::Refused(anyhow!("it would be refused: {}", names.join(", "))))
}

/// What is left; refuses to accept what was not found.
fn left(findings: Vec<Finding>, accept: &[String]) -> Result<Vec<Finding>, Failure> {
    let verdict = weigh(findings, &accept.iter().cloned().collect());
    if verdict.unknown.is_empty() {
        return Ok(verdict.against);
    }
    let names = verdict.unknown.join(", ");
    Err(Failure::Refused(anyhow!("--accept {names}: there is no such finding")))
}
