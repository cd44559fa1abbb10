//! A direction of a connection: its segments in the order of their bytes.

use std::collections::VecDeque;

use super::framing::Framing;
use super::ready::Sink;
use crate::counts::Why;

/// Later bytes that wait for missing ones, at most, with [`SEGMENT_BYTES`] for each segment.
pub(super) const GAP_BYTES_MOST: usize = 256 << 10;

/// Later segments that wait for missing ones, at most.
pub(super) const GAP_SEGMENTS_MOST: usize = 256;

/// How long later segments wait for missing ones, ns of captured time: longer than the first retransmission takes (RFC
/// 6298, section 2).
pub(super) const GAP_NS: u64 = 1_500_000_000;

/// The memory of a waiting segment beside its payload.
const SEGMENT_BYTES: usize = 64;

/// How far a sequence number may be from the expected one. A larger difference is not a gap but another beginning.
const WINDOW_BYTES: u32 = 16 << 20;

#[derive(Debug, Default)]
pub(super) struct Half {
    /// The sequence number of the next byte; `None` if nothing has come.
    next: Option<u32>,
    /// The sequence number of the first byte that came, if it came before the SYN.
    first: Option<u32>,
    /// The sequence number of the SYN.
    syn: Option<u32>,
    /// The sequence number of the FIN.
    fin: Option<u32>,
    framing: Framing,
    /// Segments behind missing bytes, in the order of their bytes.
    later: VecDeque<Later>,
    later_bytes: usize,
}

/// A segment that came too soon.
#[derive(Debug)]
struct Later {
    at_ns: u64,
    sequence: u32,
    bytes: Box<[u8]>,
}

impl Later {
    fn held_bytes(&self) -> usize {
        SEGMENT_BYTES + self.bytes.len()
    }

    /// Whether all of these bytes are in this segment.
    fn covers(&self, sequence: u32, bytes: usize) -> bool {
        sequence.wrapping_sub(self.sequence) as usize + bytes <= self.bytes.len()
    }
}

/// How far `sequence` is behind `other` in the stream; negative if it is before it.
fn distance(sequence: u32, other: u32) -> i32 {
    sequence.wrapping_sub(other).cast_signed()
}

/// The sequence number that is this many bytes behind `sequence` in the stream.
pub(super) fn after(sequence: u32, bytes: usize) -> u32 {
    let [b0, b1, b2, b3, ..] = bytes.to_le_bytes();
    sequence.wrapping_add(u32::from_le_bytes([b0, b1, b2, b3]))
}

impl Half {
    pub(super) fn is_known(&self) -> bool {
        self.next.is_some()
    }

    pub(super) fn syn(&self) -> Option<u32> {
        self.syn
    }

    /// Whether a SYN with this number is the one before the first byte that came.
    pub(super) fn begins_with(&self, syn: u32) -> bool {
        self.first == Some(syn.wrapping_add(1))
    }

    pub(super) fn has_fin(&self) -> bool {
        self.fin.is_some()
    }

    /// Whether all bytes before the FIN have come, or were skipped.
    pub(super) fn is_over(&self) -> bool {
        self.fin.zip(self.next).is_some_and(|(fin, next)| distance(fin, next) <= 0)
    }

    /// Whether later segments wait for missing ones.
    pub(super) fn has_gap(&self) -> bool {
        !self.later.is_empty()
    }

    /// Whether later segments have waited for too long.
    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        self.later.front().is_some_and(|first| now_ns.saturating_sub(first.at_ns) >= GAP_NS)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.framing.held_bytes() + self.later_bytes
    }

    /// Whether this number is that of another stream.
    pub(super) fn is_far(&self, sequence: u32) -> bool {
        self.next.is_some_and(|next| distance(sequence, next).unsigned_abs() > WINDOW_BYTES)
    }

    /// Whether a RST with this number is meant for the connection (cf. RFC 9293, section 3.5.3).
    pub(super) fn accepts_reset(&self, sequence: u32) -> bool {
        self.next.is_none_or(|next| sequence.wrapping_sub(next) <= WINDOW_BYTES)
    }

    /// Whether all of these bytes came before, or were skipped.
    pub(super) fn has_passed(&self, sequence: u32, bytes: usize) -> bool {
        let end = after(sequence, bytes);
        self.next.is_some_and(|next| distance(end, next) <= 0)
    }

    /// Takes a SYN. One that is sent again changes nothing, nor does one that comes after the bytes behind it.
    pub(super) fn begin(&mut self, sequence: u32) {
        if self.syn.is_none() {
            self.syn = Some(sequence);
            if self.next.is_none() {
                self.next = Some(sequence.wrapping_add(1));
                self.framing.begin();
            }
        }
    }

    /// Takes a FIN with this number. One that is sent again, or is that of another stream, changes nothing.
    pub(super) fn finish(&mut self, sequence: u32) {
        self.next.get_or_insert(sequence);
        if !self.is_far(sequence) {
            self.fin.get_or_insert(sequence);
        }
    }

    /// Takes the payload of a segment, at least one byte. Returns why it completes no message, if it does not.
    pub(super) fn take(&mut self, sequence: u32, at_ns: u64, bytes: &[u8], sink: &mut Sink<'_>) -> Why {
        if self.is_far(sequence) {
            self.skip_gaps(sink);
            self.framing.lose();
            self.next = Some(sequence);
        }
        if self.next.is_none() {
            self.first = Some(sequence);
        }
        let ahead = distance(sequence, *self.next.get_or_insert(sequence));
        if ahead > 0 {
            return self.hold(sequence, at_ns, bytes, sink);
        }
        match bytes.get(ahead.unsigned_abs() as usize..) {
            None | Some([]) => Why::TcpRepeated,
            Some(new) => {
                let why = self.feed(at_ns, new, sink);
                if self.has_gap() {
                    self.drain(sink);
                }
                why
            }
        }
    }

    /// Takes a segment whose last bytes, `missing` of them, were not captured. The next segment may begin with a
    /// message; nothing waits for the bytes. Returns why it completes no message, if it does not.
    pub(super) fn take_cut(
        &mut self,
        sequence: u32,
        at_ns: u64,
        bytes: &[u8],
        missing: usize,
        sink: &mut Sink<'_>,
    ) -> Why {
        if !bytes.is_empty() {
            self.take(sequence, at_ns, bytes, sink);
        }
        self.skip_gaps(sink);
        let end = after(sequence, bytes.len() + missing);
        if self.is_far(end) || self.next.is_none_or(|next| distance(end, next) > 0) {
            self.next = Some(end);
            self.framing.lose();
        }
        Why::Cut
    }

    /// Skips all missing bytes.
    pub(super) fn skip_gaps(&mut self, sink: &mut Sink<'_>) {
        while self.has_gap() {
            self.skip(sink);
        }
    }

    /// Frees all bytes.
    pub(super) fn release(&mut self) {
        self.framing.lose();
        self.later = VecDeque::new();
        self.later_bytes = 0;
    }

    /// Keeps a segment until the bytes before it have come.
    fn hold(&mut self, sequence: u32, at_ns: u64, bytes: &[u8], sink: &mut Sink<'_>) -> Why {
        if self.later.iter().any(|held| held.covers(sequence, bytes.len())) {
            return Why::TcpRepeated;
        }
        let place = self.later.partition_point(|held| distance(held.sequence, sequence) < 0);
        let held = Later { at_ns, sequence, bytes: bytes.into() };
        self.later_bytes += held.held_bytes();
        self.later.insert(place, held);
        let mut why = Why::TcpPart;
        while self.later.len() > GAP_SEGMENTS_MOST || self.later_bytes > GAP_BYTES_MOST {
            why = self.skip(sink);
        }
        // A segment that still waits is part of what follows.
        if self.has_gap() { Why::TcpPart } else { why }
    }

    /// Skips the missing bytes before the first segment that waits.
    fn skip(&mut self, sink: &mut Sink<'_>) -> Why {
        self.next = self.later.front().map(|first| first.sequence).or(self.next);
        self.framing.lose();
        self.drain(sink).unwrap_or(Why::TcpGap)
    }

    /// Takes the segments that waited and now have no gap before them. Returns why the last one completed no message,
    /// if it did not; `None` if there was none with new bytes.
    fn drain(&mut self, sink: &mut Sink<'_>) -> Option<Why> {
        let mut last = None;
        while let (Some(first), Some(next)) = (self.later.front(), self.next) {
            let ahead = distance(first.sequence, next);
            if ahead > 0 {
                return last;
            }
            let Some(held) = self.later.pop_front() else { break };
            self.later_bytes -= held.held_bytes();
            if let Some(new) = held.bytes.get(ahead.unsigned_abs() as usize..).filter(|new| !new.is_empty()) {
                last = Some(self.feed(held.at_ns, new, sink));
            }
        }
        self.later = VecDeque::new();
        last
    }

    /// Takes the next bytes of the stream.
    fn feed(&mut self, at_ns: u64, bytes: &[u8], sink: &mut Sink<'_>) -> Why {
        self.next = self.next.map(|next| after(next, bytes.len()));
        let to_server = sink.to_server;
        self.framing.take(bytes, to_server, &mut |message| sink.message(at_ns, message))
    }
}
