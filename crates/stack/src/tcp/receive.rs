//! A segment arrives for a connection (RFC 9293, section 3.10.7).

use super::arrival::{Arrival, End};
use super::segment::{Flags, Segment};
use super::sequence::{at_most, before};
use super::shared::{Now, Shared};
use super::tcb::{Marks, State, Tcb};
use crate::ends::Ends;

/// A segment, where it came from, and when.
pub(super) struct Incoming<'i, 'f> {
    pub(super) ends: &'i Ends,
    pub(super) segment: Segment<'f>,
    pub(super) now: Now,
}

/// Takes a segment.
#[inline]
pub(super) fn receive<'f>(
    tcb: &mut Tcb,
    shared: &mut Shared,
    incoming: &Incoming<'_, 'f>,
    arrival: &mut Arrival<'f>,
) {
    match tcb.state {
        State::SynSent => syn_sent(tcb, shared, incoming, arrival),
        // The peer's FIN once more, before its ACK was sent.
        State::TimeWait if incoming.segment.length() > 0 => tcb.marks.set(Marks::ACK_NOW),
        State::TimeWait | State::Closed => {}
        _ => synchronised(tcb, shared, incoming, arrival),
    }
}

/// In SYN-SENT (section 3.10.7.3).
fn syn_sent<'f>(
    tcb: &mut Tcb,
    shared: &mut Shared,
    incoming: &Incoming<'_, 'f>,
    arrival: &mut Arrival<'f>,
) {
    let header = &incoming.segment.header;
    let has_ack = header.flags.has(Flags::ACK);
    let is_sent = tcb.snd_max != tcb.snd_una;
    if has_ack && !(is_sent && header.acknowledgment == tcb.snd_max) {
        shared.refuse(incoming.ends, &incoming.segment);
        return;
    }
    if header.flags.has(Flags::RST) {
        if has_ack {
            shared.counts.refused += 1;
            end(tcb, arrival, End::Refused);
        }
        return;
    }
    if !header.flags.has(Flags::SYN) {
        return;
    }
    tcb.rcv_nxt = header.sequence.wrapping_add(1);
    tcb.last_ack_sent = tcb.rcv_nxt;
    let options = &header.options;
    tcb.set_mss(options.mss, &shared.limits);
    if let Some(shift) = options.window_scale {
        tcb.marks.set(Marks::SCALED);
        tcb.snd_shift = shift;
    }
    if let Some((value, _)) = options.timestamps.filter(|_| shared.limits.timestamps) {
        tcb.marks.set(Marks::TIMESTAMPS);
        tcb.ts_recent = value;
    }
    // The window of a SYN is never shifted.
    set_window(tcb, incoming, u32::from(header.window));
    if has_ack {
        establish(tcb, shared, incoming.now, arrival);
    } else {
        tcb.state = State::SynReceived;
        tcb.marks.set(Marks::SYN_DUE);
    }
}

/// The peer acknowledged the SYN.
fn establish(tcb: &mut Tcb, shared: &mut Shared, now: Now, arrival: &mut Arrival<'_>) {
    if tcb.marks.has(Marks::TIMED) {
        measure(tcb, shared, now);
    } else {
        tcb.rto.lost_syn();
    }
    tcb.snd_una = tcb.snd_max;
    tcb.acknowledged += 1;
    (tcb.backoff, tcb.tries) = (0, 0);
    tcb.marks.clear(Marks::ARMED);
    tcb.marks.clear(Marks::SYN_DUE);
    // It goes with the first data, if the caller sends some before the next segment is written.
    tcb.marks.set(Marks::ACK_NOW);
    tcb.state = State::Established;
    tcb.open_window();
    shared.counts.established += 1;
    arrival.is_established = true;
    if tcb.marks.has(Marks::CLOSE_WANTED) {
        tcb.shut_down();
    }
}

/// In all states after SYN-SENT (section 3.10.7.4).
#[inline]
fn synchronised<'f>(
    tcb: &mut Tcb,
    shared: &mut Shared,
    incoming: &Incoming<'_, 'f>,
    arrival: &mut Arrival<'f>,
) {
    let Incoming { segment, now, .. } = incoming;
    let flags = segment.header.flags;
    if is_old(tcb, segment) {
        shared.counts.old_timestamps += 1;
        challenge(tcb, shared, *now);
        return;
    }
    if !is_in_window(tcb, shared, segment) {
        shared.counts.outside += 1;
        if flags.has(Flags::RST) {
            return;
        }
        if segment.length() > 0 {
            tcb.marks.set(Marks::ACK_NOW);
        } else {
            challenge(tcb, shared, *now);
        }
        return;
    }
    if flags.has(Flags::RST) {
        reset(tcb, shared, incoming, arrival);
        return;
    }
    if flags.has(Flags::SYN) {
        challenge(tcb, shared, *now);
        return;
    }
    if !flags.has(Flags::ACK) {
        return;
    }
    note_timestamp(tcb, segment);
    if tcb.state == State::SynReceived {
        let is_sent = tcb.snd_max != tcb.snd_una;
        if !is_sent || segment.header.acknowledgment != tcb.snd_max {
            shared.refuse(incoming.ends, segment);
            return;
        }
        let window = u32::from(segment.header.window) << tcb.snd_shift;
        set_window(tcb, incoming, window);
        establish(tcb, shared, *now, arrival);
    } else if !acknowledge(tcb, shared, incoming, arrival) {
        return;
    }
    if tcb.state.receives_text() {
        take_text(tcb, shared, incoming, arrival);
    }
}

/// Whether the segment is older than one that arrived (RFC 7323, section 5.3), or lacks its timestamp (section 3.2).
#[inline]
fn is_old(tcb: &Tcb, segment: &Segment<'_>) -> bool {
    if !tcb.marks.has(Marks::TIMESTAMPS) || segment.header.flags.has(Flags::RST) {
        return false;
    }
    segment.header.options.timestamps.is_none_or(|(value, _)| before(value, tcb.ts_recent))
}

/// Keeps the timestamp to echo (RFC 7323, section 4.3).
#[inline]
fn note_timestamp(tcb: &mut Tcb, segment: &Segment<'_>) {
    if let Some((value, _)) = segment.header.options.timestamps
        && at_most(segment.header.sequence, tcb.last_ack_sent)
        && tcb.marks.has(Marks::TIMESTAMPS)
    {
        tcb.ts_recent = value;
    }
}

/// Whether a part of the segment is within the window, which is never zero.
#[inline]
fn is_in_window(tcb: &Tcb, shared: &Shared, segment: &Segment<'_>) -> bool {
    let window = tcb.rcv_wnd(&shared.limits);
    let from_start = segment.header.sequence.wrapping_sub(tcb.rcv_nxt);
    if from_start < window {
        return true;
    }
    let length = segment.length();
    length > 0 && from_start.wrapping_add(length - 1) < window
}

/// A RST within the window: only the exact number resets the connection (RFC 5961, section 3.2).
#[cold]
fn reset(
    tcb: &mut Tcb,
    shared: &mut Shared,
    incoming: &Incoming<'_, '_>,
    arrival: &mut Arrival<'_>,
) {
    if incoming.segment.header.sequence != tcb.rcv_nxt {
        challenge(tcb, shared, incoming.now);
    } else if tcb.state == State::SynReceived {
        shared.counts.refused += 1;
        end(tcb, arrival, End::Refused);
    } else {
        shared.counts.resets_received += 1;
        end(tcb, arrival, End::Reset);
    }
}

/// Sends an ACK that makes an honest peer show what it means.
#[cold]
fn challenge(tcb: &mut Tcb, shared: &mut Shared, now: Now) {
    if shared.may_challenge(now) {
        shared.counts.challenges += 1;
        tcb.marks.set(Marks::ACK_NOW);
    }
}

fn end(tcb: &mut Tcb, arrival: &mut Arrival<'_>, how: End) {
    tcb.state = State::Closed;
    arrival.ended = Some(how);
}

/// Takes the acknowledgment and the window. Returns whether the rest of the segment counts.
#[inline]
fn acknowledge(
    tcb: &mut Tcb,
    shared: &mut Shared,
    incoming: &Incoming<'_, '_>,
    arrival: &mut Arrival<'_>,
) -> bool {
    let header = &incoming.segment.header;
    let ack = header.acknowledgment;
    // An ACK of what was never sent, or older than any window (RFC 5961, section 5.2).
    if before(tcb.snd_max, ack) || before(ack, tcb.snd_una.wrapping_sub(tcb.snd_wnd_most)) {
        challenge(tcb, shared, incoming.now);
        return false;
    }
    if before(tcb.snd_una, ack) {
        progress(tcb, shared, incoming, arrival);
    }
    if ack == tcb.snd_una {
        let is_newer = before(tcb.snd_wl1, header.sequence)
            || (tcb.snd_wl1 == header.sequence && at_most(tcb.snd_wl2, ack));
        if is_newer {
            let window = u32::from(header.window) << tcb.snd_shift;
            let opens = tcb.snd_wnd == 0 && window > 0;
            set_window(tcb, incoming, window);
            if opens {
                reopen(tcb);
            }
        }
        // A peer that answers probes does not time out.
        if tcb.snd_wnd == 0 {
            tcb.tries = 0;
        }
    }
    true
}

fn set_window(tcb: &mut Tcb, incoming: &Incoming<'_, '_>, window: u32) {
    let header = &incoming.segment.header;
    tcb.snd_wnd = window;
    tcb.snd_wnd_most = tcb.snd_wnd_most.max(window);
    tcb.snd_wl1 = header.sequence;
    tcb.snd_wl2 = header.acknowledgment;
}

/// The peer's window opened. A probe that it did not take is no longer on its way.
#[cold]
fn reopen(tcb: &mut Tcb) {
    tcb.marks.clear(Marks::PROBE);
    if tcb.marks.has(Marks::PROBED) {
        tcb.marks.clear(Marks::PROBED);
        tcb.snd_nxt = tcb.snd_una;
        if tcb.snd_max == tcb.snd_una.wrapping_add(1) {
            tcb.snd_max = tcb.snd_una;
        }
    }
    if tcb.snd_max == tcb.snd_una && tcb.state.sends_text() {
        tcb.marks.clear(Marks::ARMED);
    }
    (tcb.backoff, tcb.tries) = (0, 0);
}

/// The peer acknowledged something new.
#[inline]
fn progress(
    tcb: &mut Tcb,
    shared: &mut Shared,
    incoming: &Incoming<'_, '_>,
    arrival: &mut Arrival<'_>,
) {
    let (ack, now) = (incoming.segment.header.acknowledgment, incoming.now);
    let acked = ack.wrapping_sub(tcb.snd_una);
    let data = acked.min(tcb.output.bytes);
    shared.output.discard(&mut tcb.output, data);
    tcb.snd_una = ack;
    tcb.acknowledged += u64::from(acked);
    if before(tcb.snd_nxt, ack) {
        tcb.snd_nxt = ack;
    }
    if tcb.marks.has(Marks::TIMED) && before(tcb.timed_sequence, ack) {
        measure(tcb, shared, now);
    }
    (tcb.backoff, tcb.tries) = (0, 0);
    tcb.marks.clear(Marks::PROBE);
    tcb.marks.clear(Marks::PROBED);
    // Slow start (RFC 5681, section 3.1), without an end: the peer's window is the limit.
    let opened = acked.min(tcb.segment_bytes());
    tcb.congestion_window = tcb.congestion_window.saturating_add(opened);
    if ack == tcb.snd_max {
        tcb.marks.clear(Marks::ARMED);
    } else {
        tcb.arm(now, &shared.limits);
    }
    arrival.acknowledged_bytes = data;
    if acked > data {
        fin_acknowledged(tcb, shared, now, arrival);
    }
}

/// The peer acknowledged the FIN.
fn fin_acknowledged(tcb: &mut Tcb, shared: &mut Shared, now: Now, arrival: &mut Arrival<'_>) {
    match tcb.state {
        State::FinWait1 => {
            tcb.state = State::FinWait2;
            if tcb.marks.has(Marks::RELEASED) {
                await_fin(tcb, shared, now);
            }
        }
        State::Closing | State::LastAck => finish(tcb, shared, arrival),
        _ => {}
    }
}

/// Bounds the time in FIN-WAIT-2 of a connection of which the caller wants to hear no more.
pub(super) fn await_fin(tcb: &mut Tcb, shared: &Shared, now: Now) {
    tcb.expires_at = now.tick_after(shared.limits.fin_wait_us);
    tcb.marks.set(Marks::ARMED);
}

/// Both sides have closed, and this side's FIN was acknowledged. What may be left is to acknowledge the peer's.
fn finish(tcb: &mut Tcb, shared: &mut Shared, arrival: &mut Arrival<'_>) {
    tcb.state = State::TimeWait;
    tcb.marks.clear(Marks::ARMED);
    shared.counts.finished += 1;
    arrival.ended = Some(End::Finished);
}

/// Takes the round trip that was being measured.
#[inline]
fn measure(tcb: &mut Tcb, shared: &Shared, now: Now) {
    tcb.marks.clear(Marks::TIMED);
    let trip_us = now.us().wrapping_sub(tcb.timed_at_us) as i32;
    tcb.rto.sample(trip_us.max(0).unsigned_abs(), &shared.limits);
}

/// Takes data and the FIN after it (the seventh and eighth check).
#[inline]
fn take_text<'f>(
    tcb: &mut Tcb,
    shared: &mut Shared,
    incoming: &Incoming<'_, 'f>,
    arrival: &mut Arrival<'f>,
) {
    let Segment { header, payload } = incoming.segment;
    let has_fin = header.flags.has(Flags::FIN);
    if payload.is_empty() && !has_fin {
        return;
    }
    let (sequence, bytes) = within(tcb, shared, header.sequence, payload);
    if has_fin && !tcb.marks.has(Marks::PEER_FIN) {
        note_fin(tcb, shared, header.sequence.wrapping_add(payload.len() as u32));
    }
    if !bytes.is_empty() && tcb.marks.has(Marks::RELEASED) {
        // Nobody takes the data (RFC 9293, section 3.6.1).
        tcb.abort();
        shared.counts.resets_sent += 1;
        arrival.ended = Some(End::Reset);
        return;
    }
    if sequence != tcb.rcv_nxt {
        shared.counts.out_of_order += 1;
        if !shared.held.hold(&mut tcb.held, sequence, bytes) {
            shared.counts.not_held += 1;
        }
        tcb.marks.set(Marks::ACK_NOW);
    } else if bytes.is_empty() {
        tcb.marks.set(Marks::ACK_NOW);
    } else {
        take_next(tcb, shared, bytes, incoming.now, arrival);
    }
    if tcb.marks.has(Marks::PEER_FIN) && tcb.rcv_nxt == tcb.peer_fin {
        peer_closed(tcb, shared, arrival);
    }
}

/// The part of a segment's data that is new, within the window, and before the peer's FIN; and where it begins.
#[inline]
fn within<'f>(tcb: &Tcb, shared: &Shared, mut sequence: u32, mut bytes: &'f [u8]) -> (u32, &'f [u8]) {
    if before(sequence, tcb.rcv_nxt) {
        let known = tcb.rcv_nxt.wrapping_sub(sequence) as usize;
        bytes = bytes.get(known..).unwrap_or_default();
        sequence = tcb.rcv_nxt;
    }
    let mut end = tcb.rcv_nxt.wrapping_add(tcb.rcv_wnd(&shared.limits));
    if tcb.marks.has(Marks::PEER_FIN) && before(tcb.peer_fin, end) {
        end = tcb.peer_fin;
    }
    let room = if before(sequence, end) { end.wrapping_sub(sequence) as usize } else { 0 };
    (sequence, &bytes[..bytes.len().min(room)])
}

/// Notes where the peer's data ends, unless that is beyond the window, or before what arrived.
fn note_fin(tcb: &mut Tcb, shared: &Shared, sequence: u32) {
    if sequence.wrapping_sub(tcb.rcv_nxt) <= tcb.rcv_wnd(&shared.limits) {
        tcb.peer_fin = sequence;
        tcb.marks.set(Marks::PEER_FIN);
    }
}

/// Takes the data that comes next, and what was held and follows it.
#[inline]
fn take_next<'f>(
    tcb: &mut Tcb,
    shared: &mut Shared,
    bytes: &'f [u8],
    now: Now,
    arrival: &mut Arrival<'f>,
) {
    arrival.bytes = bytes;
    tcb.rcv_nxt = tcb.rcv_nxt.wrapping_add(bytes.len() as u32);
    let held_some = !tcb.held.is_empty();
    if held_some {
        tcb.rcv_nxt = shared.held.drain(&mut tcb.held, tcb.rcv_nxt, &mut shared.more);
        arrival.more_bytes = shared.more.len();
    }
    // Every second segment is acknowledged at once (RFC 9293, section 3.8.6.3), and so is one that fills a gap.
    if held_some || shared.limits.ack_delay_us == 0 || tcb.marks.has(Marks::ACK_LATER) {
        tcb.marks.set(Marks::ACK_NOW);
    } else {
        tcb.ack_at = now.tick_after(shared.limits.ack_delay_us);
        tcb.marks.set(Marks::ACK_LATER);
    }
}

/// All data of the peer has arrived, and its FIN.
fn peer_closed(tcb: &mut Tcb, shared: &mut Shared, arrival: &mut Arrival<'_>) {
    tcb.rcv_nxt = tcb.rcv_nxt.wrapping_add(1);
    tcb.marks.set(Marks::ACK_NOW);
    arrival.is_peer_closed = true;
    match tcb.state {
        State::Established => tcb.state = State::CloseWait,
        State::FinWait1 => tcb.state = State::Closing,
        State::FinWait2 => finish(tcb, shared, arrival),
        _ => {}
    }
}
