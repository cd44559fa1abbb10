//! Records of early data that a server skips because it rejected early data (RFC 8446, section 4.2.10).
//!
//! rustls 0.23 tries to decrypt each record with the keys of the handshake, and takes a record that it cannot decrypt for
//! early data. It does not discard such a record, but tries it again in each call, and counts it each time against the most
//! early data that it skips. It tries each record about three times, so a third of the allowed early data would end the
//! connection. The caller discards these records instead.
//!
//! Rustls also holds records that it decrypted: the parts of a message, and records without a message. It remembers where
//! they are, so none of their bytes may go. Two facts keep them:
//!
//! - A record that rustls tried in vain is zeros up to its tag: `EVP_AEAD_CTX_open` of AWS-LC clears its output if it fails.
//!   A decrypted one has its type there, which is not zero. Rustls moves the parts of a message together, but only to bytes
//!   before the type of the last part. It refuses a record that it tried in vain behind a part of a message.
//! - What rustls holds ends with a record that it took. So it holds nothing if it tried all whole records that are left
//!   in vain.
//!
//! The moved bytes and what a client sealed may look like the header of a record. So the records are found before rustls sees
//! them, and those that it holds from earlier calls are not read again.

use std::ops::Range;

/// The header of a record: its type, a version, and the length of what follows (RFC 8446, section 5.1).
const HEADER_BYTES: usize = 5;

/// The type of encrypted records.
const APPLICATION_DATA: u8 = 23;

/// The tag at the end of an encrypted record.
const TAG_BYTES: usize = 16;

/// The whole records among the bytes of a call.
#[derive(Default)]
pub(crate) struct WholeRecords {
    /// The encrypted records behind the last one of another type.
    encrypted: Vec<Range<usize>>,
    /// The end of the last record.
    end: usize,
}

impl WholeRecords {
    /// The records from `start` on, where one begins. Rustls must not have seen them.
    pub(crate) fn from_bytes(bytes: &[u8], start: usize) -> Self {
        let mut records = Self { encrypted: Vec::new(), end: start };
        while let Some((header, rest)) =
            bytes.get(records.end..).and_then(|rest| rest.split_first_chunk::<HEADER_BYTES>())
        {
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            if rest.len() < length {
                break;
            }
            let record = records.end..records.end + HEADER_BYTES + length;
            records.end = record.end;
            if header[0] == APPLICATION_DATA {
                records.encrypted.push(record);
            } else {
                records.encrypted.clear();
            }
        }
        records
    }

    /// The end of the records from `used` on, if rustls tried all of them in vain; else `used`. Rustls must have tried all
    /// whole records, and need none before `used`.
    pub(crate) fn skipped_from(&self, bytes: &[u8], used: usize) -> usize {
        let first = self.encrypted.iter().position(|record| record.start == used);
        let is_tried = |record: &Range<usize>| was_tried_in_vain(&bytes[record.clone()]);
        if first.is_some_and(|first| self.encrypted[first..].iter().all(is_tried)) { self.end } else { used }
    }

    /// Bytes of whole records behind `used`.
    pub(crate) fn bytes_from(&self, used: usize) -> usize {
        self.end.saturating_sub(used)
    }
}

/// Whether rustls could not decrypt this record. Without a text no record can be decrypted.
fn was_tried_in_vain(record: &[u8]) -> bool {
    let text = HEADER_BYTES..record.len().saturating_sub(TAG_BYTES).max(HEADER_BYTES);
    record[text].iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An encrypted record after it was tried, with this text and a tag.
    fn record(text: &[u8]) -> Vec<u8> {
        let length = (text.len() + TAG_BYTES) as u16;
        [&[APPLICATION_DATA, 3, 3][..], &length.to_be_bytes(), text, &[7; TAG_BYTES]].concat()
    }

    /// Bytes of these records that are skipped, from `used` on.
    fn skipped(records: &[&[u8]], used: usize) -> usize {
        let bytes = records.concat();
        WholeRecords::from_bytes(&bytes, 0).skipped_from(&bytes, used) - used
    }

    #[test]
    fn records_are_skipped_only_if_all_whole_ones_are_zeros() {
        let (zeros, message) = (&record(&[0; 9])[..], &record(&[20, 0, 0, 22])[..]);
        let part = &zeros[..8];
        let length = zeros.len();
        assert_eq!(skipped(&[zeros, zeros, part], 0), 2 * length);
        assert_eq!(skipped(&[zeros, zeros, part], length), length);
        assert_eq!(skipped(&[zeros, zeros], 6), 0, "no record begins there");
        assert_eq!(skipped(&[zeros, message], 0), 0);
        assert_eq!(skipped(&[message, zeros], 0), 0, "the first may be held");
        assert_eq!(skipped(&[message, zeros], message.len()), length);
        assert_eq!(skipped(&[&record(&[0, 0, 22])], 0), 0, "a part of a message of zeros has a type");
        for too_short in [&record(&[])[..], &[23, 3, 3, 0, 0], &[23, 3, 3, 0, 2, 9, 9]] {
            assert_eq!(skipped(&[too_short, part], 0), too_short.len());
        }
        for rest in [&[][..], part, &[22, 3, 3, 0, 17], &[22, 3, 3, 0, 1, 0]] {
            assert_eq!(skipped(&[rest], 0), 0);
        }
        // Another type stands between, such as `change_cipher_spec`.
        assert_eq!(skipped(&[zeros, &[20, 3, 3, 0, 1, 1], zeros], 0), 0);
    }
}
