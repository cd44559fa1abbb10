//! `kqps play`: plays the trial that another kqps asks for on standard input, and prints its record. The message has
//! the whole plan, so nothing is formatted into flags and parsed again.

use std::io;
use std::process::ExitCode;

use kqps_player::Plan;
use kqps_testbed::live_sink::LiveLine;
use kqps_testbed::play::{PlayClass, PlayRequest};

use crate::exit::bad_input;
use crate::load::scenario::{ClassLoad, Scenario, played};
use crate::load::{ProgressDisplay, Sampled, Watcher, check_clients, check_plan, usual_replay};
use crate::print;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let request = serde_json::from_reader(io::stdin().lock());
    let PlayRequest { plan, queries, classes, scenario, is_allowed, subject, shows_bar, live_every } =
        request.map_err(|error| bad_input(format!("standard input is no request to play: {error}")))?;
    check_plan(&plan, is_allowed)?;
    let dataset = queries.open()?;
    let replay = plan.replay.clone().or_else(|| usual_replay(&dataset));
    let plan = Plan { replay, ..plan };
    // A capture is not played by every plan.
    plan.check().map_err(bad_input)?;
    check_clients(&plan, &dataset)?;
    let opened = |class: PlayClass| {
        check_plan(&class.plan, is_allowed)?;
        let class = ClassLoad::open(class)?;
        check_clients(&class.plan, &class.dataset)?;
        Ok(class)
    };
    let mut classes = classes.into_iter().map(opened).collect::<anyhow::Result<Vec<ClassLoad>>>()?;
    let read = scenario.map(|asked| played::beside(&asked, &plan, &dataset)).transpose()?;
    classes.extend(read.unwrap_or_default());
    let beside = Scenario::from_classes(classes);
    let shown = ProgressDisplay { bar: shows_bar, every: None };
    // A line that cannot be printed is missed, and the record shows why.
    let receive = |live| drop(print::json(&LiveLine { live }));
    let sampled = live_every.map(|every| Sampled { every, receive: &receive });
    print::json(&Watcher::new().play_beside((&plan, &dataset), &beside, &subject, shown, sampled)?)?;
    Ok(ExitCode::SUCCESS)
}
