//! Numbers of 64 bits by which messages are known to belong together.

use std::net::SocketAddr;

use kqps_capture::Message;
use kqps_message::question::QUESTION_TAIL_BYTES;
use xxhash_rust::xxh3::xxh3_64;

use super::clients::address_bytes;

/// The number that a query and its response have in common, from client, server, transport, connection, ID and
/// question. `scratch` is a buffer to reuse, with any content.
pub(super) fn number(message: &Message<'_>, question: &[u8], scratch: &mut Vec<u8>) -> u64 {
    scratch.clear();
    for end in [message.client, message.server] {
        append_end(end, scratch);
    }
    scratch.push(message.transport.byte());
    scratch.extend_from_slice(&message.connection.unwrap_or(u64::MAX).to_le_bytes());
    scratch.extend_from_slice(message.bytes.first_chunk::<2>().unwrap_or(&[0; 2]));
    append_question(question, scratch);
    xxh3_64(scratch)
}

/// The number that a truncated response over UDP and the query that follows over TCP have in common, from the addresses
/// of client and server, and the question.
pub(super) fn retry_of(message: &Message<'_>, question: &[u8], scratch: &mut Vec<u8>) -> u64 {
    scratch.clear();
    scratch.extend_from_slice(&address_bytes(message.client.ip()));
    scratch.extend_from_slice(&address_bytes(message.server.ip()));
    append_question(question, scratch);
    xxh3_64(scratch)
}

fn append_end(end: SocketAddr, out: &mut Vec<u8>) {
    out.extend_from_slice(&address_bytes(end.ip()));
    out.extend_from_slice(&end.port().to_le_bytes());
}

/// Appends a question, with its name in lower case (RFC 4343). Length bytes are smaller than any letter.
fn append_question(question: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(question);
    let name_end = out.len() - QUESTION_TAIL_BYTES.min(question.len());
    out[start..name_end].make_ascii_lowercase();
}

#[cfg(test)]
mod tests {
    use kqps_capture::{Kind, Transport};

    use super::*;

    const ASKED: &[u8] = b"\x03wWw\x04test\0\x00\x41\x00\x01";

    fn message(bytes: &[u8]) -> Message<'_> {
        Message {
            at_ns: 1,
            kind: Kind::Query,
            client: "192.0.2.1:1234".parse().expect("an address"),
            server: "[2001:db8::1]:53".parse().expect("an address"),
            transport: Transport::Tcp,
            connection: Some(7),
            bytes,
        }
    }

    #[test]
    fn time_kind_and_case_do_not_matter_and_all_else_does() {
        let mut scratch = b"anything".to_vec();
        let mut exchange = |message: &Message<'_>, question: &[u8]| number(message, question, &mut scratch);
        let query = message(&[0xab, 0xcd, 1, 0]);
        let known = exchange(&query, ASKED);
        let response = Message { at_ns: 2, kind: Kind::Response, ..message(&[0xab, 0xcd, 0x81, 0]) };
        assert_eq!(exchange(&response, b"\x03WWW\x04test\0\x00\x41\x00\x01"), known);
        let port = Message { client: "192.0.2.1:1235".parse().expect("an address"), ..query };
        let address = Message { client: "192.0.2.2:1234".parse().expect("an address"), ..query };
        let server = Message { server: "[2001:db8::2]:53".parse().expect("an address"), ..query };
        let connection = Message { connection: Some(8), ..query };
        let transport = Message { transport: Transport::Tls, ..query };
        let id = message(&[0xab, 0xce, 1, 0]);
        for (what, other) in [
            ("port", port),
            ("address", address),
            ("server", server),
            ("connection", connection),
            ("transport", transport),
            ("ID", id),
        ] {
            assert_ne!(exchange(&other, ASKED), known, "{what}");
        }
        assert_ne!(exchange(&query, b"\x03wWw\x04test\0\x00\x61\x00\x01"), known, "type");
        assert_ne!(exchange(&query, b""), known, "question");
    }

    #[test]
    fn a_retry_comes_from_another_port_with_another_id() {
        let udp = Message { transport: Transport::Udp, connection: None, ..message(&[1, 2]) };
        let tcp = Message { client: "192.0.2.1:4321".parse().expect("an address"), ..message(&[3, 4]) };
        let mut scratch = Vec::new();
        let mut of = |message: &Message<'_>| retry_of(message, ASKED, &mut scratch);
        assert_eq!(of(&udp), of(&tcp));
        let other = Message { client: "192.0.2.2:4321".parse().expect("an address"), ..tcp };
        assert_ne!(of(&udp), of(&other));
    }
}
