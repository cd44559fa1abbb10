//! Runs over several hosts: subjects on one of them, and players on others. kqps starts an agent on each host and gives
//! it jobs; the store and every decision stay with this process.
//!
//! All players of a cell play a trial at once, each with a share of the load. They begin at one moment, which each
//! gets on the monotonic clock of its host. If a player is lost or late, or returns no record, the trial is void. It
//! is repeated, and the other players never get more load instead.

pub mod hosts_copy;

mod host_change;
mod lateness;
mod member;
mod plan;
mod playing;
mod reconnect;
mod reports;
mod running;
mod settings_notes;
mod share;
mod supplies;
mod timing;
mod trouble;
mod void;

use std::cell::{Cell as Holder, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use kqps_fleet::{Host, Hosts, Identity, map_hosts};
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::{Cell, HostRole, Run, RunHost};

use crate::error::HostsError;
use kqps_testbed::certificates::ServerCertificate;
use kqps_testbed::folder::Folder;
use kqps_testbed::materials::{Materials, MaterialsSpec, QueriesKind};
use kqps_testbed::patience::Patience;
use kqps_testbed::player_hosts::{PlayerHost, PlayerHosts};
use kqps_testbed::site::Site;
use kqps_testbed::started::Play;
use kqps_testbed::subject::Definition;
use kqps_testbed::trial_request::NoTrial;
use lateness::Lateness;
use member::{Fault, Member};
use reconnect::ReconnectTimes;
use reports::Reports;
use running::Running;
use settings_notes::SettingsNotes;
use supplies::Supplies;

pub use supplies::queries_of_all;

/// The hosts of a run, with an agent on each. Dropping it ends the agents.
pub struct Session {
    server_address: IpAddr,
    site: Site,
    members: RefCell<Members>,
    /// Materials that the cells of the run need on every host, once they are known.
    supplies: RefCell<Option<Supplies>>,
    /// Versions and programs that subjects reported when they were started.
    reports: RefCell<Reports>,
    lateness: RefCell<Lateness>,
    /// The numbers of the players that ever got a reply in this run.
    heard: RefCell<BTreeSet<usize>>,
    /// Why the run ends before its end, if a host that was lost could not be reached again.
    unreachable: RefCell<Option<String>>,
    /// The time that went into reaching lost hosts since it was taken last.
    away: Holder<Duration>,
    /// Notes for the run on the settings of the subjects' host.
    settings: RefCell<SettingsNotes>,
    /// Prints a line while the run goes on.
    pub print: Box<dyn Fn(&str)>,
}

struct Members {
    server: Member,
    /// In the order of the hosts' file.
    players: Vec<Member>,
}

impl Drop for Members {
    fn drop(&mut self) {
        end_all([&mut self.server].into_iter().chain(&mut self.players));
    }
}

/// A start of a subject for trials that other hosts play.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The cell of the subject.
    pub cell: &'a Cell,
    /// How the subject is started.
    pub definition: &'a Definition,
    /// The number of the start in the run.
    pub number: u64,
    /// The kind of queries that the players send.
    pub queries: QueriesKind,
    /// Whether answers are checked against the expectations of the queries.
    pub checks: bool,
    /// The subject's certificate, over an encrypted transport.
    pub certificate: Option<&'a ServerCertificate>,
    /// The time limits of the start.
    pub patience: Patience,
    /// Signals that end the start.
    pub interrupts: &'a Interrupts,
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Session");
        shown.field("server_address", &self.server_address).field("site", &self.site).finish_non_exhaustive()
    }
}

impl Session {
    /// Starts an agent on each host, and asks what the host is. Some hosts are asked at once. The error has a
    /// sentence for each host that cannot take part. Hosts that are lost later are tried longer if the run has no
    /// budget.
    pub fn open(hosts: &Hosts, budget_s: Option<f64>) -> Result<Self, HostsError> {
        Self::open_trying(hosts, ReconnectTimes::with_budget(budget_s))
    }

    /// As [`Session::open`]. Hosts that are lost later are reached again as `again` says.
    fn open_trying(hosts: &Hosts, again: ReconnectTimes) -> Result<Self, HostsError> {
        let ours = own_identity()?;
        let server_address = hosts.server.data;
        let players = hosts.players.iter().map(|host| (host, HostRole::Player));
        let server = [(&hosts.server, HostRole::Server)].into_iter();
        let all: Vec<(&Host, HostRole)> = server.chain(players).collect();
        let opened = map_hosts(all, |(host, role): (&Host, HostRole)| {
            Member::open(host, role, server_address, &ours, again)
        });
        let (mut players, mut wrong) = (Vec::new(), Vec::new());
        for member in opened {
            match member {
                Ok(member) => players.push(member),
                Err(why) => wrong.push(why),
            }
        }
        if !wrong.is_empty() {
            end_all(players.iter_mut());
            return Err(HostsError::Unfit(wrong.join("; ")));
        }
        let server = players.remove(0);
        let members = Members { server, players };
        Ok(Self {
            server_address,
            site: site_of(&members).map_err(HostsError::Unfit)?,
            members: RefCell::new(members),
            supplies: RefCell::default(),
            reports: RefCell::default(),
            lateness: RefCell::default(),
            heard: RefCell::default(),
            unreachable: RefCell::default(),
            away: Holder::default(),
            settings: RefCell::default(),
            print: Box::new(|_| ()),
        })
    }

    /// Reaches the hosts of a run that goes on; `None` if all of it is on this host.
    pub fn of_run(folder: &Folder, run: &Run) -> Result<Option<Self>, HostsError> {
        if run.hosts.is_empty() {
            return Ok(None);
        }
        let place = folder.path().display();
        let hosts = hosts_copy::read(folder.path())?.ok_or_else(|| {
            HostsError::Unfit(format!("{place} has no hosts.toml, and the run needs its hosts"))
        })?;
        let named = hosts.all().map(|host| &host.name);
        if !named.eq(run.hosts.iter().map(|host| &host.name)) {
            let what =
                format!("the hosts.toml in {place} names other hosts than those that the run began with");
            return Err(HostsError::Unfit(what));
        }
        let session = Self::open(&hosts, run.budget_s)?;
        let now = session.facts();
        let changes = run.hosts.iter().zip(&now).filter_map(|(then, now)| host_change::difference(then, now));
        let changes: Vec<String> = changes.collect();
        if !changes.is_empty() {
            let what = "figures from before and after that do not belong together: begin a new run";
            return Err(HostsError::Unfit(format!("{}; {what}", changes.join("; "))));
        }
        Ok(Some(session))
    }

    /// The site that the hosts offer.
    pub fn site(&self) -> Site {
        self.site.clone()
    }

    /// The address on which subjects listen.
    pub fn server_address(&self) -> IpAddr {
        self.server_address
    }

    /// The records of the hosts, the server's first.
    pub fn facts(&self) -> Vec<RunHost> {
        let members = self.members.borrow();
        [&members.server].into_iter().chain(&members.players).map(Member::record).collect()
    }

    /// Makes the materials of a run on all hosts. Each must make the same as this host.
    pub fn make(&self, materials: &BTreeMap<MaterialsSpec, Materials>, seed: u64) -> Result<(), HostsError> {
        let supplies = Supplies::from_materials(materials, seed)?;
        let mut members = self.members.borrow_mut();
        let Members { server, players } = &mut *members;
        let all: Vec<&mut Member> = [server].into_iter().chain(players).collect();
        let made = side_by_side(all, |member| {
            let mut wanted = supplies.all();
            wanted
                .try_for_each(|wanted| supplies.bring(wanted, member, &Interrupts::default()))
                .map_err(|fault| format!("{}: {}", member.host().name, fault.into_reason()))
        });
        let wrong: Vec<String> = made.into_iter().filter_map(Result::err).collect();
        if !wrong.is_empty() {
            return Err(HostsError::Unfit(wrong.join("; ")));
        }
        *self.supplies.borrow_mut() = Some(supplies);
        Ok(())
    }

    /// Starts the subject of a cell on its host.
    pub fn start<'a>(&'a self, start: Start<'a>) -> Result<Play<'a>, NoTrial> {
        Ok(Box::new(Running::start(self, start)?))
    }

    /// Versions and programs that subjects reported at their starts so far.
    pub fn reports(&self) -> Reports {
        self.reports.borrow().clone()
    }

    /// Why the run ended before its end: a host that was lost could not be reached again. `None` otherwise.
    pub fn unreachable(&self) -> Option<String> {
        self.unreachable.borrow().clone()
    }

    /// Ends the run in order, for this reason. Nothing is stored of the trial or start that needed the host, so the run
    /// can go on from there.
    fn give_up(&self, why: &str) -> NoTrial {
        *self.unreachable.borrow_mut() = Some(why.to_owned());
        NoTrial::Interrupted
    }

    /// Reaches the host of the subjects if it was lost. `false` ends the run in order.
    pub fn reach(&self, interrupts: &Interrupts) -> bool {
        let mut members = self.members.borrow_mut();
        let server = &mut members.server;
        let reached = self.reaching(server.away().as_slice(), || server.reach(interrupts));
        match reached {
            Err(Fault::Unreachable(why)) => {
                self.give_up(&why);
                false
            }
            // A start shows every other fault.
            reached => !matches!(reached, Err(Fault::Interrupted)),
        }
    }

    /// The time since the last call that went into reaching lost hosts.
    pub fn take_away_time(&self) -> Duration {
        self.away.take()
    }

    /// Reaches lost hosts, and counts the time. `away` has a word on each of them.
    fn reaching<T>(&self, away: &[String], reach: impl FnOnce() -> T) -> T {
        if !away.is_empty() {
            (self.print)(&format!("waiting for hosts that were lost: {}", away.join(", ")));
        }
        let began = Instant::now();
        let reached = reach();
        self.away.set(self.away.get() + began.elapsed());
        reached
    }

    /// Notes on what the run lacks because of its hosts, and why. `of_run` are the hosts as they are stored.
    pub fn notes(&self, of_run: &[RunHost]) -> BTreeMap<String, String> {
        let members = self.members.borrow();
        let all = [&members.server].into_iter().chain(&members.players);
        let mut notes: BTreeMap<String, String> = all.filter_map(Member::boot_note).collect();
        notes.extend(self.settings.borrow().notes());
        notes.extend(self.reports.borrow().replaced(of_run));
        notes
    }

    /// Why trials last longer than the study asks for, as a sentence without its full stop; `None` if they do not.
    pub fn why_longer(&self) -> Option<String> {
        let members = self.members.borrow();
        let of = |member: &Member| member.offset().uncertainty_ns;
        let least_s = timing::least_s(of(&members.server), members.players.iter().map(of));
        let worst = [&members.server].into_iter().chain(&members.players).max_by_key(|member| of(member))?;
        timing::why_longer(least_s, &worst.host().name, of(worst))
    }
}

/// This program, as agents must be.
fn own_identity() -> Result<Identity, HostsError> {
    let own = Identity::of_this_program();
    own.map_err(|error| HostsError::Unfit(format!("reading the running program: {error}")))
}

/// The site that the hosts offer a layout.
fn site_of(members: &Members) -> Result<Site, String> {
    let Members { server, players } = members;
    let player = |member: &Member| {
        let host = member.host();
        let sources = host.sources.as_deref().map(|text| plan::given(host, text)).transpose()?;
        Ok(PlayerHost {
            name: host.name.clone(),
            machine: member.machine().to_owned(),
            topology: member.topology().clone(),
            sources: sources.map(|sources| sources.count()),
        })
    };
    let hosts = PlayerHosts {
        server_machine: server.machine().to_owned(),
        server_device: server.device().map(str::to_owned),
        players: players.iter().map(player).collect::<Result<_, String>>()?,
    };
    let (topology, lacking) = (server.topology().clone(), server.lacking().clone());
    Ok(Site { topology, lacking, players: Some(hosts) })
}

/// Does the same with all of these at once. Returns the results in their order.
fn side_by_side<M: Send, T: Send>(all: Vec<M>, act: impl Fn(M) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let act = &act;
        let running: Vec<_> = all.into_iter().map(|one| scope.spawn(move || act(one))).collect();
        running.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Ends the agents of all of these hosts at once. Each may take some seconds.
fn end_all<'m>(members: impl Iterator<Item = &'m mut Member>) {
    side_by_side(members.collect(), Member::close);
}

#[cfg(test)]
mod tests;
