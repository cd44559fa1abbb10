//! Asks a subject whether it is ready: for the zone's SOA over the transport of its cell, again and again, until the
//! reply is good enough. A server that answers over UDP may not listen on TCP yet.

mod encrypted;
mod quic;

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use kqps_message::{Header, NameError, header, query, rtype};
use kqps_observation::trial::Transport;

use super::definition::ReadyKind;

/// The longest wait for the reply to one query.
const PATIENCE: Duration = Duration::from_millis(50);

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

/// Asks for the SOA of a zone, and waits for [`PATIENCE`] at most.
#[derive(Debug)]
pub struct Probe {
    way: Way,
    query: Vec<u8>,
    kind: ReadyKind,
}

/// How the question travels.
#[derive(Debug)]
enum Way {
    /// From this socket, which is connected to the subject.
    Udp(UdpSocket),
    /// By a new connection to this address each time.
    Tcp(SocketAddr),
    /// By a new connection in TLS each time.
    Tls(encrypted::Server),
    /// By a request over a new connection each time.
    Https(encrypted::Server),
    /// On a stream of a new connection over QUIC each time.
    Quic(quic::Server),
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
        let way = match transport {
            Transport::Udp => Way::Udp(connected(target)?),
            Transport::Tcp => Way::Tcp(target),
            Transport::Tls => Way::Tls(encrypted::Server::new(target, ca, kqps_tls::ALPN)?),
            Transport::Https => Way::Https(encrypted::Server::new(target, ca, kqps_http::ALPN)?),
            Transport::Quic => Way::Quic(quic::Server::new(target, ca)?),
        };
        Ok(Self { way, query, kind })
    }

    /// Asks once. A subject that refuses the packet or does not reply is not ready.
    pub fn ask(&self) -> ProbeOutcome {
        let reply = match &self.way {
            Way::Udp(socket) => by_datagram(socket, &self.query),
            Way::Tcp(target) => by_connection(*target, &self.query),
            Way::Tls(server) => server.ask_in_tls(&self.query),
            Way::Https(server) => server.ask_by_http(&self.query),
            Way::Quic(server) => server.ask(&self.query),
        };
        match reply {
            Ok(reply) => self.rate(&reply),
            Err(error) if error.kind() == encrypted::FAILED => ProbeOutcome::Wrong(error.to_string()),
            Err(_) => ProbeOutcome::Silent,
        }
    }

    fn rate(&self, reply: &[u8]) -> ProbeOutcome {
        let is_ours = |reply: &Header<'_>| reply.is_reply() && Some(reply.id()) == header::id(&self.query);
        let Some(reply) = Header::from_bytes(reply).filter(is_ours) else { return ProbeOutcome::Silent };
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

fn connected(target: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr =
        if target.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(target)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

fn by_datagram(socket: &UdpSocket, query: &[u8]) -> io::Result<Vec<u8>> {
    let mut reply = vec![0; 1500];
    socket.send(query)?;
    let length = socket.recv(&mut reply)?;
    reply.truncate(length);
    Ok(reply)
}

/// Query and reply follow their lengths (RFC 1035, section 4.2.2).
fn by_connection(target: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&target, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = (query.len() as u16).to_be_bytes();
    stream.write_all(&[&length[..], query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut reply = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut reply)?;
    Ok(reply)
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
    use std::net::TcpListener;

    use kqps_tls::Acceptor;
    use kqps_tls::certificate::{KeyType, make};

    use super::*;

    /// Answers one query with its bytes changed by `change`, and returns how the probe judged that.
    fn outcome(kind: ReadyKind, change: impl Fn(&mut Vec<u8>) + Sync) -> ProbeOutcome {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap();
        let probe = Probe::new((Transport::Udp, None), target, "bench.test.", kind).unwrap();
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
        let probe = Probe::new((Transport::Tcp, None), target, "bench.test.", ReadyKind::Soa).unwrap();
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
            let probe =
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
