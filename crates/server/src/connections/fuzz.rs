//! A connection without the thread that serves it, for the fuzz targets.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use kqps_kernel::clock::now_ns;
use kqps_tls::Acceptor;

use super::connection::{Connection, Scratch, Turn};
use super::counts::End;
use super::http::HttpStream;
use super::keeper::KeptConnection as _;
use super::stream::Stream;
use super::tls::TlsStream;
use crate::answer::Answer;
use crate::counts::Counts;

/// A connection to a non-blocking socket, and the service that answers on it.
pub struct Served<A: Answer> {
    connection: Connection<A::Many>,
    scratch: Scratch<A>,
    ended: Option<End>,
}

impl<A: Answer> Served<A> {
    /// Serves a Unix socket.
    pub fn over_unix(socket: UnixStream, answer: A) -> Self {
        Self::over(Stream::Unix(mio::net::UnixStream::from_std(socket)), answer)
    }

    /// Serves a client in TLS.
    pub fn over_tls(socket: TcpStream, acceptor: &Acceptor, answer: A) -> Self {
        Self::over(Stream::Tls(Box::new(accept(socket, acceptor))), answer)
    }

    /// Serves a client by HTTP/2 in TLS.
    pub fn over_https(socket: TcpStream, acceptor: &Acceptor, answer: A) -> Self {
        let stream = HttpStream::new(accept(socket, acceptor), &Arc::default());
        Self::over(Stream::Https(Box::new(stream)), answer)
    }

    fn over(stream: Stream, answer: A) -> Self {
        let connection = Connection::new(stream, None, now_ns());
        Self { connection, scratch: Scratch::new(answer), ended: None }
    }

    /// Notes whether there may be something to read and whether the client has closed its direction. Then lets the
    /// connection go on until it waits for its client or has ended.
    pub fn go_on(&mut self, readable: bool, ending: bool) {
        self.connection.note(readable, ending);
        while self.ended.is_none() {
            match self.connection.turn(&mut self.scratch, now_ns()) {
                Turn::Again => {}
                Turn::Waits => return,
                Turn::Ended(end) => self.ended = Some(end),
            }
        }
    }

    /// Why the connection ended; `None` before that.
    pub fn ended(&self) -> Option<End> {
        self.ended
    }

    /// The counts of queries and of replies of one message.
    pub fn counts(&self) -> &Counts {
        &self.scratch.counts
    }

    /// The number of queries that got, or began to get, a reply of many messages.
    pub fn transfers(&self) -> u64 {
        self.scratch.transfers
    }
}

fn accept(socket: TcpStream, acceptor: &Acceptor) -> TlsStream {
    let socket = mio::net::TcpStream::from_std(socket);
    TlsStream::accept(acceptor, socket, &Arc::default()).expect("a server waits")
}
