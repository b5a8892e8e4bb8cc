//! Several messages in one datagram, each knowing what it is for.

use super::{HEADER, Writer, aligned};
use crate::error::Attempt;

/// A datagram under construction. Sequence numbers are positions in it; the socket adds its own base.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    writer: Writer,
    pub(crate) entries: Vec<Entry>,
}

/// What one message of a batch is for, so that a refusal can name it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) start: usize,
    pub(crate) attempt: Attempt,
    pub(crate) object: String,
    /// The message is longer than its attributes can say; it must not be sent.
    pub(crate) overflowed: bool,
}

impl Batch {
    /// Adds one message.
    pub(crate) fn push(
        &mut self,
        kind: u16,
        flags: u16,
        attempt: Attempt,
        object: impl Into<String>,
        body: impl FnOnce(&mut Writer),
    ) {
        let start = self.writer.buffer.len();
        self.writer.buffer.extend_from_slice(&[0; HEADER]);
        body(&mut self.writer);
        let length = self.writer.buffer.len() - start;
        self.writer.buffer.resize(start + aligned(length), 0);
        let header = &mut self.writer.buffer[start..start + HEADER];
        header[0..4].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
        header[4..6].copy_from_slice(&kind.to_ne_bytes());
        header[6..8].copy_from_slice(&(flags | super::flag::REQUEST).to_ne_bytes());
        let overflowed = std::mem::take(&mut self.writer.overflowed);
        self.entries.push(Entry { start, attempt, object: object.into(), overflowed });
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of entries `from..to`, numbered from `base`.
    pub(crate) fn numbered(&mut self, from: usize, to: usize, base: u32) -> &[u8] {
        for (i, entry) in self.entries[from..to].iter().enumerate() {
            let sequence = base.wrapping_add(u32::try_from(i).unwrap_or(u32::MAX));
            self.writer.buffer[entry.start + 8..entry.start + 12].copy_from_slice(&sequence.to_ne_bytes());
        }
        let start = self.entries.get(from).map_or(0, |e| e.start);
        let end = self.entries.get(to).map_or(self.writer.buffer.len(), |e| e.start);
        &self.writer.buffer[start..end]
    }
}
