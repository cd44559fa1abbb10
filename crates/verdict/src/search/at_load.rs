//! Trials grouped by their load.

use super::goal::Goal;
use super::probe::Probe;

/// The trials at one load.
pub(super) struct AtLoad<'a> {
    pub(super) load_qps: f64,
    pub(super) probes: Vec<&'a Probe>,
}

impl AtLoad<'_> {
    /// The number of its good trials, and of its bad ones.
    pub(super) fn good_and_bad(&self, goal: &Goal) -> (usize, usize) {
        let bad = self.probes.iter().filter(|probe| probe.is_bad(goal)).count();
        (self.probes.len() - bad, bad)
    }

    /// The trial with the least share of bad queries.
    pub(super) fn best(&self) -> Option<&Probe> {
        self.probes.iter().copied().min_by(|a, b| a.bad_ratio.total_cmp(&b.bad_ratio))
    }
}

/// The wanted probes grouped by load, in rising order.
pub(super) fn by_load(probes: &[Probe], wanted: impl Fn(&Probe) -> bool) -> Vec<AtLoad<'_>> {
    let mut loads: Vec<AtLoad<'_>> = Vec::new();
    for probe in probes.iter().filter(|probe| probe.load_qps > 0.0 && wanted(probe)) {
        match loads.binary_search_by(|at| at.load_qps.total_cmp(&probe.load_qps)) {
            Ok(index) => loads[index].probes.push(probe),
            Err(index) => loads.insert(index, AtLoad { load_qps: probe.load_qps, probes: vec![probe] }),
        }
    }
    loads
}
