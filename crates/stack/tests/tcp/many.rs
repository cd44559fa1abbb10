//! Very many connections at once, and their memory.

use std::collections::BTreeSet;

use kqps_stack::tcp::{self, Close, Connections, Flags, Header, Options, Segment, Settings};
use kqps_stack::{Ends, parse};

use super::rig::{MS, ends};

const COUNT: usize = 100_000;

/// The ends of a connection by its number.
fn ends_of(number: usize) -> Ends {
    let mut ends = ends();
    let address = [10, 0, 0, (number / 50_000) as u8];
    ends.from = (address, 10_000 + (number % 50_000) as u16).into();
    ends
}

/// Writes all segments, and hands in one for each that was no mere ACK, which acknowledges it. Returns how many those
/// were, and of which connections something is reported.
fn answer(
    connections: &mut Connections,
    flags: Flags,
    payload: &[u8],
    now_ns: u64,
) -> (usize, BTreeSet<u64>) {
    let mut frame = [0; 1600];
    let mut asked: Vec<(Ends, u32, u32)> = Vec::new();
    while let Some(sent) = connections.poll_transmit(&mut frame, now_ns) {
        let parsed = parse(&frame[..sent.frame_bytes]).unwrap();
        let segment = Segment::from_parsed(&parsed).unwrap();
        if segment.length() > 0 {
            let next = segment.header.sequence.wrapping_add(segment.length());
            asked.push((parsed.ends.turned(), next, segment.header.acknowledgment));
        }
    }
    let mut tags = BTreeSet::new();
    for (ends, acknowledgment, sequence) in &asked {
        let (sequence, acknowledgment, options) = (*sequence, *acknowledgment, Options::default());
        let header = Header { sequence, acknowledgment, flags, window: 60_000, options };
        let at = tcp::header_bytes(ends, &header.options);
        frame[at..at + payload.len()].copy_from_slice(payload);
        let length = tcp::write(&mut frame, ends, &header, payload.len());
        let parsed = parse(&frame[..length]).unwrap();
        tags.extend(connections.receive(&parsed, now_ns).map(|arrival| arrival.tag));
    }
    (asked.len(), tags)
}

#[test]
fn a_hundred_thousand_connections_in_little_memory() {
    let settings = Settings { connections: COUNT as u32, timestamps: false, ..Settings::default() };
    let mut now_ns = 1 << 50;
    let mut connections = Connections::new(&settings, [0x1234_5678_9abc_def1, 0xfedc_ba98_7654_3211], now_ns);
    let mut used = Vec::new();
    for _ in 0..2 {
        let ids: Vec<_> = (0..COUNT)
            .map(|number| connections.connect(&ends_of(number), number as u64, now_ns).unwrap())
            .collect();
        assert!(connections.connect(&ends_of(COUNT), 0, now_ns).is_err());
        let (asked, tags) = answer(&mut connections, Flags::SYN.with(Flags::ACK), b"", now_ns);
        assert_eq!((asked, tags.len()), (COUNT, COUNT));
        for id in &ids {
            assert_eq!(connections.send(*id, &[7; 60], now_ns), 60);
        }
        now_ns += 5 * MS;
        assert_eq!(connections.poll_timeout(now_ns), None);
        let (asked, tags) = answer(&mut connections, Flags::ACK, b"reply", now_ns);
        assert_eq!((asked, tags.len()), (COUNT, COUNT));
        used.push(connections.memory_bytes());
        for id in &ids {
            connections.close(*id, Close::Fin, now_ns);
        }
        let (asked, _) = answer(&mut connections, Flags::FIN.with(Flags::ACK), b"", now_ns);
        assert_eq!(asked, COUNT);
        // The last ACKs.
        answer(&mut connections, Flags::ACK, b"", now_ns);
        assert_eq!(connections.count(), 0);
        now_ns += MS;
    }
    // A connection with its block of 256 bytes for the query, and the link of that block.
    let without_blocks = used[0] - COUNT * (256 + 4);
    assert!(without_blocks < COUNT * 256, "{} bytes a connection", without_blocks / COUNT);
    assert_eq!(used[0], used[1], "memory is used again");
    let counts = connections.counts();
    assert_eq!((counts.attempts, counts.established, counts.finished), (200_000, 200_000, 200_000));
    assert_eq!((counts.retransmitted.total(), counts.strangers), (0, 0));
}
