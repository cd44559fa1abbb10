//! Feeds a resolver the bytes of clients and servers, for the fuzz target. Panics if a property does not hold.

use kqps_cache::{Bailiwick, Settings, Shared};
use kqps_message::{HEADER_BYTES, Header, edns, question, rcode, record};

use crate::key;
use crate::outgoing;
use crate::parsed_query::{ParsedQuery, Refusal};
use crate::reply::refuse;

/// The zones that the server may answer for.
const ZONES: [&[u8]; 3] = [b"\0", b"\x04test\0", b"\x01a\x04test\0"];

/// Reads arbitrary bytes as a client's query, whose length is the first byte, and as the message of a server. The second
/// byte chooses the zone of the server and the longest reply. The query that leaves must ask the client's question.
/// The client must get its own question, within its limit, in a reply that can be read to its end. Returns the reply.
pub fn reply(bytes: &[u8]) -> Option<Vec<u8>> {
    let (&[query_bytes, choice], rest) = bytes.split_first_chunk()?;
    let (query, message) = rest.split_at(usize::from(query_bytes).min(rest.len()));
    let asked = match ParsedQuery::from_query(query) {
        Ok(asked) => asked,
        Err(Refusal::Say(rcode)) => {
            refuses(query, rcode);
            return None;
        }
        Err(Refusal::Drop(_)) => return None,
    };
    assert_eq!(question::end(query), Some(asked.end()));
    refuses(query, rcode::SERVFAIL);
    asks(query, asked);
    let names = Bailiwick::from_zone(ZONES[usize::from(choice) % ZONES.len()]).without(ZONES.into_iter());
    let limit_bytes = 512 + usize::from(choice >> 4) * 64;
    let cache = Shared::for_one(&Settings { memory_bytes: 0, ..Settings::default() }, [1, 2]);
    let mut key = Vec::new();
    key::write(&mut key, asked.name(query), asked);
    let reply = cache.read(&key::question(&key), message, &names).ok()?;
    let mut out = query.to_vec();
    out.resize(limit_bytes.max(query.len()), 0xa5);
    let length = reply.answer(asked.form(), &mut out, limit_bytes);
    out.truncate(length);
    let header = Header::from_bytes(&out).expect("a header");
    assert!(header.is_reply() && out[..2] == query[..2] && !header.is_authoritative());
    assert_eq!(out[HEADER_BYTES..asked.end()], query[HEADER_BYTES..asked.end()]);
    assert_eq!(record::end(&out), Some(out.len()), "nothing follows the records");
    assert!(out.len() <= limit_bytes.max(query.len()), "{} of {limit_bytes} bytes", out.len());
    let opt = edns::find(&out).expect("it can be read");
    assert_eq!(opt.is_some(), asked.payload_bytes.is_some());
    Some(out)
}

/// The server's own reply repeats what can be repeated.
fn refuses(query: &[u8], rcode: u16) {
    let mut buffer = [query, &[0xff; 16]].concat();
    let length = refuse(&mut buffer, query.len(), rcode);
    let reply = &buffer[..length];
    let header = Header::from_bytes(reply).expect("a header");
    assert!(header.is_reply() && reply[..2] == query[..2]);
    let end = question::end(reply).expect("a question or none");
    assert_eq!(reply[HEADER_BYTES..end], query[HEADER_BYTES..end]);
    assert_eq!(record::end(reply), Some(length), "nothing follows the records");
    let has_opt = edns::find(reply).expect("it can be read").is_some();
    assert_eq!(edns::rcode(header, reply), if has_opt { rcode } else { rcode & 0x0f });
}

/// The query that leaves asks the question of the client, and the same question makes the same key.
fn asks(query: &[u8], asked: ParsedQuery) {
    let (mut key, mut again, mut out) = (Vec::new(), Vec::new(), Vec::new());
    key::write(&mut key, asked.name(query), asked);
    outgoing::write(&mut out, &key::question(&key), true, || 0x5a5a);
    let sent = ParsedQuery::from_query(&out).expect("it can be read");
    key::write(&mut again, sent.name(&out), sent);
    assert_eq!(key, again);
}
