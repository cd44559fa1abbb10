//! The output at the end of a run: every subject's figure with its grade, then the ceilings.

mod all_servers;
pub(crate) mod paragraph;
mod profile;
mod residence;
pub(crate) mod scaling;
mod study;
pub(crate) mod subject;
pub(crate) mod why;

use std::fmt::Write as _;
use std::path::Path;

use kqps_observation::Run;
use kqps_observation::run::Outcome;
use kqps_observation::visible::visible_line;
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::{Ceiling, RunVerdict};
use kqps_verdict::percent;
use kqps_verdict::rate::rate;
use kqps_verdict::search::Goal;

use super::left_out;
use crate::table;

/// Whether any subject's figure is refused. That decides the exit status.
pub(super) fn is_refused(verdict: &RunVerdict) -> bool {
    verdict.subjects.iter().any(|subject| subject.grade.refuses())
}

/// The whole output. `report` is the page's path, if it could be written; `is_why` adds all reasons.
pub(super) fn output(run: &Run, verdict: &RunVerdict, report: Option<&Path>, is_why: bool) -> String {
    let mut text = String::new();
    if let Some(question) = &run.question {
        text += &study::experiments(run, verdict, question);
    } else {
        for subject in &verdict.subjects {
            let figures = verdict.figures.iter().find(|figures| figures.cell == subject.cell);
            text += &subject::paragraph(run, subject, figures);
            text += &last_words(run, subject.cell);
            text.push('\n');
        }
    }
    if verdict.subjects.is_empty() && run.question.is_none() {
        text += "No name server was measured: none of those that kqps knows is installed. On Debian,\n\
                 `apt install nsd knot bind9` adds three; `--subject FILE.toml` adds your own.\n\n";
    }
    text += &residence::paragraph(verdict);
    text += &profile::paragraphs(verdict);
    text += &all_servers::one_host(&verdict.subjects);
    let advice = all_servers::advice(run, verdict, report.and_then(Path::parent), is_why);
    if !advice.is_empty() {
        let _ = writeln!(text, "{advice}");
    }
    let ceilings = &verdict.ceilings;
    // Ceilings had no turn if no server answered, or if the run was interrupted before them.
    let was_tried = |one: &Ceiling| one.figure_qps.is_some() || !one.failures.is_empty();
    let has_ceilings = ceilings.players.iter().chain(&ceilings.echoes).any(was_tried);
    if is_why {
        text += &all_servers::holds(run, verdict);
        text += &why::text(run, verdict);
    }
    // Without a server, the ceilings are all that was measured.
    if has_ceilings && (is_why || verdict.subjects.is_empty()) {
        text += &of_ceilings(run, verdict);
    }
    // If a search ended with its share of the time, the reasons of its figure say so already. Drop reasons are a detail of a
    // server whose figure stands above.
    let is_detail =
        |what: &str| what.contains(": the rest of the search of ") || what.starts_with("drop reasons of ");
    let is_shown = |what: &str| is_why || !is_detail(what);
    let left_out = run.skipped.iter().filter(|(what, _)| is_shown(what));
    let lines = if is_why { left_out::all(left_out) } else { left_out::lines(left_out) };
    for line in lines {
        let _ = writeln!(text, "{}", visible_line(&line));
    }
    if let Some(report) = report {
        // A single blank line stands before the path, whatever the text above ends with.
        if !text.is_empty() {
            text.truncate(text.trim_end_matches('\n').len());
            text += "\n\n";
        }
        let place = report.to_string_lossy();
        let _ =
            writeln!(text, "The full report, with the trials behind every figure: {}", visible_line(&place));
    }
    text
}

/// The last lines that a subject printed before its first failure; empty if it printed none.
fn last_words(run: &Run, cell: u32) -> String {
    let outputs = run.trials.iter().filter(|one| one.cell == cell).filter_map(|one| match &one.outcome {
        Outcome::Failed { output, .. } => Some(output),
        Outcome::Measured(_) => None,
    });
    let lines = outputs.into_iter().find(|output| !output.is_empty()).into_iter().flatten();
    let lines: Vec<String> = lines.map(|line| format!("      {}\n", visible_line(line))).collect();
    if lines.is_empty() { String::new() } else { format!("    Its last words:\n{}", lines.concat()) }
}

/// A goal by its name and its limits.
pub(super) fn goal(goal: &Goal) -> String {
    format!(
        "{}: trials of {} s, at most {} % unanswered, bounds within {} %",
        goal.name,
        goal.final_s,
        percent::typed(goal.loss),
        percent::typed(goal.width)
    )
}

fn of_ceilings(run: &Run, verdict: &RunVerdict) -> String {
    let listed = verdict.ceilings.players.iter().chain(&verdict.ceilings.echoes);
    let mut units: Vec<&str> = listed.map(|one| run.cells[one.cell as usize].rate_unit()).collect();
    units.dedup();
    // The ceilings of several kinds of load are in one table.
    let unit = if let [unit] = units.as_slice() { unit } else { "a second" };
    let mut table = table::titled(["ceiling", unit, "range", "starts"]);
    let player = verdict
        .ceilings
        .players
        .iter()
        .map(|ceiling| (format!("{} ({})", ceiling.name, ceiling.io), ceiling));
    let echoes = verdict.ceilings.echoes.iter().map(|ceiling| (ceiling.name.clone(), ceiling));
    for (name, ceiling) in player.chain(echoes) {
        table.add_row(ceiling_row(name, ceiling));
    }
    table::text(table, &[1, 3]) + "\n"
}

fn ceiling_row(name: String, ceiling: &Ceiling) -> [String; 4] {
    match (ceiling.figure_qps, ceiling.failures.first()) {
        (Some(figure), _) => [name, rate(figure.median), range(&figure), figure.count.to_string()],
        (None, Some(failure)) => [name, "-".into(), failure.clone(), "0".into()],
        (None, None) => [name, "-".into(), "not measured".into(), "0".into()],
    }
}

fn range(figure: &Interval) -> String {
    format!("{} to {}", rate(figure.low), rate(figure.high))
}

/// The most columns of a line.
const COLUMNS: usize = 100;

/// Text in lines. The first begins with `head`, and the others are indented by its length.
pub(crate) fn wrapped(head: &str, text: &str) -> String {
    let mut lines = head.to_string();
    let mut column = head.chars().count();
    for (index, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > COLUMNS {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', head.chars().count()));
            column = head.chars().count();
        } else if index > 0 {
            lines.push(' ');
            column += 1;
        }
        lines += word;
        column += length;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_observation::Cell;
    use kqps_observation::run::{CellLoad, Purpose, Role};
    use kqps_observation::trial::{LoadFacts, LoadMode};
    use kqps_observation::{Accounts, RunTrial, Trial};
    use kqps_verdict::judge::judge;
    use kqps_verdict::speed::Spoiled;

    #[test]
    fn long_lines_are_wrapped_under_their_head() {
        let text = wrapped("- ", &"word ".repeat(30));
        assert!(text.lines().all(|line| line.len() <= COLUMNS));
        assert!(text.lines().nth(1).unwrap().starts_with("  word"));
        assert_eq!(wrapped("- ", "short"), "- short\n");
    }

    #[test]
    fn what_was_not_looked_for_is_printed_once() {
        let load = LoadFacts {
            mode: LoadMode::Closed,
            answered_qps: 1_000.0,
            duration_s: 1.0,
            ..LoadFacts::default()
        };
        let run = |cells: u32| Run {
            goal: "quick".into(),
            cells: vec![Cell { load: CellLoad::Closed(1.0), ..Cell::default() }; cells as usize],
            trials: (0..cells)
                .map(|cell| RunTrial {
                    number: u64::from(cell) + 1,
                    cell,
                    block: 0,
                    start: u64::from(cell) + 1,
                    purpose: Purpose::Closed,
                    outcome: Outcome::Measured(Box::new(Trial { load: load.clone(), ..Trial::default() })),
                })
                .collect(),
            ..Run::default()
        };
        for (cells, head) in [(1, "And beside that:\n"), (2, "Why, for all of them:\n")] {
            let run = run(cells);
            let text = output(&run, &judge(&run), None, true);
            let after = text.split_once(head).unwrap_or_else(|| panic!("{head}: {text}")).1;
            for what in ["A steady state was not looked for", "No minimum detectable effect is known"] {
                assert_eq!(after.matches(what).count(), 1, "{text}");
            }
        }
    }

    /// A run of two searches. In the first, a load met the goal and failed when it was tried again; in the
    /// second it held.
    fn searched() -> Run {
        let trial = |number: u64, (block, purpose, load_qps, lost): (u32, Purpose, f64, u64)| {
            let intended = load_qps as u64;
            let accounts =
                Accounts { intended, sent: intended, correct: intended - lost, lost, ..Accounts::default() };
            let load = LoadFacts { intended_qps: Some(load_qps), duration_s: 1.0, ..LoadFacts::default() };
            let outcome = Outcome::Measured(Box::new(Trial { load, accounts, ..Trial::default() }));
            RunTrial { number, cell: 0, block, start: u64::from(block) + 1, purpose, outcome }
        };
        let settled = |block: u32, load_qps: f64, lost: u64| [(block, Purpose::Search, load_qps, lost); 3];
        let trials = settled(0, 81_660.0, 0)
            .into_iter()
            .chain(settled(0, 83_250.0, 5_000))
            .chain([(0, Purpose::Retest, 81_660.0, 5_000)])
            .chain(settled(1, 59_830.0, 0))
            .chain(settled(1, 60_950.0, 5_000))
            .chain([(1, Purpose::Retest, 59_830.0, 0)]);
        Run {
            goal: "quick".into(),
            cells: vec![Cell { name: "bind".into(), ..Cell::default() }],
            trials: (1..).zip(trials).map(|(number, facts)| trial(number, facts)).collect(),
            ..Run::default()
        }
    }

    #[test]
    fn a_server_has_few_lines_and_why_prints_its_bounds_and_each_start() {
        let run = searched();
        let said = output(&run, &judge(&run), None, false);
        let (paragraph, rest) = said.split_once("\n\n").unwrap();
        let labels: Vec<&str> =
            paragraph.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(labels, ["bind", "rate", "bottleneck"], "{said}");
        assert!(said.starts_with("bind of unknown version: grade D, ± 17 %\n"), "{said}");
        assert!(rest.starts_with("What would help:\n- "), "{said}");
        assert!(rest.contains("further reasons: `kqps run --why`\n"), "{said}");
        assert!(!said.contains("start 1") && !said.contains("No canary was played"), "{said}");

        let said = output(&run, &judge(&run), None, true);
        assert!(said.contains("Beside that:\n  goal         quick: trials of 0.5 s"), "{said}");
        assert!(said.contains("\n  bounds       left out, since they do not hold the figure\n"), "{said}");
        assert!(!said.contains("  uncorrected"), "no core was gauged: {said}");
        let first = [
            "  start 1      no load is known to hold; 81,660 q/s met the goal and failed when it was tried again;\n",
            "               83,250 q/s did not hold\n",
        ];
        assert!(said.contains(&first.concat()), "{said}");
        let second = "  start 2      59,830 q/s held, and again at the end; 60,950 q/s did not hold\n";
        assert!(said.contains(second), "{said}");
        assert!(said.contains("No canary was played") && !said.contains("further reasons"), "{said}");
    }

    /// A run of one search with a wrong answer.
    fn refused() -> Run {
        let mut run = searched();
        run.trials.retain(|one| one.block == 1);
        let Outcome::Measured(trial) = &mut run.trials[0].outcome else { panic!() };
        (trial.accounts.wrong, trial.accounts.correct) = (1, 59_829);
        run
    }

    #[test]
    fn why_a_figure_is_refused_stands_in_its_place_and_what_was_seen_is_no_claim() {
        let run = refused();
        let said = output(&run, &judge(&run), None, false);
        let paragraph = said.split_once("\n\n").unwrap().0;
        let refused = "bind of unknown version: grade F\n  refused      wrong-answers: 1 replies were wrong";
        assert!(paragraph.starts_with(refused), "{said}");
        assert!(paragraph.contains("  bounds, seen lower 59,830 q/s, upper 60,950 q/s\n"), "{said}");
        assert!(!paragraph.contains("  rate") && !paragraph.contains("  share"), "{said}");
        assert!(!said.contains("Check the zones of bind"), "it stands above: {said}");
        let why = output(&run, &judge(&run), None, true);
        let seen =
            "  start 2, seen 59,830 q/s met the goal, and again at the end; 60,950 q/s missed the goal\n";
        assert!(why.contains(seen) && !why.contains(" held"), "{why}");
        assert_eq!(why.matches("  bounds, seen ").count(), 1, "{why}");
    }

    #[test]
    fn ceilings_that_had_no_turn_are_no_table() {
        let mut run = refused();
        let echo = Cell { name: "echo mmsg".into(), role: Role::EchoCeiling, ..Cell::default() };
        run.cells.push(Cell { load: CellLoad::Closed(0.5), ..echo });
        let table = "\n ceiling ";
        let said = output(&run, &judge(&run), None, true);
        assert!(!said.contains(table), "{said}");
        let outcome = Outcome::Failed { reason: "no core".into(), output: Vec::new() };
        run.trials.push(RunTrial {
            number: 900,
            cell: 1,
            block: 0,
            start: 9,
            purpose: Purpose::Ceiling,
            outcome,
        });
        let said = output(&run, &judge(&run), None, true);
        assert!(said.contains(table) && said.contains("no core"), "{said}");
    }

    #[test]
    fn what_the_host_spoiled_and_the_goal_are_said_once() {
        let mut run = searched();
        run.cells.push(Cell { name: "nsd".into(), ..Cell::default() });
        for at in 0..run.trials.len() {
            let mut other = run.trials[at].clone();
            (other.cell, other.number) = (1, other.number + 100);
            run.trials.push(other);
        }
        let mut verdict = judge(&run);
        for subject in &mut verdict.subjects {
            subject.spoiled = Spoiled { of: 14, shifted: 2, withheld: 1, in_part: 3, ..Spoiled::default() };
        }
        let said = output(&run, &verdict, None, true);
        let spoiled = "  spoiled      6 of 28 trials, by the host: 4 as the cores changed their speed, 2 as a core was\n";
        assert!(said.contains(spoiled), "{said}");
        assert_eq!((said.matches("  goal ").count(), said.matches("For all of them:").count()), (1, 1));
        assert!(said.contains("Measure all servers for longer"), "{said}");
    }

    #[test]
    fn details_that_were_left_out_are_said_if_asked_for() {
        let mut run = searched();
        for (what, is_detail) in
            [("drop reasons of a", true), ("block 1: the rest of the search of a", true), ("block 2", false)]
        {
            run.skipped = [(what.to_owned(), "the budget was used up".to_owned())].into();
            let line = format!("Left out: {what}: the budget was used up\n");
            let of = |is_why: bool| output(&run, &judge(&run), None, is_why);
            assert_eq!((of(false).contains(&line), of(true).contains(&line)), (!is_detail, true), "{what}");
        }
    }

    #[test]
    fn one_blank_line_stands_before_the_last_section() {
        let mut run = searched();
        let page = Some(Path::new("out/a\nb.html"));
        for skipped in [&[][..], &["a"]] {
            run.skipped = skipped.iter().map(|what| (what.to_string(), "no time".into())).collect();
            let said = output(&run, &judge(&run), page, false);
            let (before, last) = said.rsplit_once("\n\n").unwrap();
            assert!(!before.ends_with('\n') && !said.contains("\n\n\n"), "{said:?}");
            assert!(last.starts_with("The full report") && last.ends_with("out/a\\x0ab.html\n"), "{last:?}");
        }
    }
}
