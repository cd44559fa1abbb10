//! The queries of a connection whose answers come later. Over TCP and in TLS answers may leave in any order (RFC 7766,
//! section 6.2.1.1). By HTTP they leave in the order of the requests, by which the stream finds the request of each.

use std::collections::VecDeque;

use super::frame::append;

/// The maximum number of queries of one connection that wait, with answers that wait behind them. Further queries stay
/// unread.
const MOST: usize = 256;

/// The queries that wait, and the answers that wait for earlier ones.
#[derive(Debug)]
pub(super) struct Later {
    is_ordered: bool,
    /// The number of queries without an answer.
    waiting: usize,
    /// The number of the first query in the queue.
    first: u64,
    /// If answers leave in order, those from the first that is missing on; `None` for each that is missing.
    queue: VecDeque<Option<Vec<u8>>>,
    /// The bytes of the answers in the queue.
    bytes: usize,
}

impl Later {
    /// Without queries. `is_ordered` says whether answers leave in the order of their queries.
    pub(super) fn new(is_ordered: bool) -> Self {
        Self { is_ordered, waiting: 0, first: 0, queue: VecDeque::new(), bytes: 0 }
    }

    /// The bytes of the answers that wait for earlier ones.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of queries without an answer.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting as u64
    }

    /// Whether no query waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Whether another query may wait.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.waiting.max(self.queue.len()) < MOST
    }

    /// The number of the query that is about to be answered.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.first + self.queue.len() as u64
    }

    /// Writes an answer that came at once to `output` after its length, or keeps it behind those that are missing.
    #[inline]
    pub(super) fn at_once(&mut self, reply: &[u8], output: &mut Vec<u8>) {
        if self.queue.is_empty() {
            append(output, reply);
        } else {
            self.bytes += reply.len();
            self.queue.push_back(Some(reply.to_vec()));
        }
    }

    /// Notes that the answer to the query comes later.
    pub(super) fn wait(&mut self) {
        self.waiting += 1;
        if self.is_ordered {
            self.queue.push_back(None);
        }
    }

    /// Takes the answer to the query with this number; `None` if it gets none. Calls `write` with each answer that can
    /// leave. An empty one stands for a query without an answer, which only a stream with an order needs to know.
    pub(super) fn come(&mut self, number: u64, reply: Option<&[u8]>, mut write: impl FnMut(&[u8])) {
        self.waiting -= 1;
        if !self.is_ordered {
            if let Some(reply) = reply {
                write(reply);
            }
            return;
        }
        if let Some(missing) = self.queue.get_mut((number - self.first) as usize) {
            let reply = reply.unwrap_or_default();
            self.bytes += reply.len();
            *missing = Some(reply.to_vec());
        }
        while let Some(reply) = self.queue.pop_front_if(|reply| reply.is_some()).flatten() {
            self.first += 1;
            self.bytes -= reply.len();
            write(&reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_order_answers_leave_as_they_come() {
        let (mut later, mut output, mut left) = (Later::new(false), Vec::new(), Vec::new());
        later.wait();
        later.wait();
        later.at_once(b"now", &mut output);
        assert_eq!(output, b"\0\x03now");
        later.come(0, Some(b"second"), |reply| left.push(reply.to_vec()));
        later.come(0, None, |reply| left.push(reply.to_vec()));
        assert_eq!(left, [b"second".to_vec()]);
        assert!(later.is_empty() && later.has_room());
    }

    #[test]
    fn with_an_order_answers_leave_in_it() {
        let (mut later, mut output, mut left) = (Later::new(true), Vec::new(), Vec::new());
        later.at_once(b"a", &mut output);
        let second = later.number();
        later.wait();
        let third = later.number();
        later.wait();
        later.at_once(b"d", &mut output);
        assert_eq!(output, b"\0\x01a");
        later.come(third, None, |reply| left.push(reply.to_vec()));
        assert!(left.is_empty() && later.bytes() == 1, "the second is missing");
        later.come(second, Some(b"b"), |reply| left.push(reply.to_vec()));
        assert_eq!(left, [b"b".to_vec(), Vec::new(), b"d".to_vec()]);
        assert!(later.is_empty() && later.bytes() == 0);
        later.at_once(b"e", &mut output);
        assert_eq!(output, b"\0\x01a\0\x01e");
    }

    #[test]
    fn a_connection_has_room_for_so_many() {
        for is_ordered in [false, true] {
            let mut later = Later::new(is_ordered);
            let numbers: Vec<u64> = (0..MOST)
                .map(|_| {
                    assert!(later.has_room());
                    let number = later.number();
                    later.wait();
                    number
                })
                .collect();
            assert!(!later.has_room());
            later.come(numbers[0], Some(b"x"), |_| {});
            assert!(later.has_room());
        }
    }
}
