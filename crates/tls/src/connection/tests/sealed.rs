//! A client that seals records of its handshake itself: parts of messages, padding, and records without a message.

use super::early_data::acquainted;
use super::*;
use crate::fuzz::sealing::{SUITE, Sealing};

/// A client that has the server's first messages, and that server.
struct Ends {
    client: Sealing,
    server: End<UnbufferedServerConnection>,
}

impl Ends {
    fn seal(&mut self, part: &[u8], zeros: usize) -> Vec<u8> {
        self.client.seal(part, zeros)
    }

    /// Passes records to the server, each of them in pieces, until it fails. Then it closes. Whatever the records are, this
    /// must not panic.
    fn pass(&mut self, records: &[Vec<u8>], piece: usize) -> Result<(), Failure> {
        let taken = records.iter().try_for_each(|record| self.server.take(record, piece).map(|_| ()));
        self.server.tls.close(&mut Vec::new());
        taken
    }
}

/// Runs this for a client without early data, and for one whose early data is rejected, with two suites.
fn for_each_client(mut run: impl FnMut(&mut dyn FnMut() -> Ends, bool)) {
    for suite in [SUITE, "TLS_CHACHA20_POLY1305_SHA256"] {
        let (connector, _, made) = acquainted(true, suite);
        let acceptor = Acceptor::over_tcp(crate::ALPN, &made.identity, true).unwrap();
        for is_early in [false, true] {
            let mut make = || {
                // The client has a ticket for each connection.
                if is_early {
                    established(&connector, &acceptor, 1000);
                }
                // It has no sessions.
                let forgetful = Acceptor::over_tcp(crate::ALPN, &made.identity, true).unwrap();
                let (client, tls) = Sealing::new(&connector, &forgetful, is_early);
                Ends { client, server: End { tls, plain: Vec::new(), outgoing: Vec::new() } }
            };
            run(&mut make, is_early);
        }
    }
}

const CHANGE_CIPHER_SPEC: [u8; 6] = [20, 3, 3, 0, 1, 1];

/// An encrypted record that no key opens.
fn unknown(bytes: u8) -> Vec<u8> {
    [&[23, 3, 3, 0, bytes][..], &vec![9; usize::from(bytes)]].concat()
}

#[test]
fn parts_that_read_as_headers_of_records_when_they_are_moved_together_are_no_records() {
    let forged = [&[0, 0xff, 0xff][..], &[7; 14], &[23, 3, 3, 0xff, 0xff]].concat();
    for_each_client(|client, _| {
        for zeros in [0, 1, 30] {
            let mut client = client();
            let both = [client.seal(&[0], zeros), client.seal(&forged, 0)].concat();
            assert_eq!(client.server.take(&both, 1 << 20), Ok(Peer::Open));
            let more = client.seal(&[7; 40], zeros);
            assert_eq!(client.pass(&[more], 7), Ok(()));
        }
    });
}

#[test]
fn a_last_message_in_parts_ends_the_handshake_whatever_is_skipped_before() {
    for_each_client(|client, is_early| {
        for (part, zeros) in (1..=40).map(|part| (part, if part % 2 == 0 { 0 } else { 20 })) {
            let mut client = client();
            let mut records = Vec::new();
            if is_early {
                // Only the empty records among these are decrypted.
                for bytes in [40, 3, 16, 17] {
                    records.extend(unknown(bytes));
                    records.extend(client.seal(&[], zeros));
                    records.extend(unknown(bytes));
                }
            }
            records.extend(client.client.seal_finished(part, zeros));
            assert_eq!(
                client.server.take(&records, 1 + 37 * (part % 3)),
                Ok(Peer::Open),
                "parts of {part} bytes"
            );
            assert!(client.server.tls.is_established());
        }
    });
}

#[test]
fn records_without_a_message_stay_where_they_are() {
    for_each_client(|client, is_early| {
        for (first, second) in [(0, 0), (0, 5), (30, 0)] {
            let mut client = client();
            let empty = client.seal(&[], first);
            let changed = CHANGE_CIPHER_SPEC.to_vec();
            let last = client.client.seal_finished(1 << 14, second);
            let records = [empty, unknown(30), changed, unknown(16), unknown(60), last];
            assert_eq!(client.pass(&records, 1 << 20).is_ok(), is_early);
            assert_eq!(client.server.tls.is_established(), is_early);
        }
    });
}

/// Numbers that look random (George Marsaglia, "Xorshift RNGs").
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 33) as usize
}

#[test]
fn no_sequence_of_records_makes_a_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for_each_client(|client, _| {
        for _ in 0..60 {
            let mut client = client();
            let mut records = Vec::new();
            for _ in 0..=next(&mut state) % 6 {
                let zeros = [0, 0, 1, 40][next(&mut state) % 4];
                let bytes = next(&mut state) % 41;
                let record = match next(&mut state) % 8 {
                    0 => client.seal(&vec![0; bytes], zeros),
                    1 => client.seal(&[0, 0xff, 0xff], zeros),
                    2 => client.seal(&[0], zeros),
                    3 => client.seal(&[&vec![7; bytes][..], &[23, 3, 3, 0, bytes as u8]].concat(), zeros),
                    4 => client.seal(&[], zeros),
                    5 => CHANGE_CIPHER_SPEC.to_vec(),
                    _ => unknown(bytes as u8),
                };
                records.push(record);
            }
            if next(&mut state).is_multiple_of(2) {
                records = vec![records.concat()];
            }
            records.push([client.seal(&[7; 60], 0), unknown(50)].concat());
            let piece = [1, 9, 30, 1 << 20][next(&mut state) % 4];
            // It may fail, but must not panic.
            let _ = client.pass(&records, piece);
        }
    });
}
