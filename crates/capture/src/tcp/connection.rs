//! A connection: two directions, how it begins and how it ends.

use super::ends::Ends;
use super::half::{Half, after};
use super::ready::{Ready, Sink};
use super::{List, Segment};
use crate::counts::Why;

#[derive(Debug, Default)]
pub(super) struct Connection {
    number: u64,
    /// The direction to the client, and that to the server.
    halves: [Half; 2],
    /// Whether the capture has any segment of each direction.
    seen: [bool; 2],
    has_payload: bool,
    has_message: bool,
    is_closed: bool,
}

impl Connection {
    pub(super) fn new(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether FINs of both ends were seen, though perhaps not all bytes before them. If the capture has nothing of one
    /// direction, the FIN of the other one is enough.
    pub(super) fn is_finishing(&self) -> bool {
        self.halves.iter().zip(self.seen).all(|(half, is_seen)| half.has_fin() || !is_seen)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.halves.iter().map(Half::held_bytes).sum()
    }

    pub(super) fn list(&self) -> List {
        if self.is_closed {
            List::Closed
        } else if self.is_finishing() || self.halves.iter().any(Half::has_gap) {
            List::Waiting
        } else if self.held_bytes() > 0 {
            List::Holding
        } else if self.has_payload {
            List::Open
        } else {
            List::Fresh
        }
    }

    /// Whether this segment belongs to a later connection between the same ends.
    pub(super) fn is_before(&self, segment: &Segment<'_>) -> bool {
        let half = &self.halves[usize::from(segment.to_server)];
        if segment.rst {
            false
        } else if segment.syn {
            let other = &self.halves[usize::from(!segment.to_server)];
            // The first SYN of this direction belongs to this connection only if the other direction began with one.
            let is_first = !self.is_closed && !half.is_known() && other.syn().is_some();
            let is_its = half.syn() == Some(segment.sequence) || half.begins_with(segment.sequence);
            !is_its && !is_first
        } else {
            self.is_closed && !segment.payload.is_empty() && half.is_far(segment.sequence)
        }
    }

    /// Why a segment completes no message of a connection that has ended.
    pub(super) fn late(&self, segment: &Segment<'_>) -> Why {
        let half = &self.halves[usize::from(segment.to_server)];
        let sequence = segment.sequence.wrapping_add(segment.syn.into());
        if segment.payload.is_empty() || segment.rst {
            Why::TcpControl
        } else if half.has_passed(sequence, segment.payload.len()) {
            Why::TcpRepeated
        } else {
            Why::TcpGap
        }
    }

    /// Takes a segment. Returns why it completes no message, if it does not.
    pub(super) fn take(&mut self, ends: &Ends, segment: &Segment<'_>, ready: &mut Ready) -> Why {
        let at_ns = segment.at_ns;
        self.seen[usize::from(segment.to_server)] = true;
        self.skip_gaps(ends, ready, |half| half.is_overdue(at_ns));
        let half = &mut self.halves[usize::from(segment.to_server)];
        if segment.rst {
            if half.accepts_reset(segment.sequence) {
                self.end(ends, at_ns, ready);
            }
            return Why::TcpControl;
        }
        let mut sequence = segment.sequence;
        if segment.syn {
            half.begin(sequence);
            sequence = sequence.wrapping_add(1);
        }
        let mut why = Why::TcpControl;
        if !segment.payload.is_empty() || segment.missing > 0 {
            self.has_payload = true;
            let (connection, to_server) = (self.number, segment.to_server);
            let mut sink = Sink { ready: &mut *ready, ends, connection, to_server };
            let before = sink.ready.messages();
            why = match segment.missing {
                0 => half.take(sequence, at_ns, segment.payload, &mut sink),
                missing => half.take_cut(sequence, at_ns, segment.payload, missing, &mut sink),
            };
            self.has_message |= ready.messages() > before;
        }
        if segment.fin {
            half.finish(after(sequence, segment.payload.len() + segment.missing));
        }
        if self.halves.iter().all(Half::is_over) {
            self.end(ends, at_ns, ready);
        }
        why
    }

    /// Skips the missing bytes of these directions.
    pub(super) fn skip_gaps(&mut self, ends: &Ends, ready: &mut Ready, which: impl Fn(&Half) -> bool) {
        let before = ready.messages();
        for (half, to_server) in self.halves.iter_mut().zip([false, true]) {
            if which(half) {
                half.skip_gaps(&mut Sink { ready: &mut *ready, ends, connection: self.number, to_server });
            }
        }
        self.has_message |= ready.messages() > before;
    }

    /// Ends the connection: skips what is missing, and frees what is not whole.
    pub(super) fn end(&mut self, ends: &Ends, at_ns: u64, ready: &mut Ready) {
        self.skip_gaps(ends, ready, |_| true);
        self.halves.iter_mut().for_each(Half::release);
        self.is_closed = true;
        ready.closed(self.number, at_ns, self.has_message);
    }
}
