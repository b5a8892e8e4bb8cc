//! `netferry path-pod`: what runs in the pods of `netferry mtu verify`. Some answer ([`answer`]), and some ask them
//! ([`ask`]) and write down what they measured. Nobody types these.

mod answer;
mod ask;
mod line;

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use netferry_core::mtu::paths::message::Token;
use netferry_core::mtu::paths::{Ask, Target};
use netferry_core::size::Mtu;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::time;

/// What a pod of `netferry mtu verify` runs
#[derive(Debug, Args)]
pub(crate) struct PathPodArgs {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    Answer(AnswerArgs),
    Ask(AskArgs),
}

/// Answer questions of this measurement
#[derive(Debug, Args)]
struct AnswerArgs {
    /// What all of one measurement know, in hexadecimal digits
    #[arg(long, value_name = "DIGITS", value_parser = token)]
    token: Token,
    /// Where to answer
    #[arg(long, value_name = "ADDRESS", env = "ADDRESSES", value_delimiter = ',', required = true)]
    address: Vec<IpAddr>,
    /// The port to answer at
    #[arg(long, value_name = "PORT")]
    port: u16,
    /// End after this time, should nobody else end it
    #[arg(long = "for", value_name = "TIME", value_parser = time::read)]
    lifetime: Duration,
}

/// Ask, and write down what was measured
#[derive(Debug, Args)]
struct AskArgs {
    /// What all of one measurement know, in hexadecimal digits
    #[arg(long, value_name = "DIGITS", value_parser = token)]
    token: Token,
    /// Whom to ask: NUMBER,udp,ADDRESS:PORT[,AT_MOST] or NUMBER,icmp,ADDRESS[,AT_MOST]
    #[arg(long, value_name = "QUESTION", required = true)]
    ask: Vec<Question>,
    /// Where to write what was measured
    #[arg(long, value_name = "FILE")]
    report: PathBuf,
}

/// The arguments of a pod that answers; its addresses are in its environment (`ADDRESSES`).
pub(crate) fn to_answer(token: &Token, port: u16, lifetime: Duration) -> Vec<String> {
    let lifetime = format!("{}s", lifetime.as_secs());
    ["path-pod", "answer", "--token", &digits(token), "--port", &port.to_string(), "--for", &lifetime]
        .map(str::to_owned)
        .into()
}

/// The arguments of a pod that asks.
pub(crate) fn to_ask(token: &Token, report: &str, questions: &[Question]) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["path-pod", "ask", "--token", &digits(token), "--report", report].map(str::to_owned).into();
    for question in questions {
        arguments.extend(["--ask".to_owned(), question.to_string()]);
    }
    arguments
}

pub(crate) fn run(args: &PathPodArgs) -> Result<(), Failure> {
    match &args.mode {
        Mode::Answer(args) => answer::run(args),
        Mode::Ask(args) => ask::run(args),
    }
}

/// A path to measure, as it is told to who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    /// What the answer is recognised by.
    pub(crate) number: u32,
    pub(crate) target: Target,
    pub(crate) at_most: Option<Mtu>,
}

impl Question {
    pub(crate) fn of(number: u32, ask: &Ask) -> Question {
        Question { number, target: ask.target, at_most: ask.at_most }
    }
}

impl Display for Question {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Question { number, target, at_most } = self;
        match target {
            Target::Answers(at) => write!(f, "{number},udp,{at}")?,
            Target::Echoes(at) => write!(f, "{number},icmp,{at}")?,
        }
        at_most.map_or(Ok(()), |size| write!(f, ",{size}"))
    }
}

impl FromStr for Question {
    type Err = String;

    fn from_str(text: &str) -> Result<Question, String> {
        let wrong = || format!("{text:?} is no question: NUMBER,udp,ADDRESS:PORT[,AT_MOST]");
        let mut parts = text.split(',');
        let mut next = || parts.next().ok_or_else(wrong);
        let number = next()?.parse().map_err(|_| wrong())?;
        let target = match next()? {
            "udp" => Target::Answers(next()?.parse::<SocketAddr>().map_err(|_| wrong())?),
            "icmp" => Target::Echoes(next()?.parse().map_err(|_| wrong())?),
            _ => return Err(wrong()),
        };
        let at_most = match parts.next() {
            None => None,
            Some(size) => {
                let bytes = size.parse().map_err(|_| wrong())?;
                Some(Mtu::new(bytes).map_err(|error| error.to_string())?)
            }
        };
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(Question { number, target, at_most })
    }
}

/// What was measured, as it is written down: few bytes, because a container has 4096 for its last words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Written(
    /// The number of the question.
    pub(crate) u32,
    /// What is sent there, and what arrives.
    pub(crate) (u32, u32),
    /// The same back.
    #[serde(default)]
    pub(crate) Option<(u32, u32)>,
);

fn digits(token: &Token) -> String {
    format!("{:032x}", u128::from_be_bytes(*token))
}

fn token(text: &str) -> Result<Token, String> {
    let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32);
    number.map(u128::to_be_bytes).ok_or_else(|| "32 hexadecimal digits are needed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_as_it_was_written_and_anything_else_is_refused() {
        for text in
            ["0,udp,10.0.0.1:9645", "7,udp,[fd00::1]:30001,8900", "1,icmp,192.0.2.1", "2,icmp,fd00::1,1400"]
        {
            assert_eq!(text.parse::<Question>().map(|question| question.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "1", "x,udp,10.0.0.1:1", "1,tcp,10.0.0.1:1", "1,udp,10.0.0.1", "1,udp,10.0.0.1:1,x"]
        {
            assert!(text.parse::<Question>().is_err_and(|error| error.contains("no question")), "{text}");
        }
        assert!("1,udp,10.0.0.1:1,8900,9".parse::<Question>().is_err());
        assert_eq!(
            "1,udp,10.0.0.1:1,9".parse::<Question>(),
            Err("MTU 9 is not between 576 and 65536".into())
        );
    }

    #[test]
    fn a_token_is_read_as_it_was_written_and_a_shorter_one_is_refused() {
        let known: Token = std::array::from_fn(|at| u8::try_from(at).unwrap_or_default());
        assert_eq!(token(&digits(&known)), Ok(known));
        for text in ["", "12", "zz000000000000000000000000000000"] {
            assert!(token(text).is_err(), "{text}");
        }
    }

    #[test]
    fn all_that_a_pod_measures_fits_into_its_last_words() {
        let all: Vec<Written> =
            (0..40).map(|number| Written(9000 + number, (65535, 65535), Some((65535, 65535)))).collect();
        assert!(serde_json::to_string(&all).expect("JSON").len() < 4096);
    }
}
