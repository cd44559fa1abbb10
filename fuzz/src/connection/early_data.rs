//! Early data of a client over TLS and HTTPS, cut anywhere: what a server takes of it before the handshake ends.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::OnceLock;

use kqps_http::{ClientSession, Fate, Method, PATH, Requests};
use kqps_message::{HEADER_BYTES, may_be_replayed};
use kqps_server::connections::End;
use kqps_server::connections::fuzz::Served;
use kqps_tls::fuzz::taking;
use kqps_tls::{Acceptor, Client, Connector, Early};

use super::rig::Rig;
use super::{Mirror, split};
use crate::handshake::{NAME, connector, made, settings, shake_hands};

/// Bits of the first byte: whether the bytes are messages by HTTP/2, by GET; whether the server knows no session; whether
/// it takes few bytes of early data, though its tickets allow more; and whether the last bytes follow early data as they
/// are, and end the handshake.
const BY_HTTP: u8 = 1;
const BY_GET: u8 = 2;
const UNKNOWN: u8 = 4;
const FEW: u8 = 8;
const GARBAGE: u8 = 16;

/// The third byte counts early data in these bytes.
const UNIT: usize = 16;

/// The most bytes of early data at the server that takes few.
const FEW_BYTES: usize = 64;

/// The most pieces in which the client's bytes arrive, about.
const PIECES_MOST: usize = 256;

/// Makers of TLS for clients and the three servers.
struct Makers {
    client: Client,
    server: Acceptor,
    unknown: Acceptor,
    few: Acceptor,
}

impl Makers {
    fn new(protocol: &[u8]) -> Self {
        let acceptor = || Acceptor::over_tcp(protocol, &made().identity, true).expect("a server");
        let server = acceptor();
        Self {
            client: Client::new(&settings(true)).expect("a client").speaking(protocol),
            unknown: acceptor(),
            few: taking(&server, FEW_BYTES as u32),
            server,
        }
    }

    /// The makers over TLS or by HTTP.
    fn choose(choice: u8) -> &'static Self {
        static MAKERS: OnceLock<[Makers; 2]> = OnceLock::new();
        let both = MAKERS.get_or_init(|| [kqps_tls::ALPN, kqps_http::ALPN].map(Self::new));
        &both[usize::from(choice & BY_HTTP)]
    }

    /// A client that has a ticket of the first server.
    fn acquainted(&self) -> Connector {
        let connector = connector(&self.client, 4);
        shake_hands(&connector, &self.server);
        connector
    }
}

/// How bytes arrive.
struct Case<'a> {
    choice: u8,
    piece: usize,
    /// The most bytes of early data.
    early: usize,
    /// Bytes that follow early data as they are.
    garbage: &'a [u8],
}

impl Case<'_> {
    /// A client that may send early data, and its server, which `serve` makes.
    fn rig(&self, serve: fn(TcpStream, &Acceptor, Mirror) -> Served<Mirror>) -> Rig {
        let makers = Makers::choose(self.choice);
        let mut outgoing = Vec::new();
        let tls = makers.acquainted().connect_from(None, true, &mut outgoing);
        let tls = tls.expect("a client has a first message");
        assert!(tls.early_bytes() > 0, "its ticket allows it");
        let acceptor = match (self.choice & UNKNOWN, self.choice & FEW) {
            (0, 0) => &makers.server,
            (0, _) => &makers.few,
            _ => &makers.unknown,
        };
        Rig::new((tls, outgoing), |socket| serve(socket, acceptor, Mirror))
    }

    /// Plays the bytes of `flow`, the first of them as early data. Of `within(count)` queries, which are whole in the
    /// first `count` bytes and may be replayed, the server must take all before the handshake ends, and no others. Returns
    /// how many bytes of early data it took; `None` if the handshake cannot end.
    fn play(&self, rig: &mut Rig, flow: &[u8], within: impl Fn(usize) -> u64) -> Option<usize> {
        let early = self.seal_early(rig, flow);
        let is_taken = self.choice & UNKNOWN == 0;
        let is_too_much = is_taken && self.choice & FEW != 0 && early > FEW_BYTES;
        let most = if is_taken { within(early) } else { 0 };
        let received = |rig: &Rig| {
            assert!(rig.server.counts().received <= most, "the server took what may be a replay");
            rig.server.counts().received
        };
        rig.outgoing.extend_from_slice(self.garbage);
        self.cut(rig);
        rig.go_on_until(|rig| received(rig) <= most && rig.outgoing.is_empty());
        if !self.garbage.is_empty() || is_too_much {
            rig.client = None;
            rig.go_on_until(|rig| received(rig) > most);
            assert!(
                matches!(rig.server.ended(), Some(End::Tls | End::Broken | End::Peer)),
                "{:?}",
                rig.server.ended()
            );
            return None;
        }
        rig.go_on_until(|rig| received(rig) == most);
        rig.listens = true;
        rig.go_on_until(|rig| rig.tls.is_established());
        assert_eq!(
            rig.tls.early() == Early::Accepted,
            is_taken,
            "{:?} {:?}",
            rig.tls.early(),
            rig.server.ended()
        );
        let taken = if is_taken { early } else { 0 };
        for piece in flow[taken..].chunks(self.piece) {
            rig.tls.seal(piece, &mut rig.outgoing).expect("the handshake is complete");
        }
        self.cut(rig);
        rig.go_on_until(|rig| rig.outgoing.is_empty());
        Some(taken)
    }

    /// Seals the first bytes as early data, as far as the ticket allows. Returns how many.
    fn seal_early(&self, rig: &mut Rig, flow: &[u8]) -> usize {
        let most = self.early.min(flow.len());
        let mut sealed = 0;
        loop {
            let count = (most - sealed).min(self.piece).min(rig.tls.early_bytes());
            if count == 0 {
                return sealed;
            }
            let piece = &flow[sealed..sealed + count];
            rig.tls.seal_early(piece, &mut rig.outgoing).expect("the ticket allows it");
            sealed += count;
        }
    }

    /// Cuts what the client has to write into pieces.
    fn cut(&self, rig: &mut Rig) {
        rig.piece = self.piece.max(rig.outgoing.len() / PIECES_MOST);
    }
}

/// Feeds a server that takes early data with that of a client: messages after their lengths, or by HTTP/2 of the bytes
/// between. The first byte says how, see the constants of this module; the second is the length of pieces, of records and
/// of messages by HTTP; the third how many bytes are early data. Whatever may be a replay waits for the handshake, or gets
/// status 425, and all else is answered once.
pub fn early_data(bytes: &[u8]) {
    let Some((&[choice, piece, units], bytes)) = bytes.split_first_chunk() else { return };
    let garbage = if choice & GARBAGE == 0 { 0 } else { bytes.len() / 4 };
    let (content, garbage) = bytes.split_at(bytes.len() - garbage);
    let (piece, early) = (usize::from(piece).max(1), usize::from(units) * UNIT);
    let case = Case { choice, piece, early, garbage };
    if choice & BY_HTTP == 0 { over_tls(&case, content) } else { by_http(&case, content) }
}

fn over_tls(case: &Case<'_>, stream: &[u8]) {
    let mut rig = case.rig(Served::over_tls);
    let within = |early: usize| {
        let queries = split(&stream[..early]).0;
        queries.iter().take_while(|query| may_be_replayed(query)).count() as u64
    };
    if case.play(&mut rig, stream, within).is_some() {
        rig.finish(stream);
    }
}

/// A query of these bytes: the first is the third one of its header, which has the opcode, and the others follow the
/// header. Its other flags let the server answer once.
fn query(bytes: &[u8]) -> Vec<u8> {
    let mut query = vec![0; HEADER_BYTES];
    query[2] = (bytes[0] & !3) | 1;
    query[5] = 1;
    query.extend_from_slice(&bytes[1..]);
    query
}

/// Asks as many queries as there are streams. Returns each with the number of bytes of the flow that has it, and the flow.
fn asked(session: &mut ClientSession, case: &Case<'_>, content: &[u8]) -> (Vec<(usize, Vec<u8>)>, Vec<u8>) {
    let method = if case.choice & BY_GET == 0 { Method::Post } else { Method::Get };
    let mut requests = Requests::new(method, NAME, PATH).expect("a URL");
    let (mut queries, mut flow) = (Vec::new(), Vec::new());
    for query in content.chunks(case.piece).map(query) {
        if !session.has_room() {
            break;
        }
        assert!(session.ask(queries.len() as u16, &query, &mut requests, 0), "there is a stream");
        // The library may frame a body after its header only when it is asked again.
        for _ in 0..2 {
            session.advance().expect("the connection is open");
        }
        session.take_outgoing(|bytes| flow.extend_from_slice(bytes));
        queries.push((flow.len(), query));
    }
    (queries, flow)
}

fn by_http(case: &Case<'_>, content: &[u8]) {
    let mut rig = case.rig(Served::over_https);
    let mut session = ClientSession::new().expect("a client begins");
    let (queries, flow) = asked(&mut session, case, content);
    let is_safe = |(end, query): &(usize, Vec<u8>), early| *end > early || may_be_replayed(query);
    let within = |early: usize| {
        let whole = queries.iter().filter(|(end, _)| *end <= early);
        whole.filter(|asked| is_safe(asked, early)).count() as u64
    };
    let Some(early) = case.play(&mut rig, &flow, within) else { return };
    let mut fates = BTreeMap::new();
    while fates.len() < queries.len() {
        rig.go_on_until(|rig| !rig.heard.is_empty());
        assert_eq!(rig.server.ended(), None, "queries have no fate");
        let heard = std::mem::take(&mut rig.heard);
        let received = session.receive(&heard, |key, fate| {
            let Fate::Response { status, body, .. } = fate else { panic!("query {key}: {fate:?}") };
            let body = (status == 200).then(|| body.to_vec());
            assert!(fates.insert(key, (status, body)).is_none(), "query {key} has two fates");
        });
        received.expect("the server obeys HTTP/2");
        if session.has_outgoing() {
            let sealed = session.take_outgoing(|bytes| rig.tls.seal(bytes, &mut rig.outgoing));
            sealed.expect("the handshake is complete");
        }
    }
    for (asked, fate) in queries.iter().zip(fates.into_values()) {
        let wanted = if is_safe(asked, early) { (200, Some(asked.1.clone())) } else { (425, None) };
        assert_eq!(fate, wanted);
    }
    rig.tls.close(&mut rig.outgoing);
    assert_eq!(rig.end(), End::Peer);
}
