//! The settings of a cache, and the rules for TTLs that follow from them.

use std::ops::RangeInclusive;

/// The longest time for which a failure is cached, in seconds (RFC 9520, section 3.2).
pub(crate) const FAILURE_S_MOST: u32 = 300;

/// The longest TTL in seconds. A TTL with the most significant bit set counts as zero (RFC 2181, section 8).
const TTL_S_MOST: u32 = i32::MAX.unsigned_abs();

/// Shares are kept as parts of 2^16.
const SHARE_BITS: u32 = 16;

/// How much a cache keeps, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The most memory that the cache takes, in bytes: replies, index and all else. Values below 64 KiB count as 64
    /// KiB. Each shard of a [`crate::Shared`] uses at most 32 GiB.
    pub memory_bytes: u64,
    /// The shortest and the longest TTL of a record in seconds. Shorter and longer ones are changed to these.
    pub ttl: RangeInclusive<u32>,
    /// The longest TTL of a negative answer in seconds (RFC 2308, section 5, recommends one to three hours).
    pub negative_ttl_most: u32,
    /// The time for which a first failure is cached, in seconds: 1 to 300, and other values count as the nearest of
    /// these. Unusable answers that go on double it up to 300 s (RFC 9520, section 3.2).
    pub failure_s: u32,
    /// How stale answers are used; with `None` they are not.
    pub stale: Option<Stale>,
    /// The part of its TTL, 0 to 1, that is left when a hit asks for the answer to be fetched anew, or the last second
    /// of a TTL of 2 s or more if that is longer. `None` for never.
    pub prefetch_share: Option<f64>,
}

/// How answers are used whose TTL has ended, if the server cannot get a new one (RFC 8767).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    /// The time after the end of its TTL for which an answer is used, in seconds (section 5 recommends one to three
    /// days).
    pub most_s: u32,
    /// The TTL of the records in a stale answer, in seconds (section 5 recommends 30).
    pub answer_ttl_s: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            ttl: 0..=86_400,
            negative_ttl_most: 3600,
            failure_s: 5,
            stale: None,
            prefetch_share: None,
        }
    }
}

/// The settings as the cache uses them.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    ttl_least_s: u32,
    ttl_most_s: u32,
    negative_ttl_most_s: u32,
    pub(crate) failure_s: u32,
    pub(crate) stale: Option<Stale>,
    /// In parts of 2^16; 0 for never.
    pub(crate) prefetch_share: u32,
}

impl Rules {
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        let share = settings.prefetch_share.unwrap_or(0.0).clamp(0.0, 1.0);
        let parts = (share * f64::from(1_u32 << SHARE_BITS)).ceil() as u64;
        Self {
            ttl_least_s: *settings.ttl.start(),
            ttl_most_s: TTL_S_MOST.min(*settings.ttl.end()),
            negative_ttl_most_s: settings.negative_ttl_most,
            failure_s: settings.failure_s.clamp(1, FAILURE_S_MOST),
            stale: settings.stale,
            prefetch_share: u32::try_from(parts).unwrap_or(u32::MAX),
        }
    }

    /// The rules for TTLs that count down already: none is made longer.
    pub(crate) fn without_least(&self) -> Self {
        Self { ttl_least_s: 0, ..self.clone() }
    }

    /// The TTL of a record, which came with this one.
    pub(crate) fn ttl_s(&self, ttl_s: u32) -> u32 {
        let ttl_s = if ttl_s > TTL_S_MOST { 0 } else { ttl_s };
        ttl_s.max(self.ttl_least_s).min(self.ttl_most_s)
    }

    /// The TTL of a negative answer, whose SOA record has this TTL and this field MINIMUM (RFC 2308, section 5).
    pub(crate) fn negative_ttl_s(&self, soa_ttl_s: u32, minimum_s: u32) -> u32 {
        let [soa_ttl_s, minimum_s] = [soa_ttl_s, minimum_s].map(|ttl_s| self.ttl_s(ttl_s));
        soa_ttl_s.min(minimum_s).min(self.negative_ttl_most_s)
    }

    /// Whether an answer with this TTL should be fetched anew when a hit comes while so much of it is left, in seconds.
    /// Time has a resolution of 1 s, so without the last second a share of a short TTL would be no time at all.
    #[inline]
    pub(crate) fn is_late(&self, ttl_s: u32, left_s: u32) -> bool {
        let share = u64::from(self.prefetch_share);
        let is_in_share = u64::from(left_s) << SHARE_BITS <= u64::from(ttl_s) * share;
        share > 0 && (is_in_share || left_s <= 1 && ttl_s >= 2)
    }

    /// The time for which a block is kept after its TTL, in seconds.
    pub(crate) fn stale_most_s(&self) -> u32 {
        self.stale.map_or(0, |stale| stale.most_s)
    }
}
