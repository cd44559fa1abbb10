//! `kqps play`: plays the trial that another kqps asks for on standard input, and prints its record. The message has the
//! whole plan, so nothing is formatted into flags and parsed again.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use kqps_dataset::{Check, Dataset, Options};
use kqps_lab::player::PlayRequest;

use crate::exit::bad_input;
use crate::load::{Shown, Watcher, check_plan};
use crate::print;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let request = serde_json::from_reader(io::stdin().lock());
    let PlayRequest { plan, queries, checks, is_allowed, subject } =
        request.map_err(|error| bad_input(format!("standard input is no request to play: {error}")))?;
    check_plan(&plan, is_allowed)?;
    let queries = Path::new(&queries);
    let dataset = Dataset::open(queries, &Options::default())
        .with_context(|| format!("cannot open the queries in {}", queries.display()))?;
    let dataset = if checks { dataset } else { dataset.checked(Check::Off) };
    let silently = Shown { bar: false, every: None };
    print::json(&Watcher::new().play(&plan, &subject, &dataset, silently)?)?;
    Ok(ExitCode::SUCCESS)
}
