//! The target for the cache: any bytes as a query, and as the reply that is put in for its question.

use kqps_cache::{Answered, Cache, Failure, Put, Question, Settings, Stale};
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
    let mut cache = Cache::new(&settings, [1, 2]);
    assert_eq!(answer(&mut cache, query, &asked, 65_535, NOW_S), None, "nothing was put in");
    if let Put::Kept { ttl_s } = cache.put(&asked, reply, zone, NOW_S) {
        assert!(ttl_s > 0 && ttl_s <= *settings.ttl.end());
        keeps(&mut cache, &asked, zone, ttl_s);
        is_sound(&mut cache, query, &asked);
    } else {
        assert_eq!(answer(&mut cache, query, &asked, 65_535, NOW_S), None, "nothing was kept");
    }
    cache.failed(&asked, Failure::Unusable, NOW_S + 100_000);
    answer(&mut cache, query, &asked, 512, NOW_S + 100_000);
    let own = own_query(&asked);
    assert!(answer(&mut cache, &own, &asked, 512, NOW_S + 100_001).is_some(), "a failure is an answer");
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

/// The answer to a query. Without one the buffer must be unchanged.
fn answer(
    cache: &mut Cache,
    query: &[u8],
    asked: &Question<'_>,
    limit_bytes: usize,
    now_s: u64,
) -> Option<Vec<u8>> {
    let mut buffer = query.to_vec();
    buffer.resize(65_535, 0xa5);
    let answered = cache.answer(&mut buffer, query.len(), asked, limit_bytes, now_s);
    let (Answered::Hit { bytes, .. } | Answered::Stale { bytes } | Answered::Failed { bytes }) = answered
    else {
        assert_eq!(&buffer[..query.len()], query);
        return None;
    };
    buffer.truncate(bytes);
    Some(buffer)
}

/// A kept reply is the answer until its TTL ends, and an answer that is put in again has the same answer.
fn keeps(cache: &mut Cache, asked: &Question<'_>, zone: &[u8], ttl_s: u32) {
    let query = own_query(asked);
    let end_s = NOW_S + u64::from(ttl_s);
    let first = answer(cache, &query, asked, 65_535, NOW_S).expect("it was kept");
    let last = answer(cache, &query, asked, 65_535, end_s - 1).expect("its TTL has not ended");
    assert_eq!(first.len(), last.len());
    assert_eq!(answer(cache, &query, asked, 65_535, end_s), None, "its TTL has ended");
    let cut = answer(cache, &query, asked, first.len() - 1, NOW_S).expect("it was kept");
    assert!(cut.len() == query.len() && Header::from_bytes(&cut).is_some_and(Header::is_truncated));
    assert_eq!(cache.put(asked, &first, zone, NOW_S), Put::Kept { ttl_s }, "{first:x?}");
    assert_eq!(answer(cache, &query, asked, 65_535, NOW_S).as_ref(), Some(&first));
}

/// The answer to any query belongs to it and can be read to its end, with its names.
fn is_sound(cache: &mut Cache, query: &[u8], asked: &Question<'_>) {
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
