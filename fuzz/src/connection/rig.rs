//! A connection in TLS and its client. Between them is a socket of the kernel.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use kqps_kernel::tcp_client::{TcpClient, TcpRead};
use kqps_server::connections::End;
use kqps_server::connections::fuzz::Served;
use kqps_tls::ClientTls;

use super::{Mirror, agree, reply_bytes, split};
use crate::sockets;

/// The longest time until both ends have what they wait for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection, its client, and what the client has read.
pub(super) struct Rig {
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
    pub(super) server: Served<Mirror>,
}

impl Rig {
    /// A client that has these bytes to write, and a connection that `serve` makes of its socket. The client does not
    /// take what comes.
    pub(super) fn new(
        (tls, outgoing): (ClientTls, Vec<u8>),
        serve: impl FnOnce(TcpStream) -> Served<Mirror>,
    ) -> Self {
        let (client, server) = sockets::pair();
        server.set_nonblocking(true).expect("a flag");
        Self {
            client: Some(client),
            tls,
            listens: false,
            outgoing,
            piece: usize::MAX,
            come: Vec::new(),
            heard: Vec::new(),
            server: serve(server),
        }
    }

    /// Lets both ends go on until this is so, or the connection has ended.
    pub(super) fn go_on_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while self.server.ended().is_none() && !is_so(self) {
            assert!(began.elapsed() < PATIENCE, "neither end can go on");
            self.write();
            self.server.go_on(true, false);
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
        self.server.ended().expect("it has ended")
    }

    /// Ends the client, which sent the messages of this stream, and checks what it heard and the counts.
    pub(super) fn finish(&mut self, stream: &[u8]) {
        self.tls.close(&mut self.outgoing);
        self.end();
        if split(stream).2 {
            self.hear(reply_bytes(stream));
        }
        agree(stream, &self.heard, &self.server);
    }
}
