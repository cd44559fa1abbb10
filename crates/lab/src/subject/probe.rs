//! Asking a subject whether it is ready: the zone's SOA over UDP, again and again, until a reply is good enough.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::definition::ReadyKind;

/// How long one question waits for its reply.
const PATIENCE: Duration = Duration::from_millis(50);

const HEADER_BYTES: usize = 12;
const SOA: u16 = 6;
const IN: u16 = 1;

/// Asks for the SOA of a zone.
#[derive(Debug)]
pub struct Probe {
    socket: UdpSocket,
    query: Vec<u8>,
    kind: ReadyKind,
}

impl Probe {
    /// A probe of the zone `origin` (`bench.test.`) at `target`. It asks from the network of
    /// the thread that makes it, wherever it is used.
    pub fn new(target: SocketAddr, origin: &str, kind: ReadyKind) -> io::Result<Self> {
        let any: SocketAddr = if target.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(target)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket, query: soa_query(fastrand::u16(..), origin), kind })
    }

    /// Asks once. A subject that refuses the packet or stays silent is not ready.
    pub fn ask(&self) -> bool {
        let mut reply = [0; 1500];
        if self.socket.send(&self.query).is_err() {
            return false;
        }
        match self.socket.recv(&mut reply) {
            Ok(length) => self.is_good(&reply[..length]),
            Err(_) => false,
        }
    }

    fn is_good(&self, reply: &[u8]) -> bool {
        if reply.len() < HEADER_BYTES || reply[..2] != self.query[..2] || reply[2] & 0x80 == 0 {
            return false;
        }
        let rcode = reply[3] & 0x0f;
        let answers = u16::from_be_bytes([reply[6], reply[7]]);
        match self.kind {
            ReadyKind::Soa => rcode == 0 && answers > 0,
            ReadyKind::Reply => true,
        }
    }
}

/// A query for `origin`'s SOA (RFC 1035, sections 4.1.1 and 4.1.2).
fn soa_query(id: u16, origin: &str) -> Vec<u8> {
    let mut query = id.to_be_bytes().to_vec();
    query.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in origin.split('.').filter(|label| !label.is_empty()) {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.push(0);
    query.extend(SOA.to_be_bytes());
    query.extend(IN.to_be_bytes());
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers one query with its bytes changed by `change`, and tells whether the probe took that.
    fn outcome(kind: ReadyKind, change: impl Fn(&mut Vec<u8>) + Sync) -> bool {
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
        assert!(outcome(ReadyKind::Soa, answered));
        assert!(outcome(ReadyKind::Reply, |reply| reply[2] = 0x80));
        assert!(!outcome(ReadyKind::Soa, |reply| reply[2] = 0x80), "no answer in it");
        assert!(!outcome(ReadyKind::Soa, |reply| (reply[2], reply[3], reply[7]) = (0x80, 2, 1)), "SERVFAIL");
        assert!(!outcome(ReadyKind::Reply, |_| ()), "the query came back as it was");
        assert!(!outcome(ReadyKind::Reply, |reply| (reply[1], reply[2]) = (!reply[1], 0x80)), "another ID");
    }

    #[test]
    fn the_query_is_as_on_the_wire() {
        let wire = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x05bench\x04test\0\0\x06\0\x01";
        assert_eq!(soa_query(0x1234, "bench.test."), wire);
    }
}
