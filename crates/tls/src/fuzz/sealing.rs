//! A client that seals records of its handshake itself: parts of messages, zeros behind them, and no message at all.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::UnbufferedClientConnection;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, Iv, MessageEncrypter, OutboundChunks, OutboundPlainMessage,
};
use rustls::crypto::tls13::OkmBlock;
use rustls::{ContentType, KeyLog, ProtocolVersion, Tls13CipherSuite};

use crate::client::Connector;
use crate::connection::{ClientTls, ServerTls};
use crate::server::Acceptor;

/// A suite that this client can use: its keys have 32 bytes.
pub const SUITE: &str = "TLS_AES_256_GCM_SHA384";

/// The types of the messages of the handshake, and of encrypted records.
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// The header of a record.
const HEADER_BYTES: usize = 5;

/// The most early data that the client may seal.
const EARLY_BYTES: usize = 1 << 10;

/// A client that has the server's first messages.
pub struct Sealing {
    encrypter: Box<dyn MessageEncrypter>,
    /// Records that were sealed so far.
    sealed: u64,
    /// The client's last message of the handshake.
    pub finished: Vec<u8>,
}

/// A secret of a connection (RFC 8446, section 7.1), by its label in key logs.
#[derive(Debug)]
pub(super) struct Secret {
    label: &'static str,
    bytes: Mutex<Vec<u8>>,
}

impl Secret {
    /// The secret; empty if it is not known yet.
    pub(super) fn get(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl KeyLog for Secret {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        if label == self.label {
            *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = secret.to_vec();
        }
    }
}

/// A client whose secret with this label becomes known, the secret, and the first bytes of its handshake.
pub(super) fn with_secret(
    connector: &Connector,
    label: &'static str,
    offers_early_data: bool,
) -> (ClientTls, Arc<Secret>, Vec<u8>) {
    let secret = Arc::new(Secret { label, bytes: Mutex::default() });
    let (mut config, name) = connector.parts(None);
    let own = Arc::make_mut(&mut config);
    own.key_log = Arc::clone(&secret) as Arc<dyn KeyLog>;
    own.enable_early_data = offers_early_data;
    let side = UnbufferedClientConnection::new(config, name).expect("a client");
    let mut first = Vec::new();
    let tls = ClientTls::begin(side, EARLY_BYTES, &mut first).expect("a client begins");
    (tls, secret, first)
}

impl Sealing {
    /// The client, and a server that waits for the client's last message. With `is_early` the client offers early data,
    /// for which it must have a ticket, and which the server must reject.
    pub fn new(connector: &Connector, acceptor: &Acceptor, is_early: bool) -> (Self, ServerTls) {
        let (mut client, secret, mut to_server) =
            with_secret(connector, "CLIENT_HANDSHAKE_TRAFFIC_SECRET", is_early);
        let (mut to_client, mut plain) = (Vec::new(), Vec::new());
        assert_eq!(client.early_bytes() > 0, is_early, "a ticket allows it");
        if is_early {
            client.seal_early(b"a query", &mut to_server).expect("there is room for it");
        }
        let mut server = acceptor.accept().expect("a server waits");
        server.open(&mut to_server, &mut plain, &mut to_client).expect("the client obeys TLS");
        assert!(server.kept().is_empty(), "early data is skipped");
        to_server.clear();
        client.open(&mut to_client, &mut plain, &mut to_server).expect("the server obeys TLS");
        assert!(client.is_established() && !server.is_established());
        let suite = client.suite().expect("the handshake agreed on a suite of TLS 1.3");
        let secret = secret.get();
        let (key, iv) = keys(suite, &secret);
        // `change_cipher_spec` may stand before it.
        let start = to_server.iter().position(|byte| *byte == APPLICATION_DATA).expect("a last message");
        let last = InboundOpaqueMessage::new(
            ContentType::ApplicationData,
            ProtocolVersion::TLSv1_2,
            &mut to_server[start + HEADER_BYTES..],
        );
        let mut decrypter = suite.aead_alg.decrypter(AeadKey::from(key), Iv::new(iv));
        let finished = decrypter.decrypt(last, 0).expect("the keys are right").payload.to_vec();
        (Self { encrypter: encrypter(suite, &secret), sealed: 0, finished }, server)
    }

    /// A record with this part of the messages of the handshake, its type, and zeros (RFC 8446, section 5.4).
    pub fn seal(&mut self, part: &[u8], zeros: usize) -> Vec<u8> {
        let mut text = [part, &[HANDSHAKE]].concat();
        text.resize(text.len() + zeros, 0);
        let end = text.pop().expect("a type at least");
        self.sealed += 1;
        record(&mut *self.encrypter, self.sealed - 1, ContentType::from(end), &text)
    }

    /// Records with the parts of the last message.
    pub fn seal_finished(&mut self, part_bytes: usize, zeros: usize) -> Vec<u8> {
        let finished = self.finished.clone();
        finished.chunks(part_bytes.max(1)).flat_map(|part| self.seal(part, zeros)).collect()
    }
}

/// The record of this number that holds a payload of this type.
pub(super) fn record(
    encrypter: &mut dyn MessageEncrypter,
    number: u64,
    typ: ContentType,
    payload: &[u8],
) -> Vec<u8> {
    let (version, payload) = (ProtocolVersion::TLSv1_2, OutboundChunks::Single(payload));
    encrypter.encrypt(OutboundPlainMessage { typ, version, payload }, number).expect("a record").encode()
}

/// Sealer of records with this secret of a client.
pub(super) fn encrypter(suite: &Tls13CipherSuite, secret: &[u8]) -> Box<dyn MessageEncrypter> {
    let (key, iv) = keys(suite, secret);
    suite.aead_alg.encrypter(AeadKey::from(key), Iv::new(iv))
}

/// Key and IV of what a client sends with this secret (RFC 8446, section 7.3).
fn keys(suite: &Tls13CipherSuite, secret: &[u8]) -> ([u8; 32], [u8; 12]) {
    let (mut key, mut iv) = ([0; 32], [0; 12]);
    expand(suite, secret, b"key", &mut key);
    expand(suite, secret, b"iv", &mut iv);
    (key, iv)
}

/// Expands a secret for a purpose (`HKDF-Expand-Label` without a context, RFC 8446, section 7.1).
pub(super) fn expand(suite: &Tls13CipherSuite, secret: &[u8], label: &[u8], out: &mut [u8]) {
    let expander = suite.hkdf_provider.expander_for_okm(&OkmBlock::new(secret));
    let length = u16::try_from(out.len()).expect("a key is short").to_be_bytes();
    let label_length = [u8::try_from(6 + label.len()).expect("a label has 255 bytes at most")];
    let info = [&length[..], &label_length, b"tls13 ", label, &[0]];
    expander.expand_slice(&info, out).expect("a hash is long enough");
}
