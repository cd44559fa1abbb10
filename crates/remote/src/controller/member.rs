//! A host of a run: the link to its agent, which can be made again, and what is known of the host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use kqps_fleet::{HelloFacts, Host, HostsError, Identity, JobError, Link, Offset, Role, Ticket};
use kqps_host::Topology;
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::{Fingerprint, HostRole, RunHost, Trial, cpu_list};

use super::reconnect::ReconnectTimes;
use super::{host_change, plan};
use crate::agent::job::{Done, Job};
use kqps_testbed::materials::MaterialsSpec;

/// The longest time that an agent takes to describe its host: it hashes programs.
const DESCRIBE_MOST: Duration = Duration::from_mins(1);

/// The pings by which a clock is measured over a new link, and over one by which it was measured before.
const FIRST_PINGS: u32 = 64;
const PINGS: u32 = 8;

/// The interval at which interrupts are looked for while a host is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// A host of the run, and its agent.
pub(super) struct Member {
    host: Host,
    role: HostRole,
    /// The address of the subjects: the only one that its agent may play at.
    server: IpAddr,
    ours: Identity,
    /// `None` once it was lost.
    link: Option<Link>,
    /// Why its last link was lost.
    why_lost: Option<String>,
    /// How often it has booted since the run began.
    boots: u32,
    /// The number of its newest link, from 1.
    generation: u64,
    /// When nothing is left of the agent of its last link.
    gone_by: Option<Instant>,
    again: ReconnectTimes,
    facts: Facts,
    offset: Offset,
    /// The pings by which its clock is measured next.
    pings: u32,
    /// The materials that its present agent has.
    pub(super) made: BTreeSet<MaterialsSpec>,
}

/// Facts about a host.
struct Facts {
    fingerprint: Fingerprint,
    /// The cores that may be used there.
    topology: Topology,
    /// Capability → the reason why the host lacks it.
    lacking: BTreeMap<String, String>,
    /// The ID of its boot, which identifies its machine as long as that runs.
    machine: String,
    /// The device that has its address for queries, if it is known.
    device: Option<String>,
}

/// Why an agent returned no result.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The user ended the run.
    Interrupted,
    /// The link is gone.
    Lost(String),
    /// The agent did not answer in time.
    Late,
    /// It was lost before, and could not be reached again.
    Unreachable(String),
    /// The agent could not do it.
    Failed {
        /// The reason as a sentence without its full stop.
        reason: String,
        /// The last lines of the output of the program that failed.
        output: Vec<String>,
    },
}

impl Member {
    /// Reaches a host and asks what it is. An error names the host.
    pub(super) fn open(
        host: &Host,
        role: HostRole,
        server: IpAddr,
        ours: &Identity,
        again: ReconnectTimes,
    ) -> Result<Self, String> {
        let mut link = connect(host, role, server, ours, &Interrupts::default())?;
        let named = |what: String| format!("{}: {what}", host.name);
        let facts = Facts::ask(&mut link, host).map_err(named)?;
        let offset = link.offset_by(FIRST_PINGS).map_err(|error| error.to_string())?;
        Ok(Self {
            host: host.clone(),
            role,
            server,
            ours: ours.clone(),
            link: Some(link),
            why_lost: None,
            boots: 0,
            generation: 1,
            gone_by: None,
            again,
            facts,
            offset,
            pings: PINGS,
            made: BTreeSet::new(),
        })
    }

    /// Its name and addresses in the hosts' file.
    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// The cores that may be used there.
    pub(super) fn topology(&self) -> &Topology {
        &self.facts.topology
    }

    /// Capability → the reason why the host lacks it.
    pub(super) fn lacking(&self) -> &BTreeMap<String, String> {
        &self.facts.lacking
    }

    /// The ID of its boot, which identifies its machine.
    pub(super) fn machine(&self) -> &str {
        &self.facts.machine
    }

    /// The device that carries the queries there: the one that the hosts' file names, or the one with the address of
    /// the host.
    pub(super) fn device(&self) -> Option<&str> {
        self.host.device.as_deref().or(self.facts.device.as_deref())
    }

    /// The number of its newest link. What was started over an older one is gone.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Its clock, as it was measured last.
    pub(super) fn offset(&self) -> Offset {
        self.offset
    }

    /// The record of the host.
    pub(super) fn record(&self) -> RunHost {
        let Host { name, kqps, data, .. } = self.host.clone();
        let Identity { version, blake3, .. } = self.ours.clone();
        let kqps = BinaryFacts { path: kqps, version: Some(version), blake3: Some(blake3) };
        let fingerprint = self.facts.fingerprint.clone();
        RunHost { name, role: self.role, address: data, fingerprint, kqps }
    }

    /// Why it was lost; `None` as long as it is reached.
    pub(super) fn lost(&self) -> Option<String> {
        let closed = || self.why_lost.clone().unwrap_or_else(|| "its link was closed".into());
        self.link.as_ref().map_or_else(|| Some(closed()), Link::is_lost)
    }

    /// Its name and why it was lost, in a few words; `None` as long as it is reached.
    pub(super) fn away(&self) -> Option<String> {
        self.lost().map(|why| format!("{} ({why})", self.host.name))
    }

    /// The note for a run on a host that has booted since the run began: what is lacking, and why.
    pub(super) fn boot_note(&self) -> Option<(String, String)> {
        let name = &self.host.name;
        let why = "it booted again during the run: what was set there by hand before may be gone";
        (self.boots > 0).then(|| (format!("certainty that {name} is set as when the run began"), why.into()))
    }

    /// Reaches the host again if it was lost. The old agent has ended before the new one begins: it may still have
    /// played, or held settings. A host that does not come back is tried for a while.
    pub(super) fn reach(&mut self, interrupts: &Interrupts) -> Result<(), Fault> {
        let Some(why) = self.lost() else { return Ok(()) };
        self.close_since(why);
        if let Some(gone_by) = self.gone_by {
            pause(gone_by, interrupts)?;
        }
        let give_up = Instant::now() + self.again.keep_on;
        loop {
            let link = connect(&self.host, self.role, self.server, &self.ours, interrupts);
            match link.and_then(|link| self.take_up(link)) {
                Ok(None) => return Ok(()),
                Ok(Some(what)) => return Err(Fault::Unreachable(what)),
                Err(_) if interrupts.is_asked() => return Err(Fault::Interrupted),
                Err(why) if Instant::now() >= give_up => {
                    let keep_on_s = self.again.keep_on.as_secs();
                    return Err(Fault::Unreachable(format!(
                        "a host was lost and could not be reached again for {keep_on_s} s: {why}"
                    )));
                }
                Err(_) => pause(Instant::now() + self.again.pause, interrupts)?,
            }
        }
    }

    /// Goes on over a new link, unless the host has booted and is not as it was: then it returns what is different.
    fn take_up(&mut self, mut link: Link) -> Result<Option<String>, String> {
        if link.there().boot_id != self.facts.machine {
            let facts = Facts::ask(&mut link, &self.host);
            let facts = facts.map_err(|what| format!("{}: {what}", self.host.name))?;
            let then = self.record();
            self.facts = facts;
            if let Some(what) = host_change::difference(&then, &self.record()) {
                return Ok(Some(format!("{what}, so it cannot go on there")));
            }
            self.boots += 1;
        }
        self.link = Some(link);
        self.generation += 1;
        self.pings = FIRST_PINGS;
        Ok(None)
    }

    /// Makes the host one that has booted since.
    #[cfg(test)]
    pub(super) fn pretend_boot(&mut self) {
        self.facts.machine = "another boot".into();
    }

    /// Measures its clock. A link that is new takes more pings.
    pub(super) fn measure(&mut self) -> Result<(), Fault> {
        let link = self.link.as_mut().ok_or_else(closed)?;
        self.offset = link.offset_by(self.pings).map_err(|error| Fault::Lost(why(error)))?;
        self.pings = PINGS;
        Ok(())
    }

    /// As [`Member::close`], for this reason, unless it was closed before.
    fn close_since(&mut self, why: String) {
        if self.link.is_some() {
            self.why_lost = Some(why);
        }
        self.close();
    }

    /// Ends the conversation, and all that the agent started with it.
    pub(super) fn close(&mut self) {
        let Some(link) = self.link.take() else { return };
        let gone_after = self.again.gone_after(link.there().lease_s);
        drop(link);
        self.gone_by = Some(Instant::now() + gone_after);
        self.made.clear();
    }

    /// Gives its agent a job, which it works after those before.
    pub(super) fn ask(&mut self, job: &Job) -> Result<Ticket, Fault> {
        let link = self.link.as_mut().ok_or_else(closed)?;
        let fault = match link.ask(job) {
            Ok(ticket) => return Ok(ticket),
            Err(error) => not_asked(error),
        };
        if let Fault::Lost(why) = &fault {
            self.close_since(why.clone());
        }
        Err(fault)
    }

    /// Asks its agent to end a job early. The result is waited for as before.
    pub(super) fn stop(&self, ticket: &Ticket) {
        if let Some(link) = &self.link {
            link.ask_to_stop(ticket);
        }
    }

    /// Waits for the result of a job. An agent that does not answer in time is given up.
    pub(super) fn wait(
        &mut self,
        ticket: Ticket,
        until: Instant,
        interrupts: &Interrupts,
    ) -> Result<Done, Fault> {
        let link = self.link.as_mut().ok_or_else(closed)?;
        let waited = wait(link, ticket, until, interrupts);
        if let Err(fault @ (Fault::Lost(_) | Fault::Late)) = &waited {
            self.close_since(fault.clone().into_reason());
        }
        waited
    }

    /// Gives its agent a job, and waits for the result for at most this long.
    pub(super) fn call(
        &mut self,
        job: &Job,
        within: Duration,
        interrupts: &Interrupts,
    ) -> Result<Done, Fault> {
        let ticket = self.ask(job)?;
        self.wait(ticket, Instant::now() + within, interrupts)
    }

    /// Waits for the record of a trial.
    pub(super) fn played(
        &mut self,
        ticket: Ticket,
        until: Instant,
        interrupts: &Interrupts,
    ) -> Result<Trial, Fault> {
        match self.wait(ticket, until, interrupts)? {
            Done::Played(trial) => Ok(*trial),
            _ => Err(unexpected()),
        }
    }
}

impl Facts {
    fn ask(link: &mut Link, host: &Host) -> Result<Self, String> {
        let machine = link.there().boot_id.clone();
        let facts = Job::Facts { address: host.data, sources: ends(host)?, device: host.device.clone() };
        let ticket = link.ask(&facts).map_err(why)?;
        let done = wait(link, ticket, Instant::now() + DESCRIBE_MOST, &Interrupts::default());
        match done.map_err(Fault::into_reason)? {
            Done::Facts { fingerprint, topology, probe, device } => Ok(Self {
                fingerprint: *fingerprint,
                topology: usable(topology, host.cores.as_deref())?,
                lacking: probe,
                machine,
                device,
            }),
            _ => Err(unexpected().into_reason()),
        }
    }
}

/// The fault of an agent that did not answer in time, as the rest of a sentence about its host.
const LATE: &str = "its agent did not answer in time";

impl Fault {
    /// The reason, without output.
    pub(super) fn into_reason(self) -> String {
        match self {
            Self::Interrupted => "interrupted".into(),
            Self::Lost(why) | Self::Unreachable(why) => why,
            Self::Late => LATE.into(),
            Self::Failed { reason, .. } => reason,
        }
    }
}

/// The fault of an agent that answers something else than it was asked.
pub(super) fn unexpected() -> Fault {
    Fault::Failed { reason: "its agent returned the result of another job".into(), output: Vec::new() }
}

fn closed() -> Fault {
    Fault::Lost("its link was closed".into())
}

/// Waits until then, unless the user ends the run.
fn pause(until: Instant, interrupts: &Interrupts) -> Result<(), Fault> {
    loop {
        if interrupts.is_asked() {
            return Err(Fault::Interrupted);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(LOOK));
    }
}

/// Starts the agent of a host, unless the user ends the run. An error names the host.
fn connect(
    host: &Host,
    role: HostRole,
    server: IpAddr,
    ours: &Identity,
    interrupts: &Interrupts,
) -> Result<Link, String> {
    let role = match role {
        HostRole::Server => Role::Server,
        HostRole::Player => Role::Player,
    };
    let hello = HelloFacts { targets: vec![server], role, name: host.name.clone() };
    Link::open_heeding(interrupts, host, ours, &hello).map_err(|error| error.to_string())
}

fn wait(link: &mut Link, ticket: Ticket, until: Instant, interrupts: &Interrupts) -> Result<Done, Fault> {
    link.wait::<Done>(ticket, until, interrupts).map_err(|error| match error {
        JobError::Failed { reason, output } => Fault::Failed { reason, output },
        JobError::Lost(error) => Fault::Lost(why(error)),
        JobError::Late => Fault::Late,
        JobError::Interrupted => Fault::Interrupted,
    })
}

/// Why a job could not be given to an agent. A job that cannot be sent at all is no loss of its host.
fn not_asked(error: HostsError) -> Fault {
    match error {
        HostsError::TooLong { .. } | HostsError::Unwritable { .. } => {
            Fault::Failed { reason: error.to_string(), output: Vec::new() }
        }
        error => Fault::Lost(why(error)),
    }
}

/// Why a host is lost, without its name.
fn why(error: HostsError) -> String {
    match error {
        HostsError::Lost { reason, .. } => reason,
        other => other.to_string(),
    }
}

/// The first and the last of the addresses that a host sends from, if the hosts' file gives it some.
fn ends(host: &Host) -> Result<Vec<IpAddr>, String> {
    let Some(text) = host.sources.as_deref() else { return Ok(Vec::new()) };
    let sources = plan::given(host, text)?;
    let last = usize::try_from(sources.count() - 1).unwrap_or(usize::MAX);
    Ok(vec![sources.of_socket(0), sources.of_socket(last)])
}

/// The cores of a host that the hosts' file allows, or all of them.
fn usable(topology: Topology, cores: Option<&[u32]>) -> Result<Topology, String> {
    let Some(cores) = cores else { return Ok(topology) };
    let there: Vec<u32> = topology.cores.iter().map(|core| core.cpu).collect();
    if let Some(missing) = cores.iter().find(|cpu| !there.contains(cpu)) {
        let there = cpu_list::write(&there);
        return Err(format!("the hosts' file allows core {missing}, and the host has cores {there}"));
    }
    let allowed = topology.cores.into_iter().filter(|core| cores.contains(&core.cpu)).collect();
    Ok(Topology { cores: allowed, ..topology })
}

#[cfg(test)]
mod tests {
    use kqps_observation::fingerprint::CoreFacts;

    use super::*;

    #[test]
    fn a_job_that_is_too_long_loses_no_host() {
        let host = || "p1".to_owned();
        let failed = not_asked(HostsError::TooLong { host: host(), bytes: 7 });
        assert!(matches!(failed, Fault::Failed { reason, .. } if reason.contains("7 bytes")));
        let unwritable = not_asked(HostsError::Unwritable { host: host(), what: "no number".into() });
        assert!(matches!(unwritable, Fault::Failed { .. }));
        let blocked = not_asked(HostsError::Blocked { host: host(), queued: 9 });
        assert!(matches!(blocked, Fault::Lost(why) if why.contains("9 bytes")));
        let lost = not_asked(HostsError::Lost { host: host(), reason: "it is gone".into() });
        assert!(matches!(lost, Fault::Lost(why) if why == "it is gone"));
    }

    #[test]
    fn only_the_cores_of_the_file_are_used_and_they_must_exist() {
        let core = |cpu| CoreFacts { cpu, core: cpu, smt: vec![cpu], ..CoreFacts::default() };
        let topology = Topology { cores: (0..4).map(core).collect(), ..Topology::default() };
        let cpus = |topology: Topology| topology.cores.iter().map(|core| core.cpu).collect::<Vec<_>>();
        assert_eq!(cpus(usable(topology.clone(), None).unwrap()), [0, 1, 2, 3]);
        assert_eq!(cpus(usable(topology.clone(), Some(&[1, 3])).unwrap()), [1, 3]);
        let error = usable(topology, Some(&[1, 7])).unwrap_err();
        assert!(error.contains("core 7") && error.contains("cores 0-3"), "{error}");
    }
}
