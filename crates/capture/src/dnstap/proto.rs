//! The messages of `dnstap.proto` (<https://github.com/dnstap/dnstap.pb>), with the fields that are read.

use crate::message::Transport;

/// `Dnstap`: a frame.
#[derive(Clone, prost::Message)]
pub(super) struct Dnstap {
    #[prost(message, optional, tag = "14")]
    pub(super) message: Option<Tap>,
    /// `type`, which is always [`MESSAGE`].
    #[prost(int32, optional, tag = "15")]
    pub(super) kind: Option<i32>,
}

/// `Message`: a query or a response, and perhaps the query that it belongs to.
#[derive(Clone, prost::Message)]
pub(super) struct Tap {
    /// `type`: who asked whom, see the constants below.
    #[prost(int32, optional, tag = "1")]
    pub(super) kind: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(super) socket_family: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) socket_protocol: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(super) query_address: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "5")]
    pub(super) response_address: Option<Vec<u8>>,
    #[prost(uint32, optional, tag = "6")]
    pub(super) query_port: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    pub(super) response_port: Option<u32>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) query_time_sec: Option<u64>,
    #[prost(fixed32, optional, tag = "9")]
    pub(super) query_time_nsec: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "10")]
    pub(super) query_message: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "12")]
    pub(super) response_time_sec: Option<u64>,
    #[prost(fixed32, optional, tag = "13")]
    pub(super) response_time_nsec: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "14")]
    pub(super) response_message: Option<Vec<u8>>,
}

/// `Dnstap.Type.MESSAGE`.
pub(super) const MESSAGE: i32 = 1;

/// `Message.Type`.
pub(super) const AUTH_QUERY: i32 = 1;
pub(super) const AUTH_RESPONSE: i32 = 2;
pub(super) const RESOLVER_QUERY: i32 = 3;
pub(super) const RESOLVER_RESPONSE: i32 = 4;
pub(super) const CLIENT_QUERY: i32 = 5;
pub(super) const CLIENT_RESPONSE: i32 = 6;

/// `SocketFamily`.
pub(super) const INET: i32 = 1;
pub(super) const INET6: i32 = 2;

/// `SocketProtocol`. 5 and 6 are `DNSCrypt` over UDP and TCP.
pub(super) const UDP: i32 = 1;
pub(super) const TCP: i32 = 2;
pub(super) const DOT: i32 = 3;
pub(super) const DOH: i32 = 4;
pub(super) const DOQ: i32 = 7;

/// The transport of a `SocketProtocol`; `None` for one that is not read.
pub(super) const fn transport(protocol: i32) -> Option<Transport> {
    match protocol {
        UDP => Some(Transport::Udp),
        TCP => Some(Transport::Tcp),
        DOT => Some(Transport::Tls),
        DOH => Some(Transport::Https),
        DOQ => Some(Transport::Quic),
        _ => None,
    }
}
