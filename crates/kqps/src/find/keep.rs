//! A search as a run: `kqps find --out DIR` stores it and writes its page, which `kqps report` can write again later, and
//! `kqps find --live` shows the page while the search goes on.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use kqps_catalogue::choice::{Close, Congestion, Io};
use kqps_catalogue::factors::PlayerFactors;
use kqps_host::SubjectWatched;
use kqps_kernel::local_address::is_local;
use kqps_lab::search_run::{Claimed, NAME, SearchRun};
use kqps_observation::run::{Cell, Purpose, Role};
use kqps_observation::{Factors, Run, Target, Trial};
use kqps_player::{Plan, Wire};
use kqps_verdict::judge::{facts_of, judge};
use kqps_verdict::search::Goal;

use super::ceiling::{Ceilings, Interface, Measured, cell_name};
use crate::live::LivePage;
use crate::other_run;
use crate::run::{named, repeat};

/// Claims the folder of `--out` before anything is measured.
pub(super) fn claim(folder: &Path) -> anyhow::Result<Claimed> {
    Ok(Claimed::new(&named(folder)?)?)
}

/// The setup that the cells of a search have in common.
pub(super) struct Setup<'a> {
    pub(super) plan: &'a Plan,
    pub(super) watched: &'a SubjectWatched,
    /// Settings of connections that flags gave.
    pub(super) given: PlayerFactors,
    /// Factors of the flags beside the plan.
    pub(super) flags: Factors,
}

/// A search that is stored or shown, with the index of the subject's cell.
pub(super) struct Keeping {
    search: SearchRun,
    subject: u32,
    /// `None` if no page is shown.
    page: Option<LivePage>,
}

impl Keeping {
    /// Begins the run with the trials of the echoes; `None` if it is neither stored nor shown.
    pub(super) fn begin(
        claimed: Option<Claimed>,
        page: Option<LivePage>,
        goal: &Goal,
        setup: &Setup<'_>,
        interface: &Interface,
        ceilings: &Ceilings,
    ) -> anyhow::Result<Option<Self>> {
        if claimed.is_none() && page.is_none() {
            return Ok(None);
        }
        let cell = |role, measured: &Measured, workers| {
            of_echo(role, &cell_name(role, interface), &measured.io, workers, setup)
        };
        let player =
            ceilings.player.as_ref().map(|measured| (measured, cell(Role::PlayerCeiling, measured, 1)));
        let standard = ceilings
            .echo
            .as_ref()
            .map(|measured| (measured, cell(Role::EchoCeiling, measured, interface.workers)));
        let echoes: Vec<(&Measured, Cell)> = player.into_iter().chain(standard).collect();
        let mut cells: Vec<Cell> = echoes.iter().map(|(_, cell)| cell.clone()).collect();
        let subject = u32::try_from(cells.len()).expect("two echoes at most");
        cells.push(of_subject(interface, setup));
        let run = run(goal, cells);
        let mut search = match claimed {
            Some(claimed) => claimed.begin(run)?,
            None => SearchRun::unstored(run),
        };
        for (cell, (measured, _)) in (0..).zip(&echoes) {
            search.add(cell, Purpose::Ceiling, &measured.trial)?;
        }
        let mut keeping = Self { search, subject, page };
        keeping.show();
        Ok(Some(keeping))
    }

    pub(super) fn add(&mut self, purpose: Purpose, trial: &Trial) -> anyhow::Result<()> {
        self.search.add(self.subject, purpose, trial)?;
        self.show();
        Ok(())
    }

    fn show(&mut self) {
        if let Some(page) = &mut self.page {
            page.make(self.search.run());
        }
    }

    /// Makes the page, whether the search is over, was interrupted, or failed for the given reason. If the search is
    /// stored, writes the page and prints its path.
    fn end(mut self, is_over: bool, failed: Option<&anyhow::Error>) -> anyhow::Result<()> {
        if let Some(error) = failed {
            self.search.fail(self.subject, Purpose::Search, format!("{error:#}"))?;
        }
        if is_over {
            self.search.finish()?;
        }
        let run = self.search.run();
        let verdict = judge(run);
        let Some(folder) = self.search.folder() else {
            if let Some(page) = &self.page {
                page.end(run, &verdict, None);
            }
            return Ok(());
        };
        let beside = other_run::known(run, &verdict, folder.path(), folder.path());
        if let Some(page) = &self.page {
            page.end(run, &verdict, beside.as_ref());
        }
        let report = folder.report();
        let page = kqps_report::page_beside(run, &verdict, beside.as_ref());
        folder.write(&report, page.as_bytes()).with_context(|| {
            format!("what was measured is stored; to make its page: kqps report {}", folder.path().display())
        })?;
        eprintln!("The full report, with every trial: {}", report.display());
        Ok(())
    }
}

/// Ends what keeps a search, whether the search is over, was interrupted, or failed. Returns the error by which it failed.
pub(super) fn end(
    keeping: Option<Keeping>,
    is_over: bool,
    failed: Option<anyhow::Error>,
) -> anyhow::Result<()> {
    match (failed, keeping) {
        (Some(error), keeping) => Err(after_failure(keeping, error)),
        (None, Some(keeping)) => keeping.end(is_over, None),
        (None, None) => Ok(()),
    }
}

/// Keeps the reason of a search that failed, and returns it. That the reason could not be kept is printed, unless that
/// has the same cause.
pub(super) fn after_failure(keeping: Option<Keeping>, error: anyhow::Error) -> anyhow::Error {
    let kept = keeping.map(|keeping| keeping.end(false, Some(&error)));
    if let Some(other) = kept.and_then(Result::err).filter(|other| is_news(other, &error)) {
        eprintln!("kqps: {other:#}");
    }
    error
}

/// Whether an error of storing the reason of a failure is another one. A full disk refuses both the trial and the reason.
fn is_news(other: &anyhow::Error, failure: &anyhow::Error) -> bool {
    format!("{other:#}") != format!("{failure:#}")
}

/// The settings of the player: those of the flags, and others of the plan.
fn of_player(role: Role, setup: &Setup<'_>) -> PlayerFactors {
    let Setup { plan, given, .. } = setup;
    let flows = u32::try_from(plan.flows()).ok();
    let is_other = |connect_s: &f64| Duration::from_secs_f64(*connect_s) != plan.timeout;
    let mut player = PlayerFactors {
        senders: u32::try_from(plan.threads).ok(),
        burst: u32::try_from(plan.burst).ok(),
        timeout_s: Some(plan.timeout.as_secs_f64()),
        connect_timeout_s: given.connect_timeout_s.filter(is_other),
        close: given.close.filter(|close| *close != Close::Fin),
        congestion: given.congestion.filter(|congestion| *congestion != Congestion::Fixed),
        ..given.clone()
    };
    let tls = match &plan.wire {
        Wire::Udp(udp) => {
            (player.io, player.sockets) = (Some(udp.io), flows);
            None
        }
        // A capture in a search has one transport.
        Wire::Captured(_) => None,
        Wire::Tcp(tcp) => {
            (player.io, player.connections) = (Some(tcp.io).filter(|io| *io != Io::Auto), flows);
            player.outstanding_per_connection = Some(tcp.outstanding);
            tcp.tls.as_ref()
        }
        Wire::Quic(quic) => {
            (player.connections, player.outstanding_per_connection) = (flows, Some(quic.outstanding));
            Some(&quic.tls)
        }
    };
    if let Some(tls) = tls {
        player.resume = Some(tls.client.resume);
        player.tls_name = of_targets(&tls.names);
        player.http_method = tls.http.as_ref().map(|http| http.method);
        player.http_path = tls.http.as_ref().and_then(|http| of_targets(&http.paths));
    }
    if role != Role::Subject {
        // The echo has a certificate of its own.
        (player.tls_trust, player.tls_name, player.http_path) = (None, None, None);
    }
    player
}

/// A word for each target, or one if all have the same; `None` without targets.
fn of_targets(words: &[String]) -> Option<String> {
    let first = words.first()?;
    Some(if words.iter().all(|word| word == first) { first.clone() } else { words.join(",") })
}

fn run(goal: &Goal, cells: Vec<Cell>) -> Run {
    Run {
        schema: kqps_observation::SCHEMA,
        study: NAME.into(),
        command: repeat::typed().collect(),
        kqps_version: env!("CARGO_PKG_VERSION").into(),
        goal: goal.name.clone(),
        goal_facts: Some(facts_of(goal)),
        blocks: 1,
        fingerprint: kqps_host::fingerprint::read(),
        cells,
        ..Run::default()
    }
}

fn of_subject(interface: &Interface, setup: &Setup<'_>) -> Cell {
    let Setup { plan, watched, .. } = setup;
    let targets: Vec<String> = plan.targets.iter().map(ToString::to_string).collect();
    let name = targets.join(", ");
    // A watched process runs on this host, whatever the target's address.
    let on_this_host = plan.targets.iter().any(|&target| is_local(target)) || !watched.pids.is_empty();
    Cell {
        target: plan.targets.first().map(|&address| Target { address, on_this_host }),
        subject: name.clone(),
        workers: if interface.are_workers_given { interface.workers } else { 0 },
        ..of_echo(Role::Subject, &name, &interface.io, 0, setup)
    }
}

fn of_echo(role: Role, name: &str, io: &str, workers: u32, setup: &Setup<'_>) -> Cell {
    let Setup { plan, watched, flags, .. } = setup;
    let mut factors = Factors::default();
    factors.set_player(of_player(role, setup));
    Cell {
        name: name.to_owned(),
        role,
        subject: "echo".into(),
        io: io.to_owned(),
        workers,
        player_cpus: plan.cpus.clone(),
        subject_cpus: watched.cpus.clone(),
        factors: factors.with(flags),
        ..Cell::default()
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::store::StoreError;

    use super::*;

    #[test]
    fn a_full_disk_is_reported_once_and_without_a_way_to_resume() {
        let full = |path: &str| anyhow::Error::new(StoreError::Full { path: path.into() });
        assert!(!is_news(&full("out/run.sqlite"), &full("out/run.sqlite")));
        assert!(is_news(&full("out/run.sqlite"), &anyhow::anyhow!("No reply came")));
        let said = full("out/run.sqlite").to_string();
        assert_eq!(said, "out/run.sqlite: no space is left, so make room; what was stored before is intact");
    }
}
