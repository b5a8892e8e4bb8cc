//! Conditions of objects: put in one by one, without touching those of others.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use netferry_api::overlay::OperatorCondition;
use netferry_api::rollout::PoolCondition;

/// A condition, of whichever object.
pub trait Condition {
    /// Its type.
    fn kind(&self) -> &str;
    /// `True`, `False` or `Unknown`.
    fn status(&self) -> &str;
    /// The last change of its status.
    fn since(&self) -> Option<&Time>;
    /// Sets the last change of its status.
    fn set_since(&mut self, since: Option<Time>);
}

/// Replaces the condition of the same type, or adds it. While the status stays, so does the time of its last change.
pub fn upsert<C: Condition>(all: &mut Vec<C>, mut condition: C) {
    match all.iter_mut().find(|old| old.kind() == condition.kind()) {
        Some(old) => {
            if old.status() == condition.status() {
                condition.set_since(old.since().cloned());
            }
            *old = condition;
        }
        None => all.push(condition),
    }
}

impl Condition for OperatorCondition {
    fn kind(&self) -> &str {
        &self.type_
    }

    fn status(&self) -> &str {
        &self.status
    }

    fn since(&self) -> Option<&Time> {
        Some(&self.last_transition_time)
    }

    fn set_since(&mut self, since: Option<Time>) {
        if let Some(since) = since {
            self.last_transition_time = since;
        }
    }
}

impl Condition for PoolCondition {
    fn kind(&self) -> &str {
        &self.type_
    }

    fn status(&self) -> &str {
        &self.status
    }

    fn since(&self) -> Option<&Time> {
        self.last_transition_time.as_ref()
    }

    fn set_since(&mut self, since: Option<Time>) {
        self.last_transition_time = since;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: &str, second: i64) -> OperatorCondition {
        OperatorCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            last_transition_time: Time(k8s_openapi::jiff::Timestamp::from_second(second).unwrap()),
            reason: None,
            message: Some(format!("at {second}")),
        }
    }

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change_of_status_and_others_stay() {
        let mut all = vec![condition("Other", "True", 0), condition("Degraded", "False", 1)];
        upsert(&mut all, condition("Degraded", "False", 2));
        assert_eq!(all[1].last_transition_time.0.as_second(), 1);
        assert_eq!(all[1].message.as_deref(), Some("at 2"));
        upsert(&mut all, condition("Degraded", "True", 3));
        assert_eq!(all[1].last_transition_time.0.as_second(), 3);
        upsert(&mut all, condition("Available", "True", 4));
        let kinds: Vec<&str> = all.iter().map(Condition::kind).collect();
        assert_eq!(kinds, ["Other", "Degraded", "Available"]);
        assert_eq!(all[0], condition("Other", "True", 0));
    }
}
