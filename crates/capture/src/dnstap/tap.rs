//! A frame of dnstap: a message, when it came, and between which ends; with a response perhaps its query.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kqps_message::Header;
use prost::Message as _;

use super::proto::{self, Dnstap, Tap};
use crate::counts::Why;
use crate::ends::check_question;
use crate::message::{Kind, Transport};

const NS_PER_S: u64 = 1_000_000_000;

/// A message of a frame.
#[derive(Debug)]
pub(super) struct Tapped {
    pub(super) at_ns: u64,
    pub(super) kind: Kind,
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
    pub(super) transport: Transport,
    pub(super) bytes: Vec<u8>,
}

/// The content of a frame.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) message: Tapped,
    /// The query of a response, if the frame has it too.
    pub(super) query: Option<Tapped>,
}

/// Reads a frame. Returns why the frame is skipped, if it is. The servers are those of the settings, and so is whether frames
/// are of a resolver's own queries.
pub(super) fn read(frame: &[u8], (servers, is_upstream): (&[IpAddr], bool)) -> Result<Frame, Why> {
    let Ok(Dnstap { message: Some(tap), kind: Some(proto::MESSAGE) }) = Dnstap::decode(frame) else {
        return Err(Why::BadTap);
    };
    let kind = match (tap.kind, is_upstream) {
        (Some(proto::CLIENT_QUERY | proto::AUTH_QUERY), false) | (Some(proto::RESOLVER_QUERY), true) => {
            Kind::Query
        }
        (Some(proto::CLIENT_RESPONSE | proto::AUTH_RESPONSE), false)
        | (Some(proto::RESOLVER_RESPONSE), true) => Kind::Response,
        (Some(_), _) => return Err(Why::OtherTap),
        (None, _) => return Err(Why::BadTap),
    };
    let transport = transport(&tap)?;
    let (client, server) = ends(&tap, transport)?;
    if tap.response_address.is_some() && !servers.is_empty() && !servers.contains(&server.ip()) {
        return Err(Why::OtherServer);
    }
    let asked_ns = time(tap.query_time_sec, tap.query_time_nsec);
    let message = |kind: Kind, at_ns: Option<u64>, bytes: Option<Vec<u8>>| -> Result<Tapped, Why> {
        let (at_ns, bytes) = (at_ns.ok_or(Why::BadTap)?, bytes.ok_or(Why::BadTap)?);
        check(kind, &bytes)?;
        Ok(Tapped { at_ns, kind, client, server, transport, bytes })
    };
    if kind == Kind::Query {
        return Ok(Frame { message: message(kind, asked_ns, tap.query_message)?, query: None });
    }
    let response_ns = time(tap.response_time_sec, tap.response_time_nsec);
    let response = message(kind, response_ns, tap.response_message)?;
    // Without a time of its own, or with one after its response, the query has that of the response.
    let asked_ns = asked_ns.map_or(response.at_ns, |at_ns| at_ns.min(response.at_ns));
    let query = message(Kind::Query, Some(asked_ns), tap.query_message).ok();
    Ok(Frame { message: response, query })
}

fn transport(tap: &Tap) -> Result<Transport, Why> {
    let protocol = tap.socket_protocol.ok_or(Why::BadTap)?;
    proto::transport(protocol).ok_or(Why::OtherProtocol)
}

/// Client and server. A frame must have the client's address. Without a port, the client's is 0 and the server's is the
/// usual one; without an address, the server's is unspecified.
fn ends(tap: &Tap, transport: Transport) -> Result<(SocketAddr, SocketAddr), Why> {
    let client = address(tap.socket_family, tap.query_address.as_deref().ok_or(Why::BadTap)?)?;
    let server = match (tap.response_address.as_deref(), client) {
        (Some(bytes), _) => address(tap.socket_family, bytes)?,
        (None, IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
        (None, IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let client = SocketAddr::new(client, port(tap.query_port, 0)?);
    Ok((client, SocketAddr::new(server, port(tap.response_port, transport.usual_port())?)))
}

/// An address, whose length must be that of its family.
fn address(family: Option<i32>, bytes: &[u8]) -> Result<IpAddr, Why> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes)
        && family.is_none_or(|family| family == proto::INET)
    {
        return Ok(IpAddr::from(octets));
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(octets) if family.is_none_or(|family| family == proto::INET6) => Ok(IpAddr::from(octets)),
        _ => Err(Why::BadTap),
    }
}

fn port(port: Option<u32>, usual: u16) -> Result<u16, Why> {
    port.map_or(Ok(usual), |port| u16::try_from(port).map_err(|_| Why::BadTap))
}

/// The time in ns; `None` if there is none, or if it is not in the range of Unix time in ns.
fn time(seconds: Option<u64>, nanoseconds: Option<u32>) -> Option<u64> {
    let nanoseconds = u64::from(nanoseconds.unwrap_or(0));
    let whole_ns = seconds?.checked_mul(NS_PER_S)?;
    whole_ns.checked_add(nanoseconds).filter(|_| nanoseconds < NS_PER_S)
}

/// Whether the message is what the frame says, and of a kind that is taken.
fn check(kind: Kind, bytes: &[u8]) -> Result<(), Why> {
    let header = Header::from_bytes(bytes).ok_or(Why::BadMessage)?;
    if header.is_reply() != (kind == Kind::Response) || bytes.len() > usize::from(u16::MAX) {
        return Err(Why::BadMessage);
    }
    if header.opcode() == 0 { check_question(kind, bytes) } else { Err(Why::NotAQuery) }
}
