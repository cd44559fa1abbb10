//! The choice of a fault for each query and for each handshake.

use anyhow::{Result, ensure};

use super::fault::{Fault, Stage};

/// The share of each fault: among queries, or among handshakes.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Fault → the upper end of its part of 0 to 1, in ascending order.
    of_queries: Vec<(f64, Fault)>,
    of_handshakes: Vec<(f64, Fault)>,
}

impl Plan {
    /// A plan that makes each of these faults with this share. An error if the shares of queries, or those of
    /// handshakes, add up to more than 1.
    pub fn from_faults(faults: &[Fault], share_each: f64) -> Result<Self> {
        let mut plan = Self::default();
        for fault in faults {
            let list = match fault.stage() {
                Stage::Handshake => &mut plan.of_handshakes,
                Stage::Reply | Stage::End => &mut plan.of_queries,
            };
            let below = list.last().map_or(0.0, |(upper, _)| *upper);
            ensure!(below + share_each <= 1.0, "the shares of all faults add up to more than 1");
            list.push((below + share_each, *fault));
        }
        Ok(plan)
    }

    /// The fault of a query that was just read.
    #[inline]
    pub(super) fn of_query(&self, random: &mut fastrand::Rng) -> Option<Fault> {
        draw(&self.of_queries, random)
    }

    /// The fault of a handshake that just began.
    pub(super) fn of_handshake(&self, random: &mut fastrand::Rng) -> Option<Fault> {
        draw(&self.of_handshakes, random)
    }
}

#[inline]
fn draw(upper_ends: &[(f64, Fault)], random: &mut fastrand::Rng) -> Option<Fault> {
    let end = upper_ends.last()?.0;
    let point = random.f64();
    if point >= end {
        return None;
    }
    upper_ends.iter().find(|(upper, _)| point < *upper).map(|(_, fault)| *fault)
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
