//! The HTML pages of a run and its verdict, and of the history of many runs: each one self-contained file. The data of
//! a run's page as plain tables.
//!
//! For: the answer first, and then everything that it rests on, down to the last trial; readable on a phone, in
//! dark mode and on paper. Not for: figures that are in neither the run nor the verdict.
//!
//! Invariant: it formats, and computes no figure that it claims. The page needs no network, runs no script, and shows
//! all text of a run as text. Only the page of a run that goes on has a script, which puts in what its server sends.

mod chart;
mod export;
mod format;
mod history;
mod live;
mod load;
mod page;
mod prose;
mod section;

pub use export::{Column, PrintedSheet, SHEET_SCHEMA, Sheet, Value, csv, load_sheets, sheets};
pub use history::history_page;
pub use live::{LiveCourse, LiveInput, LiveMoment, live_page, live_panel, page_body, page_so_far};
pub use load::{LoadInput, loads_page};
pub use page::{page, page_beside};
pub use section::history::HistoryInput;
