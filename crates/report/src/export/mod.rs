//! The data behind the page's tables and charts, as plain tables: every figure as a number with its unit in the name of
//! its column, and every refused figure with its reason. docs/EXPORT.md describes each table. The page names the table
//! of each of its tables and charts (`data-sheet`), and a test compares both.

mod cells;
mod events;
mod findings;
mod grids;
mod hostile;
mod hosts;
mod laws;
mod losses;
mod moments;
mod other_run;
mod points;
mod profiles;
mod scenario;
mod sheet;
mod trials;

use kqps_history::Beside;
use kqps_observation::Run;
use kqps_verdict::judge::RunVerdict;
use kqps_verdict::scenario::figures;

use crate::load::LoadInput;

pub use sheet::{Column, PrintedSheet, SHEET_SCHEMA, Sheet, Value, csv};

/// All tables of a run, with another run beside it if there is one, in the order of its page. Tables without a row are
/// left out.
pub fn sheets(run: &Run, verdict: &RunVerdict, other: Option<&Beside>) -> Vec<Sheet> {
    let measured = moments::of_run(run);
    let sheets = [
        cells::cells(run, verdict),
        cells::reasons(verdict),
        points::starts(verdict),
        findings::findings(verdict),
        grids::figures(run, verdict),
        grids::best(run, verdict),
        cells::cpu_by_thread(verdict),
        grids::links(run, verdict),
        laws::scaling(verdict),
        laws::laws(verdict),
        laws::curves(verdict),
        points::comparisons(run, verdict),
        other_run::figures(other),
        other_run::differences(other),
        points::ceilings(verdict),
        points::speeds(run),
        points::latency(verdict),
        points::residence(verdict),
        losses::fates(verdict),
        losses::losses(verdict),
        losses::drop_reasons(verdict),
        points::threads(run, verdict),
        profiles::profiles(verdict),
        profiles::threads(run, verdict),
        profiles::locks(verdict),
        profiles::growth(verdict),
        profiles::functions(run, verdict),
        trials::trials(run, verdict),
        moments::moments(&measured),
        moments::lanes(&measured),
        hostile::hostile(&measured),
        events::events(run.trials.iter().filter_map(|one| Some((one.number, one.measured()?)))),
        trials::skipped(run),
        hosts::hosts(run),
        hosts::parts(run),
        hosts::cores(run),
    ];
    with_rows(sheets)
}

/// The tables of a single load, whose number is 1.
pub fn load_sheets(load: &LoadInput) -> Vec<Sheet> {
    let trials = moments::parts(1, &load.trial);
    let figures = figures(&load.trial).unwrap_or_default();
    with_rows([
        moments::moments(&trials),
        moments::lanes(&trials),
        scenario::effects(&figures.effects),
        scenario::classes(&figures.classes),
        scenario::silences(&trials),
        hostile::hostile(&trials),
        events::events([(1, &load.trial)]),
    ])
}

fn with_rows(sheets: impl IntoIterator<Item = Sheet>) -> Vec<Sheet> {
    sheets.into_iter().filter(|sheet| !sheet.rows.is_empty()).collect()
}
