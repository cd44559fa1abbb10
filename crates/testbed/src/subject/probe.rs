//! Asks a subject whether it is ready: for the zone's SOA over the transport of its cell, again and again, until the
//! reply is good enough. A server that answers over UDP may not listen on TCP yet.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use kqps_ask::{AskError, Connection, Server};
use kqps_http::Method;
use kqps_message::{Header, NameError, header, query, rtype};
use kqps_observation::trial::Transport;
use kqps_tls::{ClientSettings, Trust};

use super::definition::ReadyKind;

/// The longest wait for a connection, and for the reply to one query.
const PATIENCE: Duration = Duration::from_millis(50);

/// [`PATIENCE`] over encrypted transports, whose handshakes cost a server more than a reply.
const HANDSHAKE_PATIENCE: Duration = Duration::from_millis(500);

/// The result of one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// A reply that is good enough.
    Ready,
    /// A reply that is not good enough: what is wrong with it.
    Wrong(String),
    /// No reply that belongs to the query.
    Silent,
}

/// Asks for the SOA of a zone: over UDP from one socket, so that a late reply counts, and otherwise by a new connection
/// each time.
pub struct Probe {
    server: Server,
    socket: Option<Connection>,
    patience: Duration,
    query: Vec<u8>,
    kind: ReadyKind,
}

impl Probe {
    /// A probe of the zone `origin` (`bench.test.`) at `target`. Over UDP it sends from the network namespace of the
    /// thread that makes it, over connections from that of the thread that asks. Over an encrypted transport it accepts
    /// certificates of the issuer `ca`, as PEM, or without one those that this host trusts.
    pub fn new(
        (transport, ca): (Transport, Option<&str>),
        target: SocketAddr,
        origin: &str,
        kind: ReadyKind,
    ) -> io::Result<Self> {
        let query = soa_query(fastrand::u16(..), origin).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("zone {origin}: {error}"))
        })?;
        let tls = ClientSettings::new(ca.map_or(Trust::System, |ca| Trust::Ca(ca.to_owned())), false);
        let server = match transport {
            Transport::Udp => Ok(Server::over_udp(target)),
            Transport::Tcp => Ok(Server::over_tcp(target)),
            Transport::Tls => Server::over_tls(target, &tls),
            Transport::Https => Server::over_https(target, &tls, (Method::Post, 200..300)),
            Transport::Quic => Server::over_quic(target, &tls),
        };
        let server = server.map_err(io::Error::other)?;
        let socket = match transport {
            Transport::Udp => Some(server.connect(PATIENCE).map_err(io::Error::other)?),
            _ => None,
        };
        let patience = if transport.is_encrypted() { HANDSHAKE_PATIENCE } else { PATIENCE };
        Ok(Self { server, socket, patience, query, kind })
    }

    /// Asks once. A subject that refuses the packet or does not reply is not ready.
    pub fn ask(&mut self) -> ProbeOutcome {
        let reply = match &mut self.socket {
            Some(socket) => socket.ask(&self.query, self.patience),
            None => self.server.ask(&self.query, self.patience),
        };
        match reply {
            Ok(reply) => self.rate(&reply),
            Err(AskError::TimedOut | AskError::Closed | AskError::OtherId | AskError::Socket(_)) => {
                ProbeOutcome::Silent
            }
            Err(error) => ProbeOutcome::Wrong(error.to_string()),
        }
    }

    fn rate(&self, reply: &[u8]) -> ProbeOutcome {
        let reply = Header::from_bytes(reply).filter(|reply| reply.is_reply());
        let Some(reply) = reply else { return ProbeOutcome::Silent };
        let rcode = reply.rcode();
        match self.kind {
            ReadyKind::Soa if rcode != 0 => ProbeOutcome::Wrong(format!(
                "it answered with rcode {rcode} to the question for the zone's SOA"
            )),
            ReadyKind::Soa if reply.answers() == 0 => ProbeOutcome::Wrong(
                "it answered without the zone's SOA, as a server without the zone does".into(),
            ),
            ReadyKind::Soa | ReadyKind::Reply => ProbeOutcome::Ready,
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
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, UdpSocket};

    use kqps_tls::Acceptor;
    use kqps_tls::certificate::{KeyType, make};

    use super::*;

    /// Answers one query with its bytes changed by `change`, and returns how the probe judged that.
    fn outcome(kind: ReadyKind, change: impl Fn(&mut Vec<u8>) + Sync) -> ProbeOutcome {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap();
        let mut probe = Probe::new((Transport::Udp, None), target, "bench.test.", kind).unwrap();
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
        assert_eq!(outcome(ReadyKind::Soa, answered), ProbeOutcome::Ready);
        assert_eq!(outcome(ReadyKind::Reply, |reply| reply[2] = 0x80), ProbeOutcome::Ready);
        let empty = outcome(ReadyKind::Soa, |reply| reply[2] = 0x80);
        assert!(matches!(&empty, ProbeOutcome::Wrong(what) if what.contains("without")), "{empty:?}");
        let servfail = outcome(ReadyKind::Soa, |reply| (reply[2], reply[3], reply[7]) = (0x80, 2, 1));
        assert!(matches!(&servfail, ProbeOutcome::Wrong(what) if what.contains("rcode 2")), "{servfail:?}");
        assert_eq!(outcome(ReadyKind::Reply, |_| ()), ProbeOutcome::Silent, "the query came back as it was");
        let another_id = |reply: &mut Vec<u8>| (reply[1], reply[2]) = (!reply[1], 0x80);
        assert_eq!(outcome(ReadyKind::Reply, another_id), ProbeOutcome::Silent);
    }

    #[test]
    fn over_tcp_a_reply_follows_its_length() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap();
        let mut probe = Probe::new((Transport::Tcp, None), target, "bench.test.", ReadyKind::Soa).unwrap();
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = server.accept().unwrap();
                let mut framed = [0; 2 + 28];
                stream.read_exact(&mut framed).unwrap();
                assert_eq!(framed[..2], [0, 28]);
                (framed[4], framed[9]) = (0x84, 1);
                stream.write_all(&framed).unwrap();
            });
            probe.ask()
        });
        assert_eq!(outcome, ProbeOutcome::Ready);
        drop(server);
        assert_eq!(probe.ask(), ProbeOutcome::Silent, "nothing listens");
    }

    #[test]
    fn over_tls_a_certificate_of_another_issuer_is_named() {
        let made = make(KeyType::Ecdsa, &["127.0.0.1".into()]).unwrap();
        let other = make(KeyType::Ecdsa, &["127.0.0.1".into()]).unwrap().ca;
        let acceptor = Acceptor::new(&made.identity).unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap();
        let outcome = |ca: &str| {
            let mut probe =
                Probe::new((Transport::Tls, Some(ca)), target, "bench.test.", ReadyKind::Soa).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| answer_in_tls(&server, &acceptor));
                probe.ask()
            })
        };
        assert_eq!(outcome(&made.ca), ProbeOutcome::Ready);
        assert_eq!(outcome(&other), ProbeOutcome::Wrong("certificate: unknown issuer".into()));
    }

    /// Serves one connection in TLS: it answers the first query, and ends when the client does.
    fn answer_in_tls(server: &TcpListener, acceptor: &Acceptor) {
        let (mut stream, _) = server.accept().unwrap();
        let mut tls = acceptor.accept().unwrap();
        let (mut plain, mut outgoing, mut room) = (Vec::new(), Vec::new(), [0; 4096]);
        while let Ok(bytes @ 1..) = stream.read(&mut room) {
            let mut records = [tls.kept(), &room[..bytes]].concat();
            if tls.open(&mut records, &mut plain, &mut outgoing).is_err() {
                return;
            }
            if plain.len() == 2 + 28 {
                (plain[4], plain[9]) = (0x84, 1);
                tls.seal(&plain, &mut outgoing).unwrap();
                plain.clear();
            }
            stream.write_all(&outgoing).unwrap();
            outgoing.clear();
        }
    }

    #[test]
    fn the_query_is_as_on_the_wire() {
        let wire = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x05bench\x04test\0\0\x06\0\x01";
        assert_eq!(soa_query(0x1234, "bench.test.").unwrap(), wire);
        assert!(soa_query(0x1234, "bench..test.").is_err());
    }
}
