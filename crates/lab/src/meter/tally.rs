//! What became of the numbered packets of one direction. Pure: times come in as values.

use std::collections::VecDeque;
use std::time::Duration;

/// A time since the meter started.
pub(super) type At = Duration;

/// How old a packet must be before its absence is called a loss while the meter still runs. At the end everything
/// that is missing is lost.
const SETTLED: Duration = Duration::from_secs(1);
/// Between two marks of how far the numbers had come. Marks are what tells a packet's age.
const MARK: Duration = Duration::from_millis(50);
/// Gaps that are listed one by one; of a path that flaps for hours the first ones tell the story.
const LISTED: usize = 64;

/// What an arrival was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Fresh,
    Again,
    /// A number that was never sent.
    Stray,
}

/// A time in which something was sent and nothing arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) began: At,
    pub(super) length: Duration,
}

/// What became of the numbers of one lap. A gap belongs to the lap in which it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lap {
    /// The first number of it.
    pub(super) first: u64,
    pub(super) lost: u64,
    pub(super) longest: Duration,
}

/// The account of one direction.
///
/// A gap is counted from the first packet that was sent after the last arrival, not from the arrival itself: a sender
/// that pauses, because its machine is busy, makes no gap.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) duplicated: u64,
    pub(super) reordered: u64,
    pub(super) strays: u64,
    pub(super) bytes: u64,
    /// Of those sent: refused by the sender's own kernel.
    pub(super) refused: u64,
    pub(super) largest_sent: u32,
    pub(super) largest_passed: u32,
    pub(super) gaps: Vec<Gap>,
    pub(super) gaps_more: u64,
    /// Never empty.
    laps: Vec<Lap>,
    arrived: Vec<u64>,
    highest: Option<u64>,
    waiting: Option<At>,
    longest: Option<Gap>,
    worth_listing: Duration,
    marks: VecDeque<(At, u64)>,
    last_sent: At,
    settled: u64,
    lost: u64,
}

impl Tally {
    /// An empty account; gaps shorter than `worth_listing` are not listed.
    pub(super) fn new(worth_listing: Duration) -> Tally {
        Tally {
            sent: 0,
            received: 0,
            duplicated: 0,
            reordered: 0,
            strays: 0,
            bytes: 0,
            refused: 0,
            largest_sent: 0,
            largest_passed: 0,
            gaps: Vec::new(),
            gaps_more: 0,
            laps: vec![Lap::default()],
            arrived: Vec::new(),
            highest: None,
            waiting: None,
            longest: None,
            worth_listing,
            marks: VecDeque::new(),
            last_sent: At::ZERO,
            settled: 0,
            lost: 0,
        }
    }

    /// The number the next packet carries.
    pub(super) fn next(&self) -> u64 {
        self.sent
    }

    /// The next number is out.
    pub(super) fn sent(&mut self, now: At, size: u32) {
        self.sent += 1;
        self.largest_sent = self.largest_sent.max(size);
        self.waiting.get_or_insert(now);
        self.last_sent = now;
        if self.marks.back().is_none_or(|(at, _)| now.saturating_sub(*at) >= MARK) {
            self.marks.push_back((now, self.sent));
        }
        self.settle(now);
    }

    /// The next number was meant to go out and the kernel would not have it: whoever needed it did not get it.
    pub(super) fn refused(&mut self, now: At) {
        self.refused += 1;
        self.sent(now, 0);
    }

    /// A number came in.
    pub(super) fn arrived(&mut self, now: At, number: u64, size: u32) -> Arrival {
        if number >= self.sent {
            self.strays += 1;
            return Arrival::Stray;
        }
        if !self.insert(number) {
            self.duplicated += 1;
            return Arrival::Again;
        }
        self.received += 1;
        self.bytes += u64::from(size);
        self.largest_passed = self.largest_passed.max(size);
        if number < self.settled {
            self.lost -= 1;
            self.lap_of(number).lost -= 1;
        }
        if self.highest.is_some_and(|highest| number < highest) {
            self.reordered += 1;
        } else {
            self.highest = Some(number);
        }
        if let Some(began) = self.waiting.take() {
            self.gap(Gap { began, length: now.saturating_sub(began) });
        }
        if self.highest.is_some_and(|highest| highest + 1 < self.sent) {
            self.waiting = Some(now);
        }
        Arrival::Fresh
    }

    /// Something should arrive from now on, whether or not a packet could be sent.
    pub(super) fn expect(&mut self, now: At) {
        self.waiting.get_or_insert(now);
    }

    /// The sender pauses on purpose: from here to its next packet there is nothing to miss.
    pub(super) fn pause(&mut self, now: At) {
        if let Some(began) = self.waiting.take() {
            self.gap(Gap { began, length: now.saturating_sub(began) });
        }
    }

    /// Nothing more will arrive: what is missing is lost.
    pub(super) fn close(&mut self, now: At) {
        self.marks.clear();
        self.settle_to(self.sent);
        self.pause(now);
    }

    /// What is missing and old enough.
    pub(super) fn lost(&mut self, now: At) -> u64 {
        self.settle(now);
        self.lost
    }

    /// What is missing, however young.
    pub(super) fn missing(&self) -> u64 {
        self.sent - self.received
    }

    /// The longest gap, the current one included.
    pub(super) fn longest(&self, now: At) -> Option<Gap> {
        let current = self.waiting.map(|began| Gap { began, length: now.saturating_sub(began) });
        self.longest.into_iter().chain(current).max_by_key(|gap| gap.length)
    }

    /// Numbers from here on belong to another lap.
    pub(super) fn lap(&mut self) {
        self.laps.push(Lap { first: self.sent, ..Lap::default() });
    }

    /// The laps so far, each with how many were sent in it; the current gap is the last one's.
    pub(super) fn laps(&self, now: At) -> Vec<(u64, Lap)> {
        let ends = self.laps.iter().skip(1).map(|next| next.first).chain([self.sent]);
        let mut laps: Vec<(u64, Lap)> =
            self.laps.iter().zip(ends).map(|(lap, end)| (end - lap.first, *lap)).collect();
        if let (Some((_, last)), Some(began)) = (laps.last_mut(), self.waiting) {
            last.longest = last.longest.max(now.saturating_sub(began));
        }
        laps
    }

    fn lap_of(&mut self, number: u64) -> &mut Lap {
        let after = self.laps.partition_point(|lap| lap.first <= number);
        &mut self.laps[after.max(1) - 1]
    }

    fn gap(&mut self, gap: Gap) {
        if let Some(lap) = self.laps.last_mut() {
            lap.longest = lap.longest.max(gap.length);
        }
        if self.longest.is_none_or(|longest| gap.length > longest.length) {
            self.longest = Some(gap);
        }
        if gap.length >= self.worth_listing {
            if self.gaps.len() < LISTED {
                self.gaps.push(gap);
            } else {
                self.gaps_more += 1;
            }
        }
    }

    fn settle(&mut self, now: At) {
        while let Some((at, upto)) = self.marks.front().copied()
            && now.saturating_sub(at) >= SETTLED
        {
            self.marks.pop_front();
            self.settle_to(upto);
        }
        // Marks are made by sending: after the last packet there is none.
        if now.saturating_sub(self.last_sent) >= SETTLED {
            self.settle_to(self.sent);
        }
    }

    fn settle_to(&mut self, upto: u64) {
        for number in self.settled..upto {
            if !self.contains(number) {
                self.lost += 1;
                self.lap_of(number).lost += 1;
            }
        }
        self.settled = self.settled.max(upto);
    }

    fn contains(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.arrived.get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = place(number);
        if self.arrived.len() <= word {
            self.arrived.resize(word + 1, 0);
        }
        let fresh = self.arrived[word] & bit == 0;
        self.arrived[word] |= bit;
        fresh
    }

    /// The first ranges of numbers that never came, both ends included. Meaningful once closed.
    pub(super) fn missing_ranges(&self, most: usize) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in 0..self.settled {
            if self.contains(number) {
                continue;
            }
            if let Some((_, last)) = ranges.last_mut()
                && *last + 1 == number
            {
                *last = number;
            } else if ranges.len() == most {
                break;
            } else {
                ranges.push((number, number));
            }
        }
        ranges
    }
}

fn place(number: u64) -> (usize, u64) {
    (usize::try_from(number / 64).unwrap_or(usize::MAX), 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> At {
        Duration::from_millis(n)
    }

    /// One packet every ten milliseconds, each arriving a millisecond later if `arrives` says so.
    fn run(count: u64, arrives: impl Fn(u64) -> bool) -> Tally {
        let mut tally = Tally::new(ms(100));
        for number in 0..count {
            assert_eq!(tally.next(), number);
            tally.sent(ms(number * 10), 1400);
            if arrives(number) {
                assert_eq!(tally.arrived(ms(number * 10 + 1), number, 1400), Arrival::Fresh);
            }
        }
        tally
    }

    #[test]
    fn what_never_came_is_lost_and_what_is_young_is_not_lost_yet() {
        let mut tally = run(200, |number| number % 50 != 7);
        assert_eq!(tally.missing(), 4);
        // Sent at 70, 570, 1070 and 1570; it is 1991 now, and a mark may be fifty milliseconds late.
        assert_eq!(tally.lost(ms(1991)), 2);
        tally.close(ms(1991));
        assert_eq!(tally.lost(ms(10_000)), 4);
        assert_eq!(tally.missing_ranges(3), vec![(7, 7), (57, 57), (107, 107)]);
    }

    #[test]
    fn of_a_flow_that_sends_no_more_everything_grows_old() {
        let mut tally = run(200, |number| number != 199);
        assert_eq!(tally.lost(ms(2500)), 0);
        assert_eq!(tally.lost(ms(3000)), 1);
    }

    #[test]
    fn a_packet_that_comes_after_it_was_given_up_is_late_and_not_lost() {
        let mut tally = run(200, |number| number != 10);
        assert_eq!(tally.lost(ms(2000)), 1);
        assert_eq!(tally.arrived(ms(2001), 10, 1400), Arrival::Fresh);
        assert_eq!((tally.lost(ms(2001)), tally.reordered, tally.received), (0, 1, 200));
    }

    #[test]
    fn the_same_number_twice_is_a_duplicate_and_an_unknown_one_a_stray() {
        let mut tally = run(10, |_| true);
        assert_eq!(tally.arrived(ms(100), 3, 1400), Arrival::Again);
        assert_eq!(tally.arrived(ms(100), 10, 1400), Arrival::Stray);
        assert_eq!((tally.received, tally.duplicated, tally.strays, tally.reordered), (10, 1, 1, 0));
    }

    #[test]
    fn a_gap_lasts_from_the_first_packet_that_was_missed_to_the_next_arrival() {
        let tally = run(100, |number| !(30..60).contains(&number));
        let gap = tally.longest(ms(991)).unwrap();
        assert_eq!(gap, Gap { began: ms(300), length: ms(301) });
        assert_eq!(tally.gaps, vec![gap]);
    }

    #[test]
    fn a_sender_that_pauses_makes_no_gap() {
        let mut tally = run(10, |_| true);
        tally.sent(ms(5000), 1400);
        tally.arrived(ms(5001), 10, 1400);
        assert_eq!(tally.longest(ms(5001)).unwrap().length, ms(1));
        assert!(tally.gaps.is_empty());
    }

    #[test]
    fn a_path_that_stays_silent_has_a_gap_that_lasts_until_now() {
        let mut tally = run(100, |number| number < 50);
        assert_eq!(tally.longest(ms(2500)).unwrap(), Gap { began: ms(500), length: ms(2000) });
        tally.close(ms(3000));
        assert_eq!(tally.longest(ms(9000)).unwrap().length, ms(2500), "closed at 3000");
    }

    #[test]
    fn packets_that_are_on_their_way_together_make_gaps_of_their_spacing() {
        let mut tally = Tally::new(ms(100));
        for number in 0..100 {
            tally.sent(ms(number * 10), 100);
        }
        for number in 0..100 {
            tally.arrived(ms(2000 + number * 10), number, 100);
        }
        // The first waited for its own two seconds; the others only for their turn.
        assert_eq!(tally.longest(ms(3000)).unwrap(), Gap { began: ms(0), length: ms(2000) });
        assert_eq!(tally.gaps.len(), 1);
    }

    #[test]
    fn what_is_lost_counts_for_the_lap_it_was_sent_in_and_a_gap_for_the_one_it_ends_in() {
        let mut tally = run(100, |number| !(95..100).contains(&number));
        tally.lap();
        for number in 100..200 {
            tally.sent(ms(number * 10), 1400);
            if number > 110 {
                tally.arrived(ms(number * 10 + 1), number, 1400);
            }
        }
        tally.close(ms(2000));
        let laps = tally.laps(ms(2000));
        let counted: Vec<_> = laps.iter().map(|(sent, lap)| (*sent, lap.lost)).collect();
        assert_eq!(counted, [(100, 5), (100, 11)]);
        assert_eq!((laps[0].1.longest, laps[1].1.longest), (ms(1), ms(161)), "from 950 to 1111");
        // Late, and not lost after all.
        tally.arrived(ms(2001), 97, 1400);
        assert_eq!(tally.laps(ms(2001))[0].1.lost, 4);
    }

    #[test]
    fn what_the_kernel_refuses_to_send_is_lost() {
        let mut tally = Tally::new(ms(100));
        tally.refused(ms(0));
        tally.sent(ms(10), 100);
        tally.arrived(ms(11), 1, 100);
        tally.close(ms(20));
        assert_eq!((tally.sent, tally.refused, tally.lost(ms(20)), tally.largest_sent), (2, 1, 1, 100));
    }
}
