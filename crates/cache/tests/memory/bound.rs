//! The bound of memory, and how much of it an entry takes.

use std::collections::HashMap;

use kqps_cache::{Failure, Put, Settings, Shared};

use super::support::{ask, name, put, put_reply, question, reply};

/// The entries of the test of an entry's memory, each with one address.
const ENTRIES: u32 = 100_000;

/// The most memory of such an entry with a name of 17 bytes, which is 64 bytes in a block and up to 19 in the index.
const ENTRY_BYTES_MOST: u64 = 96;

fn settings(memory_bytes: u64) -> Settings {
    Settings { memory_bytes, ..Settings::default() }
}

#[test]
fn random_names_stay_within_the_bound_and_are_answered_as_they_were_put() {
    for (memory_bytes, steps) in
        [(64 << 10, 15_000), (300_000, 30_000), (512 << 10, 30_000), (2 << 20, 60_000)]
    {
        let mut random = fastrand::Rng::with_seed(memory_bytes);
        let cache = Shared::for_one(&settings(memory_bytes), [random.u64(..), random.u64(..)]);
        let mut model: HashMap<Vec<u8>, Vec<u32>> = HashMap::new();
        let (mut now_s, mut hits) = (1_u64, 0_u32);
        for step in 0..steps {
            let letters = random.usize(1..40);
            // Short labels come back.
            let label: String = (0..letters).map(|_| random.char('a'..='f')).collect();
            let name = name(&label);
            if let Some(found) = ask(&cache, &name, now_s) {
                assert_eq!(found, reply(&name, ttl_left(&found), &model[&name]), "{label}");
                hits += 1;
            }
            // Most have one address, and some are long.
            let addresses = if random.u32(0..50) == 0 { random.usize(1..200) } else { 1 };
            let addresses: Vec<u32> = (0..addresses).map(|_| random.u32(..)).collect();
            if random.u32(0..10) == 0 {
                cache.failed(&question(&name), Failure::Unusable, now_s);
            } else {
                let reply = reply(&name, random.u32(1..5000), &addresses);
                let put = put_reply(&cache, &name, &reply, now_s);
                assert!(matches!(put, Put::Kept { .. }), "{put:?}");
                model.insert(name, addresses);
            }
            now_s += u64::from(step % 4 == 0);
            assert!(cache.memory_bytes() <= memory_bytes, "{} > {memory_bytes}", cache.memory_bytes());
        }
        let counts = cache.counts();
        assert!(hits > 100 && counts.evicted > 1000 && counts.expired > 0, "{hits} hits, {counts:?}");
        // The memory is in use, but for segments that are kept free.
        assert!(cache.memory_bytes() * 5 > memory_bytes * 4, "{}", cache.memory_bytes());
    }
}

/// The TTL of the first record.
fn ttl_left(reply: &[u8]) -> u32 {
    let at = kqps_message::question::end(reply).unwrap();
    kqps_message::record::read(reply, at).unwrap().ttl_s
}

#[test]
fn an_entry_of_one_address_is_small() {
    let cache = Shared::for_one(&settings(64 << 20), [1, 2]);
    for number in 0..ENTRIES {
        put(&cache, &name(&format!("h{number:06}")), 1);
    }
    assert_eq!(cache.counts().entries, u64::from(ENTRIES));
    let entry_bytes = cache.memory_bytes() / u64::from(ENTRIES);
    assert!(entry_bytes <= ENTRY_BYTES_MOST, "{entry_bytes} bytes");
}

#[test]
fn what_fits_stays() {
    let cache = Shared::for_one(&settings(8 << 20), [1, 2]);
    for _ in 0..3 {
        for number in 0..60_000 {
            let name = name(&format!("h{number:06}"));
            if ask(&cache, &name, 1).is_none() {
                put(&cache, &name, 1);
            }
        }
    }
    let counts = cache.counts();
    assert_eq!((counts.misses, counts.hits, counts.evicted), (60_000, 120_000, 0));
}

#[test]
fn entries_whose_time_ended_make_room_first() {
    let cache = Shared::for_one(&settings(64 << 10), [1, 2]);
    for (now_s, number) in (1..).zip(0..10_000) {
        let name = name(&format!("h{number:06}"));
        let kept = put_reply(&cache, &name, &reply(&name, 10, &[1]), now_s);
        assert_eq!(kept, Put::Kept { ttl_s: 10 });
        ask(&cache, &name, now_s);
    }
    assert_eq!(cache.counts().evicted, 0);
    assert!(cache.counts().expired > 9_000);
}

#[test]
fn workers_share_what_is_kept() {
    let shared = Shared::new(&settings(16 << 20), [1, 2]);
    std::thread::scope(|scope| {
        for worker in 0..4_u32 {
            let shared = &shared;
            scope.spawn(move || {
                for number in 0..2_000 {
                    let name = name(&format!("h{worker}{number:05}"));
                    let kept = put_reply(shared, &name, &reply(&name, 60, &[worker]), 1);
                    assert_eq!(kept, Put::Kept { ttl_s: 60 });
                }
            });
        }
    });
    for worker in 0..4_u32 {
        for number in 0..2_000 {
            let name = name(&format!("h{worker}{number:05}"));
            assert_eq!(ask(&shared, &name, 1), Some(reply(&name, 60, &[worker])));
        }
    }
    let counts = shared.counts();
    assert_eq!((counts.hits, counts.kept, counts.entries), (8_000, 8_000, 8_000));
    assert!(shared.memory_bytes() <= 16 << 20);
}
