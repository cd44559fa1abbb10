//! The page of a history: the data for the template, and the template.

use askama::Template;
use kqps_history::{LAST, TooFew};
use kqps_observation::visible::visible;

use crate::format;
use crate::section::history::{self, ChangeRow, HistoryInput, HostRow, Panel, RunRow};

/// The page of a history: one HTML document without scripts, which fetches nothing. Text from outside is escaped where
/// it appears, and its control characters appear as numbers.
pub fn history_page(input: HistoryInput<'_>) -> String {
    let HistoryInput { records, history, kqps_version, .. } = input;
    let page = Page {
        kqps_version,
        headline: history::headline(history),
        span: history::span(records),
        too_few: history.too_few(LAST),
        changes: history::changes(input),
        panels: history::panels(input),
        tests: history.tests,
        runs: history::runs(input),
        further_runs: records.entries.len().saturating_sub(history::DRAWN_MOST),
        hosts: history::hosts(records),
        newest: records.entries.last().map_or(String::new(), |entry| format::moment(entry.started_unix_ms)),
    };
    let html = page.render().expect("the template only writes to memory");
    visible(&html).into_owned()
}

/// The data for the template.
#[derive(Template)]
#[template(path = "history.html")]
struct Page<'a> {
    kqps_version: &'a str,
    headline: String,
    /// How many runs there are, and of which time.
    span: String,
    too_few: Option<TooFew>,
    changes: Vec<ChangeRow>,
    panels: Vec<Panel>,
    tests: u32,
    runs: Vec<RunRow>,
    /// How many older runs are left out.
    further_runs: usize,
    hosts: Vec<HostRow>,
    newest: String,
}
