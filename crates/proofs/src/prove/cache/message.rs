//! Queries and replies of these proofs, written by hand so that they can be wrong in every way.

use kqps_message::{HEADER_BYTES, name};

const A: [u8; 4] = [0, 1, 0, 1];

/// A query with RD for the addresses of a name.
pub(super) fn query(id: u16, name: &str) -> Vec<u8> {
    let mut query = id.to_be_bytes().to_vec();
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.push(0);
    query.extend(A);
    query
}

/// The position just after the question of a message; that of the header's end if there is none.
pub(super) fn question_end(message: &[u8]) -> usize {
    name::literal_end(message, HEADER_BYTES).map_or(HEADER_BYTES, |end| (end + A.len()).min(message.len()))
}

/// The name of a message's question in lower case, in wire form.
pub(super) fn asked(message: &[u8]) -> Vec<u8> {
    let end = name::literal_end(message, HEADER_BYTES).unwrap_or(HEADER_BYTES);
    message.get(HEADER_BYTES..end).unwrap_or_default().to_ascii_lowercase()
}

/// A reply without records, with this rcode.
pub(super) fn empty(query: &[u8], rcode: u8) -> Vec<u8> {
    let mut reply = query[..question_end(query)].to_vec();
    (reply[2], reply[3]) = (0x80 | query[2] & 1, 0x80 | rcode);
    reply[6..HEADER_BYTES].fill(0);
    reply
}

/// A reply with one address.
pub(super) fn address(query: &[u8], ttl_s: u32, address: [u8; 4]) -> Vec<u8> {
    let mut reply = empty(query, 0);
    reply[7] = 1;
    reply.extend([0xc0, 12]);
    reply.extend(A);
    reply.extend(ttl_s.to_be_bytes());
    reply.extend([0, 4]);
    reply.extend(address);
    reply
}

/// Adds a record of another name behind a reply's records, in this section: 0 for answers, 2 for additional records.
pub(super) fn with_foreign(mut reply: Vec<u8>, section: usize, name: &str, address: [u8; 4]) -> Vec<u8> {
    reply[7 + 2 * section] += 1;
    for label in name.split('.') {
        reply.push(label.len() as u8);
        reply.extend(label.as_bytes());
    }
    reply.push(0);
    reply.extend(A);
    reply.extend([0, 0, 16, 0, 0, 4]);
    reply.extend(address);
    reply
}

/// The client cookie of a query whose only additional record is an OPT record with that option.
pub(super) fn cookie(query: &[u8]) -> Option<&[u8]> {
    let options = query.get(question_end(query) + 11..)?;
    options.get(4..12).filter(|_| options[..2] == [0, 10])
}

/// Adds a cookie to a reply: that of the client, and 8 bytes of the server.
pub(super) fn with_cookie(mut reply: Vec<u8>, client: &[u8], server: [u8; 8]) -> Vec<u8> {
    reply[11] += 1;
    reply.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 20, 0, 10, 0, 16]);
    reply.extend(client);
    reply.extend(server);
    reply
}

/// The addresses in a reply, whose records have pointers as names.
pub(super) fn addresses(reply: &[u8]) -> Vec<[u8; 4]> {
    let records = reply.get(question_end(reply)..).unwrap_or_default();
    let count = usize::from(reply[7]);
    records.chunks_exact(16).take(count).filter_map(|record| record.last_chunk().copied()).collect()
}
