//! Replies with addresses, made without a parser, since these tests make very many.

use kqps_cache::{Answered, Bailiwick, Form, Purpose, Put, Question, Shared};

/// A name of the zone `example.` with one label before it, in wire form.
pub(crate) fn name(label: &str) -> Vec<u8> {
    [&[label.len() as u8], label.as_bytes(), b"\x07example\0"].concat()
}

pub(crate) fn question(name: &[u8]) -> Question<'_> {
    Question { name, rtype: 1, class: 1, dnssec_ok: false, checking_disabled: false }
}

/// A query for the address of a name.
pub(crate) fn query(name: &[u8]) -> Vec<u8> {
    [&[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], name, &[0, 1, 0, 1]].concat()
}

/// The reply with these addresses.
pub(crate) fn reply(name: &[u8], ttl_s: u32, addresses: &[u32]) -> Vec<u8> {
    let mut reply = query(name);
    reply[2] = 0x81;
    reply[3] = 0x80;
    reply[6..8].copy_from_slice(&(addresses.len() as u16).to_be_bytes());
    for address in addresses {
        reply.extend([0xc0, 12, 0, 1, 0, 1]);
        reply.extend(ttl_s.to_be_bytes());
        reply.extend([0, 4]);
        reply.extend(address.to_be_bytes());
    }
    reply
}

/// Puts a reply to the question for the address of a name in.
pub(crate) fn put_reply(cache: &Shared, name: &[u8], reply: &[u8], now_s: u64) -> Put {
    match cache.read(&question(name), reply, &Bailiwick::from_zone(b"\0")) {
        Ok(reply) => cache.keep(&question(name), &reply, now_s),
        Err(why) => Put::NotKept(why),
    }
}

/// Keeps one address of a name.
pub(crate) fn put(cache: &Shared, name: &[u8], now_s: u64) {
    assert_eq!(put_reply(cache, name, &reply(name, 3600, &[1]), now_s), Put::Kept { ttl_s: 3600 });
}

/// The reply that the cache has for the address of a name; `None` for a miss and for a failure.
pub(crate) fn ask(cache: &Shared, name: &[u8], now_s: u64) -> Option<Vec<u8>> {
    let mut buffer = query(name);
    let form = Form { question_end: buffer.len(), dnssec_ok: None };
    let key = cache.key(&question(name)).expect("a name");
    buffer.resize(buffer.len() + 4096, 0);
    let answered = cache.answer_read(&key, form, &mut buffer, 65_535, now_s, Purpose::Client);
    let Answered::Hit { bytes, .. } = answered else { return None };
    buffer.truncate(bytes);
    Some(buffer)
}
