//! Runs independent pieces of work on a few threads.

use std::sync::Mutex;

/// The results of `work` for all items, in their order, on up to `threads` threads.
pub(crate) fn map<T: Send, R: Send>(items: Vec<T>, threads: usize, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    if threads <= 1 || items.len() <= 1 {
        return items.into_iter().map(work).collect();
    }
    let threads = threads.min(items.len());
    let queue = Mutex::new(items.into_iter().enumerate());
    let worker = || {
        let mut done = Vec::new();
        while let Some((place, item)) = take(&queue) {
            done.push((place, work(item)));
        }
        done
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let mut done = worker();
        for other in others {
            match other.join() {
                Ok(theirs) => done.extend(theirs),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|&(place, _)| place);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The next item. A worker that panicked held the lock only while it took one, so the queue is whole.
fn take<I: Iterator>(queue: &Mutex<I>) -> Option<I::Item> {
    queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_the_order_of_the_items() {
        let squares: Vec<u64> = super::map((0..1000_u64).collect(), 4, |number| number * number);
        assert_eq!(squares, (0..1000).map(|number| number * number).collect::<Vec<u64>>());
    }
}
