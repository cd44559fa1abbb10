//! The progress of a run, on stderr: a line for every finished cell, and on a terminal a bar below these
//! lines.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use kqps_lab::conduct::Event;
use kqps_lab::unit::Ending;
use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::visible::visible_line;
use kqps_observation::{Cell, Run, RunTrial};
use kqps_testbed::words::counted;
use kqps_verdict::judge::judge;
use kqps_verdict::percent;
use kqps_verdict::rate::rate;
use kqps_verdict::search::Bounds;

use super::time_left::TimeLeft;
use crate::print;

/// Shows the events of a run.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    blocks: u32,
    width: usize,
    trials: u32,
    time_left: TimeLeft,
}

impl Progress {
    /// `time_left` knows what was announced; `shows_bar` is whether there may be a bar.
    pub(super) fn new(run: &Run, time_left: TimeLeft, shows_bar: bool) -> Self {
        let units = run.cells.len() as u64 * u64::from(run.blocks);
        let template = "{elapsed_precise} {bar:30.cyan/blue} {pos}/{len} {msg}";
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        let has_bar = shows_bar && io::stderr().is_terminal();
        let bar = has_bar.then(|| ProgressBar::new(units).with_style(style));
        if let Some(bar) = &bar {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        let width = run.cells.iter().map(|cell| cell.name.len()).max().unwrap_or(0);
        Self { bar, blocks: run.blocks, width, trials: 0, time_left }
    }

    pub(super) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Block { .. } | Event::Load { .. } | Event::Added { .. } => (),
            Event::Start { cell, .. } => {
                self.trials = 0;
                self.message(&format!("{}: starting", cell.name));
            }
            Event::Trial { cell, trial } => {
                self.trials += 1;
                self.message(&format!("{}: trial {}, {}", cell.name, self.trials, words(trial)));
            }
            Event::Over { cell, block, ending } => self.over(cell, *block, ending),
            Event::SoFar { run, after_s } => {
                for line in so_far(run, *after_s) {
                    self.line(&line);
                }
            }
            Event::Left { left_s } => {
                if let Some(line) = self.time_left.line(*left_s) {
                    self.line(&line);
                }
            }
            Event::Dropped { what, why } => self.line(&format!("Left out: {what}: {why}.")),
        }
    }

    pub(super) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    /// Counts a cell as done for this block. Prints its result, unless the bar shows that all goes well.
    fn over(&self, cell: &Cell, block: u32, ending: &Ending) {
        let (blocks, width) = (self.blocks, self.width);
        if self.bar.is_none() || matches!(ending, Ending::Failed(_)) {
            let found = found(ending, cell.rate_unit());
            self.line(&format!("block {}/{blocks}  {:width$}  {found}", block + 1, cell.name));
        }
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    fn message(&self, message: &str) {
        if let Some(bar) = &self.bar {
            let left = self.time_left.words().map(|words| format!("{words}  ")).unwrap_or_default();
            bar.set_message(left + &visible_line(message));
        }
    }

    fn line(&self, line: &str) {
        print_line(self.bar.as_ref(), line);
    }

    /// Prints further lines, between those of this progress.
    pub(super) fn printer(&self) -> impl Fn(&str) + 'static {
        let bar = self.bar.clone();
        move |line| print_line(bar.as_ref(), line)
    }
}

/// Prints a line above the bar, if there is one.
fn print_line(bar: Option<&ProgressBar>, line: &str) {
    let line = visible_line(line);
    match bar {
        Some(bar) => {
            print::pass_on(&line);
            bar.println(line);
        }
        None => eprintln!("{line}"),
    }
}

/// The figure of each subject so far, while its trials go on.
fn so_far(run: &Run, after_s: f64) -> Vec<String> {
    let figures = judge(run).subjects.into_iter().filter_map(|subject| {
        let figure = subject.figure_qps?;
        let share = subject.share.map(|share| {
            let whole = |share| percent::fixed(share, 0);
            let (middle, low, high) = (whole(share.median), whole(share.low), whole(share.high));
            format!("{middle} % ({low} to {high} %) of {}, ", subject.ceiling.unwrap_or_default())
        });
        let (low, high) = (rate(figure.low), rate(figure.high));
        Some(format!(
            "after {after_s:.0} s   {}: {}{} {} ({low} to {high})",
            subject.name,
            share.unwrap_or_default(),
            rate(figure.median),
            run.cells[subject.cell as usize].rate_unit()
        ))
    });
    figures.collect()
}

fn found(ending: &Ending, unit: &str) -> String {
    match ending {
        Ending::Closed(rate_qps) => format!("{} {unit}", rate(*rate_qps)),
        Ending::Played => "played".into(),
        Ending::Found(Bounds { futile: Some(futile), .. }) => {
            format!("ended early: {}", futile.in_words(&|rate_qps| format!("{} {unit}", rate(rate_qps))))
        }
        // The figure rests on the trials of all blocks.
        Ending::Found(bounds) => format!("searched, {}", counted(bounds.trials.into(), "trial")),
        Ending::Failed(reason) => reason.clone(),
    }
}

fn words(trial: &RunTrial) -> String {
    match &trial.outcome {
        Outcome::Failed { reason, .. } => reason.clone(),
        Outcome::Measured(seen) => match (trial.purpose, seen.load.intended_qps) {
            (Purpose::WarmUp, _) => "warming up".to_string(),
            (Purpose::Reasons { of }, _) => format!("trial {of} again, for the reasons of its losses"),
            (Purpose::Residence, Some(load_qps)) => {
                format!("{} {}, packets stamped on the server's host", rate(load_qps), seen.rate_unit())
            }
            (Purpose::Profile { sampled: true }, _) => {
                format!("{} {} in closed loop, profiled", rate(seen.load.answered_qps), seen.rate_unit())
            }
            (_, None) => format!("{} {} in closed loop", rate(seen.load.answered_qps), seen.rate_unit()),
            (_, Some(load_qps)) => {
                let (load, bad) = (rate(load_qps), seen.accounts.bad_ratio() * 100.0);
                format!("{load} {}, {bad:.3} % bad", seen.rate_unit())
            }
        },
    }
}
