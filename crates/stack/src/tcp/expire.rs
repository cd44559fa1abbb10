//! Timers of a connection: timeouts, and ACKs that were delayed.

use super::counts::Phase;
use super::sequence::before;
use super::shared::{Limits, Now, Shared};
use super::tcb::{Marks, State, Tcb};

/// Does what is due. Returns what was sent in vain if the connection timed out and thereby ended.
pub(super) fn expire(tcb: &mut Tcb, shared: &mut Shared, now: Now) -> Option<Phase> {
    let tick = now.tick();
    if tcb.marks.has(Marks::ACK_LATER) && !before(tick, tcb.ack_at) {
        tcb.marks.clear(Marks::ACK_LATER);
        tcb.marks.set(Marks::ACK_NOW);
        shared.counts.delayed_acks += 1;
    }
    if !tcb.marks.has(Marks::ARMED) || before(tick, tcb.expires_at) {
        return None;
    }
    tcb.marks.clear(Marks::ARMED);
    if tcb.state == State::FinWait2 {
        shared.counts.fin_wait_expired += 1;
        tcb.state = State::Closed;
        return None;
    }
    if tcb.snd_una == tcb.snd_max && !tcb.is_blocked() {
        return None;
    }
    let phase = phase(tcb);
    if tcb.tries >= most(phase, &shared.limits) {
        *shared.counts.timed_out.count_mut(phase) += 1;
        tcb.state = State::Closed;
        return Some(phase);
    }
    tcb.tries += 1;
    tcb.backoff = tcb.backoff.saturating_add(1);
    send_again(tcb, phase);
    tcb.arm(now, &shared.limits);
    None
}

/// The phase for which the timer runs.
fn phase(tcb: &Tcb) -> Phase {
    match tcb.state {
        State::SynSent | State::SynReceived => Phase::Syn,
        _ if tcb.output.bytes > 0 => Phase::Data,
        _ => Phase::Fin,
    }
}

/// How often it is sent again at most.
fn most(phase: Phase, limits: &Limits) -> u8 {
    match phase {
        Phase::Syn => limits.syn_retries,
        Phase::Data => limits.data_retries,
        Phase::Fin => limits.fin_retries,
    }
}

/// Goes back to the oldest number that was not acknowledged.
fn send_again(tcb: &mut Tcb, phase: Phase) {
    // The round trip of what is sent twice is not known (Karn's algorithm).
    tcb.marks.clear(Marks::TIMED);
    if phase == Phase::Syn {
        tcb.marks.set(Marks::SYN_DUE);
        return;
    }
    tcb.snd_nxt = tcb.snd_una;
    if phase == Phase::Data && tcb.snd_wnd == 0 {
        tcb.marks.set(Marks::PROBE);
    } else {
        tcb.congestion_window = tcb.segment_bytes();
    }
}
