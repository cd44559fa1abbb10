//! The choice of a fault for each query and for each handshake.

use anyhow::Result;

use super::fault::{Fault, Stage};
use crate::shares::Shares;

/// The share of each fault: among queries, or among handshakes.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    of_queries: Shares<Fault>,
    of_handshakes: Shares<Fault>,
}

impl Plan {
    /// A plan that makes each of these faults with this share. An error if the shares of queries, or those of
    /// handshakes, add up to more than 1.
    pub fn from_faults(faults: &[Fault], share_each: f64) -> Result<Self> {
        let mut plan = Self::default();
        for fault in faults {
            match fault.stage() {
                Stage::Handshake => plan.of_handshakes.add(*fault, share_each)?,
                Stage::Reply | Stage::End => plan.of_queries.add(*fault, share_each)?,
            }
        }
        Ok(plan)
    }

    /// The fault of a query that was just read.
    #[inline]
    pub(super) fn of_query(&self, random: &mut fastrand::Rng) -> Option<Fault> {
        self.of_queries.draw(random)
    }

    /// The fault of a handshake that just began.
    pub(super) fn of_handshake(&self, random: &mut fastrand::Rng) -> Option<Fault> {
        self.of_handshakes.draw(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_and_handshakes_are_drawn_apart() {
        let plan = Plan::from_faults(&[Fault::Reset, Fault::Mute], 0.5).unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            assert!(matches!(plan.of_query(&mut random), None | Some(Fault::Reset)));
            assert!(matches!(plan.of_handshake(&mut random), None | Some(Fault::Mute)));
        }
        assert!(Plan::from_faults(&[Fault::Split, Fault::Join, Fault::Late], 0.4).is_err());
    }
}
