//! The verdict of `kqps find` in words.

mod breaking;
mod tls;

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use kqps_observation::Trial;
use kqps_observation::trial::Transport;
use kqps_observation::visible::visible_line;
use kqps_testbed::words::counted;
use kqps_verdict::advice::summary::of_search;
use kqps_verdict::figure::{self, is_near};
use kqps_verdict::judge::{SearchVerdict, Wording};
use kqps_verdict::percent;
use kqps_verdict::rate::rate;
use kqps_verdict::search::Goal;

use super::attack::Attack;
use super::ceiling::{Ceilings, Interface, echo_in_words};
use super::lines::played_qps;
use crate::advice::{self, Reasons};
use crate::load::ANY_CERTIFICATE;
use crate::run::words::paragraph::Paragraph;
use crate::run::words::subject::{costs, rates, share, within};
use tls::tls_lines;

/// The inputs of the words about a search.
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
    /// The unit of the rates.
    pub(super) unit: &'static str,
    /// The trials of the search and of the echoes, which have a line each.
    pub(super) trials: Vec<&'a Trial>,
    /// The trials of the search alone.
    pub(super) sought: Vec<&'a Trial>,
    /// An answer that takes longer than this is late.
    pub(super) timeout: Duration,
    /// The folder of `--out`.
    pub(super) folder: Option<&'a Path>,
    /// Whether to print all reasons.
    pub(super) is_why: bool,
    /// The attack whose rate was searched; `None` if that of the queries was.
    pub(super) attack: Option<&'a Attack>,
}

impl Searched<'_> {
    /// Whether a rate, as printed, is not that in the line of a trial, since it was converted to the host's usual
    /// speed.
    fn is_converted(&self, printed: &str) -> bool {
        self.is_gauged && self.trials.iter().all(|trial| rate(played_qps(trial)) != printed)
    }

    /// Whether to print all reasons: if the user wants them, and if no folder keeps them.
    fn shows_all(&self) -> bool {
        self.is_why || self.folder.is_none()
    }

    /// Whether the first lines need the bounds: if there is no figure, and if the search was interrupted.
    fn needs_bounds(&self) -> bool {
        self.verdict.grade.refuses() || self.verdict.interrupted
    }

    /// A ceiling with its unit, and with its speed if that made a difference.
    fn ceiling(&self, reference_qps: f64) -> String {
        let printed = rate(reference_qps * self.verdict.usual_speed);
        let speed = if self.is_converted(&printed) { " at this host's usual speed" } else { "" };
        format!("{printed} {}{speed}", self.unit)
    }
}

/// The printed verdict.
pub(super) fn words(searched: &Searched<'_>) -> String {
    format!(
        "\n{}{}\n{}\n{}",
        figures(searched),
        breaking::breaking(searched),
        beside(searched),
        reasons(searched)
    )
}

fn figures(searched: &Searched<'_>) -> String {
    let verdict = searched.verdict;
    let within = within(verdict.figure_qps.as_ref());
    let mut text = Paragraph::new(&format!("{}: grade {}{within}", searched.targets, verdict.grade));
    if let Some(most_qps) = verdict.at_least_qps {
        if let Some(echo_qps) = searched.ceilings.echo_qps() {
            let of_echo = percent::short(most_qps / verdict.usual_speed / echo_qps);
            text.line("share", &format!("at least {of_echo} % of what the echo answers here"));
        }
        text.line("rate", &format!("at least {} {}: `--max`", rate(most_qps), searched.unit));
    } else if let Some(figure) = verdict.figure_qps {
        if let Some(interval) = &verdict.share {
            text.line("share", &share(interval, " of what the echo answers here"));
        }
        text.line("rate", &rates(&figure, searched.unit));
    } else {
        let reason = verdict.reasons.first().map_or("there is no figure", String::as_str);
        text.sentence("refused", reason);
    }
    if let Some((label, bounds)) = bounds(searched).filter(|_| searched.needs_bounds()) {
        text.line(label, &bounds);
    }
    text.line("bottleneck", &verdict.bottleneck.to_string());
    if let Some(costs) = verdict.figure_qps.and_then(|figure| {
        let at_reference_qps = figure.median / verdict.usual_speed;
        let near = searched.sought.iter().copied().filter(|trial| is_near(trial, at_reference_qps));
        costs(figure::costs(&near.collect::<Vec<_>>()))
    }) {
        text.line("costs", &costs);
    }
    text.into_text()
}

/// The rate without corrections, and the bounds if the first lines lack them, with their labels.
fn further(searched: &Searched<'_>) -> Vec<(&'static str, String)> {
    let came = searched.verdict.as_it_came_qps.filter(|_| searched.is_gauged);
    let came = came.map(|came| ("uncorrected", rates(&came, searched.unit)));
    came.into_iter().chain(bounds(searched).filter(|_| !searched.needs_bounds())).collect()
}

/// The bounds with their label; `None` without a trial.
fn bounds(searched: &Searched<'_>) -> Option<(&'static str, String)> {
    let verdict = searched.verdict;
    let is_converted = Cell::new(false);
    let with_unit = |qps: f64| {
        let printed = rate(qps);
        is_converted.set(is_converted.get() || searched.is_converted(&printed));
        format!("{printed} {}", searched.unit)
    };
    // The bounds of a refused figure are observations, and no claim.
    let wording = Wording { rate: &with_unit, is_claimed: !verdict.grade.refuses() };
    let label = if wording.is_claimed { "bounds" } else { "bounds, seen" };
    let are_left_out = verdict.figure_qps.is_some()
        && (verdict.lower_bound_qps, verdict.upper_bound_qps) == (None, None)
        && (verdict.seen.lower_qps, verdict.seen.upper_qps) != (None, None);
    let bounds = if are_left_out {
        "left out, since they do not hold the figure".to_owned()
    } else {
        let bounds = wording.bounds(&verdict.seen, true);
        bounds + if is_converted.get() { AT_USUAL_SPEED } else { "" }
    };
    (!verdict.trials.is_empty()).then_some((label, bounds))
}

/// The clause for bounds that were converted, beside the lines of trials, which are not.
const AT_USUAL_SPEED: &str = " (at this host's usual speed; the lines of trials have loads as played)";

/// The bounds, the goal, the subject, its TLS, and the echo's ceiling beside the figure.
fn beside(searched: &Searched<'_>) -> String {
    let Searched { verdict, interface, .. } = searched;
    let mut text = Paragraph::new("Beside that:");
    if searched.shows_all() {
        for (label, value) in further(searched) {
            text.line(label, &value);
        }
    }
    text.line("goal", &goal(&verdict.goal, searched.timeout));
    if let Some(subject) = &searched.subject {
        text.line("subject", subject);
    }
    if searched.accepts_any {
        text.line("note", ANY_CERTIFICATE);
    }
    for (label, value) in tls_lines(&searched.sought) {
        text.line(label, &value);
    }
    let (echo_qps, player_qps) = (searched.ceilings.echo_qps(), searched.ceilings.player_qps());
    if let Some(echo_qps) = echo_qps {
        let both = if player_qps == Some(echo_qps) { "; the player's ceiling, too" } else { "" };
        text.line("ceiling", &format!("{}, the echo {}{both}", searched.ceiling(echo_qps), with(interface)));
    }
    if let Some((most_qps, player)) = player_qps.zip(searched.ceilings.player.as_ref())
        && player_qps != echo_qps
    {
        let echo = echo_in_words(interface.transport, &player.io);
        text.line("player", &format!("{}, its ceiling, by {echo}", searched.ceiling(most_qps)));
    }
    if let Some(share) = verdict.busiest_to_mean {
        let workers = interface.workers;
        text.line("workers", &format!("the busiest of {workers} did {share:.2} times the mean work"));
    }
    if let Some(reasons) = verdict.host_spoiled.reasons() {
        text.line("spoiled", &reasons);
    }
    text.into_text()
}

fn goal(goal: &Goal, timeout: Duration) -> String {
    let p99 = goal.p99_us.map_or_else(String::new, |p99_us| format!(", p99 at most {p99_us} µs"));
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
    let caveats = (!verdict.grade.refuses()).then_some((CAVEATS, None));
    let all: Reasons<'_> = verdict.reasons.iter().map(String::as_str).zip(actions).chain(caveats).collect();
    let is_why = searched.shows_all();
    let command = searched.folder.map(|folder| format!("`kqps report {} --why`", folder.display()));
    let unprinted = all[usize::from(verdict.grade.refuses()).min(all.len())..].to_vec();
    let command = command.as_deref().filter(|_| !is_why);
    let mut text = advice::text(&of_search(verdict), 1, &unprinted, command);
    if is_why && !all.is_empty() {
        text += "Why:\n";
        text.extend(all.iter().map(|(reason, _)| format!("- {}\n", visible_line(reason))));
    }
    text
}

/// The echo's I/O model and workers, and whether kqps assumed them.
fn with(interface: &Interface) -> String {
    let (how, flags) = match interface.transport {
        Transport::Udp => (format!("with {} and", interface.io), "--subject-io, --subject-workers"),
        transport => (format!("over {} with", transport.word()), "--subject-workers"),
    };
    let assumed = if interface.is_assumed { format!(" (assumed: see {flags})") } else { String::new() };
    format!("{how} {}{assumed}", counted(interface.workers.into(), "worker"))
}

#[cfg(test)]
mod tests {
    use super::super::ceiling::Measured;
    use super::*;
    use kqps_observation::Accounts;
    use kqps_observation::run::Purpose;
    use kqps_observation::trial::LoadFacts;
    use kqps_verdict::judge::{SearchContext, judge_search};
    use kqps_verdict::search::Preset;

    /// A search between 100,000 and 102,000 queries a second, with `wrong` wrong answers in each trial.
    fn words_of_search(wrong: u64, is_why: bool) -> String {
        words_of(wrong, |searched| searched.is_why = is_why)
    }

    /// As [`words_of_search`], after `change`.
    fn words_of(wrong: u64, change: impl FnOnce(&mut Searched<'_>)) -> String {
        words_at(1.0, wrong, change)
    }

    /// As [`words_of`], at a host whose usual speed is this multiple of the reference, at which all trials were played.
    fn words_at(usual_speed: f64, wrong: u64, change: impl FnOnce(&mut Searched<'_>)) -> String {
        words_with(&Ceilings::default(), usual_speed, wrong, change)
    }

    /// Words of a search with ceilings.
    fn words_with(
        ceilings: &Ceilings,
        usual_speed: f64,
        wrong: u64,
        change: impl FnOnce(&mut Searched<'_>),
    ) -> String {
        let goal = Preset::Quick.goal();
        words_of_loads((&goal, &[(100_000.0, 0), (102_000.0, 9_000)]), ceilings, usual_speed, wrong, change)
    }

    /// Words of a search for this goal, which tried each of these loads three times and lost as many queries each time.
    fn words_of_loads(
        (goal, loads): (&Goal, &[(f64, u64)]),
        ceilings: &Ceilings,
        usual_speed: f64,
        wrong: u64,
        change: impl FnOnce(&mut Searched<'_>),
    ) -> String {
        let trial = |load_qps: f64, lost: u64| {
            let intended = load_qps as u64;
            let correct = intended - lost - wrong;
            let accounts = Accounts { intended, sent: intended, correct, lost, wrong, ..Accounts::default() };
            let load = LoadFacts { intended_qps: Some(load_qps), duration_s: 1.0, ..LoadFacts::default() };
            Trial { load, accounts, ..Trial::default() }
        };
        let trials: Vec<Trial> =
            loads.iter().flat_map(|&(qps, lost)| [(); 3].map(|()| trial(qps, lost))).collect();
        let sought: Vec<(Purpose, &Trial)> = trials.iter().map(|trial| (Purpose::Search, trial)).collect();
        let known = SearchContext {
            echo_qps: Some(200_000.0),
            usual_speed: Some(usual_speed),
            ..SearchContext::default()
        };
        let verdict = judge_search(goal, &sought, &known);
        let interface = Interface {
            transport: Transport::Udp,
            io: "mmsg".into(),
            workers: 1,
            are_workers_given: false,
            is_assumed: true,
        };
        let mut searched = Searched {
            verdict: &verdict,
            targets: "127.0.0.1:53".into(),
            ceilings,
            interface: &interface,
            subject: None,
            accepts_any: false,
            is_gauged: true,
            unit: "q/s",
            trials: trials.iter().collect(),
            sought: trials.iter().collect(),
            timeout: Duration::from_millis(250),
            folder: Some(Path::new("kept")),
            is_why: false,
            attack: None,
        };
        change(&mut searched);
        words(&searched)
    }

    #[test]
    fn bounds_name_their_speed_if_they_are_no_loads_of_trials() {
        let with_all = |speed, wrong| words_at(speed, wrong, |searched| searched.is_why = true);
        let (said, played) = (with_all(1.0, 0), with_all(0.8, 0));
        assert!(
            said.contains("  bounds       100,000 q/s held, and was not tried again; 102,000 q/s"),
            "{said}"
        );
        assert!(!said.contains("lines of trials"), "{said}");
        let clause = " (at this host's usual speed; the lines of trials have loads as played)\n";
        assert!(
            played.contains("  bounds       80,000 q/s held, and was not tried again; 81,600 q/s"),
            "{played}"
        );
        assert_eq!(played.matches(clause).count(), 1, "{played}");
        let refused = with_all(0.8, 1);
        assert!(refused.contains("  bounds, seen 80,000 q/s") && refused.contains(clause), "{refused}");
        let ungauged = words_at(0.8, 0, |searched| (searched.is_why, searched.is_gauged) = (true, false));
        assert!(!ungauged.contains(clause), "{ungauged}");
    }

    #[test]
    fn both_ceilings_have_a_rate_or_one_stands_for_both() {
        let measured = |io: &str, correct: u64| {
            let load =
                LoadFacts { duration_s: 0.5, answered_qps: 2.0 * correct as f64, ..LoadFacts::default() };
            let accounts = Accounts { intended: correct, sent: correct, correct, ..Accounts::default() };
            Some(Measured { io: io.into(), trial: Trial { load, accounts, ..Trial::default() } })
        };
        let said = |ceilings: Ceilings| words_with(&ceilings, 1.0, 1, |searched| searched.is_gauged = false);
        let two = said(Ceilings { player: measured("gso", 500_000), echo: measured("mmsg", 100_000) });
        assert!(
            two.contains("\n  ceiling      200,000 q/s, the echo with mmsg and 1 worker (assumed: "),
            "{two}"
        );
        assert!(two.contains("\n  player       1,000,000 q/s, its ceiling, by the echo with gso\n"), "{two}");
        let one = said(Ceilings { player: None, echo: measured("mmsg", 100_000) });
        assert!(one.contains("; the player's ceiling, too\n") && !one.contains("  player  "), "{one}");
        assert!(!said(Ceilings::default()).contains("  ceiling  "));
        let player = Ceilings { player: None, echo: measured("mmsg", 100_000) };
        let gauged = words_with(&player, 0.3, 0, |_| ());
        assert!(
            gauged.contains("  ceiling      60,000 q/s at this host's usual speed, the echo"),
            "{gauged}"
        );
    }

    #[test]
    fn a_server_that_answers_even_the_greatest_rate_has_at_least_that() {
        let goal = Goal { max_qps: 1000.0, ..Preset::Quick.goal() };
        let said = words_of_loads((&goal, &[(1000.0, 0)]), &Ceilings::default(), 1.0, 0, |_| ());
        assert!(said.contains("\n  rate         at least 1,000 q/s: `--max`\n"), "{said}");
    }

    #[test]
    fn a_search_of_connections_alone_has_their_unit() {
        let said = words_of(0, |searched| (searched.is_why, searched.unit) = (true, "connections/s"));
        assert!(said.contains("  rate         ") && !said.contains(" q/s"), "{said}");
        assert!(
            said.contains("100,000 connections/s held, and was not tried again; 102,000 connections/s"),
            "{said}"
        );
    }

    #[test]
    fn a_search_has_four_lines_and_why_prints_the_rest() {
        let said = words_of_search(0, false);
        let paragraph = said.trim_start().split_once("\n\n").unwrap().0;
        let labels: Vec<&str> =
            paragraph.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(labels, ["127.0.0.1:53:", "share", "rate", "bottleneck"], "{said}");
        assert!(said.contains("  share        50 % of what the echo answers here ("), "{said}");
        assert!(said.contains("further reasons: `kqps report kept --why`\n"), "{said}");
        assert!(!said.contains("No steady state was waited for"), "{said}");
        let why = words_of_search(0, true);
        assert!(why.contains("Why:\n- ") && why.contains("- No steady state was waited for"), "{why}");
        assert!(!why.contains("further reasons"), "{why}");
    }

    #[test]
    fn a_search_that_keeps_nothing_prints_its_reasons() {
        let said = words_of(0, |searched| searched.folder = None);
        assert!(said.contains("Why:\n- ") && said.contains("- No steady state was waited for"), "{said}");
        assert!(!said.contains("further reasons") && !said.contains("kqps find --why"), "{said}");
    }

    #[test]
    fn a_search_notes_that_certificates_were_not_checked() {
        let note = "\n  note         any certificate was accepted (--insecure)";
        assert!(words_of(0, |searched| searched.accepts_any = true).contains(note));
        assert!(!words_of_search(0, false).contains(note));
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
