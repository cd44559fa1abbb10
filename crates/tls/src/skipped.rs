//! Records of early data that a server skips because it rejected early data (RFC 8446, section 4.2.10).
//!
//! rustls 0.23 tries to decrypt each record with the keys of the handshake, and takes a record that it cannot decrypt for
//! early data. It does not discard such a record, but tries it again in each call, and counts it each time against the most
//! early data that it skips. So a third of that would end the connection. The caller discards these records instead.

/// The header of a record: its type, a version, and the length of what follows (RFC 8446, section 5.1).
const HEADER_BYTES: usize = 5;

/// The type of encrypted records.
const APPLICATION_DATA: u8 = 23;

/// The tag at the end of an encrypted record.
const TAG_BYTES: usize = 16;

/// The bytes of whole records that rustls tried in vain, if all whole records are such. AWS-LC fills a record that it
/// cannot decrypt with zeros. A decrypted one, such as the beginning of a message of the handshake, ends with its type,
/// which is not 0.
pub(crate) fn skipped_bytes(records: &[u8]) -> usize {
    let mut skipped = 0;
    while let Some((header, rest)) = records[skipped..].split_first_chunk::<HEADER_BYTES>()
        && let Some(record) = rest.get(..usize::from(u16::from_be_bytes([header[3], header[4]])))
    {
        let is_empty = |text: &[u8]| !text.is_empty() && text.iter().all(|byte| *byte == 0);
        let text = record.len().checked_sub(TAG_BYTES).map(|length| &record[..length]);
        if header[0] != APPLICATION_DATA || !text.is_some_and(is_empty) {
            return 0;
        }
        skipped += HEADER_BYTES + record.len();
    }
    skipped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An encrypted record after it was tried, with this text and a tag.
    fn record(text: &[u8]) -> Vec<u8> {
        let length = (text.len() + TAG_BYTES) as u16;
        [&[APPLICATION_DATA, 3, 3][..], &length.to_be_bytes(), text, &[7; TAG_BYTES]].concat()
    }

    #[test]
    fn records_are_skipped_only_if_all_whole_ones_are_empty() {
        let (empty, message) = (record(&[0; 9]), record(&[20, 0, 0, 22]));
        let part = &empty[..8];
        assert_eq!(skipped_bytes(&[&empty, &empty[..], part].concat()), 2 * empty.len());
        assert_eq!(skipped_bytes(&[&empty, &message[..]].concat()), 0);
        assert_eq!(skipped_bytes(&record(&[0, 0, 22])), 0, "a part of a message of zeros has a type");
        for rest in [&[][..], part, &record(&[]), &[22, 3, 3, 0, 17], &[22, 3, 3, 0, 1, 0]] {
            assert_eq!(skipped_bytes(rest), 0);
        }
    }
}
