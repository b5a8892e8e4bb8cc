//! What the server has told its clients, which is what it may not forget.

use std::collections::BTreeMap;

use serde_json::Value;

/// Kind and name of an object; each is written by one writer only.
pub(crate) type Place = (&'static str, String);

/// A write whose answer has not come.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    /// It gives the object this mark.
    Mark(String),
    /// It removes the object.
    Gone,
}

/// All acknowledgements, and every state anybody was shown.
#[derive(Default)]
pub(crate) struct Ledger {
    /// The state acknowledged last; nothing after an acknowledged deletion.
    pub(crate) acknowledged: BTreeMap<Place, Option<Value>>,
    /// Writes that were under way.
    pub(crate) asked: BTreeMap<Place, Asked>,
    /// Every revision anybody was shown, with the state it stands for.
    shown: BTreeMap<u64, Value>,
    pub(crate) answers: u64,
}

/// The revision of an object.
pub(crate) fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("no revision in {object}"))
}

/// The mark writers leave on what they write.
pub(crate) fn mark(object: &Value) -> &str {
    object["metadata"]["annotations"]["mark"].as_str().unwrap_or_default()
}

/// Why what the server said cannot all be true.
pub(crate) type Contradiction = String;

impl Ledger {
    /// A state was shown, in an answer, a list or a watch. A deleted object's last state has a revision of its own.
    pub(crate) fn show(&mut self, object: &Value) -> Result<(), Contradiction> {
        let revision = revision(object);
        let known = self.shown.entry(revision).or_insert_with(|| object.clone());
        if known == object {
            return Ok(());
        }
        Err(format!("revision {revision} stands for\n{known}\nand for\n{object}"))
    }

    pub(crate) fn ask(&mut self, place: &Place, asked: Asked) {
        self.asked.insert(place.clone(), asked);
    }

    /// The answer came: the object is now in this state, or gone.
    pub(crate) fn answer(&mut self, place: &Place, object: Option<&Value>) -> Result<(), Contradiction> {
        self.asked.remove(place);
        if let Some(object) = object {
            let before = self.acknowledged.get(place).and_then(Option::as_ref);
            if before.is_some_and(|before| revision(before) >= revision(object)) {
                return Err(format!("{place:?} went back to {object}"));
            }
            self.show(object)?;
        }
        self.acknowledged.insert(place.clone(), object.cloned());
        self.answers += 1;
        Ok(())
    }

    /// The highest revision anybody was shown.
    pub(crate) fn highest(&self) -> u64 {
        self.shown.last_key_value().map_or(0, |(revision, _)| *revision)
    }

    /// Holds what a restarted server has of one kind against what was told, and settles what was left open.
    pub(crate) fn audit(
        &mut self,
        kind: &'static str,
        stored: &BTreeMap<String, Value>,
    ) -> Result<(), Contradiction> {
        for object in stored.values() {
            self.show(object)?;
        }
        let places: Vec<Place> = self
            .acknowledged
            .keys()
            .chain(self.asked.keys())
            .filter(|(of, _)| *of == kind)
            .cloned()
            .collect();
        for place in places {
            let found = stored.get(&place.1).cloned();
            let told = self.acknowledged.get(&place).cloned().flatten();
            let asked = self.asked.remove(&place);
            let as_told = found == told;
            let as_asked = match (&asked, &found) {
                (None, _) => false,
                (Some(Asked::Gone), None) => true,
                // Removing a pod is two steps: it is marked, then it goes.
                (Some(Asked::Gone), Some(found)) => found["metadata"]["deletionTimestamp"].is_string(),
                (Some(Asked::Mark(_)), None) => false,
                (Some(Asked::Mark(wanted)), Some(found)) => {
                    mark(found) == wanted && told.as_ref().is_none_or(|told| revision(told) < revision(found))
                }
            };
            if !as_told && !as_asked {
                return Err(format!(
                    "{place:?} was told as {told:?}, asked to become {asked:?}, is {found:?}"
                ));
            }
            self.acknowledged.insert(place, found);
        }
        match stored.keys().find(|name| !self.acknowledged.contains_key(&(kind, (*name).clone()))) {
            Some(name) => Err(format!("nobody wrote the {kind} {name}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(revision: u64, mark: &str) -> Value {
        json!({"metadata": {"resourceVersion": revision.to_string(), "annotations": {"mark": mark}}})
    }

    fn audited(told: Option<Value>, asked: Option<Asked>, found: Option<Value>) -> bool {
        let place = ("things", "one".to_owned());
        let mut ledger = Ledger::default();
        ledger.answer(&place, told.as_ref()).expect("a first answer contradicts nothing");
        if let Some(asked) = asked {
            ledger.ask(&place, asked);
        }
        let stored = found.into_iter().map(|found| ("one".to_owned(), found)).collect();
        ledger.audit("things", &stored).is_ok()
    }

    #[test]
    fn the_audit_finds_what_was_lost_changed_or_brought_back() {
        let (old, new) = (object(5, "a"), object(7, "b"));
        let asked = || Some(Asked::Mark("b".to_owned()));
        assert!(audited(Some(old.clone()), None, Some(old.clone())));
        assert!(audited(Some(old.clone()), asked(), Some(old.clone())));
        assert!(audited(Some(old.clone()), asked(), Some(new.clone())));
        assert!(audited(Some(old.clone()), Some(Asked::Gone), None));
        assert!(audited(None, asked(), Some(new.clone())));

        assert!(!audited(Some(old.clone()), None, None), "lost");
        assert!(!audited(Some(old.clone()), asked(), None), "lost with a write under way");
        assert!(!audited(Some(old.clone()), None, Some(new.clone())), "changed by nobody");
        assert!(!audited(Some(old.clone()), None, Some(object(5, "c"))), "one revision, two states");
        assert!(!audited(Some(new), asked(), Some(old)), "went back");
        assert!(!audited(None, None, Some(object(5, "a"))), "brought back");
    }
}
