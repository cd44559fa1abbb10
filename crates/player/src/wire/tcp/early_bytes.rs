//! Bytes that a connection sends as early data, until it is known whether the subject took them.

/// The early data of one connection.
#[derive(Debug, Default)]
pub(super) struct EarlyBytes {
    /// Its bytes, and those for which there was no room.
    plain: Vec<u8>,
    /// Where the parts end that have records of their own.
    ends: Vec<usize>,
    /// How many of them left as early data.
    left: usize,
    /// Queries that left so.
    pub(super) queries: u64,
    /// How many of them were sent again.
    pub(super) again: u64,
}

impl EarlyBytes {
    /// Keeps a part, of which the first `left` bytes have left.
    pub(super) fn keep(&mut self, part: &[u8], left: usize) {
        self.plain.extend_from_slice(part);
        self.ends.push(self.plain.len());
        self.left += left;
    }

    /// Whether all its bytes have left, so that more may follow them.
    pub(super) fn has_all_left(&self) -> bool {
        self.left == self.plain.len()
    }

    /// Returns the parts that must be sent now that the handshake is complete: what has not left, or if the subject
    /// took nothing all. There are none at the next call.
    pub(super) fn settle(&mut self, was_accepted: bool) -> Vec<Vec<u8>> {
        let plain = std::mem::take(&mut self.plain);
        let left = std::mem::take(&mut self.left);
        let mut start = if was_accepted { left } else { 0 };
        if !was_accepted && left > 0 {
            self.again = self.queries;
        }
        let mut parts = Vec::new();
        for end in std::mem::take(&mut self.ends) {
            if end > start {
                parts.push(plain[start..end].to_vec());
                start = end;
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_that_were_rejected_are_sent_again_and_what_was_accepted_is_not() {
        let accepted = [&b" query"[..]];
        let rejected = [&b"the first"[..], b"a query"];
        for (was_accepted, rest, again) in [(true, &accepted[..], 0), (false, &rejected, 2)] {
            let mut early = EarlyBytes { queries: 2, ..EarlyBytes::default() };
            early.keep(b"the first", 9);
            assert!(early.has_all_left());
            early.keep(b"a query", 1);
            assert!(!early.has_all_left());
            let parts = early.settle(was_accepted);
            assert!(parts.iter().eq(rest), "{parts:?}");
            assert_eq!(early.again, again);
            assert!(early.settle(was_accepted).is_empty() && early.has_all_left());
            assert_eq!(early.again, again);
        }
    }
}
