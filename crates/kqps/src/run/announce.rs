//! The lines before a run begins: what it measures, how long that takes, and where its files are.

use std::path::Path;

use kqps_lab::budget::Spending;
use kqps_lab::layout::BUDGET_S;
use kqps_lab::session::Session;
use kqps_observation::Run;
use kqps_observation::run::Role;
use kqps_testbed::player_setup::PlayerSetup;
use kqps_testbed::words::{counted, time};

use super::left_out;

/// Size of the files of the default study, mostly its zone and queries.
const WRITES: &str = "16 MB";

pub(super) fn alone(folder: &Path) -> String {
    format!(
        "kqps measures this machine and the name servers on it for about {}, and writes about {WRITES} to {}; Ctrl-C \
         stops it, and `kqps --help` shows what else there is.",
        time(BUDGET_S),
        folder.display()
    )
}

/// Prints the cells, the duration and the folder of a run.
pub(super) fn begin(session: &Session, spending: &Spending) {
    let run = session.run();
    let names: Vec<&str> = run.cells.iter().map(|cell| cell.name.as_str()).collect();
    match &run.question {
        Some(question) => eprintln!("{}: {}.", question.title, counted(names.len() as u64, "cell")),
        None => eprintln!("Measuring {}.", names.join(", ")),
    }
    for line in left_out::lines(&run.skipped) {
        eprintln!("{line}.");
    }
    if let Some(server) = run.server_host() {
        let players: Vec<&str> = run.player_hosts().map(|host| host.name.as_str()).collect();
        let (name, address) = (&server.name, server.address);
        eprintln!("Subjects are started on {name} ({address}), and the players are {}.", players.join(", "));
    }
    if let Some(why) = session.why_longer() {
        eprintln!("Over these hosts {why}.");
    }
    if run.cells.iter().any(|cell| cell.target.is_some()) {
        eprintln!("A running server is neither started nor stopped: each of its starts is one session.");
    }
    eprintln!(
        "{} in random order, goal `{}`, replies late after {} ms{}: {}.",
        counted(spending.blocks.into(), "block"),
        spending.goal,
        timeout_s(run) * 1e3,
        if spending.latency { ", then latency by load" } else { "" },
        about(spending.estimate_s, run.budget_s)
    );
    eprintln!("Everything of this run lies in {}.", session.folder().path().display());
}

/// The timeout of the subjects. It is the same for all, unless a study sets it.
fn timeout_s(run: &Run) -> f64 {
    let subject = run.cells.iter().find(|cell| cell.role == Role::Subject);
    subject.map_or_else(PlayerSetup::many_flows, PlayerSetup::from_cell).timeout_s()
}

/// How long a run or a comparison takes, and what that assumes.
pub(crate) fn about(estimate_s: f64, budget_s: Option<f64>) -> String {
    let about = format!("about {}", time(estimate_s));
    match budget_s {
        Some(budget_s) => format!("{about} of the budget of {}", time(budget_s)),
        None => format!("{about} if nothing else keeps the host busy"),
    }
}
