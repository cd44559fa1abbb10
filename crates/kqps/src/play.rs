//! `kqps play`: plays the trial that another kqps asks for on standard input, and prints its record. The message has
//! the whole plan, so nothing is formatted into flags and parsed again.

use std::io;
use std::process::ExitCode;

use kqps_lab::play::PlayRequest;

use crate::exit::bad_input;
use crate::load::{ProgressDisplay, Watcher, check_plan};
use crate::print;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let request = serde_json::from_reader(io::stdin().lock());
    let PlayRequest { plan, queries, is_allowed, subject, shows_bar } =
        request.map_err(|error| bad_input(format!("standard input is no request to play: {error}")))?;
    check_plan(&plan, is_allowed)?;
    let dataset = queries.open()?;
    let plan = plan.for_dataset(&dataset);
    let shown = ProgressDisplay { bar: shows_bar, every: None };
    print::json(&Watcher::new().play(&plan, &subject, &dataset, shown)?)?;
    Ok(ExitCode::SUCCESS)
}
