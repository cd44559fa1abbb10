//! The plan of a trial with the player's flags.

mod lanes;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use kqps_catalogue::factors::PlayerFactors;
use kqps_dataset::Dataset;
use kqps_host::{SubjectWatched, Topology, topology};
use kqps_kernel::local_address::is_local;
use kqps_lab::placement::{CoreRequest, Placement, place};
use kqps_observation::cpu_list;
use kqps_observation::trial::Transport;
use kqps_player::plan::{CONNECTIONS_MOST, SEED, SOCKETS_MOST, have_cores_of_their_own, usual_coalesce};
use kqps_player::replay::source_addresses;
use kqps_player::{
    Io, LoadPlan, Part, PerQueryPlan, Plan, PlanError, QuicPlan, Stop, TcpPlan, UdpPlan, Wire,
};

use super::{PlayerArgs, Priority};
use crate::exit::bad_input;
use crate::load::allowed::{check_own, check_sources, check_target};
use crate::load::plan_error::with_flags;
use crate::load::replay::Captured;
use crate::load::subject;
use crate::load::target::{Targets, resolve_all};
use crate::load::wire::{check_io, usual_alone};
use crate::value::{List, cores};
use lanes::Lanes;

pub(crate) use lanes::LANES;

/// Default number of sockets of each thread: enough that hashing spreads the load over the subject's workers.
const SOCKETS_PER_THREAD: u64 = 32;

/// The usual port over UDP and TCP (RFC 1035, section 4.2).
const DNS_PORT: u16 = 53;

/// Source addresses of a capture's clients that are checked at most.
const CHECKED_MOST: usize = 4096;

/// Bytes. A smaller buffer may drop replies at any rate, so kqps warns of it.
const BUFFER_SMALL: u64 = 32 << 10;

impl PlayerArgs {
    /// The settings of connections that flags gave for this plan.
    pub(crate) fn given(&self, plan: &Plan) -> anyhow::Result<PlayerFactors> {
        self.wire.player(plan.wire.transport())
    }

    /// The targets that the flags name.
    pub(crate) fn targets(&self) -> anyhow::Result<Targets> {
        let words = [&*self.servers, &*self.targets].concat();
        resolve_all(&words, self.port, self.mode, self.family, &self.allow_target)
    }

    /// The words that name the targets once more: as typed if URLs stand among them, and else their addresses.
    /// `of_other_transport` is whether they are for another transport than these flags have. Targets at port 53 are then
    /// named without it, so that they have the usual port of that transport.
    pub(crate) fn target_words(&self, of_other_transport: bool, addresses: &[SocketAddr]) -> Vec<OsString> {
        let allowed = addresses.iter().map(|address| format!("--allow-target={}", address.ip()));
        let typed = [&*self.servers, &*self.targets].concat();
        let has_urls = typed.iter().any(|target| target.contains("://"));
        let words: Vec<String> = if has_urls && !of_other_transport {
            typed.into_iter().chain(self.port.map(|port| format!("--port={port}"))).collect()
        } else {
            let mode = self.mode.filter(|_| !of_other_transport);
            let mode = mode.map(|mode| format!("--mode={}", mode.word()));
            let named = |address: &SocketAddr| match address.port() {
                DNS_PORT if of_other_transport => address.ip().to_string(),
                _ => address.to_string(),
            };
            addresses.iter().map(named).chain(mode).collect()
        };
        words.into_iter().chain(allowed).map(OsString::from).collect()
    }

    /// Whether the flags say how many sockets or connections there are.
    pub(crate) fn has_count(&self) -> bool {
        self.sockets.is_some()
    }

    /// The flags of certificates once more, as words.
    pub(crate) fn certificate_words(&self) -> Vec<OsString> {
        self.wire.certificate_words()
    }

    /// Whether the flags or the targets' URLs name a transport, by which all queries of a capture then go.
    pub(crate) fn names_transport(&self) -> anyhow::Result<bool> {
        let found = self.targets()?;
        Ok(self.transport(found.transport()?)?.is_some())
    }

    /// A plan with these flags, and the subject to watch. `load` returns the load for a number of threads, and
    /// `usual_timeout` the default timeout for the targets. `captured` are the queries if they are a capture.
    pub(crate) fn plan(
        &self,
        load: impl FnOnce(u64) -> LoadPlan,
        stop: Stop,
        usual_timeout: impl FnOnce(&[SocketAddr]) -> Duration,
        captured: Option<&Captured>,
    ) -> anyhow::Result<(Plan, SubjectWatched)> {
        let cpus = cores(self.cpus.as_ref())?;
        let found = self.targets()?;
        let mix = captured.and_then(|captured| captured.mix.as_ref());
        let named = if mix.is_some() { None } else { self.transport(found.transport()?)? };
        let kept = captured.filter(|captured| captured.keeps_transports && named.is_none());
        let lanes = match mix {
            Some(mix) => Some(self.mixed(mix, &found)?),
            None => kept.map(Lanes::from_captured).transpose()?,
        };
        let least = lanes.as_ref().map_or(1, Lanes::threads_least);
        let threads = self.threads.unwrap_or_else(|| (cpus.len() as u64).max(least));
        let timeout = self.timeout.unwrap_or_else(|| usual_timeout(&found.addresses));
        let load = load(threads);
        let transport = lanes.as_ref().map_or(named.unwrap_or_default(), Lanes::watched);
        let wire = match (&lanes, captured) {
            (Some(lanes), Some(captured)) => self.lanes(lanes, captured, threads, &found, timeout)?,
            _ => self.wire(transport, (threads, load.window()), &found, timeout, captured)?,
        };
        let watched = if mix.is_some() { found.over(transport).addresses } else { found.addresses.clone() };
        let targets = found.addresses;
        let mut subject = subject::chosen(self.subject, &watched, transport)?;
        if let Some(cpus) = self.given_subject_cores()? {
            subject.cpus = cpus;
        }
        // A subject on another host has other cores in any case.
        let are_apart = !subject.cpus.is_empty() || targets.iter().all(|&target| !is_local(target));
        let own_cores = self.priority == Priority::Auto
            && are_apart
            && have_cores_of_their_own(&cpus, threads as usize, &subject.cpus);
        let plan = Plan {
            targets,
            wire,
            burst: self.burst as usize,
            local: self.local,
            load,
            start_at_ns: None,
            stop,
            part: Part::WHOLE,
            timeout,
            drain: self.drain.unwrap_or(timeout),
            listens_on: self.drain.is_some(),
            lag_allowed: self.lag,
            coalesce: self.coalesce.unwrap_or_else(|| usual_coalesce(own_cores)),
            threads: threads as usize,
            own_cores,
            cpus,
            seed: SEED,
            drop_reasons: false,
            moments: None,
            course: None,
            per_query: PerQueryPlan::default(),
            first_query: 0,
            hostile: None,
            replay: captured.map(|captured| captured.plan.clone()),
        };
        plan.check().map_err(|error| bad_input(with_flags(&error)))?;
        check_ports(&plan)?;
        self.check_local(&plan)?;
        self.warn_of_a_small_buffer(&plan);
        Ok((plan, subject))
    }

    /// Pins the threads, unless the flags name cores or a number of threads: to half of this host's cores, as far as they
    /// are free beside those that the subject is pinned to.
    pub(crate) fn pin_beside_subject(&mut self) -> anyhow::Result<()> {
        if self.cpus.is_some() || self.threads.is_some() {
            return Ok(());
        }
        let found = self.targets()?;
        let transport = self.transport(found.transport()?)?.unwrap_or_default();
        let subject = SubjectWatched::found(&found.addresses, transport);
        let topology = Topology::read();
        let half = (topology.cores.len() / 2).max(1);
        let request = match self.given_subject_cores()?.unwrap_or(subject.cpus) {
            unpinned if unpinned.is_empty() => CoreRequest::Count(topology.cores.len() - half),
            pinned => CoreRequest::These(pinned),
        };
        // A subject in a container may have cores that this process may not use.
        let placed = place(&topology, &request, half, Placement::All).unwrap_or_default();
        let cores = placed.into_iter().next().map(|placed| placed.player_cpus).unwrap_or_default();
        self.cpus = (!cores.is_empty()).then_some(List(cores));
        Ok(())
    }

    /// The transport that `-m` and the targets' URLs name; `None` if neither does.
    fn transport(&self, named: Option<Transport>) -> anyhow::Result<Option<Transport>> {
        match (self.mode, named) {
            (Some(mode), Some(named)) if mode != named => Err(bad_input(format!(
                "-m {} and a target over {}: leave one of them out",
                mode.word(),
                named.word()
            ))),
            (mode, named) => Ok(mode.or(named)),
        }
    }

    /// The wire that carries the queries of `threads` threads to the targets. `window` is how many may be outstanding.
    fn wire(
        &self,
        transport: Transport,
        (threads, window): (u64, Option<u64>),
        targets: &Targets,
        timeout: Duration,
        captured: Option<&Captured>,
    ) -> anyhow::Result<Wire> {
        let flows = |usual: u64| self.flows(usual, targets);
        let is_quic = transport == Transport::Quic;
        self.wire.check(&[transport])?;
        check_io(self.io, transport)?;
        if transport == Transport::Udp {
            if captured.is_some() {
                self.check_clients_decide()?;
            }
            return self.wired(transport, self.io, flows(usual_sockets(threads, targets)), targets, timeout);
        }
        let has_port = self.local_port().is_some();
        if has_port && is_quic {
            return Err(bad_input("-x has no effect over quic; leave it out"));
        }
        if has_port && self.io == Io::Xdp {
            return Err(bad_input("-x has no effect on connections by xdp; leave it out"));
        }
        if let Some(device) = self.device.as_ref().filter(|_| is_quic) {
            return Err(bad_input(with_flags(&PlanError::Device(device.clone()))));
        }
        // With one query to a connection any place takes the queries of any client.
        let any_place = !is_quic && self.wire.have_one_query();
        if captured.is_some() && !any_place {
            self.check_clients_decide()?;
        }
        let connections = flows(if let Some(captured) = captured {
            Self::connections_of(captured.clients, threads, any_place, targets)
        } else {
            within(self.wire.usual_count(threads, window), threads, CONNECTIONS_MOST, targets)
        });
        self.wired(transport, self.io, connections, targets, timeout)
    }

    /// Connections of a capture's clients. `any_place` is whether any of them takes the queries of any client.
    fn connections_of(clients: u64, threads: u64, any_place: bool, targets: &Targets) -> u64 {
        let least = if any_place { usual_alone(threads) } else { threads };
        within(clients, least, CONNECTIONS_MOST, targets)
    }

    /// The wire of `flows` sockets or connections, with the flags of the player.
    fn wired(
        &self,
        transport: Transport,
        of_io: Io,
        flows: usize,
        targets: &Targets,
        timeout: Duration,
    ) -> anyhow::Result<Wire> {
        let of_buffer = self.buffer.map(|bytes| bytes as usize);
        let mut wire = self.wire.wire(transport, targets, timeout)?;
        match &mut wire {
            Wire::Udp(UdpPlan { io, sockets, buffer_bytes, local_port, device }) => {
                (*io, *sockets, *buffer_bytes) = (of_io, flows, of_buffer);
                (*local_port, *device) = (self.local_port(), self.device.clone());
            }
            Wire::Tcp(TcpPlan { io, connections, buffer_bytes, local_port, device, .. }) => {
                (*io, *connections, *buffer_bytes) = (of_io, flows, of_buffer);
                (*local_port, *device) = (self.local_port(), self.device.clone());
            }
            Wire::Quic(QuicPlan { connections, buffer_bytes, .. }) => {
                (*connections, *buffer_bytes) = (flows, of_buffer);
            }
            Wire::Captured(_) => {}
        }
        Ok(wire)
    }

    /// The first local port. As in dnsperf, 0 stands for any.
    fn local_port(&self) -> Option<u16> {
        self.local_port.filter(|port| *port > 0)
    }

    /// Sockets or connections: as many as the flags say, or a usual number of which each target has an equal part.
    fn flows(&self, usual: u64, targets: &Targets) -> usize {
        let usual = usual.next_multiple_of(targets.addresses.len() as u64);
        self.sockets.unwrap_or(usual) as usize
    }

    /// Refuses a number of sockets and their ports for a capture, whose clients decide both.
    fn check_clients_decide(&self) -> anyhow::Result<()> {
        if self.sockets.is_some() {
            return Err(bad_input(
                "-c: the clients of a capture have as many sockets or connections as they need; leave it out",
            ));
        }
        if self.local_port.is_some_and(|port| port > 0) {
            return Err(bad_input("-x: the clients of a capture have ports of their own; leave it out"));
        }
        Ok(())
    }

    /// The subject's cores, if the user gives them. A core that is not online is bad usage.
    fn given_subject_cores(&self) -> anyhow::Result<Option<Vec<u32>>> {
        let Some(List(cpus)) = self.subject_cpus.clone() else { return Ok(None) };
        let online = topology::online();
        match cpus.iter().find(|cpu| !online.is_empty() && !online.contains(cpu)) {
            None => Ok(Some(cpus)),
            Some(cpu) => Err(bad_input(format!(
                "--subject-cpus: there is no core {cpu} here; there are {}",
                cpu_list::write(&online)
            ))),
        }
    }

    /// Over TCP the server waits while a buffer is full.
    fn warn_of_a_small_buffer(&self, plan: &Plan) {
        let has_datagrams = match &plan.wire {
            Wire::Tcp(_) => false,
            Wire::Captured(lanes) => lanes.iter().any(|lane| !matches!(lane.wire, Wire::Tcp(_))),
            Wire::Udp(_) | Wire::Quic(_) => true,
        };
        if let Some(bytes) = self.buffer.filter(|bytes| has_datagrams && *bytes < BUFFER_SMALL) {
            eprintln!(
                "kqps: warning: -b: buffers of {bytes} bytes hold few replies; a reply that arrives while the player does not \
                 read is lost, by the player's fault"
            );
        }
    }

    /// Checks that the source addresses belong to this host and to the targets' family. Those of a capture's clients
    /// are checked by [`check_clients`], when it is known which these are.
    fn check_local(&self, plan: &Plan) -> anyhow::Result<()> {
        let target = plan.targets[0];
        match &self.local {
            Some(local) if local.is_ipv4() != target.is_ipv4() => {
                Err(bad_input(format!("-a and the target {target} are of different families")))
            }
            Some(local) if plan.replay.is_none() => check_sources(local, plan.flows()),
            Some(_) | None => Ok(()),
        }
    }
}

/// The usual number of sockets of `threads` threads.
fn usual_sockets(threads: u64, targets: &Targets) -> u64 {
    within(threads.saturating_mul(SOCKETS_PER_THREAD), threads, SOCKETS_MOST, targets)
}

/// A number of flows within these limits, of which each target can have an equal part.
fn within(wanted: u64, least: u64, most: usize, targets: &Targets) -> u64 {
    let targets = targets.addresses.len() as u64;
    let most = (most as u64 / targets * targets).max(least);
    wanted.clamp(least, most).next_multiple_of(targets)
}

/// Checks a plan that another kqps made: its limits, and that its targets and cores may be used. `is_allowed` says that
/// the user has allowed targets on other hosts.
pub(crate) fn check_plan(plan: &Plan, is_allowed: bool) -> anyhow::Result<()> {
    plan.check().map_err(bad_input)?;
    for &target in plan.targets.iter().filter(|_| !is_allowed) {
        check_target(target, &[])?;
    }
    cores(Some(&List(plan.cpus.clone()))).map(drop)
}

/// Checks that a plan sends from addresses of this host alone. Of very many clients of a capture some addresses are
/// checked, evenly spread over those that they use. If another one is not this host's, its connections fail, or its
/// queries are refused, each with the cause.
pub(crate) fn check_clients(plan: &Plan, dataset: &Dataset) -> anyhow::Result<()> {
    match &plan.local {
        Some(local) if plan.replay.is_none() => check_sources(local, plan.flows()),
        Some(_) => check_own(source_addresses(plan, dataset, CHECKED_MOST)),
        None => Ok(()),
    }
}

/// An error if `--local-port` leaves too few ports.
fn check_ports(plan: &Plan) -> anyhow::Result<()> {
    let (Wire::Udp(UdpPlan { local_port: Some(first), .. })
    | Wire::Tcp(TcpPlan { local_port: Some(first), .. })) = plan.wire
    else {
        return Ok(());
    };
    let what = if matches!(plan.wire, Wire::Udp(_)) { "sockets" } else { "connections" };
    let (flows, ports) = (plan.flows(), usize::from(u16::MAX));
    if flows > ports {
        return Err(bad_input(format!(
            "-x {first}: {flows} {what} take a port each, and there are {ports}; use fewer (-c), or 0 for any port"
        )));
    }
    let last = usize::from(first) + flows - 1;
    if u16::try_from(last).is_ok() {
        return Ok(());
    }
    Err(bad_input(format!(
        "-x {first}: {flows} {what} take the ports from {first} on, of which the last is {last}; expected 1 to {}, or \
         0 for any",
        ports + 1 - flows
    )))
}
