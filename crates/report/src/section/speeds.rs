//! The speed of the cores over a run, and when the host spoiled trials.

use std::collections::BTreeSet;

use kqps_observation::Run;
use kqps_verdict::speed::{Moment, moments};

use super::Panel;
use crate::chart::{Stretch, Strip, strip};
use crate::format;

/// With more moments than this, neighbours are drawn together.
const MOST_STRETCHES: usize = 240;

/// The strip of a run's speeds; `None` if fewer than two moments are known.
pub(crate) fn panel(run: &Run) -> Option<Panel> {
    let moments = moments(run);
    if moments.len() < 2 {
        return None;
    }
    let cores: BTreeSet<u32> = moments.iter().flat_map(|moment| moment.speeds.keys().copied()).collect();
    let rows: Vec<String> = cores.iter().map(|core| format!("core {core}")).collect();
    let of_cores: Vec<String> = cores.iter().map(|core| range(*core, &moments)).collect();
    let disturbances = disturbances(&moments);
    let drawing = strip(&Strip {
        id: "speeds",
        title: "Speed of the cores over the run",
        description: &format!("{} {disturbances}", of_cores.join(" ")),
        rows: &rows,
        ticks: "spoiled",
        bars: "withheld",
        stretches: &stretches(&moments, &cores),
    });
    let caption = format!("{} {disturbances}", slowest(&moments));
    Some(Panel {
        name: "How fast the cores were".to_owned(),
        caption,
        drawing,
        link: None,
        cells: Vec::new(),
    })
}

/// `Core 1: 78 % to 100 %.`
fn range(core: u32, moments: &[Moment]) -> String {
    let speeds = || moments.iter().filter_map(|moment| moment.speeds.get(&core).copied());
    let (low, high) = (speeds().fold(f64::INFINITY, f64::min), speeds().fold(0.0, f64::max));
    format!("Core {core}: {} to {}.", format::percent(low), format::percent(high))
}

/// The least speed, and the core that had it.
fn slowest(moments: &[Moment]) -> String {
    let speeds = moments.iter().flat_map(|moment| &moment.speeds);
    let slowest = speeds.min_by(|(_, a), (_, b)| a.total_cmp(b));
    slowest.map_or(String::new(), |(core, speed)| {
        format!("The least was {}, of core {core}.", format::percent(*speed))
    })
}

/// How many trials were spoiled, and for how long cores were withheld.
fn disturbances(moments: &[Moment]) -> String {
    let spoiled = moments.iter().filter(|moment| moment.spoiled).count();
    let in_part = moments.iter().filter(|moment| moment.in_part).count();
    let in_part = if in_part > 0 { format!(", and {in_part} in part") } else { String::new() };
    let withheld_us: f64 = moments.iter().map(|moment| moment.withheld_ms * 1e3).sum();
    let most_us = moments.iter().map(|moment| moment.withheld_ms * 1e3).fold(0.0, f64::max);
    let of_cores = if most_us > 0.0 {
        let (all, most) = (format::time_us(withheld_us), format::time_us(most_us));
        format!("cores were withheld for {all}, {most} at most in one trial")
    } else {
        "no core was withheld".to_owned()
    };
    format!(
        "The host spoiled {spoiled} of {} trials{in_part}, those of the echo included; {of_cores}.",
        moments.len()
    )
}

/// The moments in the order of time. Each lasts until the next, and the last one as long as the others on
/// average.
fn stretches(moments: &[Moment], cores: &BTreeSet<u32>) -> Vec<Stretch> {
    let mut sorted: Vec<&Moment> = moments.iter().collect();
    sorted.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    let last_s = sorted.last().map_or(0.0, |moment| moment.at_s);
    let end_s = last_s + last_s / (sorted.len() - 1) as f64;
    let parts: Vec<&[&Moment]> = sorted.chunks(sorted.len().div_ceil(MOST_STRETCHES)).collect();
    let until = |at: usize| parts.get(at + 1).map_or(end_s, |next| next[0].at_s);
    let mean = |part: &[&Moment], core: u32| {
        let speeds: Vec<f64> = part.iter().filter_map(|moment| moment.speeds.get(&core).copied()).collect();
        (!speeds.is_empty()).then(|| speeds.iter().sum::<f64>() / speeds.len() as f64)
    };
    let stretch = |(at, part): (usize, &&[&Moment])| Stretch {
        from_s: part[0].at_s,
        to_s: until(at),
        heights: cores.iter().map(|core| mean(part, *core)).collect(),
        ticked: part.iter().any(|moment| moment.spoiled),
        amount: part.iter().map(|moment| moment.withheld_ms).sum(),
    };
    parts.iter().enumerate().map(stretch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at_s: f64, speed: f64, spoiled: bool) -> Moment {
        let speeds = [(0, 1.0), (3, speed)].into();
        Moment { at_s, speeds, withheld_ms: if spoiled { 1.5 } else { 0.0 }, spoiled, in_part: !spoiled }
    }

    #[test]
    fn a_run_that_was_not_gauged_has_no_strip() {
        assert!(panel(&Run::default()).is_none());
    }

    #[test]
    fn a_moment_lasts_until_the_next_and_many_are_drawn_together() {
        let cores = BTreeSet::from([0, 3]);
        let few = stretches(&[moment(0.0, 1.0, false), moment(2.0, 0.5, true)], &cores);
        assert_eq!((few[0].to_s, few[1].from_s, few[1].to_s), (2.0, 2.0, 4.0));
        assert_eq!(few[1].heights, [Some(1.0), Some(0.5)]);
        assert!(!few[0].ticked && few[1].ticked && few[1].amount > few[0].amount);
        let many: Vec<Moment> = (0..1_000).map(|at| moment(f64::from(at), 0.9, at == 500)).collect();
        let drawn = stretches(&many, &cores);
        assert!(drawn.len() <= MOST_STRETCHES && drawn.iter().filter(|one| one.ticked).count() == 1);
    }

    #[test]
    fn the_slowest_core_and_the_disturbances_are_shown() {
        let moments = [moment(0.0, 0.8, false), moment(2.0, 0.5, true)];
        let plain = |text: String| text.replace('\u{a0}', " ");
        assert_eq!(plain(slowest(&moments)), "The least was 50 %, of core 3.");
        let said = "The host spoiled 1 of 2 trials, and 1 in part, those of the echo included; cores were withheld for 1.50 ms, 1.50 ms \
                    at most in one trial.";
        assert_eq!(plain(disturbances(&moments)), said);
        assert_eq!(plain(range(3, &moments)), "Core 3: 50 % to 80 %.");
        assert!(disturbances(&moments[..1]).ends_with("no core was withheld."));
    }
}
