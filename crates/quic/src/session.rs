//! The handshake of a connection by rustls (RFC 9001). quinn-proto has an adapter for it, which hides what was agreed
//! on and why TLS failed; this one shows both.

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use kqps_tls::{Failure, Session};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::ServerName;
use rustls::quic::{
    ClientConnection, Connection, DirectionalKeys, KeyChange, Secrets, ServerConnection, Suite, Version,
};
use rustls::{ClientConfig, ServerConfig};

/// The number of QUIC version 1.
const VERSION: u32 = 1;

/// The key and nonce of the tag of Retry packets (RFC 9001, section 5.8), and the bytes of the tag.
const RETRY_KEY: [u8; 16] =
    [0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e];
const RETRY_NONCE: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];
const TAG_BYTES: usize = 16;

/// The session on which a handshake agreed so far, and why it failed, if it did.
pub(crate) struct Agreed {
    pub(crate) session: Session,
    pub(crate) failure: Option<Failure>,
}

impl Agreed {
    /// Returns the agreement of this connection's handshake, whose session this crate made.
    pub(crate) fn from_connection(connection: &quinn_proto::Connection) -> Option<Self> {
        let agreed = connection.crypto_session().handshake_data()?;
        agreed.downcast::<Self>().ok().map(|agreed| *agreed)
    }
}

/// The suite that protects the first packets (RFC 9001, section 5.2).
fn initial_suite() -> Option<Suite> {
    TLS13_AES_128_GCM_SHA256.tls13().and_then(rustls::Tls13CipherSuite::quic_suite)
}

fn suite() -> Suite {
    initial_suite().expect("the provider has the suite of first packets")
}

/// Makes the handshakes of a client with one server.
pub(crate) struct ClientCrypto {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl ClientCrypto {
    pub(crate) fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Self {
        Self { config, name }
    }
}

impl crypto::ClientConfig for ClientCrypto {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        _: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        if version != VERSION {
            return Err(ConnectError::UnsupportedVersion);
        }
        let config = Arc::clone(&self.config);
        let connection = ClientConnection::new(config, Version::V1, self.name.clone(), written(parameters))
            .map_err(|error| ConnectError::InvalidServerName(error.to_string()))?;
        Ok(Box::new(Handshake::new(Connection::Client(connection))))
    }
}

/// Makes the handshakes of a server.
pub(crate) struct ServerCrypto {
    config: Arc<ServerConfig>,
    /// The protection of first packets and Retry packets.
    packets: QuicServerConfig,
}

impl ServerCrypto {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Self {
        let packets = QuicServerConfig::with_initial(Arc::clone(&config), suite());
        Self { packets: packets.expect("the suite is that of first packets"), config }
    }
}

impl crypto::ServerConfig for ServerCrypto {
    fn initial_keys(&self, version: u32, to: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        if version != VERSION {
            return Err(UnsupportedVersion);
        }
        self.packets.initial_keys(version, to)
    }

    fn retry_tag(&self, version: u32, first_to: &ConnectionId, packet: &[u8]) -> [u8; TAG_BYTES] {
        self.packets.retry_tag(version, first_to, packet)
    }

    fn start_session(self: Arc<Self>, _: u32, parameters: &TransportParameters) -> Box<dyn crypto::Session> {
        let connection = ServerConnection::new(Arc::clone(&self.config), Version::V1, written(parameters));
        Box::new(Handshake::new(Connection::Server(connection.expect("the settings are those of QUIC"))))
    }
}

fn written(parameters: &TransportParameters) -> Vec<u8> {
    let mut bytes = Vec::new();
    parameters.write(&mut bytes);
    bytes
}

/// A handshake, and the keys that come of it.
struct Handshake {
    connection: Connection,
    next_secrets: Option<Secrets>,
    failure: Option<Failure>,
}

impl Handshake {
    fn new(connection: Connection) -> Self {
        Self { connection, next_secrets: None, failure: None }
    }

    fn side(&self) -> Side {
        match self.connection {
            Connection::Client(_) => Side::Client,
            Connection::Server(_) => Side::Server,
        }
    }
}

fn keys(keys: rustls::quic::Keys) -> Keys {
    let DirectionalKeys { header: local_header, packet: local_packet } = keys.local;
    let DirectionalKeys { header: remote_header, packet: remote_packet } = keys.remote;
    Keys {
        header: KeyPair { local: Box::new(local_header), remote: Box::new(remote_header) },
        packet: KeyPair { local: Box::new(local_packet), remote: Box::new(remote_packet) },
    }
}

impl crypto::Session for Handshake {
    fn initial_keys(&self, to: &ConnectionId, side: Side) -> Keys {
        keys(suite().keys(to, side.into(), Version::V1))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(Agreed {
            session: Session::from_state(&self.connection),
            failure: self.failure.clone(),
        }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.connection.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        match &self.connection {
            Connection::Client(client) => Some(client.is_early_data_accepted()),
            Connection::Server(_) => None,
        }
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let Err(error) = self.connection.read_hs(bytes) else { return Ok(false) };
        let code = match self.connection.alert() {
            Some(alert) => TransportErrorCode::crypto(alert.into()),
            None => TransportErrorCode::PROTOCOL_VIOLATION,
        };
        let reason = error.to_string();
        self.failure = Some(error.into());
        Err(TransportError { code, frame: None, reason })
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(bytes) = self.connection.quic_transport_parameters() else { return Ok(None) };
        Ok(Some(TransportParameters::read(self.side(), &mut Cursor::new(bytes))?))
    }

    fn write_handshake(&mut self, bytes: &mut Vec<u8>) -> Option<Keys> {
        Some(keys(match self.connection.write_hs(bytes)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next_secrets = Some(next);
                keys
            }
        }))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next_secrets.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, first_to: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some(token) = payload.len().checked_sub(TAG_BYTES) else { return false };
        let (token, tag) = payload.split_at(token);
        // The packet as it was, after the connection ID that it answers.
        let first_bytes = u8::try_from(first_to.len()).expect("a connection ID has 20 bytes at most");
        let packet = [&[first_bytes][..], &first_to[..], header, token].concat();
        let mut tag = tag.to_vec();
        let Ok(key) = UnboundKey::new(&AES_128_GCM, &RETRY_KEY) else { return false };
        let nonce = Nonce::assume_unique_for_key(RETRY_NONCE);
        LessSafeKey::new(key).open_in_place(nonce, Aad::from(&packet[..]), &mut tag).is_ok()
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let exported = self.connection.export_keying_material(output, label, Some(context));
        exported.map(drop).map_err(|_| ExportKeyingMaterialError)
    }
}
