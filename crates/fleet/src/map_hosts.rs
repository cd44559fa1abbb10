//! Runs a function for many hosts, eight at once. A server of ssh refuses logins at random once ten of them are not
//! complete (`MaxStartups`, `sshd_config(5)`), and many hosts may be behind one such server.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Hosts that are worked on at once.
const AT_ONCE: usize = 8;

/// Does the same with each of these, eight at a time. Returns the results in their order.
pub fn map_hosts<M: Send, T: Send>(all: Vec<M>, act: impl Fn(M) -> T + Sync) -> Vec<T> {
    let threads = AT_ONCE.min(all.len());
    let left = Mutex::new(all.into_iter().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut done = Vec::new();
        while let Some((number, one)) = next() {
            done.push((number, act(one)));
        }
        done
    };
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_more_than_eight_logins_are_open_and_the_order_is_kept() {
        let (open, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let doubled = map_hosts((0..40).collect(), |number: usize| {
            most.fetch_max(open.fetch_add(1, SeqCst) + 1, SeqCst);
            thread::sleep(Duration::from_millis(5));
            open.fetch_sub(1, SeqCst);
            2 * number
        });
        assert_eq!(doubled, (0..40).map(|number| 2 * number).collect::<Vec<_>>());
        let most = most.into_inner();
        assert!((2..=AT_ONCE).contains(&most), "{most} at once");
        assert!(map_hosts(Vec::<u8>::new(), |one| one).is_empty());
    }
}
