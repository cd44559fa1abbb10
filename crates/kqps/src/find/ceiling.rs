//! The echo's ceiling on this host, measured in the same session as the search: what the player itself can
//! do, and what the standard interface can carry. Only for a target on this host, whose path the echo shares.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kqps_dataset::Dataset;
use kqps_lab::path::LaidPath;
use kqps_lab::setup::Setup;
use kqps_lab::subject::{Setting, Subject, builtin};
use kqps_player::{LoadPlan, Plan};

use crate::load::{Shown, Watcher};

/// How long each ceiling is measured.
const DURATION: Duration = Duration::from_millis(500);

/// The cheapest I/O model: against it the player shows its own ceiling.
const CHEAPEST_IO: &str = "segment";

/// The I/O model that most name servers come nearest to.
const USUAL_IO: &str = "mmsg";

/// What the echo reached here, correct answers a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ceilings {
    /// The player's own ceiling (a), against the cheapest echo.
    pub(super) player_qps: Option<f64>,
    /// The standard interface's ceiling (b), against the usual echo.
    pub(super) echo_qps: Option<f64>,
}

/// Measures both ceilings, if the target is on this host.
pub(super) fn measure(plan: &Plan, dataset: &Dataset, watcher: &Watcher) -> anyhow::Result<Ceilings> {
    if !plan.target.ip().is_loopback() {
        return Ok(Ceilings::default());
    }
    eprintln!("measuring the echo's ceiling on this host ...");
    Ok(Ceilings {
        player_qps: Some(against(CHEAPEST_IO, Setup::FEW_FLOWS, plan, dataset, watcher)?),
        echo_qps: Some(against(USUAL_IO, Setup::MANY_FLOWS, plan, dataset, watcher)?),
    })
}

/// The rate that an echo under `io` answers, on the subject's cores where those are known.
fn against(io: &str, setup: Setup, plan: &Plan, dataset: &Dataset, watcher: &Watcher) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir()?;
    let kqps = std::env::current_exe()?;
    let setting = Setting {
        path: &LaidPath::Loopback,
        folder: folder.path(),
        origin: ".",
        zone: Path::new(""),
        kqps: &kqps,
        io,
        workers: 1,
        cpus: &plan.subject_cpus,
        settings: &BTreeMap::new(),
    };
    let echo = Subject::start(&builtin::echo(), &setting, &AtomicBool::new(false))?;
    let mut plan = plan.clone();
    plan.target = echo.address();
    plan.subject_pid = Some(echo.pid());
    plan.load = LoadPlan::Closed { outstanding: u64::from(setup.window) * plan.threads as u64 };
    plan.sockets = setup.sockets as usize;
    plan.stop.after = Some(DURATION);
    let trial = watcher.play(&plan, dataset, Shown { bar: false, every: None });
    echo.stop();
    Ok(trial?.load.answered_qps)
}
