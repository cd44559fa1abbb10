//! The name servers of a run side by side: for each its fastest cell, with what that rate costs.

use kqps_observation::Run;
use kqps_observation::question::Figure;
use kqps_verdict::compare::Pairing;
use kqps_verdict::figure::{Figures, State};
use kqps_verdict::judge::RunVerdict;

use super::table::{self, Shown};

/// The summary.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) rows: Vec<Row>,
    /// Whether any server was measured under several settings.
    pub(crate) chosen: bool,
}

/// One name server.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) subject: String,
    pub(crate) version: Option<String>,
    /// Under which settings, where there were several.
    pub(crate) settings: String,
    /// Rate, share of the ceiling, CPU, memory, p99 at half load.
    pub(crate) figures: Vec<Shown>,
    /// Those names, for narrow screens.
    pub(crate) names: [&'static str; 5],
}

const FIGURES: [Figure; 5] =
    [Figure::Median, Figure::CeilingShare, Figure::Cpu, Figure::Memory, Figure::P99AtHalf];
const NAMES: [&str; 5] = ["rate", "of the ceiling", "CPU per million", "memory", "p99 at half load"];

/// The subject of cells that measure the echo.
const ECHO: &str = "echo";

/// Every name server in the order of the run; the echo is none, and what a comparison measures once more is none
/// again.
pub(crate) fn of_run(run: &Run, verdict: &RunVerdict) -> Option<Summary> {
    let again = Pairing::of(run).map(|pairing| pairing.again as u32);
    let subject = |one: &Figures| run.cells[one.cell as usize].subject.clone();
    let mut subjects: Vec<String> = Vec::new();
    let figures = || verdict.figures.iter().enumerate().filter(|(_, one)| Some(one.cell) != again);
    for name in figures().map(|(_, one)| subject(one)).filter(|name| name != ECHO) {
        if !subjects.contains(&name) {
            subjects.push(name);
        }
    }
    let rate = |one: &Figures| one.median_qps.map_or(f64::NEG_INFINITY, |figure| figure.median);
    let row = |name: &String| {
        let own: Vec<(usize, &Figures)> = figures().filter(|(_, one)| subject(one) == *name).collect();
        let (index, best) = *own.iter().max_by(|(_, a), (_, b)| rate(a).total_cmp(&rate(b)))?;
        let settings = match own.len() {
            1 => String::new(),
            several if best.median_qps.is_none() => {
                format!("none of {several} cells has a number; one of them: {}", best.name)
            }
            several => format!("fastest of {several} cells: {}", best.name),
        };
        Some(Row {
            subject: name.clone(),
            version: run.cells[best.cell as usize].version.clone(),
            settings,
            figures: FIGURES.iter().map(|figure| shown(verdict, index, *figure)).collect(),
            names: NAMES,
        })
    };
    let rows: Vec<Row> = subjects.iter().filter_map(row).collect();
    let chosen = rows.iter().any(|row| !row.settings.is_empty());
    (!rows.is_empty()).then_some(Summary { rows, chosen })
}

fn shown(verdict: &RunVerdict, index: usize, figure: Figure) -> Shown {
    let figures = &verdict.figures[index];
    let says = |text: &str, soft: String| Shown { text: text.to_owned(), soft, class: "absent" };
    match (figures.state, figure) {
        (State::Measured, _) => table::figure_of(figure, figures),
        (State::Crashed, Figure::Median) => Shown { class: "crashed", ..says("crashed", String::new()) },
        (State::Refused, Figure::Median) => says("no number", table::refused_for(verdict, index)),
        (State::NotMeasured, Figure::Median) => says("not measured", String::new()),
        _ => says(crate::format::NONE, String::new()),
    }
}
