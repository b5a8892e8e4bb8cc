//! What a packet of the meter says: which run, which flow, which way, which number.

/// Bytes of a header. The smallest packet of a meter is this and the protocols below it.
pub(super) const HEADER: usize = 28;
const MAGIC: [u8; 3] = *b"nfm";

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Forward,
    Backward,
}

/// The header of a packet or record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Packets of another run of the meter, late or on the same port, are not ours.
    pub(super) run: u64,
    pub(super) flow: u32,
    pub(super) way: Way,
    pub(super) number: u64,
    /// Bytes from here to the end, this header included.
    pub(super) length: u32,
}

impl Header {
    /// Writes it and fills the rest, so that `into` is exactly as long as the header says.
    pub(super) fn write(&self, into: &mut Vec<u8>) {
        let start = into.len();
        into.extend_from_slice(&MAGIC);
        into.push(match self.way {
            Way::Forward => b'>',
            Way::Backward => b'<',
        });
        into.extend_from_slice(&self.run.to_be_bytes());
        into.extend_from_slice(&self.flow.to_be_bytes());
        into.extend_from_slice(&self.number.to_be_bytes());
        into.extend_from_slice(&self.length.to_be_bytes());
        let end = start + usize::try_from(self.length).unwrap_or(HEADER).max(HEADER);
        into.resize(end, 0x6e);
    }

    /// Reads the header at the beginning, if one is there.
    pub(super) fn read(bytes: &[u8]) -> Option<Header> {
        let (magic, rest) = bytes.split_first_chunk::<3>()?;
        let (way, rest) = rest.split_first()?;
        let (run, rest) = rest.split_first_chunk()?;
        let (flow, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (length, _) = rest.split_first_chunk()?;
        let way = match way {
            b'>' => Way::Forward,
            b'<' => Way::Backward,
            _ => return None,
        };
        let header = Header {
            run: u64::from_be_bytes(*run),
            flow: u32::from_be_bytes(*flow),
            way,
            number: u64::from_be_bytes(*number),
            length: u32::from_be_bytes(*length),
        };
        (*magic == MAGIC && usize::try_from(header.length).is_ok_and(|length| length >= HEADER))
            .then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_foreign_bytes_are_not_one() {
        let header = Header { run: 7 << 40, flow: 3, way: Way::Backward, number: 1 << 33, length: 1372 };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        assert_eq!(bytes.len(), 1372);
        assert_eq!(Header::read(&bytes), Some(header));
        assert_eq!(Header::read(&bytes[..HEADER - 1]), None);
        let mut foreign = bytes.clone();
        foreign[0] ^= 1;
        assert_eq!(Header::read(&foreign), None);
        bytes[24..28].copy_from_slice(&5_u32.to_be_bytes());
        assert_eq!(Header::read(&bytes), None, "shorter than its own header");
    }
}
