//! A connection in TLS and its client, for the fuzz targets. Between them is a socket of the kernel.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kqps_kernel::clock::now_ns;
use kqps_kernel::tcp_client::{TcpClient, TcpRead};
use kqps_tls::{Acceptor, ClientTls};

use crate::answer::Answer;
use crate::connections::connection::{Connection, Scratch, Turn};
use crate::connections::counts::End;
use crate::connections::keeper::KeptConnection as _;
use crate::connections::stream::Stream;
use crate::connections::tls::TlsStream;

/// The longest time until both ends have what they wait for.
const PATIENCE: Duration = Duration::from_secs(10);

thread_local! {
    /// The listening socket of all connections of a thread.
    static LISTENER: TcpListener = TcpListener::bind("127.0.0.1:0").expect("a free port");
}

/// A connection, its client, and what the client has read.
pub(super) struct Rig<A: Answer> {
    /// `None` once the client has gone.
    pub(super) client: Option<TcpClient>,
    pub(super) tls: ClientTls,
    /// Whether the client takes what has come.
    pub(super) listens: bool,
    /// Bytes that the client has to write, and how many it writes at once.
    pub(super) outgoing: Vec<u8>,
    pub(super) piece: usize,
    /// Bytes that have come and that the client has not taken.
    come: Vec<u8>,
    pub(super) heard: Vec<u8>,
    connection: Connection<A::Many>,
    pub(super) scratch: Scratch<A>,
    pub(super) ended: Option<End>,
}

impl<A: Answer> Rig<A> {
    /// A client that has these bytes to write, and a connection that `serve` makes of its TLS. The client does not take
    /// what comes.
    pub(super) fn new(
        (tls, outgoing): (ClientTls, Vec<u8>),
        acceptor: &Acceptor,
        answer: A,
        serve: impl FnOnce(TlsStream) -> Stream,
    ) -> Self {
        let (client, server) = LISTENER.with(|listener| {
            let address = listener.local_addr().expect("it is bound");
            let client = TcpClient::connect(address, None).expect("it listens");
            // It leaves no port in TIME_WAIT.
            client.close_by_reset().expect("a socket");
            (client, listener.accept().expect("a client waits").0)
        });
        server.set_nonblocking(true).expect("a flag");
        let server = mio::net::TcpStream::from_std(server);
        let stream = TlsStream::accept(acceptor, server, &Arc::default()).expect("a server waits");
        Self {
            client: Some(client),
            tls,
            listens: false,
            outgoing,
            piece: usize::MAX,
            come: Vec::new(),
            heard: Vec::new(),
            connection: Connection::new(serve(stream), None, now_ns()),
            scratch: Scratch::new(answer),
            ended: None,
        }
    }

    /// Lets both ends go on until this is so, or the connection has ended.
    pub(super) fn go_on_until(&mut self, is_so: impl Fn(&Self) -> bool) {
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
        let piece = self.outgoing.len().min(self.piece);
        match client.write(&self.outgoing[..piece]) {
            Ok(bytes) => drop(self.outgoing.drain(..bytes)),
            // The server has gone.
            Err(_) => self.outgoing.clear(),
        }
    }

    /// Reads once.
    fn read(&mut self) {
        let Some(client) = &self.client else { return };
        let mut buffer = vec![0; 1 << 16];
        if let Ok(TcpRead::Bytes { bytes, .. }) = client.read(&mut buffer) {
            self.come.extend_from_slice(&buffer[..bytes]);
        }
        if self.listens && !self.come.is_empty() {
            let mut records = [self.tls.kept(), &self.come].concat();
            self.come.clear();
            self.tls.open(&mut records, &mut self.heard, &mut self.outgoing).expect("the server obeys TLS");
        }
    }

    /// Reads until as many bytes were heard.
    pub(super) fn hear(&mut self, bytes: usize) {
        let began = Instant::now();
        while self.heard.len() < bytes {
            assert!(began.elapsed() < PATIENCE, "replies are missing");
            self.read();
        }
    }

    /// Goes on until the connection has ended.
    pub(super) fn end(&mut self) -> End {
        self.go_on_until(|_| false);
        self.ended.expect("it has ended")
    }
}
