//! A connection, and the hands of its peer.

use kqps_stack::tcp::{self, Connections, End, Flags, Header, Id, Options, Segment, Sent, Settings, State};
use kqps_stack::{Ends, Path, parse};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;

/// How late a timer may be: it is rounded up to a tick.
pub(crate) const TICK: u64 = 1 << 20;

/// The first sequence number of the peer.
pub(crate) const PEER: u32 = 0xffff_fff0;

pub(crate) const ACK: Flags = Flags::ACK;
pub(crate) const SYN_ACK: Flags = Flags::SYN.with(Flags::ACK);
pub(crate) const FIN_ACK: Flags = Flags::FIN.with(Flags::ACK);
pub(crate) const PSH_ACK: Flags = Flags::PSH.with(Flags::ACK);
pub(crate) const RST_ACK: Flags = Flags::RST.with(Flags::ACK);

/// A segment that was sent.
#[derive(Clone, Debug)]
pub(crate) struct SentSegment {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
    pub(crate) sent: Sent,
}

/// The news that an arrival reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) is_established: bool,
    pub(crate) acknowledged: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_peer_closed: bool,
    pub(crate) ended: Option<End>,
}

pub(crate) struct Rig {
    pub(crate) connections: Connections,
    pub(crate) ends: Ends,
    pub(crate) id: Id,
    pub(crate) now_ns: u64,
    /// The next number that the peer sends.
    pub(crate) peer: u32,
    /// The number after the last that was sent to the peer.
    pub(crate) ours: u32,
    pub(crate) window: u16,
    pub(crate) options: Options,
}

/// Settings without timestamps, so that headers are short.
pub(crate) fn plain() -> Settings {
    Settings { connections: 4, remembered: 64, timestamps: false, ..Settings::default() }
}

pub(crate) fn ends() -> Ends {
    let path = Path { source_mac: [2, 0, 0, 0, 0, 1], target_mac: [2, 0, 0, 0, 0, 2], vlan: None };
    let (from, to) = ("192.0.2.1:40000".parse().unwrap(), "192.0.2.53:53".parse().unwrap());
    Ends { path, from, to }
}

impl Rig {
    /// A connection that begins, before its SYN was written.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self::between(settings, ends(), 1 << 50)
    }

    pub(crate) fn between(settings: &Settings, ends: Ends, now_ns: u64) -> Self {
        let mut connections = Connections::new(settings, [7, 9], now_ns);
        let id = connections.connect(&ends, 42, now_ns).unwrap();
        let options = Options { mss: Some(1460), ..Options::default() };
        Self { connections, ends, id, now_ns, peer: PEER, ours: 0, window: 65_535, options }
    }

    /// A connection that was made, with the last ACK of that.
    pub(crate) fn established(settings: &Settings) -> Self {
        let mut rig = Self::new(settings);
        rig.establish();
        rig
    }

    pub(crate) fn establish(&mut self) {
        assert_eq!(self.one().header.flags, Flags::SYN);
        let news = self.hand(SYN_ACK, b"").unwrap();
        assert_eq!(news, News { is_established: true, ..News::default() });
        assert_eq!((self.one().header.flags, self.state()), (ACK, Some(State::Established)));
    }

    pub(crate) fn state(&self) -> Option<State> {
        self.connections.status(self.id).map(|status| status.state)
    }

    /// All that is sent now.
    pub(crate) fn out(&mut self) -> Vec<SentSegment> {
        let mut frame = [0; 1600];
        let mut all = Vec::new();
        while let Some(sent) = self.connections.poll_transmit(&mut frame, self.now_ns) {
            let parsed = parse(&frame[..sent.frame_bytes]).unwrap();
            assert!(parsed.verify());
            assert_eq!(parsed.ends, self.ends);
            let segment = Segment::from_parsed(&parsed).unwrap();
            assert_eq!(sent.payload_bytes, segment.payload.len());
            if segment.length() > 0 {
                self.ours = segment.header.sequence.wrapping_add(segment.length());
            }
            all.push(SentSegment { header: segment.header, payload: segment.payload.to_vec(), sent });
        }
        assert!(!self.connections.has_segment());
        all
    }

    /// The one segment that is sent now.
    pub(crate) fn one(&mut self) -> SentSegment {
        let mut all = self.out();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    pub(crate) fn none(&mut self) {
        let all = self.out();
        assert!(all.is_empty(), "{all:?}");
    }

    /// Hands in the peer's next segment, which acknowledges all that was sent.
    pub(crate) fn hand(&mut self, flags: Flags, payload: &[u8]) -> Option<News> {
        let (sequence, acknowledgment) = (self.peer, if flags.has(ACK) { self.ours } else { 0 });
        let bits = u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN));
        self.peer = self.peer.wrapping_add(payload.len() as u32 + bits);
        self.hand_at((sequence, acknowledgment), flags, payload)
    }

    /// Hands in a segment with these numbers.
    pub(crate) fn hand_at(&mut self, numbers: (u32, u32), flags: Flags, payload: &[u8]) -> Option<News> {
        let options = if flags.has(Flags::SYN) {
            self.options
        } else {
            Options { timestamps: self.options.timestamps, ..Options::default() }
        };
        let header =
            Header { sequence: numbers.0, acknowledgment: numbers.1, flags, window: self.window, options };
        let ends = self.ends.turned();
        let at = tcp::header_bytes(&ends, &header.options);
        let mut frame = vec![0; at + payload.len()];
        frame[at..].copy_from_slice(payload);
        tcp::write(&mut frame, &ends, &header, payload.len());
        let arrival = self.connections.receive(&parse(&frame).unwrap(), self.now_ns)?;
        assert_eq!((arrival.connection, arrival.tag), (self.id, 42));
        let more = self.connections.more();
        assert_eq!(more.len(), arrival.more_bytes);
        Some(News {
            is_established: arrival.is_established,
            acknowledged: arrival.acknowledged_bytes,
            bytes: [arrival.bytes, more].concat(),
            is_peer_closed: arrival.is_peer_closed,
            ended: arrival.ended,
        })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        assert_eq!(self.connections.send(self.id, bytes, self.now_ns), bytes.len());
    }

    pub(crate) fn close(&mut self, how: tcp::Close) {
        self.connections.close(self.id, how, self.now_ns);
    }

    pub(crate) fn shut_down(&mut self) {
        self.connections.shut_down(self.id, self.now_ns);
    }

    /// Lets time pass. Returns what timed out.
    pub(crate) fn wait(&mut self, ns: u64) -> Option<tcp::TimedOut> {
        self.now_ns += ns;
        self.connections.poll_timeout(self.now_ns)
    }

    /// Lets time pass up to the next segment. Returns how long that took, or what timed out before.
    pub(crate) fn wait_for_segment(&mut self) -> Result<u64, tcp::TimedOut> {
        let began_ns = self.now_ns;
        while !self.connections.has_segment() {
            self.now_ns = self.connections.next_timeout(self.now_ns).expect("a timer");
            if let Some(over) = self.connections.poll_timeout(self.now_ns) {
                return Err(over);
            }
        }
        Ok(self.now_ns - began_ns)
    }
}

/// Whether a time is as expected, rounded up to a tick or two.
#[track_caller]
pub(crate) fn about(took_ns: u64, expected_ns: u64) {
    assert!(
        (expected_ns..expected_ns + 2 * TICK).contains(&took_ns),
        "{took_ns} ns, and not {expected_ns} ns"
    );
}
