//! The front's readers of back ends' bytes, for the fuzz targets. Each target panics if a property does not hold.

use std::net::{Ipv4Addr, SocketAddr};

use kqps_message::{HEADER_BYTES, Header, edns, question, rcode, record};

use super::parsed_query::{ParsedQuery, Refusal};
use super::reply::{is_reply_to, make_clients, payload_bytes, refuse};
use super::short;
use super::stream::first_frame;

/// Reads arbitrary bytes as a stream of replies, in pieces whose length is the first byte. The same messages must
/// come out wherever the pieces are cut.
pub fn framing(bytes: &[u8]) {
    let Some((&piece_bytes, stream)) = bytes.split_first() else { return };
    let (mut found, mut kept, mut is_dns) = (Vec::new(), Vec::new(), true);
    for piece in stream.chunks(usize::from(piece_bytes).max(1)) {
        kept.extend_from_slice(piece);
        let mut used = 0;
        loop {
            match first_frame(&kept[used..]) {
                Ok(Some((message, frame_bytes))) => {
                    assert!(frame_bytes == message.len() + 2 && Header::from_bytes(message).is_some());
                    found.push(message.to_vec());
                    used += frame_bytes;
                }
                Ok(None) => break,
                Err(_) => {
                    is_dns = false;
                    break;
                }
            }
        }
        kept.drain(..used);
        if !is_dns {
            break;
        }
    }
    let mut rest = stream;
    for message in &found {
        let (length, behind) = rest.split_at(2);
        assert_eq!(length, short(message.len()).to_be_bytes());
        rest = behind.strip_prefix(&message[..]).expect("messages come out as they went in");
    }
    if is_dns {
        assert_eq!(kept, rest);
        let announced = rest.first_chunk().map(|&length| usize::from(u16::from_be_bytes(length)));
        assert!(announced.is_none_or(|length| length >= HEADER_BYTES && rest.len() < 2 + length));
    } else {
        let announced = rest.first_chunk().map(|&length| usize::from(u16::from_be_bytes(length)));
        assert!(announced.is_some_and(|length| length < HEADER_BYTES));
    }
}

/// Reads arbitrary bytes as a query, whose length is the first byte, and as a back end's message with the query's
/// ID. The client must get only the reply to its query; any other message must be discarded.
pub fn reply(bytes: &[u8]) {
    let Some((&query_bytes, rest)) = bytes.split_first() else { return };
    let (query, message) = rest.split_at(usize::from(query_bytes).min(rest.len()));
    match ParsedQuery::from_query(query) {
        Ok(asked) => {
            assert_eq!(question::end(query), Some(asked.end()));
            refuses(query, rcode::SERVFAIL);
            if is_reply_to(query, asked, message) {
                hands_on(query, asked, message);
            }
        }
        Err(Refusal::Say(rcode)) => refuses(query, rcode),
        Err(Refusal::Drop(_)) => {
            assert!(Header::from_bytes(query).is_none_or(Header::is_reply), "a query is answered");
        }
    }
}

/// The front's own reply must repeat what can be repeated, and must not be longer than the query.
fn refuses(query: &[u8], rcode: u16) {
    let mut reply = vec![0xff; query.len()];
    let length = refuse(query, rcode, &mut reply);
    let reply = &reply[..length];
    let (asked, header) =
        (Header::from_bytes(query).expect("a header"), Header::from_bytes(reply).expect("a header"));
    assert!(header.is_reply() && edns::rcode(header, reply) == rcode);
    assert!(header.id() == asked.id() && header.opcode() == asked.opcode());
    let end = question::end(reply).expect("a question or none");
    assert_eq!(reply[HEADER_BYTES..end], query[HEADER_BYTES..end]);
    assert_eq!(record::end(reply), Some(length), "nothing follows the records");
    // An OPT record without options if the query has a readable one, else nothing.
    let opt = edns::find(reply).expect("it can be read");
    assert!(opt.is_none_or(|opt| opt.data.is_empty() && opt.ttl_s & 0x00ff_7fff == 0));
    assert_eq!(length, end + if opt.is_some() { 11 } else { 0 });
    assert!(opt.is_some() || !matches!(edns::find(query), Ok(Some(_))), "the query has an OPT record");
}

/// The reply of a back end, made into the client's: it must have the client's ID and question, be no longer than the
/// client accepts, and be readable to its end.
fn hands_on(query: &[u8], asked: ParsedQuery, message: &[u8]) {
    let (mut reply, to) = (message.to_vec(), SocketAddr::from((Ipv4Addr::LOCALHOST, 53)).into());
    let length = make_clients(query, asked, &to, &mut reply);
    let reply = &reply[..length];
    let header = Header::from_bytes(reply).expect("a header");
    assert!(header.is_reply() && reply[..2] == query[..2]);
    if header.questions() == 1 {
        assert_eq!(asked.question(query), &reply[HEADER_BYTES..asked.end()]);
    }
    assert!(length <= payload_bytes(query, &to));
    if length < message.len() {
        assert!(header.is_truncated());
        assert_eq!(record::end(reply), Some(length), "what is cut can be read to its end");
    } else {
        assert_eq!(reply[asked.end().min(length)..], message[asked.end().min(length)..]);
    }
}
