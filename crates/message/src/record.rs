//! Resource records, as far as a reader must know them to skip them (RFC 1035, section 4.1.3).

use crate::{Header, name, question};

/// The bytes of type, class, TTL and RDLENGTH, which follow a record's name.
const FIXED_BYTES: usize = 10;

/// A resource record in a message, without its owner name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The record type, such as [`crate::rtype::A`].
    pub rtype: u16,
    /// The class. In an OPT record it is the sender's UDP payload size in bytes.
    pub class: u16,
    /// The TTL in seconds. In an OPT record it holds flags and the upper bits of the rcode.
    pub ttl_s: u32,
    /// The RDATA. Names in it may be compressed.
    pub data: &'a [u8],
    /// The position in the message just after the record.
    pub end: usize,
}

/// Reads the record that begins at `from`. `None` if it is cut short or its name is malformed.
#[inline]
pub fn read(message: &[u8], from: usize) -> Option<Record<'_>> {
    let at = name::end(message, from)?;
    let fixed: &[u8; FIXED_BYTES] = message.get(at..)?.first_chunk()?;
    let [t0, t1, c0, c1, s0, s1, s2, s3, l0, l1] = *fixed;
    let data_start = at + FIXED_BYTES;
    let end = data_start + usize::from(u16::from_be_bytes([l0, l1]));
    Some(Record {
        rtype: u16::from_be_bytes([t0, t1]),
        class: u16::from_be_bytes([c0, c1]),
        ttl_s: u32::from_be_bytes([s0, s1, s2, s3]),
        data: message.get(data_start..end)?,
        end,
    })
}

/// The position just after the last record that the header counts. If the message ends there, another record
/// can be appended. `None` if a section is cut short or malformed.
pub fn end(message: &[u8]) -> Option<usize> {
    let header = Header::from_bytes(message)?;
    let counts = [header.answers(), header.authorities(), header.additionals()].map(u32::from);
    (0..counts.iter().sum()).try_fold(question::end(message)?, |at, _| Some(read(message, at)?.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_records_end_where_the_last_one_does() {
        let record = b"\0\x00\x01\x00\x01\x00\x00\x0e\x10\x00\x01x";
        let message = [&b"..\x81\0\0\0\0\x01\0\x01\0\x01"[..], record, record, record, b"rest"].concat();
        assert_eq!(end(&message), Some(message.len() - 4));
        assert_eq!(end(&message[..message.len() - 5]), None);
        assert_eq!(end(&message[..11]), None);
    }

    #[test]
    fn a_record_is_read_from_its_bytes() {
        let message = b"..\x01a\0\x00\x01\x00\x01\x00\x00\x0e\x10\x00\x04\x0a\x00\x00\x01rest";
        let record = read(message, 2).expect("a whole record");
        assert_eq!((record.rtype, record.class, record.ttl_s), (1, 1, 3600));
        assert_eq!(record.data, [10, 0, 0, 1]);
        assert_eq!(&message[record.end..], b"rest");
    }

    #[test]
    fn a_record_that_is_cut_short_is_none() {
        let message = b"\0\x00\x01\x00\x01\x00\x00\x0e\x10\x00\x04\x0a\x00\x00\x01";
        for bytes in 0..message.len() {
            assert_eq!(read(&message[..bytes], 0), None);
        }
        assert_eq!(read(message, usize::MAX / 2), None);
    }
}
