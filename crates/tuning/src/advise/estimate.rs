//! The rate that a layout can carry, from the time that a packet and an answer cost. It is an upper bound: it does
//! not know locks, caches and memory.

use super::cores::Cores;

/// The largest share of a core's time that receiving may take. Above it, a burst overflows the queue.
pub(super) const RECEIVE_BUSY_MOST: f64 = 0.8;

/// The work that two threads of a core do together, as a multiple of the work of one (docs/SCALE.md: 1.2 to 1.4).
const TWO_THREADS: f64 = 1.25;

/// The speed of a worker on another node than the device, at worst (ES.net: the wrong socket halves the throughput).
pub(super) const OTHER_NODE: f64 = 0.5;

/// The time that a query costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// Seconds of softirq for a received packet. Above 0.
    pub(super) softirq_s: f64,
    /// Seconds of the server's CPU for an answer. Above 0.
    pub(super) server_s: f64,
}

impl Costs {
    /// `None` unless both are known and above 0.
    pub(super) fn new(softirq_s: Option<f64>, server_s: Option<f64>) -> Option<Self> {
        let is_known = |cost: &f64| cost.is_finite() && *cost > 0.0;
        let (softirq_s, server_s) = (softirq_s.filter(is_known)?, server_s.filter(is_known)?);
        Some(Self { softirq_s, server_s })
    }

    /// The share of its time that each of `receivers` cores spends receiving at a rate.
    pub(super) fn receive_busy(&self, rate_qps: f64, receivers: usize) -> f64 {
        rate_qps * self.softirq_s / receivers.max(1) as f64
    }

    /// Queries a second of a layout with these logical cores, on a host whose device is on `node`. Packets are spread
    /// evenly over the receivers, and answers over the workers by their speed.
    pub(super) fn rate_qps(&self, cores: &Cores, node: u32, receivers: &[u32], workers: &[u32]) -> f64 {
        let is_here = |cpu: u32| cores.with(cpu).is_none_or(|core| core.node == node);
        let speeds: f64 = workers.iter().map(|&cpu| if is_here(cpu) { 1.0 } else { OTHER_NODE }).sum();
        let receiving_s = self.softirq_s / receivers.len().max(1) as f64;
        let answering_s = self.server_s / speeds.max(OTHER_NODE);
        let load_s = |cpu: u32| {
            f64::from(u8::from(receivers.contains(&cpu))) * receiving_s
                + f64::from(u8::from(workers.contains(&cpu))) * answering_s
        };
        let mut most = RECEIVE_BUSY_MOST / receiving_s;
        for core in cores.iter() {
            let loads: Vec<f64> =
                core.threads.iter().map(|&cpu| load_s(cpu)).filter(|load| *load > 0.0).collect();
            if loads.is_empty() {
                continue;
            }
            let capacity = if loads.len() > 1 { TWO_THREADS } else { 1.0 };
            let busiest = loads.iter().copied().fold(0.0, f64::max);
            most = most.min(1.0 / busiest).min(capacity / loads.iter().sum::<f64>());
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_host::topology::Topology;
    use kqps_observation::fingerprint::CoreFacts;

    /// Two nodes with two cores each; core 3's second thread is 4.
    fn cores() -> Cores {
        let facts = |cpu: u32| CoreFacts {
            cpu,
            numa_node: u32::from(cpu > 1),
            smt: if cpu > 2 { vec![3, 4] } else { vec![cpu] },
            ..CoreFacts::default()
        };
        Cores::from_topology(&Topology { cores: (0..5).map(facts).collect(), ..Topology::default() })
    }

    fn rate(node: u32, receivers: &[u32], workers: &[u32]) -> u64 {
        let costs = Costs::new(Some(2e-6), Some(3e-6)).unwrap();
        (costs.rate_qps(&cores(), node, receivers, workers) / 1e3).round() as u64
    }

    #[test]
    fn each_layout_has_its_formula() {
        // Both on one core: 1/(s + a). On two, each with both: twice that.
        assert_eq!(rate(0, &[0], &[0]), 200);
        assert_eq!(rate(0, &[0, 1], &[0, 1]), 400);
        // Apart: the slower of 0.8/s and 1/a.
        assert_eq!(rate(0, &[0], &[1]), 333);
        // Two threads of one core: 1.25/(s + a).
        assert_eq!(rate(1, &[3], &[4]), 250);
        // A worker of the other node counts half: 1.5/a, but 0.8/s is less.
        assert_eq!(rate(0, &[0], &[1, 2]), 400);
    }

    #[test]
    fn costs_that_are_not_positive_are_not_known() {
        assert_eq!(Costs::new(Some(0.0), Some(1.0)), None);
        assert_eq!(Costs::new(Some(1.0), Some(f64::NAN)), None);
        assert_eq!(Costs::new(None, Some(1.0)), None);
    }
}
