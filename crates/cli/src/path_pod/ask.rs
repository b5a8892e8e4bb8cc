//! Asking: what is sent on a path, and how much of it arrives, there and back.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use netferry_core::mtu::paths::message::Token;
use netferry_core::name::NodeName;
use netferry_core::probe::ledger::{Aim, Answers, Ledger};
use netferry_core::size::Mtu;

use super::line::{Heard, Line};
use super::{AskArgs, Question, Written};
use crate::exit::Failure;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_millis(400);
/// How long somebody may be silent before nobody is there: who answers may have to start, and a Service to be known.
const SILENCE: Duration = Duration::from_secs(15);
/// How long a direction may be measured: finding out how narrow it is takes some thirty trials.
const LONGEST: Duration = Duration::from_secs(40);

/// Measures all paths at once and writes down what came of it.
pub(super) fn run(args: &AskArgs) -> Result<(), Failure> {
    let all: Vec<Written> = thread::scope(|scope| {
        let asked: Vec<_> =
            args.ask.iter().map(|question| scope.spawn(|| measure(question, &args.token))).collect();
        asked.into_iter().map(|one| one.join().expect("measuring does not panic")).collect()
    });
    let text = serde_json::to_string(&all).context("writing what was measured")?;
    std::fs::write(&args.report, &text).with_context(|| format!("writing {}", args.report.display()))?;
    println!("{text}");
    Ok(())
}

/// A direction of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    There,
    Back,
}

fn measure(question: &Question, token: &Token) -> Written {
    // Who cannot even open a socket measures nothing, which is what nothing is.
    let Ok(line) = Line::open(question.target, *token) else { return Written(question.number, (0, 0), None) };
    let mut path = Path { line, at_most: question.at_most, asked: 0, uses_back: None };
    let there = path.width(Direction::There);
    let back = path.uses_back.is_some().then(|| path.width(Direction::Back));
    Written(question.number, there, back)
}

struct Path {
    line: Line,
    at_most: Option<Mtu>,
    /// How often was asked. The small question of a trial has an even number, the large one the odd number after it.
    asked: u64,
    /// What who answers sends.
    uses_back: Option<u32>,
}

impl Path {
    /// What is sent in a direction, and how much arrives. What is sent may become less while it is tried: the kernel is
    /// told that a way is narrow, and that is as it should be.
    fn width(&mut self, direction: Direction) -> (u32, u32) {
        let (way, began) = (self.line.way(), Instant::now());
        let peer = NodeName::new("peer").expect("a name");
        let (mut ledger, mut uses, mut heard) = (Ledger::default(), 0, false);
        while began.elapsed() < if heard { LONGEST } else { SILENCE } {
            // A host without a way to it now may have one in a moment.
            uses = self.uses(direction).unwrap_or(uses);
            let Ok(size) = Mtu::new(uses.max(way.floor().bytes())) else { break };
            let aim = Aim { size, usual: size };
            let size = ledger.next(&peer, way, aim);
            let answers = self.trial(direction, size);
            heard |= answers.small || answers.large;
            ledger.enter(&peer, way, size, answers, began.elapsed());
            if let Some(passes) = ledger.width(&peer, way, aim) {
                return (uses, passes.bytes().min(uses));
            }
        }
        (uses, 0)
    }

    fn uses(&self, direction: Direction) -> io::Result<u32> {
        match direction {
            Direction::There => {
                let uses = self.line.uses()?;
                Ok(self.at_most.map_or(uses, |most| uses.min(most.bytes())))
            }
            Direction::Back => Ok(self.uses_back.unwrap_or_default()),
        }
    }

    /// Asks a small question and a large one, and waits for both answers.
    fn trial(&mut self, direction: Direction, size: Mtu) -> Answers {
        let number = self.asked;
        self.asked += 2;
        let small = self.line.way().floor();
        let large = match direction {
            Direction::There => self.line.ask(number | 1, size, 0),
            Direction::Back => self.line.ask(number | 1, small, size.bytes()),
        };
        // One that could not be sent is one that was not answered.
        drop((self.line.ask(number, small, 0), large));
        let mut answers = Answers::default();
        let until = Instant::now() + ANSWER;
        while !(answers.small && answers.large) {
            let Some(Heard { number: of, uses, size: came }) = self.line.hear(until) else { break };
            self.uses_back = uses.or(self.uses_back);
            match of.checked_sub(number) {
                Some(0) => answers.small = true,
                // An answer that is as large as was asked for; not one that the other end held back.
                Some(1) => answers.large = direction == Direction::There || came == size.bytes(),
                Some(_) | None => {}
            }
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use netferry_core::mtu::paths::Target;

    use super::*;
    use crate::path_pod::AnswerArgs;

    const TOKEN: Token = [7; 16];

    #[test]
    fn a_path_is_measured_both_ways_as_far_as_it_may_be_and_nobody_answers_who_is_not_of_it() {
        for address in ["127.0.0.1", "::1"] {
            let own: IpAddr = address.parse().expect("an address");
            // One that is free now; of a run beside this one others would be.
            let free =
                std::net::UdpSocket::bind((own, 0)).and_then(|socket| socket.local_addr()).expect("a port");
            let args = AnswerArgs { token: TOKEN, address: vec![own], port: free.port(), lifetime: LONGEST };
            std::thread::spawn(move || crate::path_pod::answer::run(&args));
            let question = Question {
                number: 3,
                target: Target::Answers(SocketAddr::new(own, free.port())),
                at_most: Some(Mtu::new(9000).expect("a size")),
            };
            assert_eq!(
                measure(&question, &TOKEN),
                Written(3, (9000, 9000), Some((65535, 65535))),
                "{address}"
            );
            let line = Line::open(question.target, [8; 16]).expect("a line");
            line.ask(0, line.way().floor(), 0).expect("asked");
            assert_eq!(line.hear(Instant::now() + ANSWER), None, "another measurement");
        }
    }
}
