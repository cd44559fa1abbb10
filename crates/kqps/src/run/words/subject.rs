//! One server's paragraph: its name, share of the ceiling, rate, bounds and bottleneck, a line for each. If
//! the figure is refused, the gravest reason stands in place of share and rate.

use std::fmt::Write as _;

use kqps_observation::visible::visible_line;
use kqps_observation::{Cell, Run};
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::CellVerdict;
use kqps_verdict::percent;
use kqps_verdict::rate::rate;
use kqps_verdict::search::Bounds;
use kqps_verdict::speed;

use super::wrapped;

pub(super) fn of(run: &Run, subject: &CellVerdict) -> String {
    let cell = &run.cells[subject.cell as usize];
    let (mut text, unit) = (format!("{}\n", title(cell, subject)), cell.rate_unit());
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<12} {}", visible_line(value));
    };
    if let Some(figure) = subject.figure_qps {
        if let (Some(interval), Some(ceiling)) = (subject.share, &subject.ceiling) {
            line("share", &share(&interval, &format!(" of {ceiling}")));
        }
        let is_gauged = speed::is_gauged(run, subject.cell as usize);
        line("rate", &rates(&figure, subject.as_it_came_qps.as_ref().filter(|_| is_gauged), unit));
    } else {
        let reason = subject.reasons.first().map_or("there is no figure", String::as_str);
        text += &wrapped("  refused      ", reason);
    }
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<12} {}", visible_line(value));
    };
    // The bounds of a refused figure are observations, and no claim.
    line(if subject.figure_qps.is_some() { "bounds" } else { "bounds, seen" }, &bounds(subject, unit));
    line("bottleneck", &subject.bottleneck.to_string());
    text
}

/// The subject's name, version and grade.
pub(super) fn title(cell: &Cell, subject: &CellVerdict) -> String {
    let version = version(cell, &subject.name);
    visible_line(&format!("{} {version}: grade {}", subject.name, subject.grade)).into_owned()
}

/// The version of a cell's subject, to stand after the cell's name. After settings the subject is named again.
fn version(cell: &Cell, name: &str) -> String {
    match cell.version.as_deref() {
        Some(version) if name.contains('=') && name != cell.subject => {
            format!("({} {version})", cell.subject)
        }
        Some(version) if name.contains('=') => format!("(version {version})"),
        Some(version) => version.to_owned(),
        None if cell.target.is_some() => "(running before)".to_owned(),
        None => "of unknown version".to_owned(),
    }
}

/// A share of the ceiling, as in `45 % of echo mmsg (43 to 47 %)`.
pub(crate) fn share(share: &Interval, of: &str) -> String {
    let range = if share.high > share.low {
        format!(" ({} to {} %)", percent::short(share.low), percent::short(share.high))
    } else {
        String::new()
    };
    format!("{} %{of}{range}", percent::short(share.median))
}

/// The rate with its range. If the cores' speed was measured, the rate is that at the host's usual speed, and
/// `as_it_came`, the rate without that correction, stands beside it. `unit` is that of the rates.
pub(crate) fn rates(figure: &Interval, as_it_came: Option<&Interval>, unit: &str) -> String {
    let range = if figure.high > figure.low {
        format!(" ({} to {})", rate(figure.low), rate(figure.high))
    } else {
        String::new()
    };
    let median = rate(figure.median);
    match as_it_came {
        Some(came) => {
            format!(
                "{median} {unit} at this host's usual speed{range}, {} as the host came",
                rate(came.median)
            )
        }
        None => format!("{median} {unit}{range}"),
    }
}

/// The outermost bounds of the subject's starts.
fn bounds(subject: &CellVerdict, unit: &str) -> String {
    let starts = subject.starts.iter().filter(|start| start.failure.is_none());
    let seen: Vec<&Bounds> = starts.filter_map(|start| start.bounds.as_ref()).collect();
    let of = match seen.len() {
        0 | 1 if seen.iter().any(|one| one.interrupted) => "; interrupted".into(),
        0 | 1 => String::new(),
        several => format!(" (outermost of {several} starts)"),
    };
    let (lower_qps, upper_qps) = match (subject.lower_bound_qps, subject.upper_bound_qps) {
        (None, None) => (
            seen.iter().filter_map(|one| one.lower_qps).reduce(f64::min),
            seen.iter().filter_map(|one| one.upper_qps).reduce(f64::max),
        ),
        claimed => claimed,
    };
    match (lower_qps, upper_qps) {
        (Some(lower_qps), Some(upper_qps)) => {
            format!("lower {} {unit}, upper {} {unit}{of}", rate(lower_qps), rate(upper_qps))
        }
        (Some(lower_qps), None) => format!("lower {} {unit}, no upper one{of}", rate(lower_qps)),
        (None, Some(upper_qps)) => format!("no lower one, upper {} {unit}{of}", rate(upper_qps)),
        (None, None) if seen.len() < 2 => format!("none{}{of}", why_none(subject, &seen, unit)),
        (None, None) => format!("none{}", why_none(subject, &seen, unit)),
    }
}

fn why_none(subject: &CellVerdict, seen: &[&Bounds], unit: &str) -> String {
    if let Some(futile) = seen.iter().find_map(|one| one.futile) {
        let with_unit = |qps: f64| format!("{} {unit}", rate(qps));
        return format!(": ended early, {}", futile.in_words(&with_unit));
    }
    let is_searched = subject.starts.iter().any(|start| start.is_searched);
    match (seen.is_empty(), is_searched) {
        (true, _) => String::new(),
        (false, true) => ": trials were too few".into(),
        (false, false) => ": the load was given".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, median: f64, high: f64) -> Interval {
        Interval { median, low, high, coverage: 0.95, count: 2 }
    }

    #[test]
    fn a_version_is_that_of_the_subject_and_of_no_setting() {
        let after = |name: &str, subject: &str, version: Option<&str>| {
            let version = version.map(str::to_owned);
            super::version(&Cell { subject: subject.into(), version, ..Cell::default() }, name)
        };
        assert_eq!(after("nsd", "nsd", Some("4.6.1")), "4.6.1");
        assert_eq!(after("subject=nsd; workers=1", "nsd", Some("4.6.1")), "(nsd 4.6.1)");
        assert_eq!(after("nsd workers=2", "nsd workers=2", Some("4.6.1")), "(version 4.6.1)");
        assert_eq!(after("subject=nsd", "nsd", None), "of unknown version");
    }

    #[test]
    fn shares_and_rates_have_their_ranges() {
        let said = share(&interval(0.431, 0.45, 0.468), " of echo mmsg");
        assert_eq!(said, "45 % of echo mmsg (43 to 47 %)");
        assert_eq!(share(&interval(0.004, 0.004, 0.004), ""), "0.4 %");
        let (figure, came) = (interval(83_000.0, 85_763.0, 88_100.0), interval(8e4, 81_200.0, 8.3e4));
        let said = rates(&figure, Some(&came), "q/s");
        let expected = "85,763 q/s at this host's usual speed (83,000 to 88,100), 81,200 as the host came";
        assert_eq!(said, expected);
        assert_eq!(rates(&figure, None, "q/s"), "85,763 q/s (83,000 to 88,100)");
    }
}
