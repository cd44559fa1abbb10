//! The time before a segment is sent again (RFC 6298).

use super::shared::Limits;

/// After a SYN was sent again, data waits this long before a round trip was measured (RFC 6298, section 5.7).
const AFTER_LOST_SYN_US: u32 = 3_000_000;

/// The round-trip time of a connection, its variation, and the timeout that follows from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rto {
    /// The smoothed round-trip time, microseconds; 0 if none was measured.
    pub(super) smoothed_us: u32,
    variation_us: u32,
    timeout_us: u32,
}

impl Rto {
    /// Nothing is known.
    pub(super) fn new(limits: &Limits) -> Self {
        Self { smoothed_us: 0, variation_us: 0, timeout_us: limits.syn_timeout_us }
    }

    /// Takes a measured round trip.
    pub(super) fn sample(&mut self, trip_us: u32, limits: &Limits) {
        let trip_us = trip_us.max(1);
        if self.smoothed_us == 0 {
            (self.smoothed_us, self.variation_us) = (trip_us, trip_us / 2);
        } else {
            let off = self.smoothed_us.abs_diff(trip_us);
            self.variation_us = self.variation_us - self.variation_us / 4 + off / 4;
            self.smoothed_us = self.smoothed_us - self.smoothed_us / 8 + trip_us / 8;
            self.smoothed_us = self.smoothed_us.max(1);
        }
        let margin = self.variation_us.saturating_mul(4).max(Limits::TICK_US);
        let timeout_us = self.smoothed_us.saturating_add(margin);
        self.timeout_us = timeout_us.clamp(limits.rto_least_us, limits.rto_most_us);
    }

    /// Notes that a connection was made whose SYN had been sent again, so that no round trip is known.
    pub(super) fn lost_syn(&mut self) {
        if self.smoothed_us == 0 {
            self.timeout_us = AFTER_LOST_SYN_US;
        }
    }

    /// The time before the next retransmission after so many, microseconds: each doubles it.
    pub(super) fn after(self, retransmissions: u8, limits: &Limits) -> u32 {
        let shift = u32::from(retransmissions.min(16));
        let timeout_us = u64::from(self.timeout_us) << shift;
        timeout_us.min(limits.rto_most_us.into()) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tcp::settings::Settings;

    #[test]
    fn a_worked_example() {
        let limits = Limits::new(&Settings { rto_least: Duration::from_millis(1), ..Settings::default() });
        let mut rto = Rto::new(&limits);
        assert_eq!(rto.after(0, &limits), 1_000_000);
        rto.sample(80_000, &limits);
        // SRTT = 80, RTTVAR = 40, RTO = 80 + 4 × 40 ms.
        assert_eq!((rto.smoothed_us, rto.variation_us, rto.after(0, &limits)), (80_000, 40_000, 240_000));
        rto.sample(120_000, &limits);
        // RTTVAR = 3/4 × 40 + 1/4 × 40 = 40, SRTT = 7/8 × 80 + 1/8 × 120 = 85.
        assert_eq!((rto.smoothed_us, rto.variation_us, rto.after(0, &limits)), (85_000, 40_000, 245_000));
        assert_eq!((rto.after(1, &limits), rto.after(2, &limits)), (490_000, 980_000));
        assert_eq!(rto.after(200, &limits), limits.rto_most_us);
    }

    #[test]
    fn it_stays_within_its_limits() {
        let limits = Limits::new(&Settings::default());
        let mut rto = Rto::new(&limits);
        for _ in 0..100 {
            rto.sample(3, &limits);
        }
        assert_eq!(rto.after(0, &limits), limits.rto_least_us);
        for _ in 0..100 {
            rto.sample(u32::MAX, &limits);
        }
        assert_eq!(rto.after(0, &limits), limits.rto_most_us);
    }

    #[test]
    fn after_a_lost_syn_it_is_three_seconds_until_a_trip_was_measured() {
        let limits = Limits::new(&Settings::default());
        let mut rto = Rto::new(&limits);
        rto.lost_syn();
        assert_eq!(rto.after(0, &limits), 3_000_000);
        rto.sample(100, &limits);
        rto.lost_syn();
        assert_eq!(rto.after(0, &limits), limits.rto_least_us);
    }
}
