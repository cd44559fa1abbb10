//! A simple server on one connection: it keeps all bytes, acknowledges at once, takes data in order only, and goes back
//! to the oldest number when its one timer expires.

use kqps_stack::tcp::{self, Flags, Header, Options, Segment};
use kqps_stack::{Ends, parse};

use super::rig::{ACK, MS};

const RTO_NS: u64 = 300 * MS;
const SEGMENT_BYTES: usize = 1000;

#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
pub(crate) struct Peer {
    ends: Ends,
    isn: u32,
    /// The oldest number that was not acknowledged, the next to send, and the one after the last that was ever sent.
    una: u32,
    nxt: u32,
    max: u32,
    /// The next number that is expected; `None` before the SYN.
    expected: Option<u32>,
    window: u32,
    pub(crate) received: Vec<u8>,
    /// How many bytes it awaits before it replies.
    awaits: usize,
    reply: Vec<u8>,
    /// Whether it closes after its reply, and not when the client has closed.
    closes_first: bool,
    has_timestamps: bool,
    echo: u32,
    is_client_closed: bool,
    expires_ns: Option<u64>,
    pub(crate) was_reset: bool,
}

impl Peer {
    /// A server that replies once it has received so many bytes.
    pub(crate) fn new(
        ends: Ends,
        awaits: usize,
        reply: Vec<u8>,
        (closes_first, has_timestamps): (bool, bool),
    ) -> Self {
        let isn = u32::MAX - 5000;
        Self {
            ends,
            isn,
            una: isn,
            nxt: isn,
            max: isn,
            expected: None,
            window: 0,
            received: Vec::new(),
            awaits,
            reply,
            closes_first,
            has_timestamps,
            echo: 0,
            is_client_closed: false,
            expires_ns: None,
            was_reset: false,
        }
    }

    fn has_replied(&self) -> bool {
        self.received.len() >= self.awaits
    }

    /// The number of the FIN, if it is time to send it.
    fn fin(&self) -> Option<u32> {
        let is_time = self.has_replied() && (self.closes_first || self.is_client_closed);
        is_time.then(|| self.isn.wrapping_add(1 + self.reply.len() as u32))
    }

    /// Whether both sides have closed, and both FINs were acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.is_client_closed && self.fin().is_some_and(|fin| self.una == fin.wrapping_add(1))
    }

    pub(crate) fn expires_ns(&self) -> Option<u64> {
        self.expires_ns
    }

    pub(crate) fn receive(&mut self, frame: &[u8], now_ns: u64) -> Vec<Vec<u8>> {
        let parsed = parse(frame).unwrap();
        assert!(parsed.verify());
        assert_eq!(parsed.ends, self.ends.turned());
        let segment = Segment::from_parsed(&parsed).unwrap();
        let Header { sequence, acknowledgment, flags, window, options } = segment.header;
        if flags.has(Flags::RST) {
            self.was_reset = true;
            return Vec::new();
        }
        self.window = window.into();
        if let Some((value, _)) = options.timestamps {
            self.echo = value;
        }
        if flags.has(Flags::SYN) && self.expected.is_none() {
            self.expected = Some(sequence.wrapping_add(1));
        }
        let Some(expected) = self.expected else { return Vec::new() };
        if flags.has(ACK) {
            let newly = acknowledgment.wrapping_sub(self.una);
            if newly > 0 && newly <= self.max.wrapping_sub(self.una) {
                self.una = acknowledgment;
                if self.nxt.wrapping_sub(self.una) as i32 <= 0 {
                    self.nxt = self.una;
                }
                self.expires_ns = (self.una != self.max).then_some(now_ns + RTO_NS);
            }
        }
        let known = expected.wrapping_sub(sequence) as usize;
        if !flags.has(Flags::SYN) && known <= segment.payload.len() {
            self.received.extend_from_slice(&segment.payload[known..]);
            let mut next = sequence.wrapping_add(segment.payload.len() as u32);
            if flags.has(Flags::FIN) && !self.is_client_closed {
                self.is_client_closed = true;
                next = next.wrapping_add(1);
            }
            self.expected = Some(next);
        }
        let mut out = self.pump(now_ns);
        if out.is_empty() && segment.length() > 0 {
            out.push(self.segment(ACK, self.nxt, &[], now_ns));
        }
        out
    }

    pub(crate) fn expire(&mut self, now_ns: u64) -> Vec<Vec<u8>> {
        if self.expires_ns.is_none_or(|at_ns| now_ns < at_ns) {
            return Vec::new();
        }
        self.expires_ns = None;
        self.nxt = self.una;
        self.pump(now_ns)
    }

    /// Sends what may be sent.
    fn pump(&mut self, now_ns: u64) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        if self.nxt == self.isn && self.expected.is_some() {
            out.push(self.segment(Flags::SYN.with(ACK), self.nxt, &[], now_ns));
            self.sent(1, now_ns);
        }
        if self.una == self.isn {
            return out;
        }
        while self.has_replied() {
            let at = self.nxt.wrapping_sub(self.isn.wrapping_add(1)) as usize;
            let room = (self.window as usize).saturating_sub(self.nxt.wrapping_sub(self.una) as usize);
            let bytes = self.reply.len().saturating_sub(at).min(SEGMENT_BYTES).min(room);
            if bytes == 0 {
                break;
            }
            let payload = self.reply[at..at + bytes].to_vec();
            out.push(self.segment(ACK, self.nxt, &payload, now_ns));
            self.sent(bytes as u32, now_ns);
        }
        if self.fin() == Some(self.nxt) {
            out.push(self.segment(Flags::FIN.with(ACK), self.nxt, &[], now_ns));
            self.sent(1, now_ns);
        }
        out
    }

    fn sent(&mut self, numbers: u32, now_ns: u64) {
        self.nxt = self.nxt.wrapping_add(numbers);
        if (self.nxt.wrapping_sub(self.max) as i32) > 0 {
            self.max = self.nxt;
        }
        self.expires_ns = self.expires_ns.or(Some(now_ns + RTO_NS));
    }

    fn segment(&self, flags: Flags, sequence: u32, payload: &[u8], now_ns: u64) -> Vec<u8> {
        let is_syn = flags.has(Flags::SYN);
        let timestamps = self.has_timestamps.then_some(((now_ns / MS) as u32, self.echo));
        let header = Header {
            sequence,
            acknowledgment: self.expected.unwrap_or_default(),
            flags,
            window: 60_000,
            options: Options { mss: is_syn.then_some(1400), window_scale: None, timestamps },
        };
        let at = tcp::header_bytes(&self.ends, &header.options);
        let mut frame = vec![0; at + payload.len()];
        frame[at..].copy_from_slice(payload);
        tcp::write(&mut frame, &self.ends, &header, payload.len());
        frame
    }
}
