//! Locks with how long threads waited for them, each summed over all ways that lead to it.

use std::collections::HashMap;

use kqps_observation::profile::LockFacts;

/// Locks beyond this number are left out.
const LOCKS_MOST: usize = 40;

/// The key of a lock: the kind and the place; and the address if no caller is known, since such places are
/// those of the C library.
type Key = (String, String, Option<u64>);

/// Locks by kind and place.
#[derive(Default)]
pub(super) struct Locks(HashMap<Key, Sum>);

#[derive(Default)]
struct Sum {
    waits: u64,
    seconds: f64,
    /// Callers → seconds.
    ways: HashMap<Vec<String>, f64>,
    /// The addresses of the lock's words; one more than the first is enough.
    addresses: Vec<u64>,
}

impl Locks {
    pub(super) fn add(&mut self, lock: LockFacts, waits: u64, seconds: f64) {
        let address = lock.address.filter(|_| lock.callers.is_empty());
        let sum = self.0.entry((lock.kind, lock.place, address)).or_default();
        sum.waits += waits;
        sum.seconds += seconds;
        *sum.ways.entry(lock.callers).or_default() += seconds;
        if let Some(address) = lock.address.filter(|address| !sum.addresses.contains(address))
            && sum.addresses.len() < 2
        {
            sum.addresses.push(address);
        }
    }

    /// Raises the time of each lock to what another account of the same waits shows.
    pub(super) fn raise_to(&mut self, other: Self) {
        for (key, seen) in other.0 {
            let sum = self.0.entry(key).or_default();
            let missing_s = seen.seconds - sum.seconds;
            if missing_s > 0.0 {
                sum.seconds = seen.seconds;
                for (callers, seconds) in seen.ways {
                    *sum.ways.entry(callers).or_default() += missing_s * seconds / seen.seconds;
                }
            }
        }
    }

    /// Returns the locks with the most time.
    pub(super) fn most(self) -> Vec<LockFacts> {
        let facts = |((kind, place, _), sum): (Key, Sum)| {
            let ways = sum.ways.into_iter();
            let most = ways.max_by(|(one, one_s), (other, other_s)| {
                one_s.total_cmp(other_s).then_with(|| other.cmp(one))
            });
            let callers = most.map_or_else(Vec::new, |(callers, _)| callers);
            let address = if sum.addresses.len() == 1 { sum.addresses.first().copied() } else { None };
            LockFacts { kind, place, callers, address, waits: sum.waits, seconds: sum.seconds }
        };
        let mut locks: Vec<LockFacts> = self.0.into_iter().map(facts).collect();
        locks.sort_by(|one, other| {
            other.seconds.total_cmp(&one.seconds).then_with(|| one.place.cmp(&other.place))
        });
        locks.truncate(LOCKS_MOST);
        locks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(place: &str, callers: &[&str], address: Option<u64>) -> LockFacts {
        LockFacts {
            kind: "futex".into(),
            place: place.into(),
            callers: callers.iter().map(ToString::to_string).collect(),
            address,
            ..LockFacts::default()
        }
    }

    /// A lock that is reached in a hundred ways has more time than any other, and each way has less.
    #[test]
    fn a_lock_is_summed_over_its_ways_before_the_least_are_left_out() {
        let mut locks = Locks::default();
        for number in 0..100 {
            locks.add(lock("cache", &[&format!("way{number}")], Some(1)), 1, 0.01);
        }
        locks.add(lock("cache", &["most"], Some(1)), 1, 0.5);
        for number in 0..50 {
            locks.add(lock(&format!("other{number}"), &["main"], None), 1, 0.1);
        }
        let most = locks.most();
        assert_eq!((most.len(), most[0].place.as_str(), most[0].waits), (40, "cache", 101));
        assert!((most[0].seconds - 1.5).abs() < 1e-9);
        assert_eq!((most[0].callers.as_slice(), most[0].address), (&["most".to_owned()][..], Some(1)));
    }

    #[test]
    fn without_callers_locks_are_told_apart_by_their_address() {
        let mut locks = Locks::default();
        for (address, seconds) in [(1, 0.5), (2, 0.25), (1, 0.125)] {
            locks.add(lock("[libc.so.6]", &[], Some(address)), 1, seconds);
            locks.add(lock("lookup", &["main"], Some(address)), 1, seconds / 100.0);
        }
        let most = locks.most();
        let found: Vec<_> = most.iter().map(|lock| (lock.place.as_str(), lock.address, lock.waits)).collect();
        assert_eq!(found, [("[libc.so.6]", Some(1), 2), ("[libc.so.6]", Some(2), 1), ("lookup", None, 3)]);
    }

    #[test]
    fn another_account_of_the_same_waits_raises_a_time_and_never_lowers_it() {
        let (mut locks, mut seen) = (Locks::default(), Locks::default());
        locks.add(lock("a", &["main"], None), 5, 1.0);
        locks.add(lock("b", &["main"], None), 5, 1.0);
        seen.add(lock("a", &["main"], None), 0, 0.5);
        seen.add(lock("b", &["main"], None), 0, 3.0);
        locks.raise_to(seen);
        let found: Vec<_> =
            locks.most().into_iter().map(|lock| (lock.place, lock.waits, lock.seconds)).collect();
        assert_eq!(found, [("b".to_owned(), 5, 3.0), ("a".to_owned(), 5, 1.0)]);
    }
}
