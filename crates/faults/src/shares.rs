//! Faults by their shares, and the draw of one.

use anyhow::{Result, ensure};

/// The fate that a player must count after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The query is correct.
    Correct,
    /// The reply is wrong, by this cause.
    Wrong(&'static str),
    /// The attempt to connect failed by this cause, and the query that waits for it is lost by it.
    Failed(&'static str),
    /// The query is late, or lost by a cause that depends on more than the fault.
    Other,
}

/// Fault → the upper end of its part of 0 to 1, in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct Shares<F>(Vec<(f64, F)>);

impl<F> Default for Shares<F> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<F: Copy> Shares<F> {
    /// Adds a fault with its share. An error if all shares together are more than 1.
    pub(crate) fn add(&mut self, fault: F, share: f64) -> Result<()> {
        let upper = self.0.last().map_or(0.0, |(upper, _)| *upper) + share;
        ensure!(upper <= 1.0, "the shares of all faults add up to more than 1, and one is made at most");
        self.0.push((upper, fault));
        Ok(())
    }

    #[inline]
    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> Option<F> {
        let end = self.0.last()?.0;
        let point = random.f64();
        if point >= end {
            return None;
        }
        self.0.iter().find(|(upper, _)| point < *upper).map(|(_, fault)| *fault)
    }
}
