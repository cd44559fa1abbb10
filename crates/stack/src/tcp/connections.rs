//! The connections of a thread: what its loop calls.

mod keeping;

use super::arrival::{Arrival, Id};
use super::counts::{Counts, Phase, Retransmitted};
use super::emit;
use super::ended::Ended;
use super::expire::expire;
use super::pair::Pair;
use super::pool::NONE;
use super::receive::{self, Incoming};
use super::segment::{self, Segment};
use super::settings::Settings;
use super::shared::{Now, Reply, Shared};
use super::table::Table;
use super::tcb::{Marks, State, Tcb};
use super::wheel::Wheel;
use crate::ends::{Ends, Path};
use crate::parsed::Parsed;

/// The connections of a thread.
///
/// A loop hands in each frame that arrived ([`Self::receive`]), looks for what timed out ([`Self::poll_timeout`]), does
/// what the two report by [`Self::connect`], [`Self::send`] and [`Self::close`], and then writes what there is to send
/// ([`Self::poll_transmit`]). In that order an ACK goes with the data or the FIN that answers what it acknowledges.
///
/// All times are nanoseconds of one clock that never goes back. If it is the system's monotonic clock, timestamps grow
/// from program to program, and a server's `TIME_WAIT` of an earlier program does not refuse a connection.
pub struct Connections {
    tcbs: Vec<Tcb>,
    /// The first of the places that are free.
    free: u32,
    /// The first and the last connection of those that have something to send.
    queue: (u32, u32),
    table: Table,
    wheel: Wheel,
    ended: Ended,
    shared: Shared,
    paths: Vec<Path>,
    key: [u64; 2],
    most: u32,
    count: u32,
    /// The place from which a connection is looked for that can be given up.
    hand: u32,
}

/// How the caller closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// By a FIN, after all that was sent.
    Fin,
    /// By a RST, at once.
    Rst,
}

/// Why no connection can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The pair belongs to a connection that has not ended.
    #[error("another connection has this pair of addresses and ports")]
    InUse,
    /// As many connections are open as the settings allow.
    #[error("no more connections can be open at once")]
    Full,
    /// The families differ: one end is an address of IPv4, and the other one of IPv6.
    #[error("the two addresses are of different families")]
    Families,
    /// More than 65,536 paths are in use.
    #[error("there are too many different paths")]
    Paths,
}

/// A segment that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The length of the frame.
    pub frame_bytes: usize,
    /// The length of the data in it, first sent or sent again.
    pub payload_bytes: usize,
    /// The caller's tag of the connection; `None` if the segment is of none that the caller still has.
    pub tag: Option<u64>,
}

/// A connection that timed out, and has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut {
    /// The connection.
    pub connection: Id,
    /// The caller's tag.
    pub tag: u64,
    /// The kind of segment that was sent in vain.
    pub phase: Phase,
}

/// How a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its state.
    pub state: State,
    /// Bytes that the peer acknowledged. SYN and FIN count as one each, as in Linux' `TCP_INFO`.
    pub acknowledged_bytes: u64,
    /// Bytes of data that were never sent so far.
    pub unsent_bytes: u32,
    /// Bytes of data that the peer has not acknowledged, with those that were never sent.
    pub unacknowledged_bytes: u32,
    /// Segments that were sent again.
    pub retransmitted: Retransmitted,
    /// The smoothed round-trip time, microseconds; `None` before the first.
    pub round_trip_us: Option<u32>,
    /// The longest segment that the peer takes, options included; 0 before its SYN.
    pub mss: u16,
    /// Whether both sides use timestamps.
    pub has_timestamps: bool,
}

impl Connections {
    /// No connections yet. `key` is random: nobody who does not know it can choose pairs that are slow to find.
    pub fn new(settings: &Settings, key: [u64; 2], now_ns: u64) -> Self {
        let most = settings.connections.min(1 << 30);
        Self {
            tcbs: Vec::with_capacity(most as usize),
            free: NONE,
            queue: (NONE, NONE),
            table: Table::new(most),
            wheel: Wheel::new(most, Now(now_ns).tick()),
            ended: Ended::new(settings.remembered),
            shared: Shared::new(settings),
            paths: Vec::new(),
            key,
            most,
            count: 0,
            hand: 0,
        }
    }

    /// Begins a connection: its SYN waits to be written. `ends` is this host's side first, `tag` is what the caller
    /// knows it by. If as many are open as the settings allow, one is given up that the caller has closed and whose
    /// peer has yet to send its FIN: one of the oldest.
    pub fn connect(&mut self, ends: &Ends, tag: u64, now_ns: u64) -> Result<Id, ConnectError> {
        if ends.from.is_ipv4() != ends.to.is_ipv4() {
            return Err(ConnectError::Families);
        }
        let now = Now(now_ns);
        let pair = Pair::new(ends.from, ends.to);
        let hash = pair.hash(self.key);
        if self.find(&pair, hash).is_some() {
            return Err(ConnectError::InUse);
        }
        let path = self.path(&ends.path)?;
        // A number of its own for each pair, which grows by one in 4 µs (RFC 9293, section 3.4.1).
        let iss = ((hash >> 32) as u32).wrapping_add((now_ns >> 12) as u32);
        let tcb = Tcb::new(pair, (path, tag), iss, &self.shared.limits);
        let index = self.place(tcb, now)?;
        self.table.insert(hash as u32, index);
        self.count += 1;
        self.shared.counts.attempts += 1;
        self.settle(index, now);
        Ok(self.id(index))
    }

    /// Takes as many bytes as there is room for, to be sent when the connection is made and the peer's window is open.
    /// Returns their number, which is 0 if the connection has ended or was closed.
    #[inline]
    pub fn send(&mut self, connection: Id, bytes: &[u8], now_ns: u64) -> usize {
        let Some(index) = self.index(connection) else { return 0 };
        let tcb = &mut self.tcbs[index as usize];
        if !tcb.takes_output() {
            return 0;
        }
        let room = self.shared.limits.send_buffer.saturating_sub(tcb.output.bytes) as usize;
        let taken = self.shared.output.append(&mut tcb.output, &bytes[..bytes.len().min(room)]);
        self.settle(index, Now(now_ns));
        taken
    }

    /// Whether there is memory for what connections send ([`Settings::send_pool`]). Without any, [`Self::send`] takes
    /// nothing, and may again once any connection has been acknowledged or has ended.
    #[inline]
    pub fn has_send_room(&self) -> bool {
        self.shared.output.has_room()
    }

    /// Closes this side after all that was sent; the peer may go on (a half-closed connection). What arrives is
    /// reported as before.
    pub fn shut_down(&mut self, connection: Id, now_ns: u64) {
        let Some(index) = self.index(connection) else { return };
        self.tcbs[index as usize].shut_down();
        self.settle(index, Now(now_ns));
    }

    /// Closes a connection, of which nothing is reported any more. By a FIN, all that was sent still reaches the peer;
    /// if the peer sends more data, it gets a RST. A connection that was not made is forgotten. One that has ended is
    /// left alone.
    pub fn close(&mut self, connection: Id, how: Close, now_ns: u64) {
        let Some(index) = self.index(connection) else { return };
        let now = Now(now_ns);
        let Self { tcbs, shared, .. } = self;
        let tcb = &mut tcbs[index as usize];
        tcb.marks.set(Marks::RELEASED);
        match (how, tcb.state) {
            (_, State::SynSent) => {
                shared.counts.abandoned += 1;
                tcb.state = State::Closed;
            }
            (Close::Rst, State::SynReceived) => {
                shared.counts.abandoned += 1;
                tcb.abort();
            }
            (_, State::TimeWait | State::Closed) => {}
            (Close::Rst, _) => {
                shared.counts.resets_sent += 1;
                tcb.abort();
            }
            (Close::Fin, State::FinWait2) => receive::await_fin(tcb, shared, now),
            (Close::Fin, _) => tcb.shut_down(),
        }
        self.settle(index, now);
    }

    /// Takes a frame that arrived, if it has a segment. Returns what the caller must know of: nothing if the segment
    /// only acknowledged a SYN or a FIN, belongs to no connection, or to one that the caller has closed. Checksums are
    /// not looked at ([`Parsed::verify`]).
    #[inline]
    pub fn receive<'f>(&mut self, parsed: &Parsed<'f>, now_ns: u64) -> Option<Arrival<'f>> {
        let segment = Segment::from_parsed(parsed)?;
        let now = Now(now_ns);
        self.shared.counts.segments_received += 1;
        self.shared.more.clear();
        let pair = Pair::new(parsed.ends.to, parsed.ends.from);
        let hash = pair.hash(self.key);
        let Some(index) = self.find(&pair, hash) else {
            self.stranger(&parsed.ends, &segment, hash, now);
            return None;
        };
        let mut arrival = Arrival::new(self.id(index), self.tcbs[index as usize].tag);
        let tcb = &mut self.tcbs[index as usize];
        let is_released = tcb.marks.has(Marks::RELEASED);
        let incoming = Incoming { ends: &parsed.ends, segment, now };
        receive::receive(tcb, &mut self.shared, &incoming, &mut arrival);
        self.settle(index, now);
        (arrival.is_news() && !is_released).then_some(arrival)
    }

    /// Data that had arrived out of order and follows that of the last [`Self::receive`].
    pub fn more(&self) -> &[u8] {
        &self.shared.more
    }

    /// Does what is due by now, up to a connection that timed out. To be called until it returns `None`.
    #[inline]
    pub fn poll_timeout(&mut self, now_ns: u64) -> Option<TimedOut> {
        let now = Now(now_ns);
        while let Some(index) = self.wheel.expired(now.tick()) {
            let connection = self.id(index);
            let tcb = &mut self.tcbs[index as usize];
            let (tag, is_released) = (tcb.tag, tcb.marks.has(Marks::RELEASED));
            let phase = expire(tcb, &mut self.shared, now);
            self.settle(index, now);
            if let Some(phase) = phase.filter(|_| !is_released) {
                return Some(TimedOut { connection, tag, phase });
            }
        }
        None
    }

    /// When [`Self::poll_timeout`] may next have something to do, and not before; `None` if nothing is due.
    pub fn next_timeout(&self, now_ns: u64) -> Option<u64> {
        self.wheel.next().map(|tick| Now(now_ns).begin_of(tick))
    }

    /// Whether a segment waits to be written. If so, [`Self::poll_transmit`] writes one.
    #[inline]
    pub fn has_segment(&mut self) -> bool {
        if !self.shared.replies.is_empty() {
            return true;
        }
        while self.queue.0 != NONE {
            if emit::next(&self.tcbs[self.queue.0 as usize]).is_some() {
                return true;
            }
            self.pop();
        }
        false
    }

    /// The tag of the connection whose segment is written next, also if the caller has closed it. To be called once
    /// [`Self::has_segment`] is true; `None` if the segment is of no connection.
    #[inline]
    pub fn next_tag(&self) -> Option<u64> {
        let is_of_one = self.shared.replies.is_empty() && self.queue.0 != NONE;
        is_of_one.then(|| self.tcbs[self.queue.0 as usize].tag)
    }

    /// Writes a segment that waits, headers and all. Connections take turns. A segment that then does not leave is as
    /// good as lost: it is sent again after a timeout.
    ///
    /// # Panics
    ///
    /// If the frame has less room than the longest packet of the settings and 18 bytes.
    #[inline]
    pub fn poll_transmit(&mut self, frame: &mut [u8], now_ns: u64) -> Option<Sent> {
        if let Some(Reply { ends, header }) = self.shared.replies.pop_front() {
            self.shared.counts.segments_sent += 1;
            let frame_bytes = segment::write(frame, &ends, &header, 0);
            return Some(Sent { frame_bytes, payload_bytes: 0, tag: None });
        }
        if !self.has_segment() {
            return None;
        }
        let now = Now(now_ns);
        let index = self.queue.0;
        let tcb = &mut self.tcbs[index as usize];
        let next = emit::next(tcb)?;
        let path = self.paths[usize::from(tcb.path)];
        let ends = Ends { path, from: tcb.pair.local(), to: tcb.pair.remote() };
        let tag = (!tcb.marks.has(Marks::RELEASED)).then_some(tcb.tag);
        let (frame_bytes, payload_bytes) = emit::write((tcb, &mut self.shared), next, &ends, frame, now);
        self.shared.counts.segments_sent += 1;
        self.pop();
        self.settle(index, now);
        Some(Sent { frame_bytes, payload_bytes, tag })
    }

    /// How a connection is doing; `None` if it has ended.
    pub fn status(&self, connection: Id) -> Option<Status> {
        let tcb = &self.tcbs[self.index(connection)? as usize];
        let is_timed = tcb.rto.smoothed_us > 0;
        let sent = tcb.snd_max.wrapping_sub(tcb.snd_una);
        let is_synchronised = !matches!(tcb.state, State::SynSent | State::SynReceived);
        Some(Status {
            state: tcb.state,
            acknowledged_bytes: tcb.acknowledged,
            unsent_bytes: tcb.output.bytes.saturating_sub(if is_synchronised { sent } else { 0 }),
            unacknowledged_bytes: tcb.output.bytes,
            retransmitted: Retransmitted {
                syn: tcb.syn_retransmitted.into(),
                data: tcb.data_retransmitted.into(),
                fin: tcb.fin_retransmitted.into(),
            },
            round_trip_us: is_timed.then_some(tcb.rto.smoothed_us),
            mss: tcb.mss,
            has_timestamps: tcb.marks.has(Marks::TIMESTAMPS),
        })
    }

    /// Connections that have not ended, with those that the caller has closed.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Counts of all connections so far.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Memory that was used so far, bytes: for connections and their timers, the table, buffers, and ended pairs.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.tcbs)
            + self.table.memory_bytes()
            + self.wheel.memory_bytes()
            + self.ended.memory_bytes()
            + self.shared.output.memory_bytes()
            + self.shared.held.memory_bytes()
    }
}
