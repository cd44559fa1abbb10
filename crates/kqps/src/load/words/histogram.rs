//! A small histogram of the latency, for terminals.

use std::fmt::Write as _;

use kqps_observation::{Histogram, Trial};
use kqps_verdict::rate::rate;

use crate::table;

/// The most rows. More octaves than these become one row at each end.
const ROWS_MOST: usize = 12;

/// The longest bar, characters.
const BAR_MOST: usize = 40;

/// A row: times from one up to another, microseconds, and how many replies took so long.
struct Row {
    from_us: u64,
    to_us: u64,
    count: u64,
}

/// Rows of a histogram of the trial's latency, with a bar each; empty if there are fewer than two rows.
pub(super) fn histogram(trial: &Trial) -> String {
    let latency = trial.histograms.get("latency").and_then(|text| Histogram::decode(text));
    let rows = latency.map_or_else(Vec::new, |latency| rows(latency.times()));
    let most = rows.iter().map(|row| row.count).max().unwrap_or(0);
    if rows.len() < 2 {
        return String::new();
    }
    let all: u64 = rows.iter().map(|row| row.count).sum();
    let mut drawn = table::plain();
    for row in &rows {
        let span = format!("{} to {}", time(row.from_us), time(row.to_us));
        let share = format!("{:.2} %", row.count as f64 / all as f64 * 100.0);
        drawn.add_row(vec![span, rate(row.count as f64), share, bar(row.count, most)]);
    }
    let mut text = String::from("\nLatency, each row twice as long as the one before:\n\n");
    for line in table::text(drawn, &[1, 2]).lines() {
        let _ = writeln!(text, "  {}", line.trim());
    }
    text
}

/// A row for each doubling of the latency, without empty ones at the ends.
fn rows(times: impl Iterator<Item = (u64, u64)>) -> Vec<Row> {
    let mut octaves: Vec<u64> = Vec::new();
    for (us, count) in times {
        let octave = us.max(1).ilog2() as usize;
        octaves.resize(octaves.len().max(octave + 1), 0);
        octaves[octave] += count;
    }
    let first = octaves.iter().position(|count| *count > 0).unwrap_or(0);
    let numbered = (first..).zip(&octaves[first..]);
    let mut rows: Vec<Row> = numbered
        .map(|(octave, count)| Row { from_us: 1 << octave, to_us: 2 << octave, count: *count })
        .collect();
    while rows.len() > ROWS_MOST {
        let (first, last) = (rows[0].count, rows[rows.len() - 1].count);
        if first <= last {
            let shortest = rows.remove(0);
            rows[0].from_us = shortest.from_us;
            rows[0].count += shortest.count;
        } else if let (Some(longest), Some(end)) = (rows.pop(), rows.last_mut()) {
            end.to_us = longest.to_us;
            end.count += longest.count;
        }
    }
    rows
}

/// A time with its unit: `64 µs`, `1.02 ms`, `4.2 s`.
fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{:.0} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

/// A bar of whole and eighth blocks. A count above 0 has an eighth at least.
fn bar(count: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (count as f64 / most.max(1) as f64 * BAR_MOST as f64 * 8.0).round() as usize;
    let eighths = if count > 0 { eighths.max(1) } else { 0 };
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(times: &[(u64, u64)]) -> Vec<(u64, u64, u64)> {
        rows(times.iter().copied()).iter().map(|row| (row.from_us, row.to_us, row.count)).collect()
    }

    #[test]
    fn each_row_is_a_doubling_and_the_ends_have_replies() {
        assert_eq!(counts(&[(20, 5), (31, 1), (70, 2)]), [(16, 32, 6), (32, 64, 0), (64, 128, 2)]);
        assert_eq!(counts(&[(0, 1)]), [(1, 2, 1)]);
        assert!(counts(&[]).is_empty());
    }

    #[test]
    fn many_doublings_end_in_longer_rows_and_lose_nothing() {
        let times: Vec<(u64, u64)> = (0..25).map(|octave| (1 << octave, 1)).collect();
        let rows = counts(&times);
        assert_eq!((rows.len(), rows.iter().map(|row| row.2).sum::<u64>()), (ROWS_MOST, 25));
        assert_eq!((rows[0].0, rows[rows.len() - 1].1), (1, 1 << 25));
    }

    #[test]
    fn bars_are_as_long_as_counts() {
        assert_eq!(
            (bar(0, 10), bar(10, 10).chars().count(), bar(5, 10).chars().count()),
            (String::new(), 40, 20)
        );
        assert_eq!(bar(1, 1_000_000), "▏");
    }
}
