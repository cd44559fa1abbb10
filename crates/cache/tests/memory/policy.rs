//! S3-FIFO beside LRU: the same requests to the cache and to a plain LRU of as many entries as the cache ever had.

use std::collections::{BTreeMap, HashMap};

use kqps_cache::{Settings, Shared};

use super::support::{ask, name, put};

const MEMORY_BYTES: u64 = 256 << 10;
const REQUESTS: usize = 400_000;

/// The first half of the requests fills the caches.
const COUNTED_FROM: usize = REQUESTS / 2;

fn cache() -> Shared {
    Shared::for_one(&Settings { memory_bytes: MEMORY_BYTES, ..Settings::default() }, [3, 5])
}

fn name_of(number: usize) -> Vec<u8> {
    name(&format!("h{number:06}"))
}

/// Whether the cache has a name, which it has afterwards.
fn request(cache: &Shared, number: usize) -> bool {
    let name = name_of(number);
    let is_hit = ask(cache, &name, 1).is_some();
    if !is_hit {
        put(cache, &name, 1);
    }
    is_hit
}

/// The least recently used of so many numbers is dropped.
struct Lru {
    capacity: usize,
    used_at: HashMap<usize, u64>,
    by_time: BTreeMap<u64, usize>,
    clock: u64,
}

impl Lru {
    fn new(capacity: usize) -> Self {
        Self { capacity, used_at: HashMap::new(), by_time: BTreeMap::new(), clock: 0 }
    }

    fn request(&mut self, number: usize) -> bool {
        self.clock += 1;
        let before = self.used_at.insert(number, self.clock);
        if let Some(before) = before {
            self.by_time.remove(&before);
        }
        self.by_time.insert(self.clock, number);
        if self.used_at.len() > self.capacity
            && let Some((_, oldest)) = self.by_time.pop_first()
        {
            self.used_at.remove(&oldest);
        }
        before.is_some()
    }
}

/// The number of entries that fit into the cache.
fn capacity() -> usize {
    let cache = cache();
    for number in 0..20_000 {
        put(&cache, &name_of(number), 1);
    }
    cache.counts().entries as usize
}

/// Requests for numbers below `count`, of which number n has a share of 1/(n + 1): Zipf's law with exponent 1.
fn zipf(count: usize) -> impl FnMut() -> usize {
    let mut sum = 0.0;
    let sums: Vec<f64> = (0..count)
        .map(|number| {
            sum += 1.0 / (number + 1) as f64;
            sum
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(32);
    move || {
        let wanted = random.f64() * sum;
        sums.partition_point(|&sum| sum <= wanted).min(count - 1)
    }
}

#[test]
fn the_hit_rate_is_above_that_of_lru() {
    let names = 10 * capacity();
    let mut next = zipf(names);
    let requests: Vec<usize> = (0..REQUESTS).map(|_| next()).collect();
    let cache = cache();
    let (mut ours, mut entries_most) = (0, 0);
    for (at, &number) in requests.iter().enumerate() {
        let is_hit = request(&cache, number);
        ours += u32::from(is_hit && at >= COUNTED_FROM);
        entries_most = entries_most.max(cache.counts().entries as usize);
    }
    let mut lru = Lru::new(entries_most);
    let mut theirs = 0;
    for (at, &number) in requests.iter().enumerate() {
        let is_hit = lru.request(number);
        theirs += u32::from(is_hit && at >= COUNTED_FROM);
    }
    let ratio = f64::from(ours) / f64::from(theirs);
    assert!(
        ratio >= 1.05,
        "{ours} hits beside {theirs}: {ratio:.3}, {entries_most} entries of {names} names"
    );
}

#[test]
fn a_scan_does_not_drive_out_what_is_used() {
    let cache = cache();
    let used = capacity() / 3;
    for _ in 0..3 {
        for number in 0..used {
            request(&cache, number);
        }
    }
    // Each used name comes again after more other names than LRU would keep.
    let (mut hits, mut asked) = (0_usize, 0_usize);
    for step in 0..20 * capacity() {
        assert!(!request(&cache, 100_000 + step), "a scan meets nothing twice");
        if step % 5 == 0 {
            hits += usize::from(request(&cache, asked % used));
            asked += 1;
        }
    }
    assert!(hits * 100 >= asked * 95, "{hits} of {asked}");
}
