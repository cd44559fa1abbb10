//! The relay's observations: when it handed each reply to the kernel. On loopback the kernel delivers a
//! packet within the call that sends it, so the reply reached the player's socket between the two noted
//! times. Any delay, even by a core that is taken away, moves both times.

/// When the relay handed a reply to the kernel, nanoseconds on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Just before the call that sent it.
    pub before_ns: u64,
    /// Just after that call.
    pub after_ns: u64,
}

/// The time of the first reply to each query.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    /// By the order in which queries arrived. `None` for a query without an answer from the address that
    /// it was sent to.
    pub replies: Vec<Option<Handed>>,
}

impl Witness {
    /// Notes that the kernel took these queries' replies in a call between these times.
    pub(crate) fn handed(&mut self, queries: &[u32], before_ns: u64, after_ns: u64) {
        for query in queries.iter().map(|query| *query as usize) {
            if query >= self.replies.len() {
                self.replies.resize(query + 1, None);
            }
            self.replies[query].get_or_insert(Handed { before_ns, after_ns });
        }
    }
}
