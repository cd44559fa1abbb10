//! Both ends of HTTP/2 fed with arbitrary bytes, for the fuzz targets. They panic if a property does not hold.

use std::collections::BTreeMap;

use crate::{
    ClientSession, Fate, HEADER_BYTES, MESSAGE_BYTES, Method, PATH, Peer, Requests, ServerEvent,
    ServerSession, Values,
};

/// Bits of the first byte. The bytes are messages that the other end frames; or they change bytes that the other end
/// framed; or they arrive as they are, after the first bytes of the other end or before anything else.
const FRAMED: u8 = 0x80;
const CHANGES: u8 = 0x40;
const GREETED: u8 = 0x20;

/// The bit that is set if clients ask by GET.
const BY_GET: u8 = 0x10;

/// Queries of a client, unless the bytes are messages.
const QUERIES: u8 = 8;

/// A piece that holds all that an end has framed.
const WHOLE: usize = 1 << 20;

/// Both ends of a connection.
struct Rig {
    client: ClientSession,
    server: ServerSession,
    requests: Requests,
    values: Values,
}

impl Rig {
    fn new(choice: u8) -> Self {
        let method = if choice & BY_GET != 0 { Method::Get } else { Method::Post };
        Self {
            client: ClientSession::new().expect("a client begins"),
            server: ServerSession::default(),
            requests: Requests::new(method, "fuzz.test", PATH).expect("a URL"),
            values: Values::default(),
        }
    }

    /// Passes the first bytes of both ends.
    fn greet(&mut self) {
        let hello = self.client.take_outgoing(<[u8]>::to_vec);
        let heard = self.server.receive(&hello, |taken| unreachable!("nothing was asked: {taken:?}"));
        assert_eq!(heard, Ok(Peer::Open));
        self.server.flush();
        let hello = self.server.take_outgoing(<[u8]>::to_vec);
        let heard = self.client.receive(&hello, |_, fate| unreachable!("nothing was asked: {fate:?}"));
        assert_eq!(heard, Ok(()));
    }

    /// Asks as many of these messages as there is room for, with their numbers as keys. Returns those, and the bytes of
    /// the client.
    fn ask(&mut self, messages: impl Iterator<Item = Vec<u8>>) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut asked = Vec::new();
        for message in messages {
            if !self.client.has_room() {
                break;
            }
            assert!(self.client.ask(asked.len() as u16, &message, &mut self.requests, 0));
            self.client.advance().expect("the connection is open");
            asked.push(message);
        }
        self.client.advance().expect("the connection is open");
        (asked, self.client.take_outgoing(<[u8]>::to_vec))
    }

    /// Feeds the server in pieces. It answers each query with the same bytes. Returns the queries.
    fn serve(&mut self, bytes: &[u8], piece: usize) -> Vec<Vec<u8>> {
        let mut queries: Vec<Vec<u8>> = Vec::new();
        for piece in bytes.chunks(piece) {
            let before = queries.len();
            let heard = self.server.receive(piece, |taken| match taken {
                ServerEvent::Query(query) => {
                    assert!((HEADER_BYTES..=MESSAGE_BYTES).contains(&query.len()));
                    queries.push(query.to_vec());
                }
                ServerEvent::Refused(status) => assert!((400..600).contains(&status)),
            });
            if heard != Ok(Peer::Open) {
                let again = self.server.receive(piece, |taken| unreachable!("the end was before {taken:?}"));
                assert_eq!(again, Ok(Peer::Closed));
                break;
            }
            for query in &queries[before..] {
                self.server.reply(Some(query), Some(1), &mut self.values);
            }
            self.server.flush();
        }
        queries
    }

    /// Feeds the client in pieces, which has asked this many queries. Returns the bodies of all responses with status
    /// 200, by key.
    fn hear(&mut self, bytes: &[u8], piece: usize, asked: usize) -> BTreeMap<u16, Vec<u8>> {
        let mut fates: BTreeMap<u16, Option<Vec<u8>>> = BTreeMap::new();
        for piece in bytes.chunks(piece) {
            let heard = self.client.receive(piece, |key, fate| {
                assert!(usize::from(key) < asked, "nobody asked query {key}");
                let body = match fate {
                    Fate::Response { status, is_dns, body } => {
                        assert!(body.is_empty() || (is_dns && (200..300).contains(&status)));
                        assert!(body.len() <= MESSAGE_BYTES);
                        (status == 200).then(|| body.to_vec())
                    }
                    Fate::TooLong | Fate::Reset(_) | Fate::GoneAway | Fate::Malformed(_) => None,
                };
                assert!(fates.insert(key, body).is_none(), "query {key} has two fates");
            });
            if let Err(failure) = heard {
                assert!(!failure.to_string().is_empty());
                assert!(self.client.is_going_away() && !self.client.has_room());
                break;
            }
        }
        fates.into_iter().filter_map(|(key, body)| Some((key, body?))).collect()
    }
}

/// A message of these bytes after a header with ID 0.
fn message(bytes: &[u8]) -> Vec<u8> {
    [&[0; HEADER_BYTES][..], bytes].concat()
}

fn queries() -> impl Iterator<Item = Vec<u8>> {
    (0..QUERIES).map(|number| message(&[number]))
}

/// Changes bytes of `flow`: each three bytes of `changes` are a place, modulo the length, and the bits that change
/// there.
fn changed(mut flow: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    let length = flow.len().max(1);
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_be_bytes([change[0], change[1]])) % length;
        if let Some(byte) = flow.get_mut(place) {
            *byte ^= change[2];
        }
    }
    flow
}

/// Feeds both ends with messages that the other end frames, in pieces for the one or the other. All must arrive.
fn frame(choice: u8, pieces: (usize, usize), bytes: &[u8]) {
    let mut rig = Rig::new(choice);
    rig.greet();
    let (mut asked, to_server) = rig.ask(bytes.chunks(pieces.0.min(pieces.1)).map(message));
    let mut queries = rig.serve(&to_server, pieces.0);
    let to_client = rig.server.take_outgoing(<[u8]>::to_vec);
    let replies = rig.hear(&to_client, pieces.1, asked.len());
    assert_eq!(replies.len(), asked.len());
    assert!(replies.values().eq(&asked), "each query has the reply that is its own");
    queries.sort();
    asked.sort();
    assert_eq!(queries, asked);
    assert_eq!(rig.client.open(), 0);
    close(rig);
}

/// Ends both ends, in whatever state they are.
fn close(mut rig: Rig) {
    rig.client.close();
    rig.server.close();
    rig.client.take_outgoing(|_| ());
    rig.server.take_outgoing(|_| ());
}

/// Feeds a client. The first byte says how, see the constants of this module, and the second is the length of pieces.
pub fn client(bytes: &[u8]) {
    let Some((&[choice, piece], bytes)) = bytes.split_first_chunk() else { return };
    let piece = usize::from(piece).max(1);
    if choice & FRAMED != 0 {
        return frame(choice, (WHOLE, piece), bytes);
    }
    let mut rig = Rig::new(choice);
    if choice & (CHANGES | GREETED) != 0 {
        rig.greet();
    }
    let (asked, to_server) = rig.ask(queries());
    if choice & CHANGES != 0 {
        rig.serve(&to_server, WHOLE);
        let to_client = changed(rig.server.take_outgoing(<[u8]>::to_vec), bytes);
        rig.hear(&to_client, piece, asked.len());
    } else {
        rig.hear(bytes, piece, asked.len());
    }
    close(rig);
}

/// Feeds a server likewise.
pub fn server(bytes: &[u8]) {
    let Some((&[choice, piece], bytes)) = bytes.split_first_chunk() else { return };
    let piece = usize::from(piece).max(1);
    if choice & FRAMED != 0 {
        return frame(choice, (piece, WHOLE), bytes);
    }
    let mut rig = Rig::new(choice);
    if choice & (CHANGES | GREETED) != 0 {
        rig.greet();
    }
    if choice & CHANGES != 0 {
        let (_, to_server) = rig.ask(queries());
        rig.serve(&changed(to_server, bytes), piece);
    } else {
        rig.serve(bytes, piece);
    }
    close(rig);
}
