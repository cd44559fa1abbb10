//! The targets for a server's connection: arbitrary bytes over a Unix socket, in TLS, and as early data.

mod early_data;
mod rig;
mod secure;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use kqps_message::HEADER_BYTES;
use kqps_server::connections::End;
use kqps_server::connections::frame::{LENGTH_BYTES, first_message};
use kqps_server::connections::fuzz::Served;
use kqps_server::counts::Cause;
use kqps_server::{Answer, Answered, Client, Query};

use crate::feeding::pieces;

pub use early_data::early_data;
pub use secure::secure_connection;

/// Answers every query with its own bytes: once, many times, or not at all, as its third and fourth byte say.
struct Mirror;

/// A query, and how often it is still to be repeated.
type Repeated = (Vec<u8>, u8);

/// The number of messages in the reply to a query; `None` if it gets no reply.
fn messages(query: &[u8]) -> Option<u8> {
    match query[2] & 3 {
        0 => None,
        3 => Some(query[3]),
        _ => Some(1),
    }
}

impl Answer for Mirror {
    const GROWS: bool = false;

    type Many = Repeated;

    fn answer(&mut self, query: Query<'_>) -> Answered<Repeated> {
        assert!(matches!(query.client, Client::Unix) && query.bytes >= HEADER_BYTES);
        let bytes = &query.buffer[..query.bytes];
        match messages(bytes) {
            None => Answered::None(Cause::IsResponse),
            Some(1) => Answered::One(query.bytes),
            Some(count) => Answered::Many((bytes.to_vec(), count)),
        }
    }

    fn next(&mut self, (query, left): &mut Repeated, buffer: &mut [u8]) -> Option<usize> {
        *left = left.checked_sub(1)?;
        buffer[..query.len()].copy_from_slice(query);
        Some(query.len())
    }
}

/// A connection, its client, and what the client has read.
struct Rig {
    client: UnixStream,
    server: Served<Mirror>,
    heard: Vec<u8>,
}

impl Rig {
    fn new() -> Self {
        let (client, server) = UnixStream::pair().expect("a pair of sockets");
        for socket in [&client, &server] {
            socket.set_nonblocking(true).expect("a flag");
        }
        Self { client, server: Served::over_unix(server, Mirror), heard: Vec::new() }
    }

    /// Reads all replies that have arrived. Returns whether there were any.
    fn hear(&mut self) -> bool {
        let before = self.heard.len();
        match self.client.read_to_end(&mut self.heard) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        self.heard.len() > before
    }

    /// Sends a piece. The client reads if there is no room for it.
    fn say(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() && self.server.ended().is_none() {
            match self.client.write(piece) {
                Ok(bytes) => piece = &piece[bytes..],
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    assert!(self.hear(), "neither side can go on");
                }
            }
            self.server.go_on(true, false);
        }
    }

    /// Closes the client's direction, and reads until the connection ends.
    fn finish(&mut self) {
        self.client.shutdown(Shutdown::Write).expect("it is open");
        self.server.go_on(true, true);
        while self.server.ended().is_none() {
            assert!(self.hear(), "the connection waits for nothing");
            self.server.go_on(false, false);
        }
        self.hear();
    }
}

/// The messages of a stream up to the first that is too short for a header, the rest, and whether all were long enough.
fn split(mut stream: &[u8]) -> (Vec<&[u8]>, &[u8], bool) {
    let mut found = Vec::new();
    while let Some(message) = first_message(stream) {
        if message.len() < HEADER_BYTES {
            return (found, stream, false);
        }
        stream = &stream[LENGTH_BYTES + message.len()..];
        found.push(message);
    }
    (found, stream, true)
}

/// The bytes of all replies to the queries of a stream.
fn reply_bytes(stream: &[u8]) -> usize {
    let of_reply = |query: &&[u8]| usize::from(messages(query).unwrap_or(0)) * (LENGTH_BYTES + query.len());
    split(stream).0.iter().map(of_reply).sum()
}

/// Feeds arbitrary bytes into a connection, in pieces whose length is the first byte. The client reads after as many
/// pieces as the second byte says, or only at the end. Every query must get all messages of its reply, however the
/// bytes are cut, and the counts must agree.
pub fn connection(bytes: &[u8]) {
    let Some((&[length, often], stream)) = bytes.split_first_chunk() else { return };
    let mut rig = Rig::new();
    for (number, piece) in (1_u32..).zip(pieces(stream, length)) {
        rig.say(piece);
        if number.is_multiple_of(often.into()) {
            rig.hear();
            rig.server.go_on(false, false);
        }
    }
    rig.finish();
    agree(stream, &rig.heard, &rig.server);
}

/// Checks what a client heard, how the connection ended, and its counts, if the client sent these bytes and then ended
/// its direction.
fn agree(stream: &[u8], heard: &[u8], server: &Served<Mirror>) {
    let (queries, _, is_dns) = split(stream);
    let mut replies: BTreeMap<&[u8], u64> = BTreeMap::new();
    for query in &queries {
        *replies.entry(query).or_default() += u64::from(messages(query).unwrap_or(0));
    }
    let (heard, rest, is_whole) = split(heard);
    for message in heard {
        let left = replies.get_mut(message).and_then(|left| left.checked_sub(1).map(|less| *left = less));
        assert!(left.is_some(), "no query asked for b\"{}\"", message.escape_ascii());
    }
    assert!(is_whole);
    let counts = server.counts();
    let dropped: u64 = counts.dropped().values().sum();
    assert_eq!(counts.received, counts.answered + server.transfers() + dropped);
    if is_dns {
        assert_eq!(server.ended(), Some(End::Peer));
        assert!(rest.is_empty() && replies.values().all(|left| *left == 0));
        assert_eq!(counts.received, queries.len() as u64);
    } else {
        // Replies that are under way when the client breaks the rules are cut off.
        assert_eq!(server.ended(), Some(End::NotDns));
    }
}
