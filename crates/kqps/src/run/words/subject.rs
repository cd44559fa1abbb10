//! The paragraph of a server: its name and grade, share of the ceiling, rate, bottleneck, CPU time and memory, a line
//! for each. If the figure is refused, the gravest reason stands in place of share and rate, and the bounds below it.

use kqps_observation::visible::visible_line;
use kqps_observation::{Cell, Run};
use kqps_verdict::figure::{Costs, Figures};
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::CellVerdict;
use kqps_verdict::percent;
use kqps_verdict::rate::rate;
use kqps_verdict::search::Bounds;
use kqps_verdict::speed;

use super::paragraph::Paragraph;

pub(super) fn paragraph(run: &Run, subject: &CellVerdict, figures: Option<&Figures>) -> String {
    let cell = &run.cells[subject.cell as usize];
    let mut text = Paragraph::new(&title(cell, subject));
    if let Some(least_qps) = subject.at_least_qps {
        text.line("rate", &format!("at least {} {}", rate(least_qps), cell.rate_unit()));
    } else if let Some(figure) = subject.figure_qps {
        if let (Some(interval), Some(ceiling)) = (subject.share, &subject.ceiling) {
            text.line("share", &share(&interval, &format!(" of {ceiling}")));
        }
        text.line("rate", &rates(&figure, cell.rate_unit()));
    } else {
        let reason = subject.reasons.first().map_or("there is no figure", String::as_str);
        text.sentence("refused", reason);
    }
    if needs_bounds(subject) {
        let (label, bounds) = labelled_bounds(subject, cell.rate_unit());
        text.line(label, &bounds);
    }
    text.line("bottleneck", &subject.bottleneck.to_string());
    let figures = figures.filter(|_| subject.figure_qps.is_some());
    if let Some(costs) = figures.and_then(|figures| costs(figures.costs())) {
        text.line("costs", &costs);
    }
    text.into_text()
}

/// The costs of a server's answers in words; `None` if nothing is known.
pub(crate) fn costs(costs: Costs) -> Option<String> {
    let cpu =
        costs.cpu_s_per_million.map(|seconds| format!("{seconds:.2} s of CPU time for a million answers"));
    let memory =
        costs.memory.map(|memory| format!("{:.1} MiB of memory", memory.bytes as f64 / f64::from(1 << 20)));
    let known: Vec<String> = cpu.into_iter().chain(memory).collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// The subject's name, version and grade, and how closely its rate is known.
pub(super) fn title(cell: &Cell, subject: &CellVerdict) -> String {
    let version = version(cell, &subject.name);
    let within = within(subject.figure_qps.as_ref());
    visible_line(&format!("{} {version}: grade {}{within}", subject.name, subject.grade)).into_owned()
}

/// How closely a rate is known, to stand after the grade: `, ± 6 %`. Empty without a range.
pub(crate) fn within(figure: Option<&Interval>) -> String {
    let half = figure.map_or(0.0, Interval::half_width);
    if half > 0.0 { format!(", ± {} %", percent::short(half)) } else { String::new() }
}

/// Lines about a subject that the first look leaves out, with their labels: the rate without corrections, and the bounds.
pub(super) fn further(run: &Run, subject: &CellVerdict) -> Vec<(&'static str, String)> {
    let unit = run.cells[subject.cell as usize].rate_unit();
    let came = subject.as_it_came_qps.filter(|_| speed::is_gauged(run, subject.cell as usize));
    let came = came.map(|came| {
        (
            "uncorrected",
            format!("{}, with the speed of the cores and all trials as they came", rates(&came, unit)),
        )
    });
    let bounds = (!needs_bounds(subject)).then(|| labelled_bounds(subject, unit));
    came.into_iter().chain(bounds).collect()
}

/// Whether the first look needs the bounds: if there is no figure, and if the search was interrupted.
fn needs_bounds(subject: &CellVerdict) -> bool {
    let mut bounds = subject.starts.iter().filter_map(|start| start.bounds.as_ref());
    subject.grade.refuses() || bounds.any(|bounds| bounds.interrupted)
}

/// The bounds with their label. Those of a refused figure are observations, and no claim.
fn labelled_bounds(subject: &CellVerdict, unit: &str) -> (&'static str, String) {
    let label = if subject.grade.refuses() { "bounds, seen" } else { "bounds" };
    (label, bounds(subject, unit))
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

/// A rate with its range. `unit` is that of the rates.
pub(crate) fn rates(figure: &Interval, unit: &str) -> String {
    let range = if figure.high > figure.low {
        format!(" ({} to {})", rate(figure.low), rate(figure.high))
    } else {
        String::new()
    };
    format!("{} {unit}{range}", rate(figure.median))
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
    let claimed = (subject.lower_bound_qps, subject.upper_bound_qps);
    let is_claimless = claimed == (None, None);
    let (lower_qps, upper_qps) = if is_claimless {
        let of_seen = |of: fn(&&Bounds) -> Option<f64>| seen.iter().filter_map(of);
        (of_seen(|one| one.lower_qps).reduce(f64::min), of_seen(|one| one.upper_qps).reduce(f64::max))
    } else {
        claimed
    };
    let has_held = seen.iter().any(|one| one.throughput_qps.is_some());
    if subject.figure_qps.is_some() && is_claimless && has_held {
        return "left out, since they do not hold the figure".to_owned();
    }
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
        assert_eq!(rates(&interval(83_000.0, 85_763.0, 88_100.0), "q/s"), "85,763 q/s (83,000 to 88,100)");
        assert_eq!(within(Some(&interval(83_000.0, 85_763.0, 88_100.0))), ", ± 3.0 %");
        assert_eq!(within(Some(&interval(1.0, 1.0, 1.0))) + &within(None), "");
    }
}
