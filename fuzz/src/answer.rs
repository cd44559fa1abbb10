//! The whole path of an answer: any bytes as a message to a server with small zones.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

use domain::base::rdata::ComposeRecordData as _;
use domain::base::{Message, Name, ParsedName, ToName as _};
use domain::rdata::AllRecordData;
use domain::zonefile::inplace::{Entry as Line, Zonefile};
use kqps_message::{HEADER_BYTES, Header, edns, question};
use kqps_zone::{
    Asker, Batch, Builder, Entry, Outcome, Record, Responder, ResponderSettings, Transport, Zones,
};

const OWN_BYTES: u16 = 1232;
const TEXTS: [&str; 4] = [
    include_str!("../../crates/zone/tests/zones/example.zone"),
    include_str!("../../crates/zone/tests/zones/nsec.zone"),
    include_str!("../../crates/zone/tests/zones/nsec3.zone"),
    include_str!("../../crates/zone/tests/zones/optout.zone"),
];

/// A zone unsigned and signed in three ways, each beside a zone that did not load.
fn servers() -> &'static [Zones] {
    static SERVERS: OnceLock<Vec<Zones>> = OnceLock::new();
    SERVERS.get_or_init(|| {
        let servers = TEXTS.iter().map(|text| {
            let broken = Entry::Broken(b"\x06broken\x07example\0"[..].into());
            Zones::build([zone(text), broken].into_iter())
        });
        servers.collect()
    })
}

/// The zone of a text with one record a line and absolute names only.
fn zone(text: &str) -> Entry {
    let mut file = Zonefile::from(text);
    file.set_origin(Name::root_bytes());
    let mut batch = Batch::default();
    while let Some(entry) = file.next_entry().expect("a good file") {
        let Line::Record(record) = entry else { continue };
        let (mut owner, mut data) = (Vec::new(), Vec::new());
        record.owner().compose(&mut owner).expect("room");
        record.data().compose_rdata(&mut data).expect("room");
        let (rtype, ttl_s) = (record.rtype().to_int(), record.ttl().as_secs());
        assert!(batch.push(&Record { owner: &owner, rtype, ttl_s, data: &data, line: 1 }));
    }
    let mut builder = Builder::new(b"\x07example\0");
    builder.add(batch);
    let compiled = builder.finish(1);
    Entry::Loaded(Arc::new(compiled.zone.unwrap_or_else(|| panic!("{:?}", compiled.faults))))
}

/// Takes any bytes as a message. The first byte selects the zones, the transport, and the server's
/// settings.
pub fn answer(bytes: &[u8]) {
    let Some((&choice, query)) = bytes.split_first() else { return };
    let zones = &servers()[usize::from(choice & 3)];
    let transport = if choice & 4 == 0 { Transport::Udp } else { Transport::Tcp };
    let is_set_up = choice & 8 != 0;
    let settings = ResponderSettings {
        udp_payload_bytes: OWN_BYTES,
        nsid: is_set_up.then(|| b"nsid"[..].into()),
        version: is_set_up.then(|| b"version"[..].into()),
        identity: is_set_up.then(|| b"identity"[..].into()),
        cookie_secret: is_set_up.then_some([1; 16]),
        must_cookie_be_good: choice & 16 != 0,
        transfers: choice & 32 != 0,
    };
    let most = if transport == Transport::Udp { 4096 } else { 65_535 };
    let room = if choice & 64 == 0 { most } else { query.len() + usize::from(choice >> 7) * 20 };
    let idle_ds = (transport == Transport::Tcp && is_set_up).then_some(100);
    let asker = Asker { address: IpAddr::V6(Ipv6Addr::LOCALHOST), transport, now_s: 1_800_000_000, idle_ds };
    let mut responder = Responder::new(settings);
    let mut buffer = query.to_vec();
    buffer.resize(room.max(query.len()), 0);
    let mut foreseen = buffer.clone();
    let outcome = responder.respond(zones, &mut buffer, query.len(), &asker);
    responder.foresee(zones, [query, query].into_iter());
    responder.respond(zones, &mut foreseen, query.len(), &asker);
    assert_eq!(buffer, foreseen, "looking ahead changes no answer");
    let is_asked = Header::from_bytes(query).is_some_and(|header| !header.is_reply());
    match outcome {
        Outcome::Silence(_) => assert!(!is_asked),
        Outcome::Reply(length) => {
            assert!(is_asked);
            is_sound(query, &buffer[..length], transport);
        }
        Outcome::Transfer(mut transfer) => {
            assert!(is_asked && transport == Transport::Tcp && choice & 32 != 0);
            buffer.resize(1000, 0);
            while let Some(length) = transfer.next(&mut buffer) {
                is_sound(query, &buffer[..length], transport);
            }
        }
    }
}

/// A reply belongs to its query, is within its size limit, and is well-formed to its end.
fn is_sound(query: &[u8], reply: &[u8], transport: Transport) {
    let (asked, replied) =
        (Header::from_bytes(query).expect("asked"), Header::from_bytes(reply).expect("a header"));
    assert!(replied.is_reply() && replied.id() == asked.id() && replied.opcode() == asked.opcode());
    assert!(!replied.offers_recursion() && replied.wants_recursion() == asked.wants_recursion());
    let end = question::end(reply).expect("a question or none");
    assert!(replied.questions() <= 1 && reply[HEADER_BYTES..end] == query[HEADER_BYTES..end]);
    let opt = edns::find(reply).expect("sections");
    if transport == Transport::Udp {
        let bytes_max = if opt.is_some() { OWN_BYTES } else { 512 };
        assert!(reply.len() <= bytes_max.into(), "{} bytes", reply.len());
    }
    let message = Message::from_octets(reply).expect("a header");
    let mut records = 0;
    for record in &message {
        let (record, _) = record.expect("a record");
        let data = record.to_any_record::<AllRecordData<_, ParsedName<_>>>();
        assert!(data.is_ok(), "{:?}", record.rtype());
        records += 1;
    }
    assert_eq!(records, replied.answers() + replied.authorities() + replied.additionals());
    assert_eq!(kqps_message::record::end(reply), Some(reply.len()));
}
