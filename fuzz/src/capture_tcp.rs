//! The target for TCP in captures: segments of connections, in any order, lost, repeated, cut and with any flags.

use std::collections::BTreeMap;
use std::io::Cursor;

use kqps_capture::{Event, Kind, Reader, Settings, Transport};
use kqps_message::{HEADER_BYTES, Header};

/// The bit of the first byte that is set if segments carry bytes of the input instead of messages.
const RAW: u8 = 1;

/// The messages of each direction, and their length with the length prefix.
const MESSAGES: u8 = 32;
const MESSAGE_BYTES: usize = 32;

/// Bits of the first byte of a step. The two bits after them are the client.
const TO_CLIENT: u8 = 1;
const SYN: u8 = 2;
const FIN: u8 = 4;
const RST: u8 = 8;

/// The number of the first byte of each direction, after that of its SYN. The second one wraps.
const STARTS: [u32; 2] = [1, u32::MAX - 99];

/// How much later than the one before a segment comes, ns.
const PAUSES_NS: [u64; 4] = [0, 3_000_000, 2_000_000_000, 400_000_000_000];

/// A little-endian header of a pcap with times in ns, whose packets begin with IP.
const PCAP: [u8; 24] = [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];

/// A segment.
#[derive(Default)]
struct Step<'a> {
    flags: u8,
    client: u8,
    sequence: u32,
    payload: &'a [u8],
}

/// The stream of one direction: queries or replies with IDs from 0 on, after their lengths.
fn stream(to_client: bool) -> Vec<u8> {
    let message = |id: u8| {
        let qr = if to_client { 0x80 } else { 0 };
        let header = [0, MESSAGE_BYTES as u8 - 2, 0, id, 1 | qr, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        [&header[..], b"\x0caaaaaaaaaaaa\0\0\x01\0\x01"].concat()
    };
    (0..MESSAGES).flat_map(message).collect()
}

/// A packet of a pcap.
fn packet(at_ns: u64, number: u16, step: &Step<'_>) -> Vec<u8> {
    let to_client = step.flags & TO_CLIENT != 0;
    let client = ([192_u8, 0, 2, 1], 40_000 + u16::from(step.client));
    let server = ([198_u8, 51, 100, 7], 53_u16);
    let (from, to) = if to_client { (server, client) } else { (client, server) };
    let bytes = 40 + step.payload.len();
    let flag = |mine: u8, theirs: u8| if step.flags & mine != 0 { theirs } else { 0 };
    let flags = flag(SYN, 2) | flag(FIN, 1) | flag(RST, 4);
    let parts: [&[u8]; 15] = [
        &((at_ns / 1_000_000_000) as u32).to_le_bytes(),
        &((at_ns % 1_000_000_000) as u32).to_le_bytes(),
        &(bytes as u32).to_le_bytes(),
        &(bytes as u32).to_le_bytes(),
        &[0x45, 0],
        &(bytes as u16).to_be_bytes(),
        &number.to_be_bytes(),
        &[0, 0, 64, 6, 0, 0],
        &from.0,
        &to.0,
        &[from.1.to_be_bytes(), to.1.to_be_bytes()].concat(),
        &step.sequence.to_be_bytes(),
        &[0, 0, 0, 0, 0x50, flags],
        &[0xff, 0xff, 0, 0, 0, 0],
        step.payload,
    ];
    parts.concat()
}

/// Takes any bytes as steps of four bytes each: flags and client, place in the stream, length, and pause. Unless the
/// first byte says otherwise, segments carry the bytes of messages. Then the messages of each connection must come out
/// in their order, each at most once, and no others.
pub fn capture_tcp(bytes: &[u8]) {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let streams = [stream(false), stream(true)];
    let (mut capture, mut packets, mut at_ns) = (PCAP.to_vec(), 0_u16, 1_000_000_000);
    while let Some((&[flags, place, length, pause], behind)) = rest.split_first_chunk() {
        rest = behind;
        let way = usize::from(flags & TO_CLIENT);
        let place = usize::from(place) * 4;
        let mut step = Step { flags, client: (flags >> 4) & 3, ..Step::default() };
        let start = STARTS[way].wrapping_sub(u32::from(flags & SYN != 0));
        if choice & RAW != 0 {
            (step.payload, rest) = rest.split_at(usize::from(length).min(rest.len()));
            step.sequence = start.wrapping_add(place as u32);
        } else if flags & SYN != 0 {
            step.sequence = start;
        } else {
            let end = (place + usize::from(length)).min(streams[way].len());
            step.payload = &streams[way][place..end];
            step.sequence = start.wrapping_add(place as u32);
        }
        at_ns += PAUSES_NS[usize::from(pause & 3)];
        capture.extend_from_slice(&packet(at_ns, packets, &step));
        packets = packets.wrapping_add(1);
    }
    read(capture, choice & RAW == 0);
}

/// Reads the capture to its end, which no segment may spoil.
fn read(capture: Vec<u8>, is_known: bool) {
    let mut reader = Reader::new(Cursor::new(capture), &Settings::default()).expect("a capture");
    let mut last: BTreeMap<(u64, Kind), Vec<u8>> = BTreeMap::new();
    let mut closed = Vec::new();
    while let Some(event) = reader.next().expect("whole packets") {
        let message = match event {
            Event::Closed { connection, .. } => {
                closed.push(connection);
                continue;
            }
            Event::Message(message) => message,
        };
        let header = Header::from_bytes(message.bytes).expect("a header");
        assert!(message.bytes.len() >= HEADER_BYTES);
        assert_eq!(header.is_reply(), message.kind == Kind::Response);
        assert_eq!((message.transport, message.server.port()), (Transport::Tcp, 53));
        let connection = message.connection.expect("a number");
        assert!(!closed.contains(&connection), "connection {connection} has ended");
        if is_known {
            let before = last.insert((connection, message.kind), message.bytes.to_vec());
            assert_eq!(message.bytes.len(), MESSAGE_BYTES - 2);
            assert!(header.id() < u16::from(MESSAGES) && header.questions() == 1);
            assert!(before.is_none_or(|before| before[..2] < message.bytes[..2]), "a message comes again");
        }
    }
    closed.sort_unstable();
    assert!(closed.is_sorted_by(|a, b| a < b), "a connection ends once");
    assert_eq!(reader.counts().check(), Ok(()));
}
