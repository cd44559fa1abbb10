//! The output of `kqps find`: a line for each trial as it ends, and the verdict.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use kqps_observation::Trial;
use kqps_observation::run::Purpose;
use kqps_observation::trial::Transport;
use kqps_observation::visible::visible_line;
use kqps_verdict::advice::summary::of_search;
use kqps_verdict::judge::{SearchVerdict, Wording};
use kqps_verdict::percent;
use kqps_verdict::rate::rate;
use kqps_verdict::search::{Goal, Probe};

use super::ceiling::{Ceilings, Interface};
use crate::advice::{self, Reasons};
use crate::load::ANY_CERTIFICATE;
use crate::run::words::subject::{rates, share};

/// The line of one trial.
pub(super) fn trial_line(trial: &Trial, purpose: Purpose, goal: &Goal) -> String {
    let p99 = trial.latency_us.p99.map_or_else(String::new, |p99_us| format!(", p99 {p99_us} us"));
    // To the millisecond, since an interrupted trial has any duration.
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

/// What the words about a search need.
pub(super) struct Searched<'a> {
    pub(super) verdict: &'a SearchVerdict,
    pub(super) targets: String,
    pub(super) ceilings: &'a Ceilings,
    pub(super) interface: &'a Interface,
    /// The watched process.
    pub(super) subject: Option<String>,
    /// Whether certificates were not checked.
    pub(super) accepts_any: bool,
    pub(super) is_gauged: bool,
    /// An answer that takes longer than this is late.
    pub(super) timeout: Duration,
    /// The folder of `--out`.
    pub(super) folder: Option<&'a Path>,
    /// Whether to print all reasons.
    pub(super) is_why: bool,
}

/// The printed verdict.
pub(super) fn words(searched: &Searched<'_>) -> String {
    format!("\n{}\n{}\n{}", figure(searched), beside(searched), reasons(searched))
}

fn figure(searched: &Searched<'_>) -> String {
    let verdict = searched.verdict;
    let mut text = format!("{}: grade {}\n", searched.targets, verdict.grade);
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<12} {}", visible_line(value));
    };
    if let Some(figure) = verdict.figure_qps {
        if let Some(interval) = &verdict.share {
            line("share", &share(interval, " of what the echo answers here"));
        }
        line("rate", &rates(&figure, verdict.as_it_came_qps.as_ref().filter(|_| searched.is_gauged)));
    } else {
        line("refused", verdict.reasons.first().map_or("there is no figure", String::as_str));
    }
    // The bounds of a refused figure are observations, and no claim.
    let with_unit = |qps: f64| format!("{} q/s", rate(qps));
    let wording = Wording { rate: &with_unit, is_claimed: verdict.figure_qps.is_some() };
    if !verdict.trials.is_empty() {
        let label = if wording.is_claimed { "bounds" } else { "bounds, seen" };
        line(label, &wording.bounds(&verdict.seen, true));
    }
    line("bottleneck", &verdict.bottleneck.to_string());
    text
}

/// The goal, the subject, and the echo's ceiling beside the figure.
fn beside(searched: &Searched<'_>) -> String {
    let Searched { verdict, interface, .. } = searched;
    let mut text = String::from("Beside that:\n");
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<12} {}", visible_line(value));
    };
    line("goal", &goal(&verdict.goal, searched.timeout));
    if let Some(subject) = &searched.subject {
        line("subject", subject);
    }
    if searched.accepts_any {
        line("note", ANY_CERTIFICATE);
    }
    if let Some(echo_qps) = searched.ceilings.echo_qps().filter(|_| verdict.share.is_some()) {
        line("ceiling", &format!("{} q/s, the echo {}", rate(echo_qps), with(interface)));
    }
    if let Some(share) = verdict.busiest_to_mean {
        let workers = interface.workers;
        line("workers", &format!("the busiest of {workers} did {share:.2} times the mean work"));
    }
    if let Some(reasons) = verdict.host_spoiled.reasons() {
        line("spoiled", &reasons);
    }
    text
}

fn goal(goal: &Goal, timeout: Duration) -> String {
    let p99 = goal.p99_us.map_or_else(String::new, |p99_us| format!(", p99 at most {p99_us} us"));
    format!(
        "{}: trials of {} s, {} s together, at most {} % bad, bounds within {} %{p99}, answers late after {timeout:?}",
        goal.name,
        goal.final_s,
        goal.sum_s,
        percent::typed(goal.loss),
        percent::typed(goal.width)
    )
}

/// The checks that a search does not make.
const CAVEATS: &str = "No steady state was waited for, no canary was played, and nothing was measured against itself \
                       (`kqps compare` does that).";

/// The advice, and all reasons with `--why` or if nothing keeps them.
fn reasons(searched: &Searched<'_>) -> String {
    let verdict = searched.verdict;
    let actions = verdict.advice.iter().map(|advice| advice.map(|advice| advice.action));
    let caveats = verdict.figure_qps.map(|_| (CAVEATS, None));
    let all: Reasons<'_> = verdict.reasons.iter().map(String::as_str).zip(actions).chain(caveats).collect();
    // Without a folder nothing keeps the reasons.
    let is_why = searched.is_why || searched.folder.is_none();
    let command = searched.folder.map(|folder| format!("`kqps report {} --why`", folder.display()));
    let unprinted = all[usize::from(verdict.grade.refuses()).min(all.len())..].to_vec();
    let command = command.as_deref().filter(|_| !is_why);
    let mut text = advice::of(&of_search(verdict), 1, &unprinted, command);
    if is_why && !all.is_empty() {
        text += "Why:\n";
        text.extend(all.iter().map(|(reason, _)| format!("- {}\n", visible_line(reason))));
    }
    text
}

/// The echo's I/O model and workers, and whether kqps assumed them.
fn with(interface: &Interface) -> String {
    let workers = if interface.workers == 1 { "worker" } else { "workers" };
    let (how, flags) = match interface.transport {
        Transport::Udp => (format!("with {} and", interface.io), "--subject-io, --subject-workers"),
        transport => (format!("over {} with", transport.word()), "--subject-workers"),
    };
    let assumed = if interface.is_assumed { format!(" (assumed: see {flags})") } else { String::new() };
    format!("{how} {} {workers}{assumed}", interface.workers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_observation::Accounts;
    use kqps_observation::trial::LoadFacts;
    use kqps_verdict::judge::{Known, judge_search};
    use kqps_verdict::search::Preset;

    /// A search between 100,000 and 102,000 queries a second, with `wrong` wrong answers in each trial.
    fn words_of_search(wrong: u64, is_why: bool) -> String {
        words_of(wrong, is_why, false, Some("kept"))
    }

    /// The same. `accepts_any` is whether certificates were not checked, `folder` that of `--out`.
    fn words_of(wrong: u64, is_why: bool, accepts_any: bool, folder: Option<&str>) -> String {
        let trial = |load_qps: f64, lost: u64| {
            let intended = load_qps as u64;
            let correct = intended - lost - wrong;
            let accounts = Accounts { intended, sent: intended, correct, lost, wrong, ..Accounts::default() };
            let load = LoadFacts { intended_qps: Some(load_qps), duration_s: 1.0, ..LoadFacts::default() };
            Trial { load, accounts, ..Trial::default() }
        };
        let trials: Vec<Trial> = [(100_000.0, 0), (102_000.0, 9_000)]
            .iter()
            .flat_map(|&(qps, lost)| [(); 3].map(|()| trial(qps, lost)))
            .collect();
        let trials: Vec<(Purpose, &Trial)> = trials.iter().map(|trial| (Purpose::Search, trial)).collect();
        let known = Known { echo_qps: Some(200_000.0), ..Known::default() };
        let verdict = judge_search(&Preset::Quick.goal(), &trials, &known);
        let interface = Interface {
            transport: Transport::Udp,
            io: "mmsg".into(),
            workers: 1,
            are_workers_given: false,
            is_assumed: true,
        };
        words(&Searched {
            verdict: &verdict,
            targets: "127.0.0.1:53".into(),
            ceilings: &Ceilings::default(),
            interface: &interface,
            subject: None,
            accepts_any,
            is_gauged: false,
            timeout: Duration::from_millis(250),
            folder: folder.map(Path::new),
            is_why,
        })
    }

    #[test]
    fn a_search_has_five_lines_and_why_prints_the_rest() {
        let said = words_of_search(0, false);
        let paragraph = said.trim_start().split_once("\n\n").unwrap().0;
        let labels: Vec<&str> =
            paragraph.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(labels, ["127.0.0.1:53:", "share", "rate", "bounds", "bottleneck"], "{said}");
        assert!(said.contains("  share        50 % of what the echo answers here ("), "{said}");
        assert!(said.contains("further reasons: `kqps report kept --why` prints them.\n"), "{said}");
        assert!(!said.contains("No steady state was waited for"), "{said}");
        let why = words_of_search(0, true);
        assert!(why.contains("Why:\n- ") && why.contains("- No steady state was waited for"), "{why}");
        assert!(!why.contains("further reasons"), "{why}");
    }

    #[test]
    fn a_search_that_keeps_nothing_prints_its_reasons() {
        let said = words_of(0, false, false, None);
        assert!(said.contains("Why:\n- ") && said.contains("- No steady state was waited for"), "{said}");
        assert!(!said.contains("further reasons") && !said.contains("kqps find --why"), "{said}");
    }

    #[test]
    fn a_search_notes_that_certificates_were_not_checked() {
        let note = "\n  note         any certificate was accepted (--insecure)";
        assert!(words_of(0, false, true, None).contains(note));
        assert!(!words_of(0, false, false, None).contains(note));
    }

    #[test]
    fn why_a_search_gives_no_figure_stands_in_its_place() {
        let said = words_of_search(1, false);
        let head = "127.0.0.1:53: grade F\n  refused      wrong-answers: ";
        assert!(said.trim_start().starts_with(head), "{said}");
        assert!(!said.contains("  rate ") && !said.contains("  share "), "{said}");
        assert!(said.contains("  bounds, seen ") && !said.contains(" held"), "{said}");
    }
}
