//! Where one JSON text ends and the next begins.
//!
//! OVSDB puts nothing between messages, so the end is where the nesting closes.

/// Deepest nesting accepted; OVSDB's own messages are about ten deep. Also what the JSON reader allows.
pub const MAX_DEPTH: usize = 120;

/// Why the bytes cannot be cut into messages any more. The connection is of no use after it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A byte that cannot begin a message.
    #[error("byte 0x{byte:02x} stands where a message must begin with an opening brace")]
    NotAnObject {
        /// The byte.
        byte: u8,
    },
    /// More opening than any message has.
    #[error("a message is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A message without an end in sight.
    #[error("a message is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
}

/// Cuts a stream of bytes into JSON objects.
///
/// The bytes may come in any pieces: each byte is looked at once, and what was seen is remembered.
#[derive(Debug)]
pub struct Framer {
    pending: Vec<u8>,
    /// Bytes of `pending` that were looked at.
    seen: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    limit: usize,
}

impl Framer {
    /// A framer for messages of at most `limit` bytes.
    pub fn new(limit: usize) -> Framer {
        Framer { pending: Vec::new(), seen: 0, depth: 0, in_string: false, escaped: false, limit }
    }

    /// Takes bytes; [`next`](Framer::next) gives the messages they complete.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next complete message, if there is one.
    #[allow(clippy::should_implement_trait, reason = "fallible, and not the end when it gives nothing")]
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        if self.depth == 0 && self.seen == 0 {
            let blank = self.pending.iter().take_while(|b| b.is_ascii_whitespace()).count();
            self.pending.drain(..blank);
        }
        while let Some(&byte) = self.pending.get(self.seen) {
            self.seen += 1;
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'{' | b'[' if self.depth > 0 || byte == b'{' => self.depth += 1,
                _ if self.depth == 0 => return Err(FrameError::NotAnObject { byte }),
                b'"' => self.in_string = true,
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
            if self.depth > MAX_DEPTH {
                return Err(FrameError::TooDeep);
            }
            if self.depth == 0 {
                let rest = self.pending.split_off(self.seen);
                self.seen = 0;
                return Ok(Some(std::mem::replace(&mut self.pending, rest)));
            }
        }
        if self.pending.len() > self.limit {
            return Err(FrameError::TooLong { limit: self.limit });
        }
        Ok(None)
    }
}
