//! The user's wish to end before all is done: asked once, what is under way ends in order; asked again, it ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How often the user has asked for an end. Clones share one count.
#[derive(Clone, Debug, Default)]
pub struct Interrupts(Arc<AtomicU32>);

impl Interrupts {
    /// Asks for an end, once more; returns how often that makes.
    pub fn ask(&self) -> u32 {
        self.0.fetch_add(1, Relaxed) + 1
    }

    /// Whether to end: send nothing more and start nothing more, but hear what is under way.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.0.load(Relaxed) > 0
    }

    /// Whether to end at once, and wait for nothing.
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
