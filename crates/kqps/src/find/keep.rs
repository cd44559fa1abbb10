//! `kqps find --out DIR`: stores a search as a run, and writes its page. `kqps report` can write the page
//! again later.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use kqps_host::SubjectWatched;
use kqps_http::Method;
use kqps_kernel::local_address::is_local;
use kqps_lab::search_folder::{Claimed, NAME, SearchFolder};
use kqps_live::Hub;
use kqps_observation::factors::{CloseChoice, MethodChoice, PlayerFactors, TrustChoice};
use kqps_observation::run::{Cell, Purpose, Role};
use kqps_observation::trial::Transport;
use kqps_observation::{Factors, Run, Target, Trial};
use kqps_player::{Close, Plan, QuicPlan, TcpPlan, TlsPlan, Wire};
use kqps_tls::Trust;
use kqps_verdict::judge::{facts_of, judge};
use kqps_verdict::search::Goal;

use super::ceiling::{Ceilings, Interface, Measured};
use crate::before;
use crate::run::{named, repeat};

/// Claims the folder of `--out` before anything is measured.
pub(super) fn claim(folder: &Path) -> anyhow::Result<Claimed> {
    Ok(Claimed::new(&named(folder)?)?)
}

/// A stored search, with the index of the subject's cell.
pub(super) struct Keeping {
    search: SearchFolder,
    subject: u32,
}

impl Keeping {
    /// Begins the run, and stores the trials of the echoes.
    pub(super) fn begin(
        claimed: Claimed,
        goal: &Goal,
        (plan, watched): (&Plan, &SubjectWatched),
        interface: &Interface,
        ceilings: &Ceilings,
    ) -> anyhow::Result<Self> {
        let echo = |role, name: &str, io: &str, workers| echo(role, name, io, workers, (plan, watched));
        let player = ceilings
            .player
            .as_ref()
            .map(|measured| (measured, echo(Role::PlayerCeiling, "player ceiling", &measured.io, 1)));
        let interface_name = format!(
            "echo {}",
            match interface.transport {
                Transport::Udp => interface.io.as_str(),
                transport => transport.word(),
            }
        );
        let standard = ceilings.echo.as_ref().map(|measured| {
            (measured, echo(Role::EchoCeiling, &interface_name, &measured.io, interface.workers))
        });
        let echoes: Vec<(&Measured, Cell)> = player.into_iter().chain(standard).collect();
        let mut cells: Vec<Cell> = echoes.iter().map(|(_, cell)| cell.clone()).collect();
        let subject = cells.len() as u32;
        cells.push(of_subject(interface, plan, watched));
        let mut search = claimed.begin(run(goal, cells))?;
        for (cell, (measured, _)) in (0..).zip(&echoes) {
            search.add(cell, Purpose::Ceiling, &measured.trial)?;
        }
        Ok(Self { search, subject })
    }

    pub(super) fn add(&mut self, purpose: Purpose, trial: &Trial) -> anyhow::Result<()> {
        Ok(self.search.add(self.subject, purpose, trial)?)
    }

    /// Writes the page and prints its path, whether the search is over, was interrupted, or failed for the
    /// given reason. `shown` gets the page, too.
    pub(super) fn end(
        mut self,
        is_over: bool,
        failed: Option<&anyhow::Error>,
        shown: Option<&Arc<Hub>>,
    ) -> anyhow::Result<()> {
        if let Some(error) = failed {
            self.search.fail(self.subject, Purpose::Search, format!("{error:#}"))?;
        }
        if is_over {
            self.search.finish()?;
        }
        let (folder, run) = (self.search.folder(), self.search.run());
        let (report, verdict) = (folder.report(), judge(run));
        let beside = before::known(run, &verdict, folder.path(), folder.path());
        if let Some(hub) = shown {
            hub.page(&kqps_report::page_body(run, &verdict, beside.as_ref()));
        }
        let page = kqps_report::page_beside(run, &verdict, beside.as_ref());
        folder.write(&report, page.as_bytes()).with_context(|| {
            format!("what was measured is stored; to make its page: kqps report {}", folder.path().display())
        })?;
        eprintln!("The full report, with every trial: {}", report.display());
        Ok(())
    }
}

/// Adds the settings of connections to those that every transport has.
fn of_connections(tcp: &TcpPlan, of_all: PlayerFactors) -> PlayerFactors {
    let of_connections = PlayerFactors {
        io: Some(tcp.io.name().to_owned()).filter(|io| io != "auto"),
        queries_per_connection: tcp.queries_per_connection,
        outstanding_per_connection: Some(tcp.outstanding),
        close: (tcp.close == Close::Rst).then_some(CloseChoice::Rst),
        ..of_all
    };
    match &tcp.tls {
        None => of_connections,
        Some(tls) => of_tls(tls, of_connections),
    }
}

/// The same over QUIC.
fn of_quic(quic: &QuicPlan, of_all: PlayerFactors) -> PlayerFactors {
    let of_connections = PlayerFactors {
        queries_per_connection: quic.queries_per_connection,
        outstanding_per_connection: Some(quic.outstanding),
        early_data: quic.early_data.then_some(true),
        ..of_all
    };
    of_tls(&quic.tls, of_connections)
}

/// Adds the settings of TLS. A list of what is offered is one word.
fn of_tls(tls: &TlsPlan, of_connections: PlayerFactors) -> PlayerFactors {
    let listed = |names: Vec<String>| (!names.is_empty()).then(|| names.join(","));
    PlayerFactors {
        resume: Some(tls.client.resume),
        tls_group: listed(tls.client.groups.iter().map(ToString::to_string).collect()),
        tls_suite: listed(tls.client.suites.iter().map(ToString::to_string).collect()),
        tls_trust: Some(match tls.client.trust {
            Trust::System => TrustChoice::System,
            Trust::Ca(_) => TrustChoice::Ca,
            Trust::Anyone => TrustChoice::Anyone,
        }),
        tls_name: tls.names.first().cloned(),
        http_method: tls.http.as_ref().map(|http| match http.method {
            Method::Post => MethodChoice::Post,
            Method::Get => MethodChoice::Get,
        }),
        http_path: tls.http.as_ref().and_then(|http| http.paths.first().cloned()),
        ..of_connections
    }
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

fn of_subject(interface: &Interface, plan: &Plan, watched: &SubjectWatched) -> Cell {
    let targets: Vec<String> = plan.targets.iter().map(ToString::to_string).collect();
    let name = targets.join(", ");
    // A watched process runs on this host, whatever the target's address.
    let on_this_host = plan.targets.iter().any(|&target| is_local(target)) || !watched.pids.is_empty();
    Cell {
        target: plan.targets.first().map(|&address| Target { address, on_this_host }),
        subject: name.clone(),
        workers: if interface.are_workers_given { interface.workers } else { 0 },
        ..echo(Role::Subject, &name, &interface.io, 0, (plan, watched))
    }
}

fn echo(role: Role, name: &str, io: &str, workers: u32, (plan, watched): (&Plan, &SubjectWatched)) -> Cell {
    let mut factors = Factors::default();
    let of_all = PlayerFactors {
        senders: Some(plan.threads as u32),
        burst: Some(plan.burst as u32),
        timeout_s: Some(plan.timeout.as_secs_f64()),
        ..PlayerFactors::default()
    };
    let flows = Some(plan.flows() as u32);
    let mut player = match &plan.wire {
        Wire::Udp(udp) => PlayerFactors { io: Some(udp.io.name().to_owned()), sockets: flows, ..of_all },
        // A capture in a search has one transport.
        Wire::Captured(_) => of_all,
        Wire::Tcp(tcp) => of_connections(tcp, PlayerFactors { connections: flows, ..of_all }),
        Wire::Quic(quic) => of_quic(quic, PlayerFactors { connections: flows, ..of_all }),
    };
    if role != Role::Subject {
        // The echo has a certificate of its own.
        (player.tls_trust, player.tls_name, player.http_path) = (None, None, None);
    }
    player.transport = Some(plan.wire.transport()).filter(|transport| *transport != Transport::Udp);
    factors.set_player(player);
    Cell {
        name: name.to_owned(),
        role,
        subject: "echo".into(),
        io: io.to_owned(),
        workers,
        player_cpus: plan.cpus.clone(),
        subject_cpus: watched.cpus.clone(),
        factors,
        ..Cell::default()
    }
}
