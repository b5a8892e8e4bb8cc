//! What nodes send each other to try a way: a question of the size to be tried, and an answer smaller than any question.
//!
//! ```text
//! 0          8          9          17
//! netferry   ? or !     number     zeros, in a question: up to the size that is tried
//! ```
//! An answer is never larger than the question, so nobody can make a node send more than they sent to it.

/// What every message begins with.
const MAGIC: &[u8; 8] = b"netferry";
/// The length of an answer, and the least of a question.
pub const LENGTH: usize = MAGIC.len() + 1 + 8;

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Did this arrive?
    Question(u64),
    /// It did.
    Answer(u64),
}

impl Message {
    /// The message in a datagram; nothing if it is none.
    pub fn read(datagram: &[u8]) -> Option<Message> {
        let (kind, rest) = datagram.strip_prefix(MAGIC)?.split_first()?;
        let (number, filling) = rest.split_first_chunk::<8>()?;
        let number = u64::from_be_bytes(*number);
        match kind {
            b'?' => Some(Message::Question(number)),
            b'!' if filling.is_empty() => Some(Message::Answer(number)),
            _ => None,
        }
    }

    /// The datagram, a question filled up to `length`.
    pub fn write(self, length: usize) -> Vec<u8> {
        let (kind, number, length) = match self {
            Message::Question(number) => (b'?', number, length.max(LENGTH)),
            Message::Answer(number) => (b'!', number, LENGTH),
        };
        let mut datagram = Vec::with_capacity(length);
        datagram.extend_from_slice(MAGIC);
        datagram.push(kind);
        datagram.extend_from_slice(&number.to_be_bytes());
        datagram.resize(length, 0);
        datagram
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again(number: u64, length in 0_usize..9000) {
            let question = Message::Question(number).write(length);
            prop_assert_eq!(question.len(), length.max(LENGTH));
            prop_assert_eq!(Message::read(&question), Some(Message::Question(number)));
            let answer = Message::Answer(number).write(length);
            prop_assert!(answer.len() <= question.len(), "an answer never makes more of a question");
            prop_assert_eq!(Message::read(&answer), Some(Message::Answer(number)));
        }

        #[test]
        fn what_is_no_message_is_not_read(datagram in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(Message::read(&datagram), None);
        }
    }

    #[test]
    fn what_was_cut_off_is_not_read() {
        let question = Message::Question(7).write(0);
        for length in 0..question.len() {
            assert_eq!(Message::read(&question[..length]), None);
        }
    }
}
