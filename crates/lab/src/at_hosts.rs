//! Runs over several hosts: subjects on one of them, and players on others. kqps starts an agent on each host and gives
//! it jobs; the store and every decision stay with this process.
//!
//! All players of a cell play a trial at once, each with a share of the load. They begin at one moment, which each
//! gets on the monotonic clock of its host. If a player is lost or late, or returns no record, the trial is void. It
//! is repeated, and the other players never get more load instead.

pub mod kept;

mod member;
mod plan;
mod running;
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
use member::Member;
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
    /// Subject → the version that its program reported on its host.
    versions: RefCell<BTreeMap<String, String>>,
}

struct Members {
    server: Member,
    /// In the order of the hosts' file.
    players: Vec<Member>,
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
        let ours = own_identity()?;
        let server_address = hosts.server.data;
        let open = |host: &Host, role: HostRole| Member::open(host, role, server_address, &ours);
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
        let server = reached(server);
        let players: Vec<Member> = players.into_iter().filter_map(&mut reached).collect();
        match server {
            Some(server) if wrong.is_empty() => {
                let site = site_of(&server, &players).map_err(LabError::Hosts)?;
                Ok(Self {
                    server_address,
                    site,
                    members: RefCell::new(Members { server, players }),
                    supplies: RefCell::default(),
                    versions: RefCell::default(),
                })
            }
            _ => Err(LabError::Hosts(wrong.join("; "))),
        }
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
        Self::open(&hosts).map(Some)
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

    /// The version that a subject's program reported at a start; `None` if it was not started, or reports none.
    pub(crate) fn version_of(&self, subject: &str) -> Option<String> {
        self.versions.borrow().get(subject).cloned()
    }
}

/// This program, as agents must be.
fn own_identity() -> Result<Identity, LabError> {
    let own = Identity::of_this_program();
    own.map_err(|error| LabError::Hosts(format!("reading the running program: {error}")))
}

/// What the hosts offer a layout.
fn site_of(server: &Member, players: &[Member]) -> Result<Site, String> {
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

/// Does the same at all of these hosts at once. Returns the results in their order.
fn side_by_side<T: Send>(members: Vec<&mut Member>, act: impl Fn(&mut Member) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let act = &act;
        let running: Vec<_> = members.into_iter().map(|member| scope.spawn(move || act(member))).collect();
        running.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}
