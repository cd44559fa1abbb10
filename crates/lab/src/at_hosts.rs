//! Runs over several hosts: subjects on one of them, and players on others. kqps starts an agent on each host and gives
//! it jobs; the store and every decision stay with this process.
//!
//! All players of a cell play a trial at once, each with a share of the load. They begin at one moment, which each
//! gets on the monotonic clock of its host. If a player is lost or late, or returns no record, the trial is void. It
//! is repeated, and the other players never get more load instead.

pub mod kept;

mod again;
mod member;
mod plan;
mod playing;
mod reports;
mod running;
mod same;
mod share;
mod supplies;
mod timing;
mod trouble;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::panic::resume_unwind;
use std::thread;

use kqps_hosts::{Host, Hosts, Identity};
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::{Cell, HostRole, Run, RunHost};

use crate::certificates::ServerCertificate;
use crate::error::LabError;
use crate::folder::Folder;
use crate::materials::{Materials, QueriesKind, Wanted};
use crate::patience::Patience;
use crate::player_hosts::{PlayerHost, PlayerHosts};
use crate::site::Site;
use crate::started::Play;
use crate::subject::Definition;
use crate::trial_request::NoTrial;
use again::Again;
use member::Member;
use reports::Reports;
use running::Running;
use supplies::Supplies;

pub(crate) use supplies::queries_of_all;

/// The hosts of a run, with an agent on each. Dropping it ends the agents.
pub struct Session {
    server_address: IpAddr,
    site: Site,
    members: RefCell<Members>,
    /// What the cells of the run need on every host, once it is known.
    supplies: RefCell<Option<Supplies>>,
    /// What subjects reported when they were started.
    reports: RefCell<Reports>,
    /// Why the run ends before its end, if a host that was lost could not be reached again.
    unreachable: RefCell<Option<String>>,
    again: Again,
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
pub(crate) struct Start<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) definition: &'a Definition,
    /// The number of the start in the run.
    pub(crate) number: u64,
    pub(crate) queries: QueriesKind,
    /// Whether answers are checked against the expectations of the queries.
    pub(crate) checks: bool,
    /// The subject's certificate, over an encrypted transport.
    pub(crate) certificate: Option<&'a ServerCertificate>,
    pub(crate) patience: Patience,
    pub(crate) interrupts: &'a Interrupts,
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Session");
        shown.field("server_address", &self.server_address).field("site", &self.site).finish_non_exhaustive()
    }
}

impl Session {
    /// Starts an agent on each host, and asks what the host is. All hosts are asked side by side. The error has a
    /// sentence for each host that cannot take part.
    pub fn open(hosts: &Hosts) -> Result<Self, LabError> {
        Self::open_trying(hosts, Again::default())
    }

    /// As [`Session::open`]. Hosts that are lost later are reached again as `again` says.
    fn open_trying(hosts: &Hosts, again: Again) -> Result<Self, LabError> {
        let ours = own_identity()?;
        let server_address = hosts.server.data;
        let open = |host: &Host, role: HostRole| Member::open(host, role, server_address, &ours, again);
        let (server, players) = thread::scope(|scope| {
            let open = &open;
            let players: Vec<_> =
                hosts.players.iter().map(|host| scope.spawn(move || open(host, HostRole::Player))).collect();
            let server = open(&hosts.server, HostRole::Server);
            let joined =
                players.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic)));
            (server, joined.collect::<Vec<_>>())
        });
        let mut wrong = Vec::new();
        let mut reached = |member: Result<Member, String>| member.map_err(|why| wrong.push(why)).ok();
        let mut server = reached(server);
        let mut players: Vec<Member> = players.into_iter().filter_map(&mut reached).collect();
        let Some(server) = server.take_if(|_| wrong.is_empty()) else {
            end_all(server.iter_mut().chain(&mut players));
            return Err(LabError::Hosts(wrong.join("; ")));
        };
        let members = Members { server, players };
        Ok(Self {
            server_address,
            site: site_of(&members).map_err(LabError::Hosts)?,
            members: RefCell::new(members),
            supplies: RefCell::default(),
            reports: RefCell::default(),
            unreachable: RefCell::default(),
            again,
        })
    }

    /// Reaches the hosts of a run that goes on; `None` if all of it is on this host.
    pub(crate) fn of_run(folder: &Folder, run: &Run) -> Result<Option<Self>, LabError> {
        if run.hosts.is_empty() {
            return Ok(None);
        }
        let place = folder.path().display();
        let hosts = kept::read(folder.path())?.ok_or_else(|| {
            LabError::Hosts(format!("{place} has no hosts.toml, and the run needs its hosts"))
        })?;
        let named = hosts.all().map(|host| &host.name);
        if !named.eq(run.hosts.iter().map(|host| &host.name)) {
            let what =
                format!("the hosts.toml in {place} names other hosts than those that the run began with");
            return Err(LabError::Hosts(what));
        }
        let session = Self::open(&hosts)?;
        let now = session.facts();
        let changes = run.hosts.iter().zip(&now).filter_map(|(then, now)| same::difference(then, now));
        let changes: Vec<String> = changes.collect();
        if !changes.is_empty() {
            let what = "figures from before and after that do not belong together: begin a new run";
            return Err(LabError::Hosts(format!("{}; {what}", changes.join("; "))));
        }
        Ok(Some(session))
    }

    /// What the hosts offer.
    pub(crate) fn site(&self) -> Site {
        self.site.clone()
    }

    /// The address on which subjects listen.
    pub(crate) fn server_address(&self) -> IpAddr {
        self.server_address
    }

    /// The records of the hosts, the server's first.
    pub(crate) fn facts(&self) -> Vec<RunHost> {
        let members = self.members.borrow();
        [&members.server].into_iter().chain(&members.players).map(Member::record).collect()
    }

    /// Makes the materials of a run on all hosts. Each must make the same as this host.
    pub(crate) fn make(&self, materials: &BTreeMap<Wanted, Materials>, seed: u64) -> Result<(), LabError> {
        let supplies = Supplies::of(materials, seed)?;
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
            return Err(LabError::Hosts(wrong.join("; ")));
        }
        *self.supplies.borrow_mut() = Some(supplies);
        Ok(())
    }

    /// Starts the subject of a cell on its host.
    pub(crate) fn start<'a>(&'a self, start: Start<'a>) -> Result<Play<'a>, NoTrial> {
        Ok(Box::new(Running::start(self, start)?))
    }

    /// What subjects reported at their starts so far.
    pub(crate) fn reports(&self) -> Reports {
        self.reports.borrow().clone()
    }

    /// Why the run ended before its end: a host that was lost could not be reached again. `None` otherwise.
    pub(crate) fn unreachable(&self) -> Option<String> {
        self.unreachable.borrow().clone()
    }

    /// Ends the run in order, since a host could not be reached again for this reason. Nothing is stored of the trial
    /// or start that needed the host, so the run can go on from there.
    fn give_up(&self, why: &str) -> NoTrial {
        let keep_on_s = self.again.keep_on.as_secs();
        let reason = format!("a host was lost and could not be reached again for {keep_on_s} s: {why}");
        *self.unreachable.borrow_mut() = Some(reason);
        NoTrial::Interrupted
    }
}

/// This program, as agents must be.
fn own_identity() -> Result<Identity, LabError> {
    let own = Identity::of_this_program();
    own.map_err(|error| LabError::Hosts(format!("reading the running program: {error}")))
}

/// What the hosts offer a layout.
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
