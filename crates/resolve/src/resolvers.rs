//! Assignment of questions to resolvers.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use crate::handoff::Inbox;
use crate::settings::Sharing;

/// The inboxes of all resolvers, and how a question finds its own.
pub(crate) struct Resolvers {
    pub(crate) inboxes: Vec<Inbox>,
    sharing: Sharing,
    seed: [u64; 2],
}

impl Resolvers {
    /// Makes one resolver for each worker, with room for `most` questions each. `seed` keeps clients from choosing
    /// names that meet in one resolver.
    pub(crate) fn new(workers: usize, most: usize, sharing: Sharing, seed: [u64; 2]) -> Self {
        Self { inboxes: (0..workers).map(|_| Inbox::new(most)).collect(), sharing, seed }
    }

    /// The resolver of a question, whose name is in lower case. Workers that share a cache have the same for equal
    /// questions, so that one is asked. Others have the resolver with their own number.
    #[inline]
    pub(crate) fn find(&self, worker: usize, name: &[u8], rtype: u16) -> usize {
        let count = self.inboxes.len();
        if count == 1 || self.sharing == Sharing::Split {
            return worker % count;
        }
        (self.hash(name, rtype) % count as u64) as usize
    }

    /// A keyed hash of a question.
    fn hash(&self, name: &[u8], rtype: u16) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.seed[0], self.seed[1]);
        hasher.write(name);
        hasher.write_u16(rtype);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_questions_meet_if_their_workers_share_a_cache() {
        let shared = Resolvers::new(3, 1, Sharing::Shared, [1, 2]);
        let split = Resolvers::new(3, 1, Sharing::Split, [1, 2]);
        let mut seen = [0; 3];
        for name in 0..=u8::MAX {
            let name = [1, name, 0];
            let of: Vec<usize> = (0..5).map(|worker| shared.find(worker, &name, 1)).collect();
            assert!(of.iter().all(|number| *number == of[0]));
            seen[of[0]] += 1;
            assert_eq!([0, 1, 4].map(|worker| split.find(worker, &name, 1)), [0, 1, 1]);
        }
        assert!(seen.iter().all(|count| *count > 40), "{seen:?}");
    }
}
