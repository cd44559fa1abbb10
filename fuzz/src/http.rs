//! The targets for HTTP/2: both ends of a connection, fed with arbitrary bytes.

use std::collections::BTreeMap;

use kqps_http::{ClientSession, Fate, Method, PATH, Peer, Requests, ServerEvent, ServerSession, Values};
use kqps_message::HEADER_BYTES;

use crate::feeding::{Fed, change};

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
                    assert!(query.len() >= HEADER_BYTES && u16::try_from(query.len()).is_ok());
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
                        assert!(u16::try_from(body.len()).is_ok());
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

    /// Feeds both ends with messages that the other end frames, in pieces for the server and for the client. All must
    /// arrive.
    fn frame(&mut self, (to_server, to_client): (usize, usize), bytes: &[u8]) {
        let (mut asked, sent) = self.ask(bytes.chunks(to_server.min(to_client)).map(message));
        let mut queries = self.serve(&sent, to_server);
        let sent = self.server.take_outgoing(<[u8]>::to_vec);
        let replies = self.hear(&sent, to_client, asked.len());
        assert_eq!(replies.len(), asked.len());
        assert!(replies.values().eq(&asked), "each query has the reply that is its own");
        queries.sort();
        asked.sort();
        assert_eq!(queries, asked);
        assert_eq!(self.client.open(), 0);
    }

    /// Ends both ends, in whatever state they are.
    fn close(mut self) {
        self.client.close();
        self.server.close();
        self.client.take_outgoing(|_| ());
        self.server.take_outgoing(|_| ());
    }
}

/// A message of these bytes after a header with ID 0.
fn message(bytes: &[u8]) -> Vec<u8> {
    [&[0; HEADER_BYTES][..], bytes].concat()
}

fn queries() -> impl Iterator<Item = Vec<u8>> {
    (0..QUERIES).map(|number| message(&[number]))
}

/// The flow after these changes, three bytes each.
fn changed(mut flow: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    changes.as_chunks::<3>().0.iter().for_each(|each| change(&mut flow, *each));
    flow
}

fn feed(fed: Fed, bytes: &[u8]) {
    let Some((&[choice, piece], bytes)) = bytes.split_first_chunk() else { return };
    let piece = usize::from(piece).max(1);
    let mut rig = Rig::new(choice);
    if choice & (FRAMED | CHANGES | GREETED) != 0 {
        rig.greet();
    }
    if choice & FRAMED != 0 {
        rig.frame(if fed == Fed::Server { (piece, WHOLE) } else { (WHOLE, piece) }, bytes);
        return rig.close();
    }
    let is_changed = choice & CHANGES != 0;
    match fed {
        Fed::Client => {
            let (asked, to_server) = rig.ask(queries());
            if is_changed {
                rig.serve(&to_server, WHOLE);
                let to_client = changed(rig.server.take_outgoing(<[u8]>::to_vec), bytes);
                rig.hear(&to_client, piece, asked.len());
            } else {
                rig.hear(bytes, piece, asked.len());
            }
        }
        Fed::Server if is_changed => {
            let (_, to_server) = rig.ask(queries());
            rig.serve(&changed(to_server, bytes), piece);
        }
        Fed::Server => drop(rig.serve(bytes, piece)),
    }
    rig.close();
}

/// Feeds a client. The first byte says how, see the constants of this module, and the second is the length of pieces.
pub fn client(bytes: &[u8]) {
    feed(Fed::Client, bytes);
}

/// Feeds a server likewise.
pub fn server(bytes: &[u8]) {
    feed(Fed::Server, bytes);
}
