//! Views of a measurement while it goes on: on a terminal, to Prometheus, and as a page.

// The page is looked at as in the tests of reports.
#[expect(dead_code, reason = "the tests of reports use the rest of it")]
#[path = "../../../report/tests/support/browser.rs"]
mod browser;
pub(crate) mod openmetrics;
mod page;
mod pty;
mod scraped;
mod terminal;
mod watched;

use std::time::Duration;

use watched::{Killed, Values, answer, get, shown_at, values_of};

/// The longest wait for anything. It is far above the need, so that only a hang ends a test.
const PATIENCE: Duration = Duration::from_mins(2);
