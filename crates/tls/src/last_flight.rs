//! Fate of a client's early data, by the last records of its handshake (RFC 8446, sections 2.3 and 4.5).
//!
//! rustls 0.23 reports it for connections with buffers alone (`ClientConnection::is_early_data_accepted`). Without them a
//! client that resumes a session encrypts exactly two records if the server took early data, `EndOfEarlyData` and
//! `Finished`, and otherwise `Finished` alone. Anything else is an error of the connection, so that a change in rustls shows.

/// The type of encrypted records.
const APPLICATION_DATA: u8 = 23;

/// A record with `EndOfEarlyData` (RFC 8446, sections 4.5 and 5.2): the header has 5 bytes, the message 4, its type 1
/// and the tag 16.
const END_OF_EARLY_DATA_BYTES: usize = 26;

/// The encrypted records that a client's handshake sent.
#[derive(Debug, Default)]
pub(crate) struct LastFlight {
    records: usize,
    /// The bytes of the first of them.
    first_bytes: usize,
}

impl LastFlight {
    /// Notes a record.
    pub(crate) fn note(&mut self, record: &[u8]) {
        if record.first() != Some(&APPLICATION_DATA) {
            return;
        }
        if self.records == 0 {
            self.first_bytes = record.len();
        }
        self.records += 1;
    }

    /// Whether the server took early data, once the handshake is complete; `None` if the records do not say so.
    pub(crate) fn took_early_data(&self, is_resumed: bool) -> Option<bool> {
        let begins_with_end = self.first_bytes == END_OF_EARLY_DATA_BYTES;
        match self.records {
            // A server takes early data of a session that it resumes alone (RFC 8446, section 4.2.10).
            _ if !is_resumed => Some(false),
            1 if !begins_with_end => Some(false),
            2 if begins_with_end => Some(true),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fate of early data by records of these types and lengths.
    fn said(records: &[(u8, usize)], is_resumed: bool) -> Option<bool> {
        let mut flight = LastFlight::default();
        for &(kind, bytes) in records {
            let mut record = vec![0; bytes];
            record[0] = kind;
            flight.note(&record);
        }
        flight.took_early_data(is_resumed)
    }

    #[test]
    fn records_that_no_handshake_has_say_nothing() {
        // change_cipher_spec, EndOfEarlyData, and Finished with SHA-256 and SHA-384.
        let (ccs, end, finished, finished_384) = ((20, 6), (23, 26), (23, 58), (23, 74));
        assert_eq!(said(&[ccs, finished], true), Some(false));
        assert_eq!(said(&[finished_384], true), Some(false));
        assert_eq!(said(&[end, finished], true), Some(true));
        assert_eq!(said(&[end, ccs, finished_384], true), Some(true));
        // A client without a certificate says so before Finished, in a full handshake.
        assert_eq!(said(&[(23, 30), finished], false), Some(false));
        // EndOfEarlyData with padding, or in one record with Finished; none of it, or more than that.
        for records in
            [&[(23, 42), finished][..], &[(23, 62), finished], &[end], &[], &[end, finished, finished]]
        {
            assert_eq!(said(records, true), None, "{records:?}");
        }
    }
}
