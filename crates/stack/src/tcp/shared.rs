//! State that all connections share: limits, buffers, counts, and replies to segments that belong to none.

use std::collections::VecDeque;
use std::time::Duration;

use super::counts::Counts;
use super::pool::Pool;
use super::reassembly::Reassembly;
use super::segment::{Flags, Header, Options, SHIFT_MOST, Segment};
use super::settings::Settings;
use crate::ends::Ends;

/// Bytes of a block for what is sent. A query usually fits one.
const SEND_BLOCK_BYTES: usize = 256;

/// Replies to strangers that wait to be written, at most.
const REPLIES_MOST: usize = 1024;

/// Challenge ACKs in about a second, at most (RFC 5961, section 7).
const CHALLENGES_MOST: u32 = 1000;

/// The most window that can be granted: 65,535, shifted as far as is allowed.
const WINDOW_MOST: u32 = (u16::MAX as u32) << SHIFT_MOST;

/// A time that the caller passed, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now(pub(super) u64);

impl Now {
    /// Bits of a nanosecond that a tick leaves out: it has 1.05 ms.
    const TICK_BITS: u32 = 20;

    /// Ticks, which are also the timestamps of segments: a clock between 1 ms and 1 s (RFC 7323, section 5.4).
    #[inline]
    pub(super) fn tick(self) -> u32 {
        (self.0 >> Self::TICK_BITS) as u32
    }

    #[inline]
    pub(super) fn us(self) -> u32 {
        (self.0 / 1000) as u32
    }

    /// The first tick that begins so many microseconds later, or after that.
    #[inline]
    pub(super) fn tick_after(self, us: u32) -> u32 {
        let ns = self.0 + u64::from(us) * 1000 + ((1 << Self::TICK_BITS) - 1);
        (ns >> Self::TICK_BITS) as u32
    }

    /// When this tick begins, nanoseconds; now if it has begun.
    pub(super) fn begin_of(self, tick: u32) -> u64 {
        let ticks = tick.wrapping_sub(self.tick()) as i32;
        if ticks <= 0 {
            return self.0;
        }
        ((self.0 >> Self::TICK_BITS) + u64::from(ticks.unsigned_abs())) << Self::TICK_BITS
    }
}

/// The settings as the state machine uses them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) mtu: u16,
    /// The shift of windows that is offered.
    pub(super) shift: u8,
    /// The window, a multiple of what the shift leaves out.
    pub(super) window: u32,
    pub(super) send_buffer: u32,
    pub(super) syn_timeout_us: u32,
    pub(super) rto_least_us: u32,
    pub(super) rto_most_us: u32,
    pub(super) syn_retries: u8,
    pub(super) data_retries: u8,
    pub(super) fin_retries: u8,
    pub(super) fin_wait_us: u32,
    pub(super) ack_delay_us: u32,
    pub(super) timestamps: bool,
}

impl Limits {
    /// The granularity of timers, microseconds.
    pub(super) const TICK_US: u32 = 1049;

    pub(super) fn new(settings: &Settings) -> Self {
        let window = settings.receive_window.clamp(1, WINDOW_MOST);
        let shift = (0..SHIFT_MOST).find(|shift| window >> shift <= u16::MAX.into()).unwrap_or(SHIFT_MOST);
        let us = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let rto_least_us = us(settings.rto_least).max(1);
        Self {
            mtu: settings.mtu.max(576),
            shift,
            window: window >> shift << shift,
            send_buffer: settings.send_buffer,
            syn_timeout_us: us(settings.syn_timeout),
            rto_least_us,
            rto_most_us: us(settings.rto_most).max(rto_least_us),
            syn_retries: settings.syn_retries,
            data_retries: settings.data_retries,
            fin_retries: settings.fin_retries,
            fin_wait_us: us(settings.fin_wait),
            ack_delay_us: us(settings.ack_delay),
            timestamps: settings.timestamps,
        }
    }
}

/// A segment without data that belongs to no connection, and where it goes.
pub(super) struct Reply {
    pub(super) ends: Ends,
    pub(super) header: Header,
}

pub(super) struct Shared {
    pub(super) limits: Limits,
    /// Bytes that connections send and that were not acknowledged.
    pub(super) output: Pool,
    /// Bytes that arrived out of order.
    pub(super) held: Reassembly,
    pub(super) replies: VecDeque<Reply>,
    pub(super) counts: Counts,
    /// Bytes that had been held, and follow those of the segment that arrived last.
    pub(super) more: Vec<u8>,
    /// In which second challenge ACKs were last sent, and how many.
    challenges: (u64, u32),
}

impl Shared {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            limits: Limits::new(settings),
            output: Pool::new(SEND_BLOCK_BYTES, settings.send_pool),
            held: Reassembly::new(settings.receive_pool),
            replies: VecDeque::with_capacity(REPLIES_MOST),
            counts: Counts::default(),
            more: Vec::new(),
            challenges: (0, 0),
        }
    }

    /// Whether one more challenge ACK may be sent.
    pub(super) fn may_challenge(&mut self, now: Now) -> bool {
        let second = now.0 >> 30;
        if self.challenges.0 != second {
            self.challenges = (second, 0);
        }
        self.challenges.1 += 1;
        self.challenges.1 <= CHALLENGES_MOST
    }

    /// Answers a segment with a reset that its sender takes (RFC 9293, section 3.5.2). A reset gets none.
    pub(super) fn refuse(&mut self, ends: &Ends, segment: &Segment<'_>) {
        let Header { flags, sequence, acknowledgment, .. } = segment.header;
        if flags.has(Flags::RST) {
            return;
        }
        let header = if flags.has(Flags::ACK) {
            Header { sequence: acknowledgment, flags: Flags::RST, ..Header::default() }
        } else {
            Header {
                acknowledgment: sequence.wrapping_add(segment.length()),
                flags: Flags::RST.with(Flags::ACK),
                ..Header::default()
            }
        };
        self.reply(ends, header);
    }

    /// Acknowledges a segment of a connection that has ended.
    pub(super) fn acknowledge_late(
        &mut self,
        ends: &Ends,
        segment: &Segment<'_>,
        (sequence, acknowledgment): (u32, u32),
        now: Now,
    ) {
        let timestamps = segment.header.options.timestamps.map(|(value, _)| (now.tick(), value));
        let header = Header {
            sequence,
            acknowledgment,
            flags: Flags::ACK,
            window: (self.limits.window >> self.limits.shift) as u16,
            options: Options { timestamps, ..Options::default() },
        };
        self.counts.late += 1;
        self.reply(ends, header);
    }

    /// Queues a reply to a frame that had these ends.
    fn reply(&mut self, ends: &Ends, header: Header) {
        if self.replies.len() == REPLIES_MOST {
            self.counts.replies_dropped += 1;
            return;
        }
        self.replies.push_back(Reply { ends: ends.turned(), header });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_the_least_shift_that_fits() {
        for (receive_window, shift, window) in [
            (1, 0, 1),
            (65_535, 0, 65_535),
            (65_536, 1, 65_536),
            (131_071, 1, 131_070),
            (1 << 18, 3, 1 << 18),
            (u32::MAX, 14, 65_535 << 14),
        ] {
            let limits = Limits::new(&Settings { receive_window, ..Settings::default() });
            assert_eq!((limits.shift, limits.window), (shift, window), "{receive_window}");
            assert!(limits.window >> limits.shift <= 65_535);
        }
    }

    #[test]
    fn ticks_are_rounded_up() {
        let tick = 1 << 20;
        assert_eq!(Now(0).tick_after(0), 0);
        assert_eq!(Now(1).tick_after(0), 1);
        assert_eq!(Now(5 * tick).tick_after(1_000_000), 5 + 954);
        assert_eq!(Now(5 * tick + 3).begin_of(7), 7 * tick);
        assert_eq!(Now(5 * tick + 3).begin_of(5), 5 * tick + 3);
    }
}
