//! Searches on a host whose cores stand still now and then, as those of a virtual machine do. The standstills
//! lose queries at any load, and more at a higher one.

use kqps_verdict::search::{Goal, Preset, Probe, Start};

use super::simulate::{Searched, chance, probe_of, search_probing};

/// A host, and a subject on it that answers everything up to its capacity.
#[derive(Clone, Copy, Debug)]
struct Host {
    /// How often a core stands still in a second, and the mean length of a standstill.
    stalls_per_s: f64,
    stall_s: f64,
    capacity_qps: f64,
    /// Packets that the subject's buffer holds.
    packets: f64,
    seed: u64,
}

impl Host {
    /// The length of each standstill of a core, in a trial of this duration.
    fn stalls(&self, core: u64, duration_s: f64, index: u64) -> Vec<f64> {
        let seed = self.seed * 1_000_003 + core * 7_919 + index * 104_729;
        let mut draws = (0..).map(|draw| chance(seed, draw));
        let mut stalls = Vec::new();
        let mut at_s = 0.0;
        while let (Some(gap), Some(length)) = (draws.next(), draws.next()) {
            at_s -= (1.0 - gap).ln() / self.stalls_per_s;
            if at_s > duration_s {
                break;
            }
            stalls.push(-(1.0 - length).ln() * self.stall_s);
        }
        stalls
    }

    /// A trial. If the player's core stood still for long, it is repeated, at most twice.
    fn probe(&self, rate_qps: f64, duration_s: f64, index: u64) -> Probe {
        let mut spent_s = 0.0;
        for attempt in 0.. {
            let index = index * 3 + attempt;
            let over = (rate_qps / self.capacity_qps - 1.0).max(0.0) / (rate_qps / self.capacity_qps);
            let lost: f64 = self
                .stalls(1, duration_s, index)
                .iter()
                .map(|stall_s| (stall_s * rate_qps - self.packets).max(0.0))
                .sum();
            let bad_ratio = (over + lost / (rate_qps * duration_s)).min(1.0);
            let probe = probe_of(rate_qps, duration_s, bad_ratio);
            spent_s += probe.wall_s;
            let spoiled_s: f64 = self.stalls(0, duration_s, index).iter().sum();
            if spoiled_s < 0.003 * duration_s || attempt == 2 {
                let under_way = Some(self.packets).filter(|_| over > 0.0);
                return Probe { wall_s: spent_s, under_way, ..probe };
            }
        }
        unreachable!("the third attempt counts")
    }

    fn search(&self, goal: &Goal) -> Searched {
        search_probing(
            goal,
            &Start::default(),
            |rate, duration, index| self.probe(rate, duration, index),
            self.capacity_qps,
        )
    }
}

/// The results of a hundred searches on such a host: how many find a lower bound, for how many it stands after
/// its re-test, and the median of those that stand.
fn found(goal: &Goal, stalls_per_s: f64, stall_s: f64, packets: f64) -> (usize, usize, f64) {
    let host = |seed| Host { stalls_per_s, stall_s, capacity_qps: 300_000.0, packets, seed };
    let searches: Vec<Searched> = (0..100).map(|seed| host(seed).search(goal)).collect();
    let is_found = |searched: &&Searched| searched.bounds.lower_qps.or(searched.bounds.refuted_qps).is_some();
    let found = searches.iter().filter(is_found).count();
    let mut lower: Vec<f64> = searches.iter().filter_map(|searched| searched.bounds.lower_qps).collect();
    lower.sort_by(f64::total_cmp);
    assert!(lower.last().is_none_or(|most_qps| *most_qps <= 300_000.0 / (1.0 - goal.loss) * 1.01));
    (found, lower.len(), lower[lower.len() / 2])
}

#[test]
fn a_bound_is_found_near_the_capacity_though_one_trial_in_three_is_spoiled() {
    // About one trial in three, of half a second each, meets a stall.
    for (packets, least, least_standing) in [(277.0, 98, 94), (2_048.0, 99, 99)] {
        let (bounds, standing, median_qps) = found(&Preset::Quick.goal(), 1.0, 0.002, packets);
        assert!(
            bounds >= least && standing >= least_standing && median_qps > 290_000.0,
            "{packets} packets: {bounds}, {standing} standing, of {median_qps}"
        );
    }
    let (bounds, standing, median_qps) = found(&Preset::Default.goal(), 1.0, 0.002, 2_048.0);
    assert!(bounds >= 99 && standing >= 99 && median_qps > 297_000.0, "{bounds}, {standing} of {median_qps}");
}

#[test]
fn a_search_that_has_the_time_goes_down_until_a_load_holds() {
    // Three stalls a second, and a buffer that lasts for one millisecond: only a small part of the capacity
    // meets the goal of one query in ten thousand lost.
    let (bounds, standing, median_qps) = found(&Preset::Default.goal(), 3.0, 0.002, 277.0);
    assert!(bounds >= 99 && standing >= 97 && median_qps < 100_000.0, "{bounds}, {standing} of {median_qps}");
}
