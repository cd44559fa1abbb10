//! The user's requests to end early. After the first, work under way ends in order; after the second, it ends at
//! once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The number of times that the user has asked to end. Clones share one count.
#[derive(Clone, Debug, Default)]
pub struct Interrupts(Arc<AtomicU32>);

impl Interrupts {
    /// Records another request. Returns the number of requests so far.
    pub fn ask(&self) -> u32 {
        self.0.fetch_add(1, Relaxed) + 1
    }

    /// The number of requests so far.
    pub fn count(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Whether to end: send and start nothing more, but wait for what is under way.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.0.load(Relaxed) > 0
    }

    /// Whether to end at once and wait for nothing.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        self.0.load(Relaxed) > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_request_is_urgent() {
        let interrupts = Interrupts::default();
        let other = interrupts.clone();
        assert!(!other.is_asked());
        assert_eq!(interrupts.ask(), 1);
        assert!(other.is_asked() && !other.is_urgent());
        assert_eq!(other.ask(), 2);
        assert!(interrupts.is_urgent());
    }
}
