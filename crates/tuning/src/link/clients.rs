//! The other ends of SSH connections to this host. sudo(8) removes the variable that names that of a session, so its
//! ancestors are asked as well, and the kernel for established connections to the usual port.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The port of SSH (RFC 4253, section 4.1).
const PORT: u16 = 22;

/// The state of an established connection in `/proc/net/tcp` (`include/net/tcp_states.h`).
const ESTABLISHED: &str = "01";

/// The most ancestors that a process is taken to have.
const ANCESTORS_MOST: u32 = 100;

/// The variable with both ends of a session's connection (ssh(1)).
const VARIABLE: &str = "SSH_CONNECTION";

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) address: IpAddr,
    /// The device of a link-local address.
    pub(super) zone: Option<String>,
}

impl Client {
    /// The client in `SSH_CONNECTION`: its first word.
    pub(super) fn of_connection(words: &str) -> Option<Self> {
        let word = words.split_whitespace().next()?;
        let (address, zone) =
            word.split_once('%').map_or((word, None), |(address, zone)| (address, Some(zone)));
        Some(Self { address: address.parse().ok()?, zone: zone.map(str::to_owned) })
    }
}

/// The client of the connection over which this process was started, and all clients on the usual port of ssh.
pub(super) fn all() -> io::Result<Vec<Client>> {
    let own = std::env::var(VARIABLE).ok();
    let inherited = ancestors().into_iter().filter_map(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        connection_in(&String::from_utf8_lossy(&environment))
    });
    let mut clients: Vec<Client> =
        own.into_iter().chain(inherited).filter_map(|words| Client::of_connection(&words)).collect();
    for (file, may_be_missing) in [("tcp", false), ("tcp6", true)] {
        match fs::read_to_string(format!("/proc/thread-self/net/{file}")) {
            Ok(text) => clients.extend(connected(&text)),
            Err(error) if may_be_missing && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(clients)
}

/// The processes above this one, the nearest first.
fn ancestors() -> Vec<u32> {
    let parent = |pid: &str| -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        parent.trim().parse().ok().filter(|parent| *parent > 0)
    };
    let mut found = Vec::new();
    let mut next = parent("self");
    while let Some(pid) = next
        && found.len() < ANCESTORS_MOST as usize
    {
        found.push(pid);
        next = parent(&pid.to_string());
    }
    found
}

/// The variable's value in an environment, whose entries end with a zero byte.
fn connection_in(environment: &str) -> Option<String> {
    let entry = environment.split('\0').find_map(|entry| entry.strip_prefix(VARIABLE)?.strip_prefix('='));
    entry.map(str::to_owned)
}

/// The other ends of established connections to the port: a heading, then number, both ends, state, and counts.
fn connected(text: &str) -> Vec<Client> {
    let client = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, state, ..] = words[..] else { return None };
        let (_, port) = local.split_once(':')?;
        let is_it = state == ESTABLISHED && u16::from_str_radix(port, 16) == Ok(PORT);
        let address = address(remote.split_once(':')?.0).filter(|_| is_it)?;
        Some(Client { address, zone: None })
    };
    text.lines().skip(1).filter_map(client).collect()
}

/// An address as hexadecimal words of 32 bits, each in the byte order of the network but read as a number of this
/// machine.
fn address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            Some(IpAddr::from(Ipv6Addr::from(bytes)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str, zone: Option<&str>) -> Client {
        Client { address: address.parse().unwrap(), zone: zone.map(str::to_owned) }
    }

    #[test]
    fn a_connection_has_a_client_and_a_zone() {
        let of = Client::of_connection;
        assert_eq!(of("192.0.2.7 50000 192.0.2.1 22"), Some(client("192.0.2.7", None)));
        assert_eq!(of("fe80::1%eth0 50000 fe80::2%eth0 22"), Some(client("fe80::1", Some("eth0"))));
        assert_eq!((of(""), of("UNKNOWN 65535 UNKNOWN 65535")), (None, None));
    }

    #[test]
    fn an_ancestor_keeps_what_sudo_removes() {
        let environment =
            "TERM=xterm\0SSH_CONNECTION_X=1\0SSH_CONNECTION=192.0.2.7 1 192.0.2.1 22\0HOME=/root\0";
        assert_eq!(connection_in(environment).as_deref(), Some("192.0.2.7 1 192.0.2.1 22"));
        assert_eq!(connection_in("TERM=xterm\0"), None);
        let found = ancestors();
        assert!(found.len() < ANCESTORS_MOST as usize);
        let parent = std::os::unix::process::parent_id();
        assert_eq!(found.first(), Some(&parent).filter(|parent| **parent > 0), "{found:?}");
    }

    #[test]
    fn established_connections_to_the_port_have_clients() {
        // As a machine with the low byte first writes them.
        if cfg!(target_endian = "big") {
            return;
        }
        let v4 = "  sl  local_address rem_address   st tx_queue rx_queue\n\
                  0: 010200C0:0016 070200C0:C350 01 00000000:00000000\n\
                  1: 00000000:0016 00000000:0000 0A 00000000:00000000\n\
                  2: 010200C0:0035 090200C0:C350 01 00000000:00000000\n";
        assert_eq!(connected(v4), [client("192.0.2.7", None)]);
        let v6 = "  sl  local_address rem_address st\n\
                  0: B80D0120000000000000000002000000:0016 B80D0120000000000000000007000000:C350 01 0\n\
                  1: 0000000000000000FFFF0000010200C0:0016 0000000000000000FFFF0000070200C0:C350 01 0\n";
        assert_eq!(connected(v6), [client("2001:db8::7", None), client("192.0.2.7", None)]);
    }
}
