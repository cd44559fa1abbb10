//! Back ends that the test plays, so that it decides what they do and when.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};

use kqps_faults::scripted::Scripted;

use crate::auth::dns::{framed, next};
use crate::serve::PATIENCE;

/// A listener that waits for a front's connection.
pub(super) struct Host {
    listener: TcpListener,
}

impl Host {
    pub(super) fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    pub(super) fn url(&self) -> String {
        format!("tcp://{}", self.listener.local_addr().unwrap())
    }

    /// The next connection of the front.
    pub(super) fn peer(&self) -> Peer {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Peer { stream }
    }
}

/// A back end that the front reaches by a connection.
pub(super) struct Peer {
    pub(super) stream: TcpStream,
}

impl Peer {
    /// Receives a check, and answers it.
    pub(super) fn pass(&mut self) {
        let query = next(&mut self.stream).0;
        assert!(is_check(&query), "{query:x?}");
        self.say(&answer(&query));
    }

    /// The next query of a client. Checks before it are answered.
    pub(super) fn query(&mut self) -> Vec<u8> {
        loop {
            let query = next(&mut self.stream).0;
            if !is_check(&query) {
                return query;
            }
            self.say(&answer(&query));
        }
    }

    pub(super) fn say(&mut self, message: &[u8]) {
        self.stream.write_all(&framed(message)).unwrap();
    }
}

/// A back end that the front reaches by datagrams.
pub(super) struct Datagrams {
    socket: UdpSocket,
}

impl Datagrams {
    pub(super) fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket }
    }

    pub(super) fn url(&self) -> String {
        format!("udp://{}", self.socket.local_addr().unwrap())
    }

    /// Receives a check, and answers it.
    pub(super) fn pass(&self) {
        let (query, from) = self.query();
        assert!(is_check(&query), "{query:x?}");
        self.say(&answer(&query), from);
    }

    /// The next query, and the address of the front's socket that sent it.
    pub(super) fn query(&self) -> (Vec<u8>, SocketAddr) {
        let mut buffer = [0; 4096];
        let (bytes, from) = self.socket.recv_from(&mut buffer).unwrap();
        (buffer[..bytes].to_vec(), from)
    }

    pub(super) fn say(&self, message: &[u8], to: SocketAddr) {
        self.socket.send_to(message, to).unwrap();
    }
}

/// A back end that answers by itself, by datagrams, with one rcode for checks and one for all other queries.
/// The test may change both.
pub(super) struct Acting {
    server: Scripted,
    acts: Arc<Acts>,
}

#[derive(Default)]
struct Acts {
    rcode: AtomicU8,
    check_rcode: AtomicU8,
    checks: AtomicU64,
}

impl Acting {
    pub(super) fn new(rcode: u8, check_rcode: u8) -> Self {
        let acts = Arc::new(Acts {
            rcode: rcode.into(),
            check_rcode: check_rcode.into(),
            checks: AtomicU64::default(),
        });
        let acting = acts.clone();
        let server = Scripted::start([127, 0, 0, 1].into(), move |asked| {
            let mut reply = answer(asked.query);
            let is_check = is_check(&reply);
            reply[3] = if is_check { &acting.check_rcode } else { &acting.rcode }.load(SeqCst);
            acting.checks.fetch_add(u64::from(is_check), SeqCst);
            vec![reply]
        });
        Self { server: server.unwrap(), acts }
    }

    pub(super) fn url(&self) -> String {
        format!("udp://{}", self.server.address())
    }

    /// From now on it answers with these rcodes.
    pub(super) fn say(&self, rcode: u8, check_rcode: u8) {
        self.acts.rcode.store(rcode, SeqCst);
        self.acts.check_rcode.store(check_rcode, SeqCst);
    }

    /// The number of checks that it has answered.
    pub(super) fn checks(&self) -> u64 {
        self.acts.checks.load(SeqCst)
    }
}

/// Whether a query asks for the root, as checks do.
fn is_check(query: &[u8]) -> bool {
    query[12] == 0
}

/// The reply to a query: its question and nothing else.
pub(super) fn answer(query: &[u8]) -> Vec<u8> {
    let mut reply = query.to_vec();
    reply[2] |= 0x80;
    reply
}
