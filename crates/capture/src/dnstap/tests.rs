//! Streams of dnstap, made by hand or from their fields, and the events that come out of them.

mod connections;
mod streams;
mod taps;

use std::net::SocketAddr;

use prost::Message as _;

use super::Taps;
use super::proto::{self, Dnstap, Tap};
use crate::counts::{Counts, Why};
use crate::error::CaptureError;
use crate::message::{Event, Kind, Transport};
use crate::settings::Settings;

const S_NS: u64 = 1_000_000_000;

/// An escape and a START frame with the type of dnstap, 42 bytes.
const START: &[u8] = b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";

/// An escape and a STOP frame.
const STOP: &[u8] = b"\0\0\0\0\0\0\0\x04\0\0\0\x03";

/// A query for the A records of `a`, and a reply to it.
const QUERY: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
const REPLY: &[u8] = b"\0\x07\x81\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";

/// An event that came out.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnedEvent {
    Message {
        at_ns: u64,
        kind: Kind,
        ends: (SocketAddr, SocketAddr),
        transport: Transport,
        connection: Option<u64>,
        bytes: Vec<u8>,
    },
    Closed {
        connection: u64,
        at_ns: u64,
    },
}

/// Reads a stream to its end or to an error. The account must add up.
fn read_with(stream: &[u8], settings: &Settings) -> (Vec<OwnedEvent>, Counts, Option<CaptureError>) {
    let (mut taps, mut counts, mut source) = (Taps::new(settings), Counts::default(), stream);
    let (mut seen, mut failed) = (Vec::new(), None);
    loop {
        match taps.next(&mut source, &mut counts) {
            Ok(None) => break,
            Ok(Some(Event::Closed { at_ns, connection })) => {
                seen.push(OwnedEvent::Closed { connection, at_ns });
            }
            Ok(Some(Event::Message(message))) => seen.push(OwnedEvent::Message {
                at_ns: message.at_ns,
                kind: message.kind,
                ends: (message.client, message.server),
                transport: message.transport,
                connection: message.connection,
                bytes: message.bytes.to_vec(),
            }),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    assert_eq!(counts.check(), Ok(()));
    (seen, counts, failed)
}

/// Reads a stream that has no error.
fn read(stream: &[u8]) -> (Vec<OwnedEvent>, Counts) {
    let (seen, counts, failed) = read_with(stream, &Settings::default());
    assert!(failed.is_none(), "{failed:?}");
    (seen, counts)
}

/// A data frame after its length.
fn data(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes()[..], frame].concat()
}

/// A stream of these frames.
fn stream(taps: &[Tap]) -> Vec<u8> {
    let frames: Vec<u8> = taps.iter().flat_map(frame).collect();
    [START, &frames, STOP].concat()
}

fn frame(tap: &Tap) -> Vec<u8> {
    data(&Dnstap { message: Some(tap.clone()), kind: Some(proto::MESSAGE) }.encode_to_vec())
}

/// A query of a client over UDP in second 1.
fn client_query() -> Tap {
    Tap {
        kind: Some(proto::CLIENT_QUERY),
        socket_family: Some(proto::INET),
        socket_protocol: Some(proto::UDP),
        query_address: Some(vec![192, 0, 2, 1]),
        response_address: Some(vec![198, 51, 100, 7]),
        query_port: Some(40_000),
        response_port: Some(53),
        query_time_sec: Some(1),
        query_time_nsec: Some(0),
        query_message: Some(QUERY.to_vec()),
        response_time_sec: None,
        response_time_nsec: None,
        response_message: None,
    }
}

/// The response to it half a second later, with the query.
fn client_response() -> Tap {
    Tap {
        kind: Some(proto::CLIENT_RESPONSE),
        response_time_sec: Some(1),
        response_time_nsec: Some(500_000_000),
        response_message: Some(REPLY.to_vec()),
        ..client_query()
    }
}

/// The causes for which frames were skipped, and how many for each.
fn skipped(counts: &Counts) -> Vec<(Why, u64)> {
    counts.skipped().collect()
}
