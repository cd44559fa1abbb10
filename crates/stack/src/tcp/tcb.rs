//! The state of one connection (a transmission control block, RFC 9293, section 3.3.1).

use super::pair::Pair;
use super::pool::Chain;
use super::reassembly::Held;
use super::rto::Rto;
use super::segment::TIMESTAMPS_BYTES;
use super::sequence::before;
use super::shared::{Limits, Now};

/// The segment that every host takes (RFC 9293, section 3.7.1), over IPv4 and over IPv6.
const MSS_DEFAULT: (u16, u16) = (536, 1220);

/// A peer that says less is not believed: Linux has the same limit.
const MSS_LEAST: u16 = 48;

/// Segments of the first window (RFC 6928).
const FIRST_WINDOW_SEGMENTS: u32 = 10;

/// Where a connection stands (RFC 9293, section 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A SYN was sent.
    SynSent,
    /// A SYN was sent and another one arrived: both sides open at once.
    SynReceived,
    /// Data can pass both ways.
    Established,
    /// This side has closed, and the peer has not acknowledged that.
    FinWait1,
    /// This side has closed, and the peer may send data.
    FinWait2,
    /// The peer has closed, and this side may send data.
    CloseWait,
    /// Both sides closed at once, and the peer has not acknowledged the FIN.
    Closing,
    /// The peer closed first, and has not acknowledged this side's FIN.
    LastAck,
    /// Both sides have closed. The connection stays only until the peer's FIN was acknowledged.
    TimeWait,
    /// It has ended.
    Closed,
}

impl State {
    /// Whether data, or the FIN after it, is sent or may be sent again.
    #[inline]
    pub(super) fn sends_text(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck)
    }

    /// Whether a FIN follows the data, and was not acknowledged.
    #[inline]
    pub(super) fn has_fin(self) -> bool {
        matches!(self, Self::FinWait1 | Self::Closing | Self::LastAck)
    }

    /// Whether data of the peer is expected.
    #[inline]
    pub(super) fn receives_text(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

/// Bits of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u16);

impl Marks {
    /// Both sides use timestamps.
    pub(super) const TIMESTAMPS: Self = Self(1);
    /// Both sides shift their windows.
    pub(super) const SCALED: Self = Self(1 << 1);
    /// A SYN waits to be sent.
    pub(super) const SYN_DUE: Self = Self(1 << 2);
    /// An ACK waits to be sent.
    pub(super) const ACK_NOW: Self = Self(1 << 3);
    /// An ACK is owed by `ack_at`.
    pub(super) const ACK_LATER: Self = Self(1 << 4);
    /// A RST waits to be sent. The connection has ended.
    pub(super) const RESET: Self = Self(1 << 5);
    /// A probe of a window of zero waits to be sent.
    pub(super) const PROBE: Self = Self(1 << 6);
    /// A probe was sent, and its byte was not acknowledged.
    pub(super) const PROBED: Self = Self(1 << 7);
    /// The timer runs until `expires_at`.
    pub(super) const ARMED: Self = Self(1 << 8);
    /// The round trip of `timed_sequence` is being measured.
    pub(super) const TIMED: Self = Self(1 << 9);
    /// `peer_fin` is known.
    pub(super) const PEER_FIN: Self = Self(1 << 10);
    /// The caller closes as soon as the connection is made.
    pub(super) const CLOSE_WANTED: Self = Self(1 << 11);
    /// The caller has closed, and wants to hear no more of it.
    pub(super) const RELEASED: Self = Self(1 << 12);
    /// The connection waits in the queue of those that have something to send.
    pub(super) const QUEUED: Self = Self(1 << 13);
    /// Nothing is kept of the connection but its place in the queue.
    pub(super) const FREED: Self = Self(1 << 14);

    #[inline]
    pub(super) fn has(self, mark: Self) -> bool {
        self.0 & mark.0 != 0
    }

    #[inline]
    pub(super) fn set(&mut self, mark: Self) {
        self.0 |= mark.0;
    }

    #[inline]
    pub(super) fn clear(&mut self, mark: Self) {
        self.0 &= !mark.0;
    }
}

/// A connection for one query has this and a block for the query.
#[derive(Debug)]
pub(super) struct Tcb {
    pub(super) pair: Pair,
    pub(super) tag: u64,
    /// Sequence numbers that the peer acknowledged, SYN and FIN included.
    pub(super) acknowledged: u64,
    pub(super) generation: u32,
    /// The oldest number that was not acknowledged.
    pub(super) snd_una: u32,
    /// The next number to send. A timeout puts it back.
    pub(super) snd_nxt: u32,
    /// The number after the last that was ever sent.
    pub(super) snd_max: u32,
    /// The peer's window, the sequence and acknowledgment numbers that came with it, and the widest so far.
    pub(super) snd_wnd: u32,
    pub(super) snd_wl1: u32,
    pub(super) snd_wl2: u32,
    pub(super) snd_wnd_most: u32,
    /// Bytes that may be in flight as far as congestion goes.
    pub(super) congestion_window: u32,
    /// The next number that is expected.
    pub(super) rcv_nxt: u32,
    /// `rcv_nxt` when it was last sent (Last.ACK.sent of RFC 7323).
    pub(super) last_ack_sent: u32,
    /// The peer's timestamp that is echoed (TS.Recent).
    pub(super) ts_recent: u32,
    /// The number of the peer's FIN.
    pub(super) peer_fin: u32,
    pub(super) rto: Rto,
    pub(super) timed_sequence: u32,
    pub(super) timed_at_us: u32,
    /// When the timer expires, and when an ACK is due, ticks.
    pub(super) expires_at: u32,
    pub(super) ack_at: u32,
    /// The next connection in the queue, or among the free ones.
    pub(super) next: u32,
    /// Bytes that were sent and not acknowledged, and bytes that wait to be sent.
    pub(super) output: Chain,
    pub(super) held: Held,
    pub(super) data_retransmitted: u32,
    pub(super) syn_retransmitted: u16,
    pub(super) fin_retransmitted: u16,
    /// The longest segment that the peer takes.
    pub(super) mss: u16,
    /// The number of its path.
    pub(super) path: u16,
    pub(super) marks: Marks,
    pub(super) state: State,
    /// How far the peer's windows are shifted.
    pub(super) snd_shift: u8,
    /// How often the timeout was doubled.
    pub(super) backoff: u8,
    /// Timeouts since the peer last acknowledged something.
    pub(super) tries: u8,
}

// With its timer and its slots in the table, a connection has fewer than 256 bytes.
const _: () = assert!(size_of::<Tcb>() <= 208);

impl Tcb {
    /// A connection that is about to send its SYN with the number `iss`.
    pub(super) fn new(pair: Pair, (path, tag): (u16, u64), iss: u32, limits: &Limits) -> Self {
        let mut marks = Marks::default();
        marks.set(Marks::SYN_DUE);
        Self {
            pair,
            tag,
            acknowledged: 0,
            generation: 0,
            snd_una: iss,
            snd_nxt: iss,
            snd_max: iss,
            snd_wnd: 0,
            snd_wl1: 0,
            snd_wl2: 0,
            snd_wnd_most: 0,
            congestion_window: 0,
            rcv_nxt: 0,
            last_ack_sent: 0,
            ts_recent: 0,
            peer_fin: 0,
            rto: Rto::new(limits),
            timed_sequence: 0,
            timed_at_us: 0,
            expires_at: 0,
            ack_at: 0,
            next: 0,
            output: Chain::EMPTY,
            held: Held::NONE,
            data_retransmitted: 0,
            syn_retransmitted: 0,
            fin_retransmitted: 0,
            mss: 0,
            path,
            marks,
            state: State::SynSent,
            snd_shift: 0,
            backoff: 0,
            tries: 0,
        }
    }

    /// Sequence numbers from the oldest that was not acknowledged to the next to send.
    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        self.snd_nxt.wrapping_sub(self.snd_una)
    }

    /// Whether data waits for the peer's window, and nothing is in flight that would bring an ACK.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.snd_wnd == 0 && self.output.bytes > 0 && self.snd_max == self.snd_una && self.state.sends_text()
    }

    /// Data of one segment at most, bytes.
    #[inline]
    pub(super) fn segment_bytes(&self) -> u32 {
        let options = if self.marks.has(Marks::TIMESTAMPS) { TIMESTAMPS_BYTES as u32 } else { 0 };
        u32::from(self.mss) - options
    }

    /// The sequence number of a segment without data: the peer's window has it if its window has anything.
    #[inline]
    pub(super) fn bare_sequence(&self) -> u32 {
        if self.snd_wnd == 0 && self.output.bytes > 0 { self.snd_una } else { self.snd_max }
    }

    /// The window that the peer is granted.
    #[inline]
    pub(super) fn rcv_wnd(&self, limits: &Limits) -> u32 {
        if self.marks.has(Marks::SCALED) { limits.window } else { limits.window.min(u16::MAX.into()) }
    }

    /// The granted window as a header has it. The window of a SYN is never shifted.
    #[inline]
    pub(super) fn window_field(&self, limits: &Limits, is_syn: bool) -> u16 {
        let shift = if self.marks.has(Marks::SCALED) && !is_syn { limits.shift } else { 0 };
        (self.rcv_wnd(limits) >> shift).min(u16::MAX.into()) as u16
    }

    /// The longest segment that this side takes.
    pub(super) fn own_mss(&self, limits: &Limits) -> u16 {
        limits.mtu - if self.is_ipv4() { 40 } else { 60 }
    }

    /// Takes what the peer's SYN says of its segments; `None` if it says nothing.
    pub(super) fn set_mss(&mut self, mss: Option<u16>, limits: &Limits) {
        let default = if self.is_ipv4() { MSS_DEFAULT.0 } else { MSS_DEFAULT.1 };
        self.mss = mss.unwrap_or(default).clamp(MSS_LEAST, self.own_mss(limits).max(MSS_LEAST));
    }

    fn is_ipv4(&self) -> bool {
        self.pair.remote().is_ipv4()
    }

    /// Opens the window of congestion. After a lost SYN it is one segment (RFC 5681, section 3.1).
    pub(super) fn open_window(&mut self) {
        let segments = if self.syn_retransmitted > 0 { 1 } else { FIRST_WINDOW_SEGMENTS };
        self.congestion_window = self.segment_bytes() * segments;
    }

    /// Starts the timer anew.
    #[inline]
    pub(super) fn arm(&mut self, now: Now, limits: &Limits) {
        self.expires_at = now.tick_after(self.rto.after(self.backoff, limits));
        self.marks.set(Marks::ARMED);
    }

    /// The tick at which something is due.
    #[inline]
    pub(super) fn deadline(&self) -> Option<u32> {
        let timer = self.marks.has(Marks::ARMED).then_some(self.expires_at);
        let ack = self.marks.has(Marks::ACK_LATER).then_some(self.ack_at);
        match (timer, ack) {
            (Some(timer), Some(ack)) => Some(if before(ack, timer) { ack } else { timer }),
            (one, other) => one.or(other),
        }
    }

    /// The caller sends no more: a FIN follows the data.
    pub(super) fn shut_down(&mut self) {
        match self.state {
            State::SynSent | State::SynReceived => self.marks.set(Marks::CLOSE_WANTED),
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => {}
        }
    }

    /// Whether the caller may send more.
    pub(super) fn takes_output(&self) -> bool {
        let is_open =
            matches!(self.state, State::SynSent | State::SynReceived | State::Established | State::CloseWait);
        is_open && !self.marks.has(Marks::CLOSE_WANTED)
    }

    /// Ends the connection with a RST.
    pub(super) fn abort(&mut self) {
        self.state = State::Closed;
        self.marks.clear(Marks::ARMED);
        self.marks.clear(Marks::ACK_LATER);
        self.marks.set(Marks::RESET);
    }
}
