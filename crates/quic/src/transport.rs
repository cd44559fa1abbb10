//! The settings of QUIC below the messages.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kqps_catalogue::choice::Congestion;
use quinn_proto::congestion::{Controller, ControllerFactory};
use quinn_proto::{
    ConnectionId, ConnectionIdGenerator, EndpointConfig, IdleTimeout, RandomConnectionIdGenerator,
    TransportConfig, VarInt,
};

/// A fixed window in bytes. quinn-proto does not pace what leaves within a window above 4 GiB.
const WINDOW_BYTES: u64 = 1 << 33;

/// The round trip that is assumed before the first is measured, as in a local network: what gets no answer is sent
/// again after three of them.
const INITIAL_RTT: Duration = Duration::from_millis(20);

/// Bytes of a client's connection ID.
const CONNECTION_ID_BYTES: usize = 8;

/// Bytes of a server's connection ID: a number, and random bytes. A client's first packets, for which it chooses the ID
/// itself, have a longer one, of 8 bytes at least (RFC 9000, section 7.2).
pub const SERVER_ID_BYTES: u8 = 7;

/// Bytes of the messages of one connection that may wait for their acknowledgement.
const SEND_WINDOW_BYTES: u64 = 4 << 20;

/// Bytes that the peer may send on one stream, and on a connection, before they are read: a message with its length has
/// 65,537. What a server is sent are queries, which are short.
const STREAM_WINDOW_BYTES: u32 = 1 << 17;
const CLIENT_WINDOW_BYTES: u32 = 1 << 24;
const SERVER_WINDOW_BYTES: u32 = 1 << 20;

/// The settings of a connection whose peer may have this many streams open. Packets have at most 1,200 bytes, since
/// they pass every path, and no larger ones are tried.
pub(crate) fn transport(congestion: Congestion, streams: u32, idle: Duration) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let window_bytes = if streams == 0 { CLIENT_WINDOW_BYTES } else { SERVER_WINDOW_BYTES };
    transport
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(window_bytes))
        .max_concurrent_bidi_streams(VarInt::from_u32(streams))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_idle_timeout(Some(IdleTimeout::try_from(idle).unwrap_or_else(|_| VarInt::MAX.into())))
        .initial_rtt(INITIAL_RTT)
        .mtu_discovery_config(None)
        .datagram_receive_buffer_size(None)
        .send_window(SEND_WINDOW_BYTES)
        .send_fairness(false)
        .allow_spin(false);
    if congestion == Congestion::Fixed {
        transport.congestion_controller_factory(Arc::new(FixedWindow));
    }
    transport
}

/// The settings of a client's endpoint: QUIC version 1 (RFC 9000), and random connection IDs.
pub(crate) fn endpoint() -> EndpointConfig {
    with_ids(|| Box::new(RandomConnectionIdGenerator::new(CONNECTION_ID_BYTES)))
}

/// The settings of a server's endpoint: QUIC version 1, and connection IDs that begin with this number.
pub(crate) fn numbered(number: u16) -> EndpointConfig {
    with_ids(move || Box::new(NumberedIds::new(number)))
}

fn with_ids(ids: impl Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.supported_versions(vec![1]).cid_generator(ids);
    config
}

/// Makes connection IDs of [`SERVER_ID_BYTES`] bytes.
struct NumberedIds {
    number: [u8; 2],
    rest: RandomConnectionIdGenerator,
}

impl NumberedIds {
    fn new(number: u16) -> Self {
        let number = number.to_be_bytes();
        let rest = RandomConnectionIdGenerator::new(usize::from(SERVER_ID_BYTES) - number.len());
        Self { number, rest }
    }
}

impl ConnectionIdGenerator for NumberedIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; SERVER_ID_BYTES as usize];
        let (number, rest) = id.split_at_mut(self.number.len());
        number.copy_from_slice(&self.number);
        rest.copy_from_slice(&self.rest.generate_cid());
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        usize::from(SERVER_ID_BYTES)
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// A congestion window that never changes.
#[derive(Clone, Copy, Debug)]
struct FixedWindow;

impl Controller for FixedWindow {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        WINDOW_BYTES
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(*self)
    }

    fn initial_window(&self) -> u64 {
        WINDOW_BYTES
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl ControllerFactory for FixedWindow {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(*self)
    }
}
