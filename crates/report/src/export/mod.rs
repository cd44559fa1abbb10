//! The data behind the page's tables and charts, as plain tables: every figure as a number with its unit in the name of
//! its column, and every refused figure with its reason. docs/EXPORT.md describes each table.

mod cells;
mod grids;
mod points;
mod sheet;
mod trials;

use kqps_observation::Run;
use kqps_verdict::judge::RunVerdict;

pub use sheet::{Column, PrintedSheet, SHEET_SCHEMA, Sheet, Value};

/// All tables of a run, in the order of its page. Tables without a row are left out.
pub fn sheets(run: &Run, verdict: &RunVerdict) -> Vec<Sheet> {
    let sheets = [
        cells::cells(run, verdict),
        cells::reasons(verdict),
        points::starts(verdict),
        grids::findings(run, verdict),
        grids::figures(run, verdict),
        grids::scaling(verdict),
        points::comparisons(verdict),
        points::ceilings(verdict),
        points::speeds(run),
        points::latency(verdict),
        points::residence(verdict),
        points::losses(verdict),
        points::threads(run, verdict),
        points::profiles(verdict),
        trials::trials(run),
        trials::skipped(run),
    ];
    sheets.into_iter().filter(|sheet| !sheet.rows.is_empty()).collect()
}
