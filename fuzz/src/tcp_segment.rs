//! The target for the stack past the kernel: arbitrary bytes as a frame, and as segments of connections.

use std::net::SocketAddr;
use std::time::Duration;

use kqps_stack::tcp::{self, Close, Connections, Flags, Header, Id, Options, Segment, Settings};
use kqps_stack::{Ends, Path, parse, turn_round, udp};

/// The first sequence number of the peer: the numbers wrap soon.
const PEER_STARTS: u32 = u32::MAX - 200;

/// Retransmissions of every kind, so that all ends soon.
const RETRIES: u8 = 2;

/// Rounds of timeouts after which every closed connection has ended.
const ROUNDS_MOST: u32 = 100;

/// Takes any bytes as a frame, and then as steps of a caller and its peer, eight bytes each.
pub fn tcp_segment(bytes: &[u8]) {
    frame(bytes);
    let mut rig = Rig::new();
    rig.transmit();
    for step in bytes.as_chunks::<8>().0 {
        rig.step(*step);
    }
    rig.finish();
}

/// A frame that was turned round twice has its ends again, and its checksums are as right as before.
fn frame(bytes: &[u8]) {
    let mut frame = bytes.to_vec();
    let Some(parsed) = parse(bytes) else {
        assert!(!turn_round(&mut frame) && frame == bytes);
        return;
    };
    let (ends, is_right) = (parsed.ends, parsed.verify());
    assert_eq!(&bytes[parsed.payload_range()], parsed.payload());
    let segment = Segment::from_parsed(&parsed);
    assert!(segment.is_none_or(|segment| segment.length() >= parsed.payload().len() as u32));
    assert!(turn_round(&mut frame));
    let turned = parse(&frame).expect("the lengths are the same");
    assert_eq!((turned.ends, turned.verify(), turned.payload()), (ends.turned(), is_right, parsed.payload()));
    assert!(turn_round(&mut frame));
    assert_eq!(parse(&frame).map(|parsed| parsed.ends), Some(ends));
    frame.resize(bytes.len() + 64, 0);
    let asked = parsed.payload().len();
    if let Some(length) = udp::reply(&mut frame, bytes.len(), asked + 3) {
        let reply = parse(&frame[..length]).expect("a datagram");
        assert!(reply.verify() && reply.ends == ends.turned() && reply.payload().len() == asked + 3);
    }
}

/// The byte that the peer sends with this number.
fn byte(sequence: u32) -> u8 {
    (sequence ^ (sequence >> 8)) as u8
}

/// A caller with one connection after the other, and what its peer knows.
struct Rig {
    connections: Connections,
    ends: Ends,
    id: Id,
    now_ns: u64,
    /// The number of the next byte that the caller expects.
    expected: u32,
    /// The number after the last that was sent to the peer.
    sent: u32,
}

impl Rig {
    fn new() -> Self {
        let settings = Settings {
            connections: 4,
            send_pool: 1 << 16,
            receive_pool: 1 << 16,
            remembered: 4,
            rto_most: Duration::from_secs(10),
            syn_retries: RETRIES,
            data_retries: RETRIES,
            fin_retries: RETRIES,
            fin_wait: Duration::from_secs(1),
            ..Settings::default()
        };
        let path = Path { source_mac: [2, 0, 0, 0, 0, 1], target_mac: [2, 0, 0, 0, 0, 2], vlan: None };
        let from = SocketAddr::from(([192, 0, 2, 1], 40_000));
        let ends = Ends { path, from, to: SocketAddr::from(([192, 0, 2, 2], 53)) };
        let now_ns = 1 << 40;
        let mut connections = Connections::new(&settings, [3, 5], now_ns);
        let id = connections.connect(&ends, 1, now_ns).expect("the first connection");
        Self { connections, ends, id, now_ns, expected: PEER_STARTS.wrapping_add(1), sent: 0 }
    }

    /// The first byte selects what happens, the others its details.
    fn step(&mut self, [kind, flags, sequence, acknowledgment, window, length, wait, scale]: [u8; 8]) {
        self.now_ns += u64::from(wait) << 24;
        match kind % 8 {
            kind @ 0..=2 => {
                let offset = i32::from(sequence.cast_signed()).cast_unsigned();
                let is_syn = flags & Flags::SYN.0 != 0;
                let value = (self.now_ns >> 20) as u32 - u32::from(kind == 2) * 5000;
                let header = Header {
                    sequence: if is_syn { PEER_STARTS } else { self.expected.wrapping_add(offset) },
                    acknowledgment: self
                        .sent
                        .wrapping_add(i32::from(acknowledgment.cast_signed()).cast_unsigned()),
                    flags: Flags(flags),
                    window: u16::from(window) << (scale % 8),
                    options: Options {
                        mss: is_syn.then_some(u16::from(scale) * 10),
                        window_scale: (is_syn && scale & 1 == 0).then_some(scale % 15),
                        timestamps: (kind != 0).then_some((value, 0)),
                    },
                };
                self.deliver(&header, length.into());
            }
            3 => {
                let taken =
                    self.connections.send(self.id, &vec![scale; usize::from(length) * 8], self.now_ns);
                assert!(taken <= usize::from(length) * 8);
            }
            4 => self.expire(),
            5 => self.connections.shut_down(self.id, self.now_ns),
            6 => {
                let how = if flags & 1 == 0 { Close::Fin } else { Close::Rst };
                self.connections.close(self.id, how, self.now_ns);
            }
            _ => {
                if let Ok(id) = self.connections.connect(&self.ends, 1, self.now_ns) {
                    self.id = id;
                    self.expected = PEER_STARTS.wrapping_add(1);
                }
            }
        }
        self.transmit();
    }

    /// Hands in a segment with so many bytes. The caller gets every byte once and in order.
    fn deliver(&mut self, header: &Header, length: usize) {
        let ends = self.ends.turned();
        let at = tcp::header_bytes(&ends, &header.options);
        let mut frame = vec![0; at + length];
        for (place, number) in frame[at..].iter_mut().zip(0..) {
            *place = byte(header.sequence.wrapping_add(number));
        }
        assert_eq!(tcp::write(&mut frame, &ends, header, length), frame.len());
        let parsed = parse(&frame).expect("a segment");
        let Some(arrival) = self.connections.receive(&parsed, self.now_ns) else { return };
        assert_eq!(self.connections.more().len(), arrival.more_bytes);
        for got in arrival.bytes.iter().chain(self.connections.more()) {
            assert_eq!(*got, byte(self.expected), "number {}", self.expected);
            self.expected = self.expected.wrapping_add(1);
        }
        self.expected = self.expected.wrapping_add(arrival.is_peer_closed.into());
    }

    /// Looks at all that the connections send.
    fn transmit(&mut self) {
        let mut frame = [0; 1518];
        while self.connections.has_segment() {
            let sent = self.connections.poll_transmit(&mut frame, self.now_ns).expect("a segment");
            let parsed = parse(&frame[..sent.frame_bytes]).expect("a frame");
            assert!(parsed.verify() && parsed.ends == self.ends);
            let segment = Segment::from_parsed(&parsed).expect("a segment");
            assert_eq!(segment.payload.len(), sent.payload_bytes);
            if segment.length() > 0 {
                self.sent = segment.header.sequence.wrapping_add(segment.length());
            }
        }
        assert!(self.connections.poll_transmit(&mut frame, self.now_ns).is_none());
    }

    fn expire(&mut self) {
        while self.connections.poll_timeout(self.now_ns).is_some() {}
    }

    /// A connection that was closed ends, whatever its peer does.
    fn finish(mut self) {
        self.connections.close(self.id, Close::Fin, self.now_ns);
        self.transmit();
        let mut rounds = 0;
        while let Some(at_ns) = self.connections.next_timeout(self.now_ns) {
            assert!(at_ns >= self.now_ns);
            self.now_ns = at_ns;
            self.expire();
            self.transmit();
            rounds += 1;
            assert!(rounds < ROUNDS_MOST, "it goes on for ever");
        }
        assert_eq!(self.connections.count(), 0);
        let counts = *self.connections.counts();
        let over = counts.established + counts.refused + counts.timed_out.syn + counts.abandoned;
        assert_eq!(counts.attempts, over);
    }
}
