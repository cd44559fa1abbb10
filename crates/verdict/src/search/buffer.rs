//! Estimates how many packets the subject's buffers hold, from the trials themselves. Under more load than it
//! answers, a subject's queue is full. Latency times rate (Little's law) then gives the queries under way: the
//! queue and a few packets on top. The buffer's size in bytes would not do, since the kernel adds its own
//! overhead to every packet, and servers set sizes of their own.

use kqps_observation::run::Purpose;

use super::probe::Probe;

/// If more than half of the queries are bad, the median latency is that of queries without an answer.
const MOST_BAD: f64 = 0.5;

/// The number of packets that the buffers hold, from the trial with most under way. It is rounded to a power of
/// two: it decides how long trials must be, and must not change with every trial. `None` if no trial shows a
/// queue. A closed loop shows no more than its window. A re-test only serves to detect drift, so it is left
/// out.
pub(super) fn buffer_packets(probes: &[Probe]) -> Option<f64> {
    let overloaded = probes.iter().filter(|probe| {
        let is_search = probe.purpose == Purpose::Search;
        (is_search && probe.bad_ratio > 0.0 && probe.bad_ratio < MOST_BAD)
            || probe.purpose == Purpose::Ceiling
    });
    let most = overloaded.filter_map(|probe| probe.under_way).reduce(f64::max)?;
    Some(most.max(1.0).log2().round().exp2())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(purpose: Purpose, bad_ratio: f64, under_way: Option<f64>) -> Probe {
        Probe { bad_ratio, under_way, purpose, ..Probe::default() }
    }

    #[test]
    fn the_fullest_queue_counts_and_trials_without_a_queue_do_not() {
        assert_eq!(buffer_packets(&[]), None);
        let good = probe(Purpose::Search, 0.0, Some(9000.0));
        let lost = probe(Purpose::Search, 0.9, Some(9000.0));
        let others = [Purpose::WarmUp, Purpose::Retest].map(|purpose| probe(purpose, 0.1, Some(9000.0)));
        assert_eq!(buffer_packets(&[good, lost, others[0], others[1]]), None);
        let closed = probe(Purpose::Ceiling, 0.0, Some(470.0));
        assert_eq!(buffer_packets(&[good, closed]), Some(512.0));
        let full = [1600.0, 2090.0, 2143.0].map(|queued| probe(Purpose::Search, 0.1, Some(queued)));
        assert_eq!(buffer_packets(&[closed, full[0]]), buffer_packets(&[closed, full[1], full[2]]));
        assert_eq!(buffer_packets(&full), Some(2048.0));
        assert_eq!(buffer_packets(&[probe(Purpose::Ceiling, 0.0, None)]), None);
    }
}
