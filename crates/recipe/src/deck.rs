//! Exact shares in random order: the number of each choice is fixed first, and the order is drawn.

use super::apportion::apportion;
use super::draw::Stream;

/// Choices that wait to be dealt.
pub(super) struct Deck {
    left: Vec<u64>,
    all: u64,
}

impl Deck {
    /// A deck of `count` choices, divided by weights. At least one weight must be above 0.
    pub(super) fn new(count: u64, weights: &[f64]) -> Self {
        let left = apportion(count, weights);
        Self { all: left.iter().sum(), left }
    }

    /// How often a choice is still to come.
    pub(super) fn left(&self, choice: usize) -> u64 {
        self.left[choice]
    }

    /// Deals the next choice, if one waits. Each waiting one is equally likely.
    #[inline]
    pub(super) fn deal(&mut self, stream: &mut Stream) -> Option<usize> {
        let mut place = stream.below(self.all);
        self.all = self.all.checked_sub(1)?;
        let mut choice = 0;
        while place >= self.left[choice] {
            place -= self.left[choice];
            choice += 1;
        }
        self.left[choice] -= 1;
        Some(choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_dealt_in_an_order_that_is_drawn() {
        let mut deck = Deck::new(1000, &[60.0, 0.0, 35.0, 5.0]);
        assert_eq!((deck.left(0), deck.left(1), deck.left(3)), (600, 0, 50));
        let mut stream = Stream::new(3);
        let dealt: Vec<usize> = std::iter::from_fn(|| deck.deal(&mut stream)).collect();
        let among = |dealt: &[usize], choice| dealt.iter().filter(|&&found| found == choice).count();
        assert_eq!([0, 1, 2, 3].map(|choice| among(&dealt, choice)), [600, 0, 350, 50]);
        // Within five standard deviations of draws without replacement, so each half has its share, too.
        assert!(among(&dealt[..500], 0).abs_diff(300) <= 39, "{}", among(&dealt[..500], 0));
    }
}
