//! A link in simulated time between two ends, which loses, repeats and reorders frames by a seed or by a rule.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kqps_stack::tcp::{Arrival, Connections, End, Id, Segment, Settings};
use kqps_stack::{Ends, parse};

use super::peer::Peer;
use super::rig::{MS, S};

/// An end of the link.
pub(crate) trait Side {
    /// Takes a frame, and returns what it sends.
    fn receive(&mut self, frame: &[u8], now_ns: u64) -> Vec<Vec<u8>>;
    /// Does what is due, and returns what it sends.
    fn expire(&mut self, now_ns: u64) -> Vec<Vec<u8>>;
    /// When something is due.
    fn next_ns(&self, now_ns: u64) -> Option<u64>;
    fn is_done(&self) -> bool;
}

impl Side for Peer {
    fn receive(&mut self, frame: &[u8], now_ns: u64) -> Vec<Vec<u8>> {
        Self::receive(self, frame, now_ns)
    }

    fn expire(&mut self, now_ns: u64) -> Vec<Vec<u8>> {
        Self::expire(self, now_ns)
    }

    fn next_ns(&self, _: u64) -> Option<u64> {
        self.expires_ns()
    }

    fn is_done(&self) -> bool {
        Self::is_done(self)
    }
}

/// A program with one connection: it sends all that it has, and closes when it has received all that it expects.
pub(crate) struct Client {
    pub(crate) connections: Connections,
    id: Id,
    data: Vec<u8>,
    handed: usize,
    expects: usize,
    pub(crate) received: Vec<u8>,
    pub(crate) ended: Option<End>,
}

impl Client {
    pub(crate) fn new(
        settings: &Settings,
        ends: &Ends,
        (data, expects): (Vec<u8>, usize),
        now_ns: u64,
    ) -> Self {
        let mut connections = Connections::new(settings, [1, u64::from(ends.from.port())], now_ns);
        let id = connections.connect(ends, 5, now_ns).unwrap();
        Self { connections, id, data, handed: 0, expects, received: Vec::new(), ended: None }
    }

    fn hear(&mut self, arrival: &Arrival<'_>) {
        assert_eq!((arrival.connection, arrival.tag), (self.id, 5));
        self.received.extend_from_slice(arrival.bytes);
        if arrival.more_bytes > 0 {
            self.received.extend_from_slice(self.connections.more());
        }
        self.ended = self.ended.or(arrival.ended);
    }

    /// Hands on what there is room for, closes if it is time to, and writes all segments.
    fn go_on(&mut self, now_ns: u64) -> Vec<Vec<u8>> {
        self.handed += self.connections.send(self.id, &self.data[self.handed..], now_ns);
        if self.handed == self.data.len() && self.received.len() == self.expects {
            self.connections.shut_down(self.id, now_ns);
        }
        let mut out = Vec::new();
        let mut frame = [0; 1600];
        while let Some(sent) = self.connections.poll_transmit(&mut frame, now_ns) {
            out.push(frame[..sent.frame_bytes].to_vec());
        }
        out
    }
}

impl Side for Client {
    fn receive(&mut self, frame: &[u8], now_ns: u64) -> Vec<Vec<u8>> {
        let parsed = parse(frame).unwrap();
        assert!(parsed.verify());
        if let Some(arrival) = self.connections.receive(&parsed, now_ns) {
            self.hear(&arrival);
        }
        self.go_on(now_ns)
    }

    fn expire(&mut self, now_ns: u64) -> Vec<Vec<u8>> {
        let over = self.connections.poll_timeout(now_ns);
        assert_eq!(over, None, "nothing is lost that often");
        self.go_on(now_ns)
    }

    fn next_ns(&self, now_ns: u64) -> Option<u64> {
        self.connections.next_timeout(now_ns)
    }

    fn is_done(&self) -> bool {
        self.connections.count() == 0
    }
}

/// The fate of a frame on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Lost,
    Twice,
    Once,
}

/// Decides on a frame, by the number of its sender (0 or 1) and its segment.
pub(crate) type Rule<'r> = dyn FnMut(usize, &Segment<'_>) -> Fate + 'r;

/// A frame: when it arrives, its number, who sent it, and its bytes.
type UnderWay = (u64, u64, usize, Vec<u8>);

pub(crate) struct Link<'r> {
    rule: &'r mut Rule<'r>,
    random: fastrand::Rng,
    /// How long a frame takes at least, and how much longer it may take.
    delay_ns: (u64, u64),
    under_way: BinaryHeap<Reverse<UnderWay>>,
    frames: u64,
}

impl<'r> Link<'r> {
    pub(crate) fn new(rule: &'r mut Rule<'r>, seed: u64, delay_ns: (u64, u64)) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { rule, random, delay_ns, under_way: BinaryHeap::new(), frames: 0 }
    }

    fn send(&mut self, from: usize, frames: Vec<Vec<u8>>, now_ns: u64) {
        for frame in frames {
            let parsed = parse(&frame).unwrap();
            let copies = match (self.rule)(from, &Segment::from_parsed(&parsed).unwrap()) {
                Fate::Lost => 0,
                Fate::Once => 1,
                Fate::Twice => 2,
            };
            for _ in 0..copies {
                let takes_ns = self.delay_ns.0 + self.random.u64(0..=self.delay_ns.1);
                self.frames += 1;
                self.under_way.push(Reverse((now_ns + takes_ns, self.frames, 1 - from, frame.clone())));
            }
        }
    }

    /// Runs both sides until they are done and nothing is under way. Returns the time.
    pub(crate) fn run(mut self, mut sides: [&mut dyn Side; 2], mut now_ns: u64) -> u64 {
        let until_ns = now_ns + 3600 * S;
        for (number, side) in sides.iter_mut().enumerate() {
            let out = side.expire(now_ns);
            self.send(number, out, now_ns);
        }
        while !(self.under_way.is_empty() && sides.iter().all(|side| side.is_done())) {
            let arrives_ns = self.under_way.peek().map(|Reverse(next)| next.0);
            let due_ns = sides.iter().filter_map(|side| side.next_ns(now_ns)).min();
            let next_ns = arrives_ns.into_iter().chain(due_ns).min().expect("it has come to a standstill");
            now_ns = now_ns.max(next_ns);
            assert!(now_ns < until_ns, "it takes an hour");
            if arrives_ns == Some(next_ns) {
                let Some(Reverse((_, _, to, frame))) = self.under_way.pop() else { break };
                let out = sides[to].receive(&frame, now_ns);
                self.send(to, out, now_ns);
            } else {
                for (number, side) in sides.iter_mut().enumerate() {
                    let out = side.expire(now_ns);
                    self.send(number, out, now_ns);
                }
            }
        }
        now_ns
    }
}

/// A link with a round trip of 20 ms that keeps the order.
pub(crate) const STEADY: (u64, u64) = (10 * MS, 0);

/// Bytes that are known by their place.
pub(crate) fn bytes(count: usize, seed: u8) -> Vec<u8> {
    (0..count).map(|place| (place ^ (place >> 8)) as u8 ^ seed).collect()
}
