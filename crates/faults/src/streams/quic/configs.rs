//! The settings of QUIC for each fault of a handshake. The handshakes are those of `quinn-proto`'s own adapter for
//! rustls, and not those of the player.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use quinn_proto::congestion::CubicConfig;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};

use crate::streams::fault::Fault;
use crate::streams::wire::Certificates;

/// An application protocol that no player speaks.
const OTHER_PROTOCOL: &[u8] = b"not-doq";

/// The faults that need settings of their own.
const SPECIAL: [Fault; 5] =
    [Fault::OtherAlpn, Fault::OtherName, Fault::Expired, Fault::UnknownIssuer, Fault::Silent];

/// The longest time without a packet, and that of a connection that falls silent: less than a query waits at most.
const IDLE: Duration = Duration::from_mins(1);
const IDLE_SILENT: Duration = Duration::from_millis(200);

/// Streams that a player may have open: more than it has queries, with those whose replies are late or never come.
const STREAMS: u32 = 1024;

/// A window in bytes that limits nothing, so that a reply leaves when it is written.
const WINDOW_BYTES: u64 = 1 << 33;

/// The round trip that is assumed before the first is measured.
const INITIAL_RTT: Duration = Duration::from_millis(20);

/// The settings of each handshake.
pub(super) struct Configs {
    right: Arc<ServerConfig>,
    special: BTreeMap<Fault, Arc<ServerConfig>>,
}

impl Configs {
    pub(super) fn new(certificates: &Certificates) -> Result<Self> {
        let special =
            SPECIAL.into_iter().map(|fault| config(certificates, Some(fault)).map(|config| (fault, config)));
        Ok(Self { right: config(certificates, None)?, special: special.collect::<Result<_>>()? })
    }

    /// The settings of a connection whose handshake has this fault.
    pub(super) fn server_config(&self, fault: Option<Fault>) -> &Arc<ServerConfig> {
        fault.and_then(|fault| self.special.get(&fault)).unwrap_or(&self.right)
    }
}

/// The settings of the endpoint: it answers every packet of a connection that it has forgotten.
pub(super) fn endpoint() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.min_reset_interval(Duration::ZERO);
    config
}

fn config(certificates: &Certificates, fault: Option<Fault>) -> Result<Arc<ServerConfig>> {
    let mut tls = Arc::clone(certificates.acceptor(fault).config());
    if fault == Some(Fault::OtherAlpn) {
        Arc::make_mut(&mut tls).alpn_protocols = vec![OTHER_PROTOCOL.to_vec()];
    }
    let crypto = QuicServerConfig::try_from(tls).map_err(|error| anyhow!("no suite for QUIC: {error}"))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport(if fault == Some(Fault::Silent) {
        IDLE_SILENT
    } else {
        IDLE
    })));
    Ok(Arc::new(config))
}

fn transport(idle: Duration) -> TransportConfig {
    let mut cubic = CubicConfig::default();
    cubic.initial_window(WINDOW_BYTES);
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_idle_timeout(Some(IdleTimeout::try_from(idle).unwrap_or_else(|_| VarInt::MAX.into())))
        .initial_rtt(INITIAL_RTT)
        .mtu_discovery_config(None)
        .datagram_receive_buffer_size(None)
        .congestion_controller_factory(Arc::new(cubic));
    transport
}
