//! A connection in TLS fed with arbitrary bytes: as they are, or as messages that a client seals.

use std::net::TcpListener;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kqps_kernel::clock::now_ns;
use kqps_kernel::tcp_client::{TcpClient, TcpRead};
use kqps_tls::certificate::{KeyType, make};
use kqps_tls::client::server_name;
use kqps_tls::{Acceptor, Client, ClientSettings, ClientTls, Connector, Trust};

use super::{Mirror, Repeated, agree, messages, split};
use crate::connections::connection::{Connection, Scratch, Turn};
use crate::connections::counts::End;
use crate::connections::frame::LENGTH_BYTES;
use crate::connections::keeper::KeptConnection as _;
use crate::connections::stream::Stream;
use crate::connections::tls::TlsStream;

/// The longest time that both ends may do nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bits of the first byte: whether a client seals the bytes, and whether they follow its first message if it does not.
const SEALED: u8 = 1;
const AFTER_HELLO: u8 = 2;

thread_local! {
    /// The listening socket of all connections of a thread.
    static LISTENER: TcpListener = TcpListener::bind("127.0.0.1:0").expect("a free port");
}

/// What makes the TLS of both ends.
fn makers() -> &'static (Connector, Acceptor) {
    static MAKERS: OnceLock<(Connector, Acceptor)> = OnceLock::new();
    MAKERS.get_or_init(|| {
        let made = make(KeyType::Ecdsa, &["fuzz.test".to_owned()]).expect("a certificate");
        let settings = ClientSettings::new(Trust::Anyone, false);
        let client = Client::new(&settings).expect("a client");
        let connector = client.connector(server_name("fuzz.test").expect("a name"), 0);
        (connector, Acceptor::new(&made.identity).expect("a server"))
    })
}

/// A connection, its client, and what the client has read.
struct Rig {
    /// `None` once the client has gone.
    client: Option<TcpClient>,
    tls: ClientTls,
    /// Whether the client reads what comes.
    listens: bool,
    /// Bytes that the client has to write.
    outgoing: Vec<u8>,
    heard: Vec<u8>,
    connection: Connection<Repeated>,
    scratch: Scratch<Mirror>,
    ended: Option<End>,
}

impl Rig {
    /// A client that has its first message to write.
    fn new(listens: bool) -> Self {
        let (client, server) = LISTENER.with(|listener| {
            let address = listener.local_addr().expect("it is bound");
            let client = TcpClient::connect(address, None).expect("it listens");
            // It leaves no port in TIME_WAIT.
            client.close_by_reset().expect("a socket");
            (client, listener.accept().expect("a client waits").0)
        });
        server.set_nonblocking(true).expect("a flag");
        let (connector, acceptor) = makers();
        let mut outgoing = Vec::new();
        let tls = connector.connect(&mut outgoing).expect("a client has a first message");
        let server = mio::net::TcpStream::from_std(server);
        let stream = TlsStream::accept(acceptor, server, &Arc::default()).expect("a server waits");
        Self {
            client: Some(client),
            tls,
            listens,
            outgoing,
            heard: Vec::new(),
            connection: Connection::new(Stream::Tls(Box::new(stream)), None, now_ns()),
            scratch: Scratch::new(Mirror),
            ended: None,
        }
    }

    /// Lets both ends go on until this is so, or the connection has ended.
    fn go_on_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while self.ended.is_none() && !is_so(self) {
            assert!(began.elapsed() < PATIENCE, "neither end can go on");
            self.write();
            self.connection.note(true, false);
            match self.connection.turn(&mut self.scratch, now_ns()) {
                Turn::Again | Turn::Waits => {}
                Turn::Ended(end) => self.ended = Some(end),
            }
            self.read();
        }
    }

    fn write(&mut self) {
        let Some(client) = &self.client else { return };
        match client.write(&self.outgoing) {
            Ok(bytes) => drop(self.outgoing.drain(..bytes)),
            // The server has gone.
            Err(_) => self.outgoing.clear(),
        }
    }

    /// Reads once.
    fn read(&mut self) {
        let Some(client) = &self.client else { return };
        let mut buffer = vec![0; 1 << 16];
        let Ok(TcpRead::Bytes { bytes, .. }) = client.read(&mut buffer) else { return };
        if self.listens {
            let mut records = [self.tls.kept(), &buffer[..bytes]].concat();
            self.tls.open(&mut records, &mut self.heard, &mut self.outgoing).expect("the server obeys TLS");
        }
    }

    /// Reads until as many bytes were heard.
    fn hear(&mut self, bytes: usize) {
        let began = Instant::now();
        while self.heard.len() < bytes {
            assert!(began.elapsed() < PATIENCE, "replies are missing");
            self.read();
        }
    }
}

/// Feeds arbitrary bytes into a connection in TLS, in pieces whose length is the second byte. Bytes that no client
/// sealed are no query. Of bytes that a client seals every query must get all messages of its reply, and the counts
/// must agree.
pub fn secure_connection(bytes: &[u8]) {
    let Some((&[choice, piece], stream)) = bytes.split_first_chunk() else { return };
    let pieces = stream.chunks(usize::from(piece).max(1));
    if choice & SEALED == 0 {
        let mut rig = Rig::new(false);
        if choice & AFTER_HELLO == 0 {
            rig.outgoing.clear();
        }
        for piece in pieces {
            rig.outgoing.extend_from_slice(piece);
            rig.go_on_until(|rig| rig.outgoing.is_empty());
        }
        rig.client = None;
        rig.go_on_until(|_| false);
        assert_eq!(rig.scratch.counts.received, 0, "no client sealed a query");
        assert!(matches!(rig.ended, Some(End::Tls | End::Broken | End::Peer)), "{:?}", rig.ended);
        return;
    }
    let mut rig = Rig::new(true);
    rig.go_on_until(|rig| rig.tls.is_established());
    for piece in pieces {
        // The connection may have ended, and then the client writes in vain.
        rig.tls.seal(piece, &mut rig.outgoing).expect("the handshake is complete");
        rig.go_on_until(|rig| rig.outgoing.is_empty());
    }
    rig.tls.close(&mut rig.outgoing);
    rig.go_on_until(|_| false);
    let (queries, _, is_dns) = split(stream);
    if is_dns {
        let of_reply =
            |query: &&[u8]| usize::from(messages(query).unwrap_or(0)) * (LENGTH_BYTES + query.len());
        rig.hear(queries.iter().map(of_reply).sum());
    }
    agree(stream, &rig.heard, rig.ended.expect("it has ended"), &rig.scratch);
}
