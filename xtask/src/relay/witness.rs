//! What the relay saw: when each reply was handed to the kernel. On loopback the kernel delivers a packet
//! within the call that sends it, so the reply reached the player's socket between the two times that are
//! noted. Whatever made it late, a core that was taken away included, made both of them late.

/// When a reply was handed to the kernel, nanoseconds on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Just before the call that sent it.
    pub before_ns: u64,
    /// Just after that call.
    pub after_ns: u64,
}

/// The first reply to each query.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    /// Queries in order of arrival; none for one that was not answered from the address that was asked.
    pub replies: Vec<Option<Handed>>,
}

impl Witness {
    /// The kernel took these queries' replies in a call between these times.
    pub(super) fn handed(&mut self, queries: &[u32], before_ns: u64, after_ns: u64) {
        for query in queries.iter().map(|query| *query as usize) {
            if query >= self.replies.len() {
                self.replies.resize(query + 1, None);
            }
            self.replies[query].get_or_insert(Handed { before_ns, after_ns });
        }
    }
}
