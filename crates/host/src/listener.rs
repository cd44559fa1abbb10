//! The processes behind an address of this host: those that hold the sockets which receive datagrams to it, or accept
//! connections to it.
//!
//! A socket has an inode in the kernel's table of sockets, and a process that has it open shows the same inode among
//! its files. Servers share sockets: with their workers, with the service manager that opened them, and through
//! `SO_REUSEPORT` with unrelated processes. The result is the processes that, with their descendants, are the server.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kqps_observation::trial::Transport;

use crate::process;

/// A socket that takes queries from anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    at: SocketAddr,
    uid: u32,
    inode: u64,
}

/// Returns the processes that take queries to these addresses over `transport`, without the descendants of these
/// processes. The error is the reason why they are not known. This searches for sockets in the network namespace of the
/// calling thread.
pub fn listeners(targets: &[SocketAddr], transport: Transport) -> Result<Vec<u32>, String> {
    let wanted = sockets_of(targets, Kind::from_transport(transport))?;
    let inodes: BTreeSet<u64> = wanted.keys().copied().collect();
    let (holders, hidden) = holders(&inodes);
    let held: BTreeSet<u64> = holders.values().flatten().copied().collect();
    if let Some(inode) = inodes.difference(&held).next() {
        let (at, uid) = (wanted[inode].at, wanted[inode].uid);
        return Err(if hidden {
            format!(
                "the socket at {at} belongs to user {uid}, whose processes cannot be inspected from here (run as root, \
                 or as that user)"
            )
        } else {
            format!("no visible process has the socket at {at}")
        });
    }
    let holders: BTreeSet<u32> = holders.into_keys().collect();
    let kin = Kin {
        parent: &|pid| process::parent(pid),
        is_same: &|one, other| process::runs_same_program(one, other),
        own: &ancestors(std::process::id()),
    };
    kin.servers(&holders)
}

/// Readings of the kernel's table of sockets before a socket counts as missing. The kernel returns the table in pieces,
/// and skips some sockets if others close between two pieces.
const READINGS: u32 = 4;

/// A kind of socket: of datagrams, or one that accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Udp,
    Tcp,
}

impl Kind {
    fn from_transport(transport: Transport) -> Self {
        if transport.is_over_udp() { Self::Udp } else { Self::Tcp }
    }

    /// The names of its tables in `/proc/net`, IPv4 first.
    fn tables(self) -> [&'static str; 2] {
        match self {
            Self::Udp => ["udp", "udp6"],
            Self::Tcp => ["tcp", "tcp6"],
        }
    }

    /// Whether a socket in this state takes queries from anybody: a UDP socket without a peer, or a TCP socket that
    /// listens (`TCP_LISTEN`).
    fn takes_all(self, state: &str, peer: SocketAddr) -> bool {
        match self {
            Self::Udp => peer.port() == 0,
            Self::Tcp => state == "0A",
        }
    }

    /// Why an address has no such socket.
    fn missing(self, target: &str) -> String {
        match self {
            Self::Udp => format!("no UDP socket of this network namespace is bound to {target}"),
            Self::Tcp => format!("no TCP socket of this network namespace accepts connections to {target}"),
        }
    }
}

/// The sockets that take queries to these addresses, by inode.
fn sockets_of(targets: &[SocketAddr], kind: Kind) -> Result<BTreeMap<u64, Bound>, String> {
    let mut missing = None;
    for _ in 0..READINGS {
        let bound = all_bound(kind)?;
        let at: Vec<Vec<Bound>> = targets.iter().map(|target| taking(&bound, *target)).collect();
        missing = at.iter().position(Vec::is_empty).map(|absent| targets[absent]);
        if missing.is_none() {
            return Ok(at.into_iter().flatten().map(|socket| (socket.inode, socket)).collect());
        }
    }
    let target = missing.map_or_else(String::new, |target| target.to_string());
    Err(kind.missing(&target))
}

/// Every socket of a kind that takes queries from anybody.
fn all_bound(kind: Kind) -> Result<Vec<Bound>, String> {
    let table = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}"));
    let [ipv4, ipv6] = kind.tables();
    let of_ipv4 = table(ipv4).map_err(|error| format!("/proc/net/{ipv4} cannot be read: {error}"))?;
    let mut bound = parse(&of_ipv4, kind);
    // A kernel without IPv6 has no such table of it.
    bound.extend(parse(&table(ipv6).unwrap_or_default(), kind));
    Ok(bound)
}

/// Parses the sockets of a table in `/proc/net` that take queries from anybody. All these tables have the same columns.
fn parse(table: &str, kind: Kind) -> Vec<Bound> {
    let socket = |line: &str| {
        let mut columns = line.split_whitespace();
        let (at, peer) = (address(columns.nth(1)?)?, address(columns.next()?)?);
        let state = columns.next()?;
        let uid = columns.nth(3)?.parse().ok()?;
        let inode = columns.nth(1)?.parse().ok()?;
        kind.takes_all(state, peer).then_some(Bound { at, uid, inode })
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// Parses an address such as `0100007F:14B4`. Its 32-bit words are printed as numbers of this machine's byte order.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut bytes = [0; 16];
            for (index, place) in bytes.chunks_exact_mut(4).enumerate() {
                place.copy_from_slice(&word(index * 8)?);
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// The sockets among which the kernel chooses for an address: those bound to it, or else those bound to any address.
/// IPv6 sockets receive IPv4, too, unless IPv4 sockets do.
fn taking(bound: &[Bound], target: SocketAddr) -> Vec<Bound> {
    let ip = target.ip();
    let candidates: &[IpAddr] = &match ip {
        IpAddr::V4(v4) => {
            [ip, v4.to_ipv6_mapped().into(), Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
        }
        IpAddr::V6(_) => [ip, ip, Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
    };
    let at = |ip: &IpAddr| -> Vec<Bound> {
        let wanted = SocketAddr::new(*ip, target.port());
        bound.iter().filter(|socket| socket.at == wanted).copied().collect()
    };
    candidates.iter().map(at).find(|sockets| !sockets.is_empty()).unwrap_or_default()
}

/// The processes that have any of these sockets open, with the sockets, and whether some process could not be
/// inspected.
fn holders(inodes: &BTreeSet<u64>) -> (BTreeMap<u32, BTreeSet<u64>>, bool) {
    let (mut holders, mut hidden) = (BTreeMap::new(), false);
    for pid in process::processes() {
        match process::socket_inodes(pid) {
            Ok(open) => {
                let held: BTreeSet<u64> = open.intersection(inodes).copied().collect();
                if !held.is_empty() {
                    holders.insert(pid, held);
                }
            }
            Err(error) => hidden |= error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
    (holders, hidden)
}

/// A process and all its ancestors.
fn ancestors(pid: u32) -> BTreeSet<u32> {
    std::iter::successors(Some(pid), |pid| process::parent(*pid)).collect()
}

/// How processes are related, as far as is known.
struct Kin<'a> {
    parent: &'a dyn Fn(u32) -> Option<u32>,
    /// Whether two processes run the same program.
    is_same: &'a dyn Fn(u32, u32) -> bool,
    /// The player and all its ancestors.
    own: &'a BTreeSet<u32>,
}

impl Kin<'_> {
    /// Reduces the processes that hold a server's sockets to those that, with their descendants, are the server.
    fn servers(&self, holders: &BTreeSet<u32>) -> Result<Vec<u32>, String> {
        let mut servers = BTreeSet::new();
        for &holder in holders.iter().filter(|holder| !self.handed_on(**holder, holders)) {
            if holder == 1 {
                return Err(
                    "its socket is held by process 1, which starts the server at the first query: send one, \
                            and load again"
                        .into(),
                );
            }
            if self.own.contains(&holder) {
                return Err(format!(
                    "process {holder} has the socket and started this player: its CPU time cannot be \
                     separated from the player's"
                ));
            }
            servers.insert(self.eldest(holder));
        }
        let eldest = servers.iter().filter(|server| {
            let descends = |other: &u32| other != *server && self.descends(**server, *other);
            !servers.iter().any(descends)
        });
        Ok(eldest.copied().collect())
    }

    /// Whether a process only opened the sockets for others, as a service manager does, which runs another program.
    fn handed_on(&self, holder: u32, holders: &BTreeSet<u32>) -> bool {
        let mut heirs = holders.iter().filter(|other| self.descends(**other, holder)).peekable();
        heirs.peek().is_some() && heirs.all(|heir| !(self.is_same)(*heir, holder))
    }

    /// The oldest ancestor that a process has through processes of the same program. A worker descends so from its
    /// server.
    fn eldest(&self, pid: u32) -> u32 {
        let parent = |pid: &u32| {
            let parent = (self.parent)(*pid)?;
            (parent > 1 && !self.own.contains(&parent) && (self.is_same)(*pid, parent)).then_some(parent)
        };
        std::iter::successors(Some(pid), parent).last().unwrap_or(pid)
    }

    fn descends(&self, pid: u32, from: u32) -> bool {
        std::iter::successors((self.parent)(pid), |pid| (self.parent)(*pid)).any(|one| one == from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  100: 0100007F:14B4 00000000:0000 07 00000000:00000000 00:00000000 00000000   104        0 9001 2 0000000000000000 812
  101: 00000000:14B4 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9002 2 0000000000000000 7
  101: 00000000:14B4 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9003 2 0000000000000000 7
  102: 0100007F:14B4 0200007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 9004 2 0000000000000000 7
";

    const TABLE6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  200: 00000000000000000000000000000000:14B5 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9005 2 0000000000000000 0
  201: 00000000000000000000000001000000:14B5 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9006 2 0000000000000000 0
  202: 0000000000000000FFFF00000100007F:14B6 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9007 2 0000000000000000 0
";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_socket_that_is_bound_most_closely_takes_a_query() {
        let bound = [parse(TABLE, Kind::Udp), parse(TABLE6, Kind::Udp)].concat();
        assert_eq!((bound.len(), bound[0].uid), (6, 104), "one is connected, and takes from its peer alone");
        let taking = |target: &str| -> Vec<u64> {
            taking(&bound, target.parse().unwrap()).iter().map(|socket| socket.inode).collect()
        };
        assert_eq!(taking("127.0.0.1:5300"), [9001]);
        assert_eq!(taking("127.0.0.2:5300"), [9002, 9003], "they share the port");
        assert_eq!(taking("127.0.0.1:5301"), [9005], "IPv6 takes IPv4 too");
        assert_eq!(taking("[::1]:5301"), [9006]);
        assert_eq!(taking("[2001:db8::1]:5301"), [9005]);
        assert_eq!(taking("127.0.0.1:5302"), [9007]);
        assert_eq!(taking("[::1]:5300"), [0; 0]);
    }

    /// As the kernel prints them: two sockets that listen, a connection of one of them, and one in `TIME_WAIT`.
    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:14B4 00000000:0000 0A 00000000:00000003 00:00000000 00000000   104        0 9001 1 00000000b74c12eb 100 0 0 10 0
   1: 00000000:14B5 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 9002 1 00000000b74c12eb 100 0 0 10 0
   2: 0100007F:14B4 0100007F:9C40 01 00000000:00000000 00:00000000 00000000   104        0 9003 1 00000000b74c12eb 20 4 30 10 -1
   3: 0100007F:14B4 0100007F:9C41 06 00000000:00000000 03:00000176 00000000     0        0 0 3 00000000b74c12eb
";

    const TCP6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:14B6 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 9004 1 00000000b74c12eb 100 0 0 10 0
   1: 0000000000000000FFFF00000100007F:14B6 0000000000000000FFFF00000100007F:9C42 01 00000000:00000000 00:00000000 00000000     0        0 9005 1 00000000b74c12eb 20 4 30 10 -1
";

    #[test]
    #[cfg(target_endian = "little")]
    fn a_socket_that_accepts_connections_takes_them_and_its_connections_do_not() {
        let bound = [parse(TCP, Kind::Tcp), parse(TCP6, Kind::Tcp)].concat();
        let inodes: Vec<u64> = bound.iter().map(|socket| socket.inode).collect();
        assert_eq!((inodes, bound[0].uid), (vec![9001, 9002, 9004], 104));
        let taking = |target: &str| -> Vec<u64> {
            taking(&bound, target.parse().unwrap()).iter().map(|socket| socket.inode).collect()
        };
        assert_eq!(taking("127.0.0.1:5300"), [9001]);
        assert_eq!(taking("127.0.0.2:5301"), [9002]);
        assert_eq!(taking("127.0.0.1:5302"), [9004], "IPv6 takes IPv4 too");
        assert_eq!(taking("127.0.0.2:5300"), [0; 0]);
    }

    #[test]
    fn the_kernels_tables_have_the_socket_of_this_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let peer = std::net::TcpStream::connect(address).unwrap();
        let found = sockets_of(&[address], Kind::Tcp).unwrap();
        assert_eq!(found.values().map(|socket| socket.at).collect::<Vec<_>>(), [address]);
        let why = listeners(&[address], Transport::Tcp).unwrap_err();
        assert!(
            why.contains(&format!("process {} has the socket and started this player", std::process::id()))
        );
        let client = peer.local_addr().unwrap();
        let why = listeners(&[client], Transport::Tcp).unwrap_err();
        assert_eq!(why, format!("no TCP socket of this network namespace accepts connections to {client}"));
    }

    /// The servers among processes given as (number, parent, program). `holders` hold the sockets, and 90 is the
    /// player.
    fn servers(processes: &[(u32, u32, &str)], holders: &[u32]) -> Result<Vec<u32>, String> {
        let parent = |pid| processes.iter().find(|one| one.0 == pid).map(|one| one.1).filter(|it| *it > 0);
        let program = |pid| processes.iter().find(|one| one.0 == pid).map(|one| one.2);
        let own: BTreeSet<u32> = std::iter::successors(Some(90), |pid| parent(*pid)).collect();
        let is_same = |one, other| program(one) == program(other);
        Kin { parent: &parent, is_same: &is_same, own: &own }.servers(&holders.iter().copied().collect())
    }

    const ROOT: [(u32, u32, &str); 3] = [(1, 0, "systemd"), (80, 1, "sh"), (90, 80, "kqps")];

    #[test]
    fn the_parent_that_covers_all_workers_is_the_server() {
        let nsd = [(20, 1, "nsd"), (21, 20, "nsd"), (22, 21, "nsd"), (23, 21, "nsd")];
        let all = [&ROOT[..], &nsd].concat();
        for holders in [&[20, 21, 22, 23][..], &[21, 22, 23], &[22, 23], &[22]] {
            assert_eq!(servers(&all, holders), Ok(vec![20]), "{holders:?}");
        }
    }

    #[test]
    fn servers_that_share_an_address_are_all_found() {
        // These were started by the shell that also started the player. The shell is no server.
        let all = [&ROOT[..], &[(30, 80, "unbound"), (31, 80, "unbound"), (32, 31, "unbound")]].concat();
        assert_eq!(servers(&all, &[30, 31, 32]), Ok(vec![30, 31]));
    }

    #[test]
    fn a_process_that_only_opened_the_socket_is_no_server() {
        let all = [&ROOT[..], &[(40, 1, "knotd"), (50, 1, "supervisor"), (51, 50, "named")]].concat();
        assert_eq!(servers(&all, &[1, 40]), Ok(vec![40]));
        assert_eq!(servers(&all, &[50, 51]), Ok(vec![51]));
        assert!(servers(&all, &[1]).unwrap_err().contains("first query"));
    }

    #[test]
    fn the_process_that_started_the_player_is_not_watched() {
        let all = [&ROOT[..], &[(60, 80, "kqps"), (61, 60, "kqps")]].concat();
        assert!(
            servers(&all, &[80]).unwrap_err().contains("process 80 has the socket and started this player")
        );
        // A process that the player's parent started is one.
        assert_eq!(servers(&all, &[80, 61]), Ok(vec![60]), "the shell opened its socket");
    }
}
