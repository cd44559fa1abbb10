//! The target for the cache: any bytes as a query, and as the reply that is put in for its question.

use kqps_cache::{Answered, Bailiwick, Failure, Form, Purpose, Put, Question, Settings, Shared, Stale};
use kqps_message::question::QUESTION_TAIL_BYTES;
use kqps_message::{HEADER_BYTES, Header, canonical, edns, name, question, record};

use crate::parsed::can_be_parsed;

const MEMORY_BYTES: u64 = 256 << 10;
const NOW_S: u64 = 1_800_000_000;

/// Bits of the first byte: the zone of the server, limits of TTLs, stale answers, and the flags of the question.
const IN_ZONE: u8 = 1;
const TTL_LIMITS: u8 = 2;
const STALE: u8 = 4;
const DNSSEC_OK: u8 = 8;
const CHECKING_DISABLED: u8 = 16;

/// Takes any bytes as a query, whose length is the second byte, and as a reply. What is kept must be answered until its
/// TTL ends and no longer, in messages that belong to their queries and can be read to their end.
pub fn cache(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let Some((&query_bytes, rest)) = rest.split_first() else { return };
    let (query, reply) = rest.split_at(usize::from(query_bytes).min(rest.len()));
    let settings = Settings {
        memory_bytes: MEMORY_BYTES,
        ttl: if choice & TTL_LIMITS == 0 { 0..=86_400 } else { 10..=60 },
        stale: (choice & STALE != 0).then_some(Stale { most_s: 100, answer_ttl_s: 30 }),
        ..Settings::default()
    };
    let zone = if choice & IN_ZONE == 0 { &b"\0"[..] } else { b"\x07example\0" };
    let Some(asked) = asked(query, choice) else { return };
    let cache = Shared::for_one(&settings, [1, 2]);
    assert_eq!(answer(&cache, query, &asked, 65_535, NOW_S), None, "nothing was put in");
    if let Put::Kept { ttl_s } = put(&cache, &asked, zone, reply) {
        assert!(ttl_s > 0 && ttl_s <= *settings.ttl.end());
        keeps(&cache, &asked, zone, ttl_s);
        is_sound(&cache, query, &asked);
    } else {
        assert_eq!(answer(&cache, query, &asked, 65_535, NOW_S), None, "nothing was kept");
    }
    cache.failed(&asked, Failure::Unusable, NOW_S + 100_000);
    answer(&cache, query, &asked, 512, NOW_S + 100_000);
    let own = own_query(&asked);
    assert!(answer(&cache, &own, &asked, 512, NOW_S + 100_001).is_some(), "a failure is an answer");
    assert!(cache.memory_bytes() <= MEMORY_BYTES);
}

/// The question of a query, if its name can be read.
fn asked(query: &[u8], choice: u8) -> Option<Question<'_>> {
    let end = name::literal_end(query, HEADER_BYTES)?;
    let &[t0, t1, c0, c1] = query.get(end..)?.first_chunk::<QUESTION_TAIL_BYTES>()?;
    Some(Question {
        name: &query[HEADER_BYTES..end],
        rtype: u16::from_be_bytes([t0, t1]),
        class: u16::from_be_bytes([c0, c1]),
        dnssec_ok: choice & DNSSEC_OK != 0,
        checking_disabled: choice & CHECKING_DISABLED != 0,
    })
}

/// A well-formed query for a question.
fn own_query(asked: &Question<'_>) -> Vec<u8> {
    let header = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&header, asked.name, &asked.rtype.to_be_bytes(), &asked.class.to_be_bytes()].concat()
}

/// Puts a reply of a server for this zone in.
fn put(cache: &Shared, asked: &Question<'_>, zone: &[u8], reply: &[u8]) -> Put {
    let name = asked.name.to_ascii_lowercase();
    let asked = Question { name: &name, ..*asked };
    match cache.read(&asked, reply, &Bailiwick::from_zone(zone)) {
        Ok(reply) => cache.keep(&asked, &reply, NOW_S),
        Err(why) => Put::NotKept(why),
    }
}

/// The form of a query for this question; `None` if a server refuses the query itself.
fn form(query: &[u8], asked: &Question<'_>) -> Option<Form> {
    let header = Header::from_bytes(query)?;
    let opt = edns::find(query).ok()?;
    let is_known = opt.as_ref().is_none_or(|opt| opt.ttl_s.to_be_bytes()[1] == 0);
    let is_query = !header.is_reply() && header.opcode() == 0 && header.questions() == 1;
    (is_known && is_query).then(|| Form {
        question_end: HEADER_BYTES + asked.name.len() + QUESTION_TAIL_BYTES,
        dnssec_ok: opt.map(|opt| opt.ttl_s & edns::DO != 0),
    })
}

/// The answer to a query. Without one the buffer must be unchanged.
fn answer(
    cache: &Shared,
    query: &[u8],
    asked: &Question<'_>,
    limit_bytes: usize,
    now_s: u64,
) -> Option<Vec<u8>> {
    let (form, key) = (form(query, asked)?, cache.key(asked)?);
    let mut buffer = query.to_vec();
    buffer.resize(65_535, 0xa5);
    let answered = cache.answer_read(&key, form, &mut buffer, limit_bytes, now_s, Purpose::Client);
    let (Answered::Hit { bytes, .. } | Answered::Stale { bytes } | Answered::Failed { bytes }) = answered
    else {
        assert_eq!(&buffer[..query.len()], query);
        return None;
    };
    buffer.truncate(bytes);
    Some(buffer)
}

/// A kept reply is the answer until its TTL ends, and an answer that is put in again has the same answer.
fn keeps(cache: &Shared, asked: &Question<'_>, zone: &[u8], ttl_s: u32) {
    let query = own_query(asked);
    let end_s = NOW_S + u64::from(ttl_s);
    let first = answer(cache, &query, asked, 65_535, NOW_S).expect("it was kept");
    let last = answer(cache, &query, asked, 65_535, end_s - 1).expect("its TTL has not ended");
    assert_eq!(first.len(), last.len());
    assert_eq!(answer(cache, &query, asked, 65_535, end_s), None, "its TTL has ended");
    let cut = answer(cache, &query, asked, first.len() - 1, NOW_S).expect("it was kept");
    assert!(cut.len() == query.len() && Header::from_bytes(&cut).is_some_and(Header::is_truncated));
    assert_eq!(put(cache, asked, zone, &first), Put::Kept { ttl_s }, "{first:x?}");
    assert_eq!(answer(cache, &query, asked, 65_535, NOW_S).as_ref(), Some(&first));
}

/// The answer to any query belongs to it and can be read to its end, with its names.
fn is_sound(cache: &Shared, query: &[u8], asked: &Question<'_>) {
    let Some(reply) = answer(cache, query, asked, 65_535, NOW_S) else { return };
    let (before, header) =
        (Header::from_bytes(query).expect("asked"), Header::from_bytes(&reply).expect("a header"));
    assert!(header.is_reply() && !header.is_authoritative() && header.offers_recursion());
    assert!(header.id() == before.id() && header.wants_recursion() == before.wants_recursion());
    let end = question::end(&reply).expect("a question");
    assert_eq!(reply[HEADER_BYTES..end], query[HEADER_BYTES..end]);
    assert_eq!(record::end(&reply), Some(reply.len()), "nothing follows the records");
    can_be_parsed(&reply);
    let has_edns = edns::find(query).is_ok_and(|opt| opt.is_some());
    assert_eq!(header.additionals(), u16::from(has_edns));
    let (mut at, mut canonical) = (end, Vec::new());
    for _ in 0..header.answers() + header.authorities() {
        let record = canonical::append_record(&reply, at, &mut canonical).expect("names can be read");
        assert!(record.ttl_s > 0);
        at = record.end;
    }
}
