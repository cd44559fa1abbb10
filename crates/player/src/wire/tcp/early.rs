//! What a connection sends as early data, until it is known whether the subject took it.

/// The early data of one connection.
#[derive(Debug, Default)]
pub(super) struct EarlyBytes {
    /// Its bytes, and those for which there was no room.
    plain: Vec<u8>,
    /// How many of them left as early data.
    left: usize,
    /// Queries that left so.
    pub(super) queries: u64,
    /// How many of them were sent again.
    pub(super) again: u64,
}

impl EarlyBytes {
    /// Keeps bytes of which the first `left` have left.
    pub(super) fn keep(&mut self, plain: &[u8], left: usize) {
        self.plain.extend_from_slice(plain);
        self.left += left;
    }

    /// Whether all its bytes have left, so that more may follow them.
    pub(super) fn has_all_left(&self) -> bool {
        self.left == self.plain.len()
    }

    /// Returns the bytes that must be sent now that the handshake is complete: what has not left, or if the subject took
    /// nothing all. There are none at the next call.
    pub(super) fn settle(&mut self, was_accepted: bool) -> Vec<u8> {
        let mut plain = std::mem::take(&mut self.plain);
        let left = std::mem::take(&mut self.left);
        if was_accepted {
            plain.drain(..left);
        } else if left > 0 {
            self.again = self.queries;
        }
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_rejected_is_sent_again_and_what_was_accepted_is_not() {
        for (was_accepted, rest, again) in [(true, &b" query"[..], 0), (false, b"a query", 1)] {
            let mut early = EarlyBytes { queries: 1, ..EarlyBytes::default() };
            early.keep(b"a query", 1);
            assert!(!early.has_all_left());
            assert_eq!((early.settle(was_accepted).as_slice(), early.again), (rest, again));
            assert!(early.settle(was_accepted).is_empty() && early.has_all_left());
            assert_eq!(early.again, again);
        }
    }
}
