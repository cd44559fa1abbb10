//! Asks a subject whether it is ready: for the zone's SOA over UDP, again and again, until the reply is good
//! enough.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use kqps_message::{Header, NameError, header, query, rtype};

use super::definition::ReadyKind;

/// The longest wait for the reply to one query.
const PATIENCE: Duration = Duration::from_millis(50);

/// The result of one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A reply that is good enough.
    Ready,
    /// A reply that is not good enough: what is wrong with it.
    Wrong(String),
    /// No reply that belongs to the query.
    Silent,
}

/// Asks for the SOA of a zone.
#[derive(Debug)]
pub struct Probe {
    socket: UdpSocket,
    query: Vec<u8>,
    kind: ReadyKind,
}

impl Probe {
    /// A probe of the zone `origin` (`bench.test.`) at `target`. It sends from the network namespace of the
    /// thread that makes it, wherever it is used later.
    pub fn new(target: SocketAddr, origin: &str, kind: ReadyKind) -> io::Result<Self> {
        let query = soa_query(fastrand::u16(..), origin).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("zone {origin}: {error}"))
        })?;
        let any: SocketAddr = if target.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(target)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket, query, kind })
    }

    /// Asks once. A subject that refuses the packet or does not reply is not ready.
    pub fn ask(&self) -> Asked {
        let mut reply = [0; 1500];
        if self.socket.send(&self.query).is_err() {
            return Asked::Silent;
        }
        self.socket.recv(&mut reply).map_or(Asked::Silent, |length| self.rate(&reply[..length]))
    }

    fn rate(&self, reply: &[u8]) -> Asked {
        let is_ours = |reply: &Header<'_>| reply.is_reply() && Some(reply.id()) == header::id(&self.query);
        let Some(reply) = Header::of(reply).filter(is_ours) else { return Asked::Silent };
        let rcode = reply.rcode();
        match self.kind {
            ReadyKind::Soa if rcode != 0 => {
                Asked::Wrong(format!("it answered with rcode {rcode} to the question for the zone's SOA"))
            }
            ReadyKind::Soa if reply.answers() == 0 => {
                Asked::Wrong("it answered without the zone's SOA, as a server without the zone does".into())
            }
            ReadyKind::Soa | ReadyKind::Reply => Asked::Ready,
        }
    }
}

/// A query for `origin`'s SOA. It requests recursion, as the player's queries do: a resolver refuses others.
fn soa_query(id: u16, origin: &str) -> Result<Vec<u8>, NameError> {
    let mut message = Vec::new();
    query::write(&mut message, origin.as_bytes(), rtype::SOA, None)?;
    header::set_id(&mut message, id);
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers one query with its bytes changed by `change`, and returns how the probe judged that.
    fn outcome(kind: ReadyKind, change: impl Fn(&mut Vec<u8>) + Sync) -> Asked {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let probe = Probe::new(server.local_addr().unwrap(), "bench.test.", kind).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = [0; 512];
                let (length, from) = server.recv_from(&mut buffer).unwrap();
                let mut reply = buffer[..length].to_vec();
                change(&mut reply);
                server.send_to(&reply, from).unwrap();
            });
            probe.ask()
        })
    }

    #[test]
    fn a_reply_must_be_one_and_good_enough() {
        let answered = |reply: &mut Vec<u8>| (reply[2], reply[7]) = (0x84, 1);
        assert_eq!(outcome(ReadyKind::Soa, answered), Asked::Ready);
        assert_eq!(outcome(ReadyKind::Reply, |reply| reply[2] = 0x80), Asked::Ready);
        let empty = outcome(ReadyKind::Soa, |reply| reply[2] = 0x80);
        assert!(matches!(&empty, Asked::Wrong(what) if what.contains("without")), "{empty:?}");
        let servfail = outcome(ReadyKind::Soa, |reply| (reply[2], reply[3], reply[7]) = (0x80, 2, 1));
        assert!(matches!(&servfail, Asked::Wrong(what) if what.contains("rcode 2")), "{servfail:?}");
        assert_eq!(outcome(ReadyKind::Reply, |_| ()), Asked::Silent, "the query came back as it was");
        let another_id = |reply: &mut Vec<u8>| (reply[1], reply[2]) = (!reply[1], 0x80);
        assert_eq!(outcome(ReadyKind::Reply, another_id), Asked::Silent);
    }

    #[test]
    fn the_query_is_as_on_the_wire() {
        let wire = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x05bench\x04test\0\0\x06\0\x01";
        assert_eq!(soa_query(0x1234, "bench.test.").unwrap(), wire);
        assert!(soa_query(0x1234, "bench..test.").is_err());
    }
}
