//! Whatever is captured and however it is damaged, every packet is counted once.

use std::net::SocketAddr;

use kqps_capture::write::{Segment, Writer};
use proptest::prelude::*;
use proptest::sample::Index;

use super::bytes::{AT_NS, UDP, ip, query, read, reply, udp};

/// Something that a capture holds.
#[derive(Clone, Debug)]
enum Step {
    /// A datagram, and how often it was captured.
    Datagram {
        is_reply: bool,
        bytes: usize,
        copies: usize,
    },
    /// A datagram in fragments of so many words, of which some are missing.
    Fragments {
        words: usize,
        without: Option<Index>,
    },
    Connect,
    /// Bytes of messages of a connection.
    Bytes {
        is_reply: bool,
        messages: usize,
        cut: usize,
    },
    Segment {
        sequence: u32,
        flags: u8,
        bytes: usize,
    },
    Close {
        by_server: bool,
    },
    Reset,
    Frame(Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), 0..600_usize, 1..4_usize)
            .prop_map(|(is_reply, bytes, copies)| Step::Datagram { is_reply, bytes, copies }),
        1 => (1..10_usize, any::<Option<Index>>())
            .prop_map(|(words, without)| Step::Fragments { words, without }),
        1 => Just(Step::Connect),
        4 => (any::<bool>(), 0..4_usize, 0..30_usize)
            .prop_map(|(is_reply, messages, cut)| Step::Bytes { is_reply, messages, cut }),
        1 => (any::<u32>(), any::<u8>(), 0..50_usize)
            .prop_map(|(sequence, flags, bytes)| Step::Segment { sequence, flags, bytes }),
        1 => any::<bool>().prop_map(|by_server| Step::Close { by_server }),
        1 => Just(Step::Reset),
        1 => prop::collection::vec(any::<u8>(), 0..80).prop_map(Step::Frame),
    ]
}

/// A client, and a server at one of a few ports.
fn ends() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let server = prop::sample::select(vec![53_u16, 53, 53, 853, 443, 80]);
    (0..3_u8, any::<bool>(), server).prop_map(|(client, is_v6, port)| {
        if is_v6 {
            let at = |last: u16, port| SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, last], port));
            (at(u16::from(client), 5000), at(0x53, port))
        } else {
            (SocketAddr::from(([192, 0, 2, client], 5000)), SocketAddr::from(([192, 0, 2, 53], port)))
        }
    })
}

/// The bytes of some messages, with lengths before them.
fn stream(is_reply: bool, messages: usize) -> Vec<u8> {
    let message = |id| if is_reply { reply(id) } else { query(id) };
    (0..messages as u16).flat_map(|id| [vec![0, 19], message(id)].concat()).collect()
}

/// Appends the step to the capture.
fn write(writer: &mut Writer<Vec<u8>>, at_ns: u64, (client, server): (SocketAddr, SocketAddr), step: &Step) {
    let ends = |is_reply: bool| if is_reply { (server, client) } else { (client, server) };
    let written = match step {
        Step::Datagram { is_reply, bytes, copies } => {
            let (from, to) = ends(*is_reply);
            let mut message = if *is_reply { reply(at_ns as u16) } else { query(at_ns as u16) };
            message.resize(*bytes, 0);
            let packet = ip(from, to, UDP, at_ns as u16, &udp(from, to, &message));
            (0..*copies).try_for_each(|_| writer.frame(at_ns, &packet))
        }
        Step::Fragments { words, without } => {
            let whole = udp(client, server, &[query(1), vec![0; 60]].concat());
            let parts: Vec<_> = whole.chunks(words * 8).collect();
            let without = without.as_ref().map(|without| without.index(parts.len()));
            (0..parts.len()).filter(|part| Some(*part) != without).try_for_each(|part| {
                let is_last = part + 1 == parts.len();
                writer.frame(at_ns, &fragment(client, server, part * words, is_last, parts[part]))
            })
        }
        Step::Connect => writer.tcp_connect(at_ns, client, server),
        Step::Bytes { is_reply, messages, cut } => {
            let (from, to) = ends(*is_reply);
            let bytes = stream(*is_reply, *messages);
            writer.tcp_bytes(at_ns, from, to, &bytes[..bytes.len().saturating_sub(*cut)])
        }
        Step::Segment { sequence, flags, bytes } => {
            let payload = vec![0; *bytes];
            let (sequence, flags) = (*sequence, *flags);
            let segment =
                Segment { from: client, to: server, sequence, acknowledgment: 0, flags, payload: &payload };
            writer.segment(at_ns, &segment)
        }
        Step::Close { by_server } => {
            let (from, to) = ends(*by_server);
            writer.tcp_close(at_ns, from, to)
        }
        Step::Reset => writer.tcp_reset(at_ns, client, server),
        Step::Frame(frame) => writer.frame(at_ns, frame),
    };
    written.expect("memory takes all");
}

/// A fragment at a place in words of 8 bytes.
fn fragment(from: SocketAddr, to: SocketAddr, place: usize, is_last: bool, content: &[u8]) -> Vec<u8> {
    let place = place as u16;
    if from.is_ipv4() {
        let mut packet = ip(from, to, UDP, 7, content);
        let flags = if is_last { 0 } else { 0x2000 };
        packet[6..8].copy_from_slice(&(flags | place).to_be_bytes());
        return packet;
    }
    let place = ((place << 3) | u16::from(!is_last)).to_be_bytes();
    ip(from, to, 44, 7, &[&[UDP, 0][..], &place, &[0, 0, 0, 7], content].concat())
}

fn capture(steps: &[((SocketAddr, SocketAddr), u64, Step)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    let mut at_ns = AT_NS;
    for (ends, gap_ns, step) in steps {
        at_ns += gap_ns;
        write(&mut writer, at_ns, *ends, step);
    }
    writer.finish().expect("memory takes all")
}

fn steps() -> impl Strategy<Value = Vec<((SocketAddr, SocketAddr), u64, Step)>> {
    prop::collection::vec((ends(), 0..5_000_000_u64, step()), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The reader of the tests checks the account, and compares it with what was returned.
    #[test]
    fn the_account_of_any_capture_adds_up(steps in steps()) {
        let capture = capture(&steps);
        let outcome = read(capture.clone());
        prop_assert!(outcome.error.is_none(), "{:?}", outcome.error);
        prop_assert_eq!(outcome.counts.packets, packets(&capture));
        prop_assert_eq!(read(capture), outcome);
    }

    #[test]
    fn the_account_of_a_damaged_capture_adds_up(
        steps in steps(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..20),
        cut in any::<Option<Index>>(),
    ) {
        let mut capture = capture(&steps);
        for (place, byte) in changes {
            let place = place.index(capture.len());
            capture[place] = byte;
        }
        if let Some(cut) = cut {
            capture.truncate(cut.index(capture.len()));
        }
        let outcome = read(capture);
        if let Some(said) = outcome.error {
            prop_assert!(!said.contains(char::is_control), "{}", said);
        }
    }
}

/// The number of packets of a whole capture.
fn packets(capture: &[u8]) -> u64 {
    let mut rest = &capture[24..];
    let mut packets = 0;
    while let Some(header) = rest.first_chunk::<16>() {
        let bytes = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        rest = &rest[16 + bytes as usize..];
        packets += 1;
    }
    packets
}
