//! A client that sends records without end and never a byte of a message: empty ones, and between them new keys, since a
//! server ends a connection with many empty records, or many new keys, in a row.

use std::sync::Arc;

use rustls::crypto::cipher::MessageEncrypter;
use rustls::{ContentType, Tls13CipherSuite};

use super::sealing::{SUITE, Secret, encrypter, expand, record, with_secret};
use crate::client::{Client, ClientSettings, Trust, server_name};
use crate::connection::ClientTls;

/// A change of the sender's keys, to which the peer need not answer (RFC 8446, section 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// Such a client, of any server.
pub struct VainClient {
    tls: ClientTls,
    log: Arc<Secret>,
    /// Sealer of its records, once the handshake is complete.
    keys: Option<Keys>,
}

struct Keys {
    suite: &'static Tls13CipherSuite,
    secret: Vec<u8>,
    encrypter: Box<dyn MessageEncrypter>,
    /// Records that were sealed with these keys.
    sealed: u64,
}

impl VainClient {
    /// A client that offers this application protocol, and the first bytes of its handshake.
    pub fn new(protocol: &[u8]) -> (Self, Vec<u8>) {
        let suites = vec![SUITE.parse().expect("a suite")];
        let settings = ClientSettings { suites, ..ClientSettings::new(Trust::Anyone, false) };
        let client = Client::new(&settings).expect("a client").speaking(protocol);
        let connector = client.connector(server_name("fuzz.test").expect("a name"), 0);
        let (tls, log, first) = with_secret(&connector, "CLIENT_TRAFFIC_SECRET_0", false);
        (Self { tls, log, keys: None }, first)
    }

    /// Takes bytes of the server's handshake. Returns the client's answer; `None` while it waits for more.
    pub fn answer(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (mut records, mut outgoing) = ([self.tls.kept(), bytes].concat(), Vec::new());
        self.tls.open(&mut records, &mut Vec::new(), &mut outgoing).expect("the server obeys TLS");
        if !self.tls.is_established() {
            return None;
        }
        let suite = self.tls.suite().expect("the handshake agreed on a suite of TLS 1.3");
        self.keys = Some(Keys::new(suite, self.log.get()));
        Some(outgoing)
    }

    /// Twice this many records, without a byte of a message. Panics before the handshake is complete.
    pub fn records(&mut self, count: usize) -> Vec<u8> {
        let keys = self.keys.as_mut().expect("the handshake is complete");
        (0..count).flat_map(|_| keys.vain_pair()).collect()
    }
}

impl Keys {
    fn new(suite: &'static Tls13CipherSuite, secret: Vec<u8>) -> Self {
        let encrypter = encrypter(suite, &secret);
        Self { suite, secret, encrypter, sealed: 0 }
    }

    /// An empty record, and one with new keys, which the next records have (RFC 8446, section 7.2).
    fn vain_pair(&mut self) -> Vec<u8> {
        let empty = record(&mut *self.encrypter, self.sealed, ContentType::ApplicationData, &[]);
        let update = record(&mut *self.encrypter, self.sealed + 1, ContentType::Handshake, &KEY_UPDATE);
        let mut next = vec![0; self.secret.len()];
        expand(self.suite, &self.secret, b"traffic upd", &mut next);
        *self = Self::new(self.suite, next);
        [empty, update].concat()
    }
}
