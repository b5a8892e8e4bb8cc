//! Conditions, what an administrator reads first; and [Events](events).

mod events;

pub(crate) use events::{EventNote, Events};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use netferry_api::overlay::OperatorCondition;
use netferry_api::overlay::conditions::OperatorConditionType as Kind;
use netferry_translate::condition::upsert;

/// The longest message of a condition; longer ones are for machines.
const LONGEST_MESSAGE: usize = 4096;
/// How many problems a condition names one by one.
const NAMED: usize = 8;

/// A condition as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ConditionUpdate {
    pub(crate) kind: &'static str,
    pub(crate) status: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// The conditions that follow from what is wrong with the overlay: reason and message of each problem, the gravest
/// first.
pub(crate) fn of_the_overlay(problems: &[(&str, &str)], runs: bool, pending: usize) -> Vec<ConditionUpdate> {
    let fine = |kind: Kind, status, message: &str| ConditionUpdate {
        kind: kind.as_str(),
        status,
        reason: "AsExpected".into(),
        message: message.into(),
    };
    let degraded = match problems.first() {
        None => fine(Kind::Degraded, false, "nothing is wrong"),
        Some((reason, _)) => {
            let named: Vec<&str> = problems.iter().take(NAMED).map(|(_, message)| *message).collect();
            let more = problems.len() - named.len();
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            let message = within(&format!("{}{more}", named.join("; ")), LONGEST_MESSAGE);
            ConditionUpdate {
                kind: Kind::Degraded.as_str(),
                status: true,
                reason: (*reason).to_owned(),
                message,
            }
        }
    };
    let available = if runs {
        fine(Kind::Available, true, "the network's ranges are published")
    } else {
        let reason = problems.first().map_or("NoNetwork", |(reason, _)| reason).to_owned();
        let message = "there are no ranges the network could run with".to_owned();
        ConditionUpdate { kind: Kind::Available.as_str(), status: false, reason, message }
    };
    let progressing = if pending > 0 {
        let message = format!("{pending} nodes could not be given their places yet; trying again");
        ConditionUpdate {
            kind: Kind::Progressing.as_str(),
            status: true,
            reason: "Allocating".into(),
            message,
        }
    } else {
        fine(Kind::Progressing, false, "every node that can be has been given its place")
    };
    vec![degraded, available, progressing, fine(Kind::Upgradeable, true, "")]
}

/// The conditions with those wanted put in; `None` if they say so already. Others stay.
pub(crate) fn merged(
    now: &[OperatorCondition],
    wanted: &[ConditionUpdate],
    at: Timestamp,
) -> Option<Vec<OperatorCondition>> {
    let mut all = now.to_vec();
    for want in wanted {
        let condition = OperatorCondition {
            type_: want.kind.to_owned(),
            status: if want.status { "True" } else { "False" }.to_owned(),
            last_transition_time: Time(at),
            reason: Some(want.reason.clone()),
            message: Some(within(&want.message, LONGEST_MESSAGE)).filter(|message| !message.is_empty()),
        };
        upsert(&mut all, condition);
    }
    (all != now).then_some(all)
}

/// A text of at most this many bytes.
pub(crate) fn within(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes - '…'.len_utf8());
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn degraded(conditions: &[OperatorCondition]) -> &OperatorCondition {
        conditions.iter().find(|c| c.type_ == "Degraded").unwrap()
    }

    #[test]
    fn conditions_that_say_so_already_are_not_written_again() {
        let first = merged(&[], &of_the_overlay(&[], true, 0), at(1)).unwrap();
        assert_eq!(merged(&first, &of_the_overlay(&[], true, 0), at(2)), None);
    }

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change_of_status() {
        let fine = merged(&[], &of_the_overlay(&[], true, 0), at(1)).unwrap();
        let one = merged(&fine, &of_the_overlay(&[("A", "a")], true, 0), at(2)).unwrap();
        let two = merged(&one, &of_the_overlay(&[("A", "a"), ("B", "b")], true, 0), at(3)).unwrap();
        assert_eq!(degraded(&two).last_transition_time.0, at(2));
        assert_eq!(degraded(&two).message.as_deref(), Some("a; b"));
        assert_eq!(degraded(&two).reason.as_deref(), Some("A"));
    }

    #[test]
    fn conditions_of_others_stay() {
        let other = OperatorCondition {
            type_: "Other".into(),
            status: "True".into(),
            last_transition_time: Time(at(0)),
            reason: None,
            message: None,
        };
        let all = merged(std::slice::from_ref(&other), &of_the_overlay(&[], true, 0), at(1)).unwrap();
        assert_eq!(all[0], other);
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn many_problems_are_counted_and_long_ones_shortened() {
        let many: Vec<(&str, &str)> = vec![("A", "a"); 20];
        let all = merged(&[], &of_the_overlay(&many, true, 0), at(1)).unwrap();
        assert!(degraded(&all).message.as_ref().unwrap().ends_with("; and 12 more"));
        assert_eq!(within("äää", 5), "ä…");
        assert_eq!(within("abc", 3), "abc");
    }
}
