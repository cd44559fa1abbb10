//! A client that seals records of its handshake itself: parts of messages, padding, and records without a message.

use std::sync::{Arc, Mutex};

use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, Iv, MessageEncrypter, OutboundChunks, OutboundPlainMessage,
};
use rustls::crypto::tls13::OkmBlock;
use rustls::{ContentType, KeyLog, ProtocolVersion};

use super::early::acquainted;
use super::*;

/// The secret of what the client sends in the handshake (RFC 8446, section 7.1).
#[derive(Debug, Default)]
struct Secret(Mutex<Vec<u8>>);

impl KeyLog for Secret {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        if label == "CLIENT_HANDSHAKE_TRAFFIC_SECRET" {
            *self.0.lock().unwrap() = secret.to_vec();
        }
    }
}

/// A client that has the server's first messages, and that server.
struct Sealing {
    server: End<UnbufferedServerConnection>,
    encrypter: Box<dyn MessageEncrypter>,
    /// Records that were sealed so far.
    sealed: u64,
    /// The client's last message of the handshake.
    finished: Vec<u8>,
}

impl Sealing {
    /// With `is_early` the client offers early data, which the server must reject.
    fn new(connector: &Connector, acceptor: &Acceptor, is_early: bool) -> Self {
        let (mut config, name) = connector.parts(None);
        let secret = Arc::new(Secret::default());
        let own = Arc::make_mut(&mut config);
        (own.key_log, own.enable_early_data) = (Arc::clone(&secret) as Arc<dyn KeyLog>, is_early);
        let (mut outgoing, mut plain) = (Vec::new(), Vec::new());
        let side = UnbufferedClientConnection::new(config, name).unwrap();
        let mut tls = ClientTls::begin(side, 1 << 14, &mut outgoing).unwrap();
        assert_eq!(tls.early_bytes() > 0, is_early);
        if is_early {
            tls.seal_early(b"a query", &mut outgoing).unwrap();
        }
        let mut server = End { tls: acceptor.accept().unwrap(), plain: Vec::new(), outgoing: Vec::new() };
        server.take(&outgoing, 1 << 20).unwrap();
        outgoing.clear();
        tls.open(&mut std::mem::take(&mut server.outgoing), &mut plain, &mut outgoing).unwrap();
        assert!(tls.is_established() && !server.tls.is_established());
        let (key, iv) = keys(&tls, &secret.0.lock().unwrap());
        let aead = tls.side.negotiated_cipher_suite().unwrap().tls13().unwrap().aead_alg;
        // A record that no key opens may stand before the last one.
        let start = outgoing.iter().position(|byte| *byte == 23).unwrap();
        let last = InboundOpaqueMessage::new(
            ContentType::ApplicationData,
            ProtocolVersion::TLSv1_2,
            &mut outgoing[start + 5..],
        );
        let opened = aead.decrypter(AeadKey::from(key), Iv::new(iv)).decrypt(last, 0).unwrap();
        let finished = opened.payload.to_vec();
        assert_eq!((opened.typ, finished[0]), (ContentType::Handshake, 20));
        Self { server, encrypter: aead.encrypter(AeadKey::from(key), Iv::new(iv)), sealed: 0, finished }
    }

    /// A record with this part of the messages of the handshake, its type, and zeros (RFC 8446, section 5.4).
    fn seal(&mut self, part: &[u8], zeros: usize) -> Vec<u8> {
        let mut text = [part, &[22]].concat();
        text.resize(text.len() + zeros, 0);
        let end = text.pop().unwrap();
        let message = OutboundPlainMessage {
            typ: ContentType::from(end),
            version: ProtocolVersion::TLSv1_2,
            payload: OutboundChunks::Single(&text),
        };
        self.sealed += 1;
        self.encrypter.encrypt(message, self.sealed - 1).unwrap().encode()
    }

    /// Passes records to the server, each of them in pieces, until it fails. Then it closes. Whatever the records are, this
    /// must not panic.
    fn pass(&mut self, records: &[Vec<u8>], piece: usize) -> Result<(), Failure> {
        let taken = records.iter().try_for_each(|record| self.server.take(record, piece).map(|_| ()));
        self.server.tls.close(&mut Vec::new());
        taken
    }
}

/// Key and IV of what the client sends in the handshake (RFC 8446, section 7.3).
fn keys(tls: &ClientTls, secret: &[u8]) -> ([u8; 32], [u8; 12]) {
    let suite = tls.side.negotiated_cipher_suite().unwrap().tls13().unwrap();
    let expander = suite.hkdf_provider.expander_for_okm(&OkmBlock::new(secret));
    let expand = |label: &[u8], out: &mut [u8]| {
        let (length, label_length) = ((out.len() as u16).to_be_bytes(), [6 + label.len() as u8]);
        expander.expand_slice(&[&length, &label_length, b"tls13 ", label, &[0]], out).unwrap();
    };
    let (mut key, mut iv) = ([0; 32], [0; 12]);
    expand(b"key", &mut key);
    expand(b"iv", &mut iv);
    (key, iv)
}

/// Runs this for a client without early data, and for one whose early data is rejected, with two suites.
fn for_each_client(mut run: impl FnMut(&mut dyn FnMut() -> Sealing, bool)) {
    for suite in ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"] {
        let (connector, _, made) = acquainted(true, suite);
        // The server has no sessions.
        let acceptor = Acceptor::over_tcp(crate::ALPN, &made.identity, true).unwrap();
        for is_early in [false, true] {
            let mut make = || {
                // The client has a ticket for each connection.
                if is_early {
                    established(&connector, &acceptor, 1000);
                }
                let forgetful = Acceptor::over_tcp(crate::ALPN, &made.identity, true).unwrap();
                Sealing::new(&connector, &forgetful, is_early)
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
            let finished = client.finished.clone();
            let mut records = Vec::new();
            if is_early {
                // Of these the empty ones alone are decrypted.
                for bytes in [40, 3, 16, 17] {
                    records.extend(unknown(bytes));
                    records.extend(client.seal(&[], zeros));
                    records.extend(unknown(bytes));
                }
            }
            for part in finished.chunks(part) {
                records.extend(client.seal(part, zeros));
            }
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
            let finished = client.finished.clone();
            let empty = client.seal(&[], first);
            let changed = CHANGE_CIPHER_SPEC.to_vec();
            let last = client.seal(&finished, second);
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
            for _ in 0..1 + next(&mut state) % 6 {
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
            if next(&mut state) % 2 == 0 {
                records = vec![records.concat()];
            }
            records.push([client.seal(&[7; 60], 0), unknown(50)].concat());
            let piece = [1, 9, 30, 1 << 20][next(&mut state) % 4];
            // It may fail, but must not panic.
            let _ = client.pass(&records, piece);
        }
    });
}
