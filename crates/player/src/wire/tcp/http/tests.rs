//! HTTP/2 of a connection without its socket.

use kqps_http::Method;
use kqps_tls::certificate::{KeyType, make};
use kqps_tls::client::server_name;
use kqps_tls::{Acceptor, Client, ClientSettings, ServerTls, Trust};

use super::*;

const NAME: &str = "dns.test";
const SECOND_NS: u64 = 1_000_000_000;
const PATIENCE_NS: u64 = 10 * SECOND_NS;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const MAX_CONCURRENT_STREAMS: u16 = 3;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The response to a query on a stream, with literal fields (RFC 7541, section 6.2.2).
fn response(stream: u32, body: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [(":status", "200"), ("content-type", "application/dns-message")] {
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    [frame(HEADERS, END_HEADERS, stream, &block), frame(DATA, END_STREAM, stream, body)].concat()
}

/// Messages of 12 bytes with these keys as IDs, each after its length.
fn messages(keys: &[u16]) -> Vec<u8> {
    keys.iter().flat_map(|key| [&[0, 12][..], &key.to_be_bytes(), &[0; 10]].concat()).collect()
}

/// A layer and its peer, a TLS server of whose frames the test writes each.
struct Rig {
    layer: Http,
    shared: Shared,
    server: ServerTls,
    room: Room,
    /// Bytes that the server received.
    received: Vec<u8>,
    /// The keys of the messages that the layer returned.
    answered: Vec<u16>,
}

impl Rig {
    /// A connection that is open. The server takes this many streams at once.
    fn open(streams: u32) -> Self {
        Self::open_with(streams, false)
    }

    /// An open connection whose requests share records if `packing`.
    fn open_with(streams: u32, packing: bool) -> Self {
        let made = make(KeyType::Ecdsa, &[NAME.into()]).unwrap();
        let trust = Trust::Ca(made.ca);
        let settings = ClientSettings::new(trust, true);
        let client = Client::new(&settings).unwrap().speaking(ALPN);
        let connector = client.connector(server_name(NAME).unwrap(), 1);
        let requests = Requests::new(Method::Post, NAME, "/dns-query").unwrap();
        let secure = secure::Shared { connectors: vec![connector], packing };
        let shared = Shared::new(secure, vec![requests]);
        let server = Acceptor::speaking(ALPN, &made.identity).unwrap().accept().unwrap();
        let mut layer = Http::default();
        layer.begin(&shared, Ends { from: None, target: 0 }, &[]).unwrap();
        let (received, answered) = (Vec::new(), Vec::new());
        let mut rig = Self { layer, shared, server, room: Room::default(), received, answered };
        while !rig.layer.is_open() {
            rig.exchange(&mut Vec::new(), 0);
        }
        rig.exchange(&mut Vec::new(), 0);
        let most = [&MAX_CONCURRENT_STREAMS.to_be_bytes()[..], &streams.to_be_bytes()].concat();
        rig.send(&frame(SETTINGS, 0, 0, &most)).unwrap();
        rig.exchange(&mut Vec::new(), 0);
        rig.received.clear();
        rig
    }

    /// Passes what the layer has to send to the server, and what TLS of the server answers back.
    fn exchange(&mut self, messages: &mut Vec<u8>, now_ns: u64) {
        self.exchange_wanted(messages, now_ns, |_| true);
    }

    /// Exchanges if queries are wanted for which `wanted` is true.
    fn exchange_wanted(&mut self, messages: &mut Vec<u8>, now_ns: u64, wanted: impl FnMut(u16) -> bool) {
        let outgoing = std::mem::take(self.layer.outgoing(messages, now_ns, wanted).unwrap());
        let mut records = [self.server.kept(), &outgoing].concat();
        let mut of_server = Vec::new();
        self.server.open(&mut records, &mut self.received, &mut of_server).unwrap();
        self.take(&of_server).unwrap();
    }

    /// Lets the layer take frames of the server.
    fn send(&mut self, frames: &[u8]) -> Result<Rest, Broken> {
        let mut records = Vec::new();
        self.server.seal(frames, &mut records).unwrap();
        self.take(&records)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<Rest, Broken> {
        let mut bytes = [self.layer.kept(), bytes].concat();
        let answered = &mut self.answered;
        self.layer.take(&mut bytes, &mut self.room, |arrived| match arrived {
            Arrived::Message(message) => answered.push(key_of(message)),
            Arrived::Wrong { key, cause } => panic!("{key}: {cause:?}"),
        })
    }

    /// How many requests the server has received whole since it was asked last.
    fn requests(&mut self) -> usize {
        let mut count = 0;
        let mut bytes = std::mem::take(&mut self.received);
        while let [l0, l1, l2, kind, flags, ..] = bytes[..] {
            count += usize::from(kind == DATA && flags == END_STREAM);
            bytes.drain(..9 + u32::from_be_bytes([0, l0, l1, l2]) as usize);
        }
        count
    }
}

#[test]
fn a_query_that_is_lost_while_it_waits_for_a_stream_is_not_asked() {
    let mut rig = Rig::open(1);
    let mut output = messages(&[1, 2, 3]);
    rig.exchange(&mut output, 0);
    assert_eq!((rig.requests(), output.len()), (1, 2 * 14));
    rig.send(&response(1, &[0; 12])).unwrap();
    // Meanwhile the second was lost.
    rig.exchange_wanted(&mut output, SECOND_NS, |key| key != 2);
    assert_eq!((rig.requests(), output.len()), (1, 0));
    rig.send(&response(3, &[0; 12])).unwrap();
    assert_eq!(rig.answered, [1, 3]);
    // A query that nobody wants needs no stream that is free, either.
    rig.exchange(&mut messages(&[4]), SECOND_NS);
    output = messages(&[5, 6]);
    rig.exchange_wanted(&mut output, SECOND_NS, |key| key == 6);
    assert_eq!((rig.requests(), output), (1, messages(&[6])));
}

#[test]
fn each_request_has_a_record_of_its_own_unless_requests_are_packed() {
    for (packing, records) in [(false, 5), (true, 1)] {
        let mut rig = Rig::open_with(100, packing);
        let outgoing =
            std::mem::take(rig.layer.outgoing(&mut messages(&[1, 2, 3, 4, 5]), 0, |_| true).unwrap());
        let mut found = Vec::new();
        let mut rest = outgoing.as_slice();
        while let [kind, _, _, l0, l1, ..] = *rest {
            assert_eq!(kind, 23, "application data");
            let (record, after) = rest.split_at(5 + usize::from(u16::from_be_bytes([l0, l1])));
            rig.server.open(&mut record.to_vec(), &mut rig.received, &mut Vec::new()).unwrap();
            found.push(rig.requests());
            rest = after;
        }
        assert_eq!(found, vec![5 / records; records], "requests in each record");
    }
}

#[test]
fn waits_for_streams_count_until_the_connection_ends() {
    let mut rig = Rig::open(1);
    let mut output = messages(&[1, 2, 3]);
    rig.exchange(&mut output, SECOND_NS);
    rig.send(&response(1, &[0; 12])).unwrap();
    rig.exchange(&mut output, 2 * SECOND_NS);
    rig.layer.ended(true, 5 * SECOND_NS, None);
    let counts = rig.shared.counts.borrow();
    // Both waited for a second, and one of them for three more.
    assert_eq!((counts.blocked, counts.blocked_ns), (2, 5 * SECOND_NS));
}

#[test]
fn a_response_is_a_message_or_wrong() {
    let mut message = Vec::new();
    let mut of = |status, is_dns, body: &[u8]| match judged(0x0102, (status, is_dns), body, &mut message) {
        Arrived::Message(message) => Ok(message.to_vec()),
        Arrived::Wrong { key, cause } => Err((key, cause)),
    };
    assert_eq!(of(200, true, &[0, 0, 0x80, 7]), Ok(vec![1, 2, 0x80, 7]));
    assert_eq!(of(206, true, &[0, 0]), Ok(vec![1, 2]));
    assert_eq!(of(304, true, &[0, 0]), Err((0x0102, Cause::Status(304))));
    assert_eq!(of(200, false, &[0, 0]), Err((0x0102, Cause::ContentType)));
    assert_eq!(of(200, true, &[1, 2, 3]), Err((0x0102, Cause::Id)));
    assert_eq!(of(200, true, &[0]), Err((0x0102, Cause::Short)));
}

#[test]
fn a_peer_that_asks_for_answers_and_reads_none_is_cut_off() {
    let pings = frame(PING, 0, 0, &[7; 8]).repeat(1000);
    for kind in [PING, SETTINGS] {
        let frames = if kind == PING { pings.clone() } else { frame(SETTINGS, 0, 0, &[]).repeat(1000) };
        let mut rig = Rig::open(100);
        // A peer that reads its answers may ask for any number.
        for _ in 0..200 {
            rig.send(&frames).unwrap();
            rig.exchange(&mut Vec::new(), 0);
        }
        let mut reads = 0;
        let broken = loop {
            reads += 1;
            assert!(reads < 1000, "its answers grow without limit");
            if let Err(broken) = rig.send(&frames) {
                break broken;
            }
        };
        assert!(matches!(broken, Broken::Layer(Fault::Http)), "{broken:?}");
        assert!(reads > 10 && rig.layer.secure.waiting() < 2 << 20, "{reads}");
        let counts = rig.shared.counts.borrow();
        assert_eq!(counts.failures.get("HTTP/2: the peer does not read what it asks for"), Some(&1));
    }
}

#[test]
fn a_late_query_does_not_cancel_those_whose_replies_may_have_arrived() {
    let mut rig = Rig::open(1);
    rig.exchange(&mut messages(&[1]), 0);
    // The thread stood still, and hands another query over before it reads.
    let mut output = messages(&[2]);
    rig.exchange(&mut output, PATIENCE_NS + SECOND_NS);
    rig.send(&response(1, &[0; 12])).unwrap();
    assert_eq!(rig.answered, [1]);
    assert!(!rig.layer.abandon(SECOND_NS), "nothing is open any more");
    rig.exchange(&mut output, PATIENCE_NS + SECOND_NS);
    assert!(!rig.layer.abandon(PATIENCE_NS + SECOND_NS) && rig.layer.abandon(2 * PATIENCE_NS));
    rig.exchange(&mut output, 3 * PATIENCE_NS);
    rig.send(&response(3, &[0; 12])).unwrap();
    assert_eq!(rig.answered, [1], "it is cancelled");
}
