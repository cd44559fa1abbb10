//! A thread's walk through the dataset. Every thread walks through the whole file, again and again. The file has as
//! many parts as there are threads, and thread *i* starts at part *i*. As long as the threads keep pace, no two play
//! the same query at the same time. If the plan limits the passes over the file, each thread stops after that many
//! parts. The threads are in different parts in any round, so together they have then played every query that often.

use kqps_dataset::{Dataset, Position};

/// A thread's walk through a dataset, and its position there.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// The next query, and its index, counted from 0.
    next: Position,
    index: u64,
    /// Queries left to play; `u64::MAX` for an endless walk.
    left: u64,
}

impl Walk {
    /// The walk of thread `thread` of `threads`. The whole file is played `passes` times, or endlessly with
    /// `None`. It begins `first` queries after the thread's part does.
    pub fn new(
        dataset: &Dataset,
        (threads, thread): (usize, usize),
        passes: Option<u64>,
        first: u64,
    ) -> Self {
        let queries = dataset.queries();
        let index = (queries * thread as u64 / threads as u64 + first % queries) % queries;
        let left = passes.map_or(u64::MAX, |passes| length(queries, threads, thread, passes));
        Self { next: dataset.position(index), index, left }
    }

    /// The number of queries left to play; `u64::MAX` for an endless walk.
    #[inline]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Whether no query is left to play.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Takes the next query. One must be left.
    #[inline]
    pub fn advance(&mut self, dataset: &Dataset) -> Position {
        let position = self.next;
        self.index += 1;
        if self.index == dataset.queries() {
            self.index = 0;
            self.next = dataset.first();
        } else {
            self.next = dataset.after(position);
        }
        if self.left != u64::MAX {
            self.left -= 1;
        }
        position
    }

    /// Skips `count` queries. As many must be left.
    pub fn skip(&mut self, dataset: &Dataset, count: u64) {
        self.index = (self.index + count % dataset.queries()) % dataset.queries();
        self.next = dataset.position(self.index);
        if self.left != u64::MAX {
            self.left -= count;
        }
    }
}

/// The turn of a thread in an open loop, from 0. It comes before all threads that play fewer queries, so that
/// the queries of all threads together fall due one by one, to the last.
pub fn turn(queries: u64, threads: usize, thread: usize, passes: Option<u64>) -> usize {
    let Some(passes) = passes else { return thread };
    let length = |thread: usize| length(queries, threads, thread, passes);
    let own = length(thread);
    let goes_first = |other: &usize| length(*other) > own || (length(*other) == own && *other < thread);
    (0..threads).filter(goes_first).count()
}

/// The number of queries that a thread plays: `passes` parts, beginning with its own.
fn length(queries: u64, threads: usize, thread: usize, passes: u64) -> u64 {
    let upto = |part: u128| u128::from(queries) * part / threads as u128;
    let length = upto(thread as u128 + u128::from(passes)) - upto(thread as u128);
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset(queries: usize) -> (tempfile::TempDir, Dataset) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queries");
        let names: Vec<String> = (0..queries).map(|number| format!("n{number}.test A")).collect();
        std::fs::write(&file, names.join("\n")).unwrap();
        let options = kqps_dataset::Options {
            cache_dir: Some(folder.path().into()),
            ..kqps_dataset::Options::default()
        };
        let dataset = Dataset::open(&file, &options).unwrap();
        (folder, dataset)
    }

    #[test]
    fn together_the_threads_play_every_query_as_often_as_there_are_passes() {
        for (queries, threads, passes) in
            [(1, 4, 10), (3, 4, 1), (7, 3, 1), (10, 3, 7), (12, 4, 8), (5, 1, 2)]
        {
            let (_folder, dataset) = dataset(queries);
            let mut played = std::collections::BTreeMap::new();
            let mut lengths = Vec::new();
            for thread in 0..threads {
                let mut walk = Walk::new(&dataset, (threads, thread), Some(passes), 0);
                lengths.push(walk.left());
                while !walk.is_over() {
                    *played.entry(walk.advance(&dataset)).or_insert(0) += 1;
                }
            }
            assert_eq!(played.len(), queries);
            assert!(
                played.values().all(|&times| times == passes),
                "{queries} {threads} {passes}: {played:?}"
            );
            assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1);
            // Query `i` of all belongs to the thread whose turn is `i` modulo `threads`, to the last query.
            let total = queries as u64 * passes;
            for (thread, length) in lengths.iter().enumerate() {
                let turn = turn(queries as u64, threads, thread, Some(passes)) as u64;
                assert_eq!(*length, (total + threads as u64 - 1 - turn) / threads as u64);
            }
        }
    }

    #[test]
    fn threads_never_stand_at_the_same_query() {
        let (_folder, dataset) = dataset(10);
        for passes in [None, Some(6)] {
            let mut walks: Vec<Walk> =
                (0..3).map(|thread| Walk::new(&dataset, (3, thread), passes, 0)).collect();
            for _ in 0..19 {
                let mut at: Vec<Position> = walks.iter_mut().map(|walk| walk.advance(&dataset)).collect();
                at.sort_unstable();
                at.dedup();
                assert_eq!(at.len(), 3);
            }
        }
    }

    #[test]
    fn a_later_walk_goes_on_where_an_earlier_one_ended() {
        let (_folder, dataset) = dataset(10);
        for first in [0, 3, 9, 10, 27] {
            let mut earlier = Walk::new(&dataset, (2, 1), None, 0);
            for _ in 0..first {
                earlier.advance(&dataset);
            }
            let later = Walk::new(&dataset, (2, 1), None, first);
            assert_eq!((later.next, later.index), (earlier.next, earlier.index), "{first}");
        }
    }

    #[test]
    fn skipping_is_advancing_many_times() {
        let (_folder, dataset) = dataset(10);
        for count in [0, 1, 4, 9, 10, 25] {
            let mut walked = Walk::new(&dataset, (3, 2), Some(12), 0);
            let mut skipped = walked;
            for _ in 0..count {
                walked.advance(&dataset);
            }
            skipped.skip(&dataset, count);
            assert_eq!((walked.next, walked.index, walked.left), (skipped.next, skipped.index, skipped.left));
        }
    }
}
