//! The next segment of a connection, and writing it.

use super::segment::{self, Flags, Header, Options};
use super::sequence::{before, later};
use super::shared::{Limits, Now, Shared};
use super::tcb::{Marks, State, Tcb};
use crate::ends::Ends;

/// A segment to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Syn,
    /// Data from `snd_nxt` on, and the FIN after it.
    Text {
        bytes: u32,
        fin: bool,
    },
    /// An ACK alone.
    Ack,
    Reset,
}

/// The segment that a connection would send now, if any.
#[inline]
pub(super) fn next(tcb: &Tcb) -> Option<Next> {
    match tcb.state {
        State::SynSent | State::SynReceived if tcb.marks.has(Marks::SYN_DUE) => return Some(Next::Syn),
        State::Closed => return tcb.marks.has(Marks::RESET).then_some(Next::Reset),
        state if state.sends_text() => {
            if let Some(text) = text(tcb) {
                return Some(text);
            }
        }
        _ => {}
    }
    tcb.marks.has(Marks::ACK_NOW).then_some(Next::Ack)
}

/// The next data, or the FIN.
#[inline]
fn text(tcb: &Tcb) -> Option<Next> {
    let in_flight = tcb.in_flight();
    // There is none left if the FIN was sent.
    let unsent = tcb.output.bytes.checked_sub(in_flight)?;
    if tcb.marks.has(Marks::PROBE) && unsent > 0 {
        return Some(Next::Text { bytes: 1, fin: false });
    }
    let window = tcb.snd_wnd.min(tcb.congestion_window);
    let most = tcb.segment_bytes();
    let bytes = unsent.min(window.saturating_sub(in_flight)).min(most);
    // A segment that a window cuts waits for the ACK of what is in flight, to be longer then (RFC 9293, 3.8.6.2.1).
    if bytes < unsent && bytes < most && in_flight > 0 {
        return None;
    }
    let fin = bytes == unsent && tcb.state.has_fin();
    (bytes > 0 || fin).then_some(Next::Text { bytes, fin })
}

/// Writes a segment. Returns the length of the frame, and that of the data in it.
#[inline]
pub(super) fn write(
    (tcb, shared): (&mut Tcb, &mut Shared),
    next: Next,
    ends: &Ends,
    frame: &mut [u8],
    now: Now,
) -> (usize, usize) {
    let (sequence, flags, payload_bytes) = match next {
        Next::Syn if tcb.state == State::SynReceived => (tcb.snd_una, Flags::SYN.with(Flags::ACK), 0),
        Next::Syn => (tcb.snd_una, Flags::SYN, 0),
        Next::Text { bytes, fin } => (tcb.snd_nxt, text_flags(tcb, bytes, fin), bytes as usize),
        Next::Ack => (tcb.bare_sequence(), Flags::ACK, 0),
        Next::Reset => (tcb.bare_sequence(), Flags::RST.with(Flags::ACK), 0),
    };
    let has_ack = flags.has(Flags::ACK);
    let header = Header {
        sequence,
        acknowledgment: if has_ack { tcb.rcv_nxt } else { 0 },
        flags,
        window: tcb.window_field(&shared.limits, next == Next::Syn),
        options: options(tcb, &shared.limits, next == Next::Syn, now),
    };
    let at = segment::header_bytes(ends, &header.options);
    if payload_bytes > 0 {
        let from = sequence.wrapping_sub(tcb.snd_una);
        shared.output.copy(&tcb.output, from, &mut frame[at..at + payload_bytes]);
    }
    if has_ack {
        tcb.marks.clear(Marks::ACK_NOW);
        tcb.marks.clear(Marks::ACK_LATER);
        tcb.last_ack_sent = tcb.rcv_nxt;
    }
    match next {
        Next::Syn => syn_sent(tcb, shared, now),
        Next::Text { bytes, fin } => text_sent(tcb, shared, (bytes, fin), now),
        Next::Ack => shared.counts.bare_acks += 1,
        Next::Reset => tcb.marks.clear(Marks::RESET),
    }
    (segment::write(frame, ends, &header, payload_bytes), payload_bytes)
}

/// The bits of a segment with data or a FIN.
fn text_flags(tcb: &Tcb, bytes: u32, fin: bool) -> Flags {
    let is_last = tcb.in_flight() + bytes == tcb.output.bytes;
    let flags = if is_last && bytes > 0 { Flags::ACK.with(Flags::PSH) } else { Flags::ACK };
    if fin { flags.with(Flags::FIN) } else { flags }
}

/// A SYN offers all options, a SYN with an ACK those that the peer's SYN had.
fn options(tcb: &Tcb, limits: &Limits, is_syn: bool, now: Now) -> Options {
    let is_offer = is_syn && tcb.state == State::SynSent;
    let has_timestamps = if is_offer { limits.timestamps } else { tcb.marks.has(Marks::TIMESTAMPS) };
    let has_scale = is_offer || tcb.marks.has(Marks::SCALED);
    Options {
        mss: is_syn.then(|| tcb.own_mss(limits)),
        window_scale: (is_syn && has_scale).then_some(limits.shift),
        timestamps: has_timestamps.then(|| (now.tick(), tcb.ts_recent)),
    }
}

/// Notes that a SYN was sent.
fn syn_sent(tcb: &mut Tcb, shared: &mut Shared, now: Now) {
    if tcb.tries > 0 {
        tcb.syn_retransmitted = tcb.syn_retransmitted.saturating_add(1);
        shared.counts.retransmitted.syn += 1;
        tcb.marks.clear(Marks::TIMED);
    } else if tcb.snd_max == tcb.snd_una {
        let sequence = tcb.snd_una;
        time(tcb, sequence, now);
    }
    tcb.snd_nxt = tcb.snd_una.wrapping_add(1);
    tcb.snd_max = tcb.snd_nxt;
    tcb.marks.clear(Marks::SYN_DUE);
    start_timer(tcb, shared, now);
}

/// Notes that data or a FIN was sent.
#[inline]
fn text_sent(tcb: &mut Tcb, shared: &mut Shared, (bytes, fin): (u32, bool), now: Now) {
    let sequence = tcb.snd_nxt;
    let is_probe = tcb.marks.has(Marks::PROBE);
    if is_probe {
        tcb.marks.clear(Marks::PROBE);
        tcb.marks.set(Marks::PROBED);
        shared.counts.probes += 1;
    } else if before(sequence, tcb.snd_max) {
        if bytes > 0 {
            tcb.data_retransmitted = tcb.data_retransmitted.saturating_add(1);
            shared.counts.retransmitted.data += 1;
        } else {
            tcb.fin_retransmitted = tcb.fin_retransmitted.saturating_add(1);
            shared.counts.retransmitted.fin += 1;
        }
    } else if !tcb.marks.has(Marks::TIMED) {
        time(tcb, sequence, now);
    }
    tcb.snd_nxt = sequence.wrapping_add(bytes + u32::from(fin));
    tcb.snd_max = later(tcb.snd_max, tcb.snd_nxt);
    start_timer(tcb, shared, now);
}

/// Measures the round trip of this number.
#[inline]
fn time(tcb: &mut Tcb, sequence: u32, now: Now) {
    tcb.marks.set(Marks::TIMED);
    tcb.timed_sequence = sequence;
    tcb.timed_at_us = now.us();
}

/// Starts the timer if it does not run.
#[inline]
fn start_timer(tcb: &mut Tcb, shared: &Shared, now: Now) {
    if !tcb.marks.has(Marks::ARMED) {
        tcb.arm(now, &shared.limits);
    }
}
