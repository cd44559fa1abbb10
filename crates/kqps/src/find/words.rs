//! What `kqps find` says: a line for each trial as it ends, and the verdict.

use std::fmt::Write as _;

use kqps_observation::Trial;
use kqps_observation::run::Purpose;
use kqps_observation::visible::visible_line;
use kqps_player::Plan;
use kqps_verdict::judge::{SearchVerdict, Wording};
use kqps_verdict::rate::rate;
use kqps_verdict::search::{Goal, Probe};

use super::ceiling::{Ceilings, Interface};

/// How one trial went.
pub(super) fn trial_line(trial: &Trial, purpose: Purpose, goal: &Goal) -> String {
    let p99 = trial.latency_us.p99.map_or_else(String::new, |p99_us| format!(", p99 {p99_us} us"));
    // To the millisecond, since one that was interrupted lasted anything.
    let seconds = (trial.load.duration_s * 1e3).round() / 1e3;
    if purpose == Purpose::Ceiling {
        let answered = rate(trial.load.answered_qps);
        let word = if trial.interrupted { ": interrupted" } else { "" };
        return format!("overload   {answered:>11} q/s answered in a closed loop of {seconds} s{p99}{word}");
    }
    let load = rate(trial.load.intended_qps.unwrap_or(0.0));
    let word = match trial.interrupted {
        true => "interrupted",
        false if Probe::of(trial, goal, purpose).is_bad(goal) => "missed the goal",
        false => "met the goal",
    };
    let what = if purpose == Purpose::Retest { "again" } else { "trial" };
    let bad = 100.0 * trial.accounts.bad_ratio();
    format!("{what:<10} {load:>11} q/s for {seconds} s: {bad:.3} % bad{p99}: {word}")
}

/// The verdict.
pub(super) fn words(
    verdict: &SearchVerdict,
    plan: &Plan,
    ceilings: &Ceilings,
    interface: &Interface,
    subject: Option<&str>,
) -> String {
    let targets: Vec<String> = plan.targets.iter().map(ToString::to_string).collect();
    let mut text = format!("\n{}: grade {}\n", targets.join(", "), verdict.grade);
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<12} {}", visible_line(value));
    };
    if let Some(subject) = subject {
        line("subject", subject);
    }
    match verdict.throughput_qps {
        Some(qps) => line("figure", &format!("{} correct answers a second", rate(qps))),
        None => line("figure", "refused"),
    }
    // Of a refused figure it is what was seen, and no claim.
    let with_unit = |qps: f64| format!("{} q/s", rate(qps));
    let wording = Wording { rate: &with_unit, is_claimed: verdict.throughput_qps.is_some() };
    if !verdict.trials.is_empty() {
        let label = if wording.is_claimed { "bounds" } else { "bounds, seen" };
        line(label, &wording.bounds(&verdict.seen, true));
    }
    let goal = &verdict.goal;
    let p99 = goal.p99_us.map_or_else(String::new, |p99_us| format!(", p99 at most {p99_us} us"));
    line(
        "goal",
        &format!(
            "{}: trials of {} s, {} s together, at most {} % bad, bounds within {} %{p99}",
            goal.name,
            goal.final_s,
            goal.sum_s,
            percent(goal.loss),
            percent(goal.width)
        ),
    );
    if let Some(share) = verdict.ceiling_share {
        let echo = ceilings.echo_qps().map_or_else(String::new, |qps| format!(" of {} q/s", rate(qps)));
        line(
            "ceiling",
            &format!("{:.0} %{echo}, what the echo answers here {}", share * 100.0, with(interface)),
        );
    }
    if let Some(share) = verdict.busiest_to_mean {
        let workers = interface.workers;
        line("workers", &format!("the busiest of {workers} did {share:.2} times the mean work"));
    }
    line("bottleneck", &verdict.bottleneck.to_string());
    for reason in &verdict.reasons {
        let _ = writeln!(text, "  - {}", visible_line(reason));
    }
    if verdict.throughput_qps.is_some() {
        text += "  - No steady state was waited for, no canary was played, and nothing was measured against itself \
                 (`kqps compare` does that).\n";
    }
    text
}

/// How the echo took its queries, and who said that the subject does the same.
fn with(interface: &Interface) -> String {
    let workers = if interface.workers == 1 { "worker" } else { "workers" };
    let assumed = if interface.is_assumed { " (assumed: see --subject-io, --subject-workers)" } else { "" };
    format!("with {} and {} {workers}{assumed}", interface.io, interface.workers)
}

/// A share in percent, without the dust of binary fractions.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}
