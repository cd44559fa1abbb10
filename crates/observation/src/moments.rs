//! A load over time: the fates of queries and their latencies by when the queries were due.
//!
//! When there are too many bins, each two become one of twice the length, so the memory stays within its bound however
//! long a load is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The usual length of a bin at first.
const WIDTH_NS: u64 = 100_000_000;

/// The greatest length of a recorded bin, nanoseconds: doubled until it is the longer of two, it stays far from overflow.
const WIDTH_MOST_NS: f64 = 6e14;

/// The usual number of bins at most.
pub const MOMENTS_MOST: usize = 600;

/// Buckets of latency for each doubling. Each is 9 % wide, so a quantile is known to 4.4 %.
const BUCKETS_OF_OCTAVE: u32 = 8;

/// Buckets up to 2^28 µs, about 4 minutes. Longer latencies count in the last.
const BUCKETS: usize = 28 * BUCKETS_OF_OCTAVE as usize;

/// A moment of a load: the queries that were due in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    /// When it begins, seconds since the trial began.
    pub at_s: f64,
    /// How long it lasts, seconds.
    pub seconds: f64,
    /// Queries that were due in it.
    pub intended: u64,
    /// How many of them were sent, whenever that was.
    pub sent: u64,
    /// How many of them had a correct reply in time.
    pub answered: u64,
    /// How many of those replies had another rcode than NOERROR and NXDOMAIN.
    pub failed: u64,
    /// The mean latency of those replies, microseconds; `None` if there are none.
    pub mean_us: Option<f64>,
    /// The median latency of those replies, microseconds; `None` if there are none.
    pub p50_us: Option<f64>,
    /// Their 99th percentile, microseconds.
    pub p99_us: Option<f64>,
    /// The number of replies in each bucket of latency, without empty ones: bucket *i* is from 2^(i/8) to 2^((i+1)/8) µs.
    pub latencies: Vec<(u16, u64)>,
}

/// Collects the moments of a load.
#[derive(Clone, Debug)]
pub struct Moments {
    /// The length of a bin at first.
    width_ns: u64,
    /// How often it was doubled.
    doublings: u32,
    /// The most bins.
    most: usize,
    bins: Vec<Bin>,
}

impl Default for Moments {
    fn default() -> Self {
        Self::new(WIDTH_NS, MOMENTS_MOST)
    }
}

#[derive(Clone, Debug, Default)]
struct Bin {
    intended: u64,
    sent: u64,
    failed: u64,
    /// The sum of the latencies.
    latency_ns: u64,
    /// Correct replies by bucket of latency. Empty until the first.
    latencies: Vec<u32>,
}

impl Moments {
    /// Moments in bins of this length, above 0, and this number of them at most.
    pub fn new(width_ns: u64, most: usize) -> Self {
        Self { width_ns: width_ns.max(1), doublings: 0, most: most.max(1), bins: Vec::new() }
    }

    /// Counts `count` queries that were due at `due_ns`.
    #[inline]
    pub fn intended(&mut self, due_ns: u64, count: u64) {
        self.bin(due_ns).intended += count;
    }

    /// Counts a query that was due at `due_ns` and was sent.
    #[inline]
    pub fn sent(&mut self, due_ns: u64) {
        self.bin(due_ns).sent += 1;
    }

    /// Counts a correct reply in time to a query that was due at `due_ns`.
    #[inline]
    pub fn answered(&mut self, due_ns: u64, latency_ns: u64) {
        let bin = self.bin(due_ns);
        bin.latency_ns += latency_ns;
        if bin.latencies.is_empty() {
            bin.latencies.resize(BUCKETS, 0);
        }
        bin.latencies[bucket(latency_ns / 1000)] += 1;
    }

    /// Counts that a reply of [`Self::answered`] had another rcode than NOERROR and NXDOMAIN.
    pub fn failed(&mut self, due_ns: u64) {
        self.bin(due_ns).failed += 1;
    }

    /// The end of the bin that has this time.
    pub fn bin_end_ns(&self, ns: u64) -> u64 {
        let width_ns = self.bin_ns();
        (ns / width_ns + 1).saturating_mul(width_ns)
    }

    /// The present length of a bin.
    fn bin_ns(&self) -> u64 {
        self.width_ns << self.doublings
    }

    /// Adds the moments of another thread, whose bins had the same length at first.
    pub fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        while other.bin_ns() < self.bin_ns() {
            other.widen();
        }
        while self.bin_ns() < other.bin_ns() {
            self.widen();
        }
        self.bins.resize(self.bins.len().max(other.bins.len()), Bin::default());
        for (ours, theirs) in self.bins.iter_mut().zip(&other.bins) {
            ours.add(theirs);
        }
    }

    /// The moments as they are recorded.
    pub fn record(&self) -> Vec<Moment> {
        let width_us = self.bin_ns() / 1000;
        let moment = |(index, bin): (usize, &Bin)| Moment {
            at_s: (index as u64 * width_us) as f64 / 1e6,
            seconds: width_us as f64 / 1e6,
            intended: bin.intended,
            sent: bin.sent,
            answered: bin.answered(),
            failed: bin.failed,
            mean_us: bin.mean_us(),
            p50_us: bin.quantile_us(0.5),
            p99_us: bin.quantile_us(0.99),
            latencies: bin.filled(),
        };
        self.bins.iter().enumerate().map(moment).collect()
    }

    /// Recorded moments, to which others can be added. A length beyond a week, which no version records, counts as one.
    pub fn from_record(moments: &[Moment]) -> Self {
        let width_ns = moments.first().map_or(WIDTH_NS as f64, |first| first.seconds * 1e9);
        let bins: Vec<Bin> = moments.iter().map(Bin::from_record).collect();
        Self {
            bins,
            ..Self::new(width_ns.round().min(WIDTH_MOST_NS) as u64, moments.len().max(MOMENTS_MOST))
        }
    }

    #[inline]
    fn bin(&mut self, due_ns: u64) -> &mut Bin {
        let mut index = (due_ns / self.width_ns) >> self.doublings;
        if index >= self.bins.len() as u64 {
            index = self.make_room(due_ns);
        }
        &mut self.bins[index as usize]
    }

    /// Makes bins up to this time. Returns the number of its bin.
    #[cold]
    fn make_room(&mut self, due_ns: u64) -> u64 {
        let index = loop {
            let index = (due_ns / self.width_ns) >> self.doublings;
            if index < self.most as u64 {
                break index;
            }
            self.widen();
        };
        if index >= self.bins.len() as u64 {
            self.bins.resize(index as usize + 1, Bin::default());
        }
        index
    }

    /// The number of bins.
    pub fn len(&self) -> usize {
        self.bins.len()
    }

    /// Whether nothing was due yet.
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    /// Makes one bin of each two.
    pub fn widen(&mut self) {
        self.doublings += 1;
        let one = |pair: &[Bin]| {
            let mut sum = pair[0].clone();
            pair.iter().skip(1).for_each(|bin| sum.add(bin));
            sum
        };
        self.bins = self.bins.chunks(2).map(one).collect();
    }
}

impl Bin {
    fn add(&mut self, other: &Self) {
        self.intended += other.intended;
        self.sent += other.sent;
        self.failed += other.failed;
        self.latency_ns += other.latency_ns;
        self.latencies.resize(self.latencies.len().max(other.latencies.len()), 0);
        for (ours, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            *ours = ours.saturating_add(*theirs);
        }
    }

    fn answered(&self) -> u64 {
        self.latencies.iter().map(|count| u64::from(*count)).sum()
    }

    fn mean_us(&self) -> Option<f64> {
        let answered = self.answered();
        (answered > 0).then(|| self.latency_ns as f64 / answered as f64 / 1e3)
    }

    fn filled(&self) -> Vec<(u16, u64)> {
        let numbered = (0..).zip(&self.latencies);
        numbered.filter(|(_, count)| **count > 0).map(|(bucket, count)| (bucket, u64::from(*count))).collect()
    }

    /// The latency below which this share of the replies came, as the middle of its bucket.
    fn quantile_us(&self, share: f64) -> Option<f64> {
        let wanted = (self.answered() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.latencies.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        })?;
        Some(middle_us(bucket))
    }

    fn from_record(moment: &Moment) -> Self {
        let latency_ns = moment.mean_us.unwrap_or(0.0) * moment.answered as f64 * 1e3;
        let mut bin = Self {
            intended: moment.intended,
            sent: moment.sent,
            failed: moment.failed,
            latency_ns: latency_ns.round() as u64,
            latencies: Vec::new(),
        };
        for (bucket, count) in &moment.latencies {
            bin.latencies.resize(BUCKETS, 0);
            let bucket = usize::from(*bucket).min(BUCKETS - 1);
            bin.latencies[bucket] =
                bin.latencies[bucket].saturating_add((*count).try_into().unwrap_or(u32::MAX));
        }
        bin
    }
}

/// Where the eighths of an octave begin, in 1/4096 of it: 4096 × (2^(i/8) − 1).
const EIGHTHS: [u64; 7] = [371, 775, 1216, 1697, 2221, 2793, 3416];

/// The bucket of a latency: its logarithm to the base 2 in eighths, rounded down.
#[inline]
fn bucket(us: u64) -> usize {
    let us = us.max(1);
    let octave = us.ilog2();
    // The share of the octave in 1/4096, and the eighths that it has reached.
    let share = if octave >= 12 { (us >> (octave - 12)) - 4096 } else { (us << (12 - octave)) - 4096 };
    let eighth = EIGHTHS.iter().filter(|reached| share >= **reached).count();
    (octave as usize * BUCKETS_OF_OCTAVE as usize + eighth).min(BUCKETS - 1)
}

/// The end of a bucket of [`Moment::latencies`], microseconds.
pub fn bucket_end_us(bucket: u16) -> f64 {
    2f64.powf((f64::from(bucket) + 1.0) / f64::from(BUCKETS_OF_OCTAVE))
}

fn middle_us(bucket: usize) -> f64 {
    2f64.powf((bucket as f64 + 0.5) / f64::from(BUCKETS_OF_OCTAVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_eighths_of_octaves() {
        for us in [1u64, 2, 3, 10, 99, 1_000, 12_345, 999_999, 100_000_000] {
            let exact = (us as f64).log2() * 8.0;
            let found = bucket(us) as f64;
            assert!((exact - found) > -0.01 && (exact - found) < 1.01, "{us}: {exact} {found}");
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn every_query_is_in_the_bin_of_its_due_time() {
        let mut moments = Moments::default();
        moments.intended(99_999_999, 1);
        moments.intended(100_000_000, 3);
        moments.sent(100_000_000);
        moments.answered(100_000_000, 250_000);
        let record = moments.record();
        assert_eq!((record.len(), record[0].intended, record[1].intended), (2, 1, 3));
        assert_eq!((record[1].at_s, record[1].sent, record[1].answered, record[0].p50_us), (0.1, 1, 1, None));
        let p50_us = record[1].p50_us.unwrap();
        assert!((p50_us / 250.0 - 1.0).abs() < 0.045, "{p50_us}");
        assert_eq!((moments.bin_end_ns(0), moments.bin_end_ns(100_000_000)), (100_000_000, 200_000_000));
    }

    #[test]
    fn a_long_load_has_longer_bins_and_loses_none() {
        let mut moments = Moments::default();
        for second in 0..3600 {
            moments.intended(second * 1_000_000_000, 2);
            moments.answered(second * 1_000_000_000, 1_000 * (second + 1));
        }
        let record = moments.record();
        assert!(record.len() <= MOMENTS_MOST && (record[0].seconds - 6.4).abs() < 1e-9, "{}", record.len());
        assert_eq!(record.iter().map(|moment| moment.intended).sum::<u64>(), 7200);
        assert_eq!(record.iter().map(|moment| moment.answered).sum::<u64>(), 3600);
    }

    #[test]
    fn moments_of_players_add_up_whatever_their_lengths() {
        let (mut short, mut long) = (Moments::default(), Moments::default());
        short.intended(50_000_000, 5);
        short.answered(50_000_000, 7_000);
        long.intended(100_000_000_000, 7);
        let mut sum = Moments::from_record(&short.record());
        sum.add(&Moments::from_record(&long.record()));
        let record = sum.record();
        assert_eq!((record[0].seconds, record[0].intended, record[0].answered), (0.2, 5, 1));
        assert_eq!((record[500].intended, record[0].p50_us), (7, short.record()[0].p50_us));
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Moment>>(&text).unwrap(), record);
    }
}
