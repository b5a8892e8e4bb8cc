//! What is said on a path that is measured: a question, filled up to the size that is tried, and an answer as large as the
//! question asks for.
//!
//! ```text
//! 0          8    9       25       33     37
//! netferry   > <  token   number   size   zeros, up to the size that is tried
//! ```
//! An answer may be larger than its question, so nobody is answered who does not know the token of this measurement.

/// What every message begins with.
const MAGIC: &[u8; 8] = b"netferry";
/// The length of a message that is filled up with nothing.
pub const LENGTH: usize = MAGIC.len() + 1 + 16 + 8 + 4;

/// What those who measure together know.
pub type Token = [u8; 16];

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Did this arrive?
    Question {
        /// Which.
        number: u64,
        /// How large a packet the answer shall be; a small one where that is less than the least.
        back: u32,
    },
    /// It did.
    Answer {
        /// To which question.
        number: u64,
        /// The largest packet that who answers would send on the way back.
        uses: u32,
    },
}

impl Message {
    /// The message in a datagram; nothing if it is none, or of another measurement.
    pub fn read(datagram: &[u8], token: &Token) -> Option<Message> {
        let (kind, rest) = datagram.strip_prefix(MAGIC)?.split_first()?;
        let (number, rest) = rest.strip_prefix(token)?.split_first_chunk::<8>()?;
        let (size, _filling) = rest.split_first_chunk::<4>()?;
        let (number, size) = (u64::from_be_bytes(*number), u32::from_be_bytes(*size));
        match kind {
            b'>' => Some(Message::Question { number, back: size }),
            b'<' => Some(Message::Answer { number, uses: size }),
            _ => None,
        }
    }

    /// The datagram, filled up to `length`.
    pub fn write(self, token: &Token, length: usize) -> Vec<u8> {
        let (kind, number, size) = match self {
            Message::Question { number, back } => (b'>', number, back),
            Message::Answer { number, uses } => (b'<', number, uses),
        };
        let mut datagram = Vec::with_capacity(length.max(LENGTH));
        datagram.extend_from_slice(MAGIC);
        datagram.push(kind);
        datagram.extend_from_slice(token);
        datagram.extend_from_slice(&number.to_be_bytes());
        datagram.extend_from_slice(&size.to_be_bytes());
        datagram.resize(length.max(LENGTH), 0);
        datagram
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again_by_those_who_know_the_token(
            token: Token, other: Token, number: u64, size: u32, length in 0_usize..9000,
        ) {
            for message in [Message::Question { number, back: size }, Message::Answer { number, uses: size }] {
                let written = message.write(&token, length);
                prop_assert_eq!(written.len(), length.max(LENGTH));
                prop_assert_eq!(Message::read(&written, &token), Some(message));
                prop_assert_eq!(Message::read(&written, &other).is_some(), token == other);
                prop_assert_eq!(Message::read(&written[..LENGTH - 1], &token), None);
            }
        }

        #[test]
        fn what_is_no_message_is_not_read(datagram in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(Message::read(&datagram, &[7; 16]), None);
        }
    }
}
