use proptest::prelude::*;

use super::*;
use crate::fixtures::mtu;

fn node() -> NodeName {
    NodeName::new("b").unwrap()
}

const WAY: Way = Way::ALL[0].0;
const BOTH: Answers = Answers { small: true, large: true };
const SMALL: Answers = Answers { small: true, large: false };
const NONE: Answers = Answers { small: false, large: false };

/// A node that tries one way, once a second.
struct World {
    ledger: Ledger,
    aim: Aim,
    second: u64,
}

impl World {
    fn new() -> World {
        World { ledger: Ledger::default(), aim: Aim { size: mtu(9000), usual: mtu(1500) }, second: 0 }
    }

    fn now(&self) -> Duration {
        Duration::from_secs(self.second)
    }

    fn try_once(&mut self, answers: impl Fn(Mtu) -> Answers) -> Mtu {
        self.second += 1;
        let size = self.ledger.next(&node(), WAY, self.aim);
        let now = self.now();
        self.ledger.enter(&node(), WAY, size, answers(size), now);
        size
    }

    fn knows(&self) -> bool {
        self.ledger.width(&node(), WAY, self.aim).is_some()
    }

    fn searches(&self) -> bool {
        self.ledger.ways[&(node(), WAY)].searches()
    }

    fn narrow(&self) -> Option<u32> {
        self.ledger.narrow().next().map(|narrow| narrow.passes.bytes())
    }

    fn losses(&self) -> Option<(u32, u32)> {
        self.ledger.losses(self.now()).next().map(|loss| (loss.lost, loss.of))
    }
}

proptest! {
    #[test]
    fn a_narrow_way_is_measured_to_the_byte(width in 576_u32..9000) {
        let mut world = World::new();
        let mut trials = 0;
        while !world.knows() {
            world.try_once(|size| if size.bytes() <= width { BOTH } else { SMALL });
            trials += 1;
            prop_assert!(trials < 50, "the search does not end");
            prop_assert!(world.narrow().is_none_or(|passes| passes <= width));
        }
        prop_assert_eq!(world.narrow(), Some(width));
        prop_assert!(!world.ledger.is_open());
    }
}

#[test]
fn one_answer_is_enough_to_know_that_a_way_is_wide() {
    let mut world = World::new();
    assert_eq!(world.ledger.next(&node(), WAY, world.aim), mtu(9000));
    assert!(world.ledger.is_open() && !world.knows());
    world.try_once(|_| BOTH);
    assert!(!world.ledger.is_open() && world.knows());
    assert_eq!((world.narrow(), world.losses()), (None, None));
}

#[test]
fn a_way_that_never_took_large_packets_is_searched_when_some_in_a_row_are_lost() {
    let mut world = World::new();
    for _ in 1..FIRST_MISSES {
        world.try_once(|_| SMALL);
    }
    assert!(!world.searches());
    world.try_once(|_| SMALL);
    assert!(world.searches());
    assert!(world.ledger.is_open() && world.narrow().is_none());
    assert_eq!(world.try_once(|_| BOTH), mtu(1500), "what usually gets through is tried first");
    assert!(!world.ledger.is_open());
    assert_eq!((world.narrow(), world.knows()), (Some(1500), false), "enough to stop a change");
}

#[test]
fn a_way_that_took_large_packets_loses_first_and_is_searched_when_many_in_a_row_are_lost() {
    let mut world = World::new();
    for _ in 0..20 {
        world.try_once(|_| BOTH);
    }
    for missed in 1..MISSES {
        world.try_once(|_| SMALL);
        assert!(!world.searches());
        assert_eq!(world.losses().is_some(), missed > 2, "it is said that it loses: {missed}");
    }
    world.try_once(|_| SMALL);
    assert!(world.searches());
}

/// On each trial a question or its answer is lost by itself, as often as is allowed.
#[test]
fn a_way_that_loses_no_more_than_is_allowed_is_never_taken_for_a_narrow_one() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut arrives = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        !(random >> 11).is_multiple_of(10)
    };
    let mut world = World::new();
    world.try_once(|_| BOTH);
    for _ in 0..1_000_000 {
        let answers = Answers { small: arrives(), large: arrives() };
        world.try_once(|_| answers);
        assert_eq!(world.narrow(), None, "after {} trials", world.second);
    }
}

#[test]
fn a_way_that_was_widened_is_narrow_no_more() {
    let mut world = World::new();
    while !world.knows() {
        world.try_once(|size| if size.bytes() <= 1500 { BOTH } else { SMALL });
    }
    assert_eq!(world.try_once(|_| BOTH), mtu(9000));
    assert_eq!(world.narrow(), None);
}

#[test]
fn ends_that_carry_something_else_begin_anew() {
    let mut world = World::new();
    while !world.knows() {
        world.try_once(|size| if size.bytes() <= 1500 { BOTH } else { SMALL });
    }
    world.aim = Aim { size: mtu(1500), usual: mtu(1500) };
    assert_eq!(world.ledger.next(&node(), WAY, world.aim), mtu(1500));
    assert_eq!((world.narrow(), world.knows()), (None, false));
    // What was under way before says nothing.
    let now = world.now();
    world.ledger.enter(&node(), WAY, mtu(9000), BOTH, now);
    assert!(!world.knows());
}

#[test]
fn somebody_who_is_away_loses_nothing_until_missed_for_long() {
    let mut world = World::new();
    world.try_once(|_| BOTH);
    for _ in 0..60 {
        world.try_once(|_| NONE);
        assert_eq!(world.losses(), None);
    }
    world.try_once(|_| NONE);
    assert_eq!(world.losses(), Some((61, 61)));
    world.try_once(|_| BOTH);
    assert_eq!(world.losses(), None);
}

#[test]
fn more_losses_than_a_tenth_are_too_many() {
    let mut world = World::new();
    for trial in 0..20 {
        world.try_once(|_| if trial % 10 == 0 { SMALL } else { BOTH });
    }
    assert_eq!(world.losses(), None, "2 of 20");
    for trial in 0..20 {
        world.try_once(|_| if trial % 5 == 0 { Answers { small: false, large: true } } else { BOTH });
    }
    assert_eq!(world.losses(), Some((4, 20)));
    for _ in 0..18 {
        world.try_once(|_| BOTH);
    }
    assert_eq!(world.losses(), None);
}

#[test]
fn a_way_that_is_narrow_from_now_on_is_told_as_narrow_only() {
    let mut world = World::new();
    for _ in 0..20 {
        world.try_once(|_| BOTH);
    }
    for _ in 0..60 {
        world.try_once(|size| if size.bytes() <= 1500 { BOTH } else { SMALL });
        assert!(world.losses().is_none() || world.narrow().is_none());
    }
    assert_eq!((world.narrow(), world.losses()), (Some(1500), None));
}
