//! Figures as numbers, for data and for the order of rows.

use kqps_observation::question::Figure;
use kqps_verdict::figure::{Figures, Spread};

/// A figure and the ends of its interval, or of its starts.
pub(crate) type Ranged = (Option<f64>, Option<f64>, Option<f64>);

/// A figure with its ends, if it has any, in the unit of the record.
pub(crate) fn ranged(figure: Figure, figures: &Figures) -> Ranged {
    let alone = |value: Option<f64>| (value, None, None);
    match figure {
        Figure::Median => figures
            .median_qps
            // A lone start has no interval.
            .map_or((None, None, None), |rate| {
                with_ends(rate.median, rate.low, rate.high, rate.coverage > 0.0)
            }),
        Figure::MeanMinMax => of_starts(figures.spread_qps),
        Figure::LoadTime => of_starts(figures.load_time_s),
        Figure::Published => alone(figures.published.as_ref().map(|one| one.rate_qps)),
        Figure::Efficiency => alone(figures.efficiency),
        Figure::CeilingShare => alone(figures.ceiling_share),
        Figure::Cpu | Figure::CpuByThread => alone(figures.cpu_s_per_million),
        Figure::Memory => alone(figures.memory.map(|memory| memory.bytes as f64)),
        Figure::MemoryPerRecord => alone(figures.memory_bytes_per_record),
        Figure::MemoryPerConnection => alone(figures.memory_bytes_per_connection),
        Figure::ReplySize => alone(figures.reply_bytes),
        Figure::P99AtHalf => alone(figures.p99_at_half_us.map(|us| us as f64)),
        Figure::LatencyMean => alone(figures.latency_us.map(|latency| latency.mean)),
        Figure::LatencyP99 => alone(figures.latency_us.and_then(|latency| latency.p99).map(|us| us as f64)),
        Figure::Lost => alone(figures.lost_share),
    }
}

fn with_ends(value: f64, low: f64, high: f64, are_known: bool) -> Ranged {
    (Some(value), Some(low).filter(|_| are_known), Some(high).filter(|_| are_known))
}

/// The mean of starts, with the least and the greatest of several.
fn of_starts(spread: Option<Spread>) -> Ranged {
    spread.map_or((None, None, None), |of| with_ends(of.mean, of.min, of.max, of.count > 1))
}
