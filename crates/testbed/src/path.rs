//! The path of queries and replies, as laid for one start of a subject: the host's own loopback, a veth pair
//! between two network namespaces, one for the subject and one for the player, or the network to another host.
//!
//! No part of a veth path has a name on the host or appears there. It exists as long as a process in its
//! namespaces or the [`LaidPath`], and disappears with the last of them, however that ends.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

use kqps_kernel::namespace::impair::{self, Impairment};
use kqps_kernel::namespace::veth::{self, End, VethSettings};
use kqps_kernel::namespace::{self, NetNs};
use kqps_observation::Cell;
use kqps_observation::question::Path as Kind;

use crate::internet::running::InternetBox;
use crate::past_kernel;

/// A path that is ready for packets.
#[derive(Debug)]
pub enum LaidPath {
    /// The host's loopback interface, which other traffic uses as well.
    Loopback,
    /// A veth pair for this path alone.
    Veth(VethPath),
    /// Loopback in the network of a resolver, from which the servers of an Internet in a box can be reached.
    Internet(Box<InternetBox>),
    /// The network of this host. The subject listens at this address, and the player is on another host.
    Network(IpAddr),
}

/// Two network namespaces, and a pair of devices that joins them.
#[derive(Debug)]
pub struct VethPath {
    subject: NetNs,
    player: NetNs,
}

/// From the network that is set aside for benchmarks (RFC 2544, appendix C.2.2). Every path has the same
/// addresses, since no path can see another.
const SUBJECT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const PLAYER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// All addresses that subjects listen on, over whatever path.
pub(crate) fn subject_addresses() -> [IpAddr; 2] {
    [Ipv4Addr::LOCALHOST.into(), SUBJECT.into()]
}

/// Why a path could not be laid.
#[derive(Debug, thiserror::Error)]
#[error("laying a veth path: {0}")]
pub struct PathError(#[from] io::Error);

impl LaidPath {
    /// Lays the path that a cell asks for; `study` is the default of its study for all cells.
    pub fn new(study: Kind, cell: &Cell) -> Result<Self, PathError> {
        let path = cell.factors.path();
        match path.kind.unwrap_or(study) {
            Kind::Loopback => Ok(Self::Loopback),
            Kind::Veth => {
                let veth = VethPath::lay(&veth_settings(cell))?;
                if past_kernel::is_player(&cell.factors) {
                    // The player gets frames as the subject's kernel sends them.
                    veth.subject.within(veth::complete_checksums)?;
                }
                Ok(Self::Veth(veth))
            }
        }
    }

    /// The address that the subject listens on.
    pub fn subject_address(&self) -> IpAddr {
        match self {
            Self::Loopback | Self::Internet(_) => Ipv4Addr::LOCALHOST.into(),
            Self::Veth(_) => SUBJECT.into(),
            Self::Network(address) => *address,
        }
    }

    /// The address that queries come from. It is unspecified if they come from another host.
    pub fn player_address(&self) -> IpAddr {
        match self {
            Self::Loopback | Self::Internet(_) => Ipv4Addr::LOCALHOST.into(),
            Self::Veth(_) => PLAYER.into(),
            Self::Network(IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
            Self::Network(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// The Internet in a box at the subject's end; `None` on other paths.
    pub fn internet(&self) -> Option<&InternetBox> {
        match self {
            Self::Internet(internet) => Some(internet),
            _ => None,
        }
    }

    /// Starts a program at the subject's end of the path.
    pub fn place_subject(&self, command: &mut Command) -> io::Result<()> {
        match self {
            Self::Loopback | Self::Network(_) => Ok(()),
            Self::Veth(veth) => namespace::enter(command, &veth.subject).map(drop),
            Self::Internet(internet) => namespace::enter(command, internet.home()).map(drop),
        }
    }

    /// Starts a program at the player's end of the path.
    pub fn place_player(&self, command: &mut Command) -> io::Result<()> {
        match self {
            Self::Loopback | Self::Network(_) => Ok(()),
            Self::Veth(veth) => namespace::enter(command, &veth.player).map(drop),
            Self::Internet(internet) => namespace::enter(command, internet.home()).map(drop),
        }
    }

    /// Runs `act`, which opens a socket or reads counters, at the subject's end. It must not start programs:
    /// see [`NetNs::within`].
    pub fn at_subject<T: Send>(&self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        match self {
            Self::Loopback | Self::Network(_) => act(),
            Self::Veth(veth) => veth.subject.within(act),
            Self::Internet(internet) => internet.home().within(act),
        }
    }

    /// Impairs the packets that the player sends over a path of kqps's own, and with `both_ways` also the subject's. A
    /// resolver's path is that to the servers of its Internet: the packets that it sends to them are impaired.
    ///
    /// # Errors
    ///
    /// If other programs use the path, or if the kernel cannot do it.
    pub fn impair(&self, impairment: Impairment, both_ways: bool) -> io::Result<()> {
        self.at_ends(both_ways, || impair::impair(impairment))
    }

    /// Undoes [`LaidPath::impair`].
    pub fn relieve(&self) -> io::Result<()> {
        self.at_ends(true, impair::relieve)
    }

    fn at_ends(&self, both: bool, act: impl Fn() -> io::Result<()> + Send + Sync) -> io::Result<()> {
        match self {
            Self::Veth(veth) => {
                veth.player.within(&act)?;
                if both { veth.subject.within(&act) } else { Ok(()) }
            }
            Self::Internet(internet) => internet.home().within(&act),
            Self::Loopback | Self::Network(_) => {
                Err(io::Error::other("other programs use this path as well"))
            }
        }
    }

    /// As [`LaidPath::at_subject`], at the player's end.
    pub fn at_player<T: Send>(&self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        match self {
            Self::Loopback | Self::Network(_) => act(),
            Self::Veth(veth) => veth.player.within(act),
            Self::Internet(internet) => internet.home().within(act),
        }
    }
}

/// The settings of a veth path that a cell's factors name, and the queues that it needs if it names none.
fn veth_settings(cell: &Cell) -> VethSettings {
    let path = cell.factors.path();
    VethSettings {
        queues: path.queues.or_else(|| past_kernel::queues(cell)),
        txqueuelen: path.txqueuelen,
        rps_cpus: path.rps_cpus.clone(),
        gro: path.gro,
        sysctls: cell.factors.sysctls().clone(),
    }
}

impl VethPath {
    /// Makes both namespaces and joins them.
    ///
    /// # Errors
    ///
    /// Without the rights to administer the system and the network (`CAP_SYS_ADMIN`, `CAP_NET_ADMIN`), which
    /// `kqps probe` reports as `veth`.
    pub fn lay(settings: &VethSettings) -> io::Result<Self> {
        let path = Self { subject: NetNs::new()?, player: NetNs::new()? };
        let subject = End { namespace: &path.subject, address: SUBJECT };
        let player = End { namespace: &path.player, address: PLAYER };
        veth::join(player, subject, settings)?;
        Ok(path)
    }

    /// The network namespace of the subject.
    pub fn subject(&self) -> &NetNs {
        &self.subject
    }

    /// The network namespace of the player.
    pub fn player(&self) -> &NetNs {
        &self.player
    }
}
