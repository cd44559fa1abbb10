//! Chains of aliases that lead from one zone to another. A server answers for its own zone alone, so the last name of
//! an unfinished chain is asked of the servers of its zone, and clients get both (RFC 1034, section 5.2.2).

use kqps_cache::{Answered as Found, Form, Purpose, Question, join, unfinished};
use kqps_message::question::QUESTION_TAIL_BYTES;
use kqps_message::{HEADER_BYTES, name};

use super::Resolver;
use crate::asks::{Ask, Chain};
use crate::{key, outgoing};

/// The zone of which all names are.
pub(super) const ROOT: &[u8] = &[0];

/// The most names that are asked for along a chain.
const NAMES_MOST: usize = 8;

/// What follows from a reply.
pub(super) enum Step {
    /// It answers the question: alone or, joined with those before it, as this message for all names.
    Whole(Option<Vec<u8>>),
    /// The last name of the chain is asked for.
    Asked,
    /// The chain is a loop, too long, or cannot be read.
    Broken,
}

impl Resolver {
    /// Takes the reply to a question, or to the last name of its chain of aliases, and asks for the next name if there
    /// is one. If no server is known for that name, the answer ends there, as that of a server which answers for one
    /// zone.
    pub(super) fn follow(&mut self, number: u32, message: &[u8]) -> Step {
        let Self { parts, upstream, asks, query, buffer, now_s, .. } = self;
        let Some(ask) = asks.get_mut(number) else { return Step::Whole(None) };
        if parts.zones.are_forwarders() {
            return Step::Whole(None);
        }
        let Ask { key, zone, chain, .. } = ask;
        let question = key::question(key);
        if let Some(chain) = &*chain {
            // What was asked for on the way answers its own question, too.
            let target = Question { name: &chain.name, ..question };
            parts.cache.put(&target, message, &parts.zones.get(*zone).name, *now_s);
        }
        // The reply whose turn it is, if it comes from the cache. Of that all records are believed.
        let mut found: Option<Vec<u8>> = None;
        loop {
            let of_zone = parts.zones.get(*zone);
            let last = match &found {
                Some(found) => (&found[..], ROOT),
                None => (message, &of_zone.name[..]),
            };
            let joined = match &*chain {
                Some(chain) => match join(&question, &[(&chain.so_far[..], ROOT), last]) {
                    Some(joined) => Some(joined),
                    None => return Step::Broken,
                },
                None => None,
            };
            let (whole, whole_zone) = joined.as_ref().map_or(last, |joined| (&joined[..], ROOT));
            let Some(mut next) = unfinished(&question, whole, whole_zone) else { return Step::Whole(joined) };
            next.make_ascii_lowercase();
            let Some(next_zone) = parts.zones.of(&next, question.rtype) else { return Step::Whole(joined) };
            // A server that finds answers has followed the chain as far as it goes.
            if of_zone.is_forwarded && next_zone == *zone {
                return Step::Whole(joined);
            }
            let names = chain.as_ref().map_or(0, |chain| chain.names) + 1;
            let is_known = *next == *key::name(key) || chain.as_ref().is_some_and(|chain| chain.name == next);
            let so_far = joined.or_else(|| join(&question, &[last]));
            let Some(so_far) = so_far.filter(|_| names <= NAMES_MOST && !is_known) else {
                return Step::Broken;
            };
            *zone = next_zone;
            let Chain { name: next, .. } = chain.insert(Chain { name: next, so_far, names });
            let target = Question { name: next, ..question };
            outgoing::write(query, &target, parts.zones.get(next_zone).is_forwarded, || upstream.random());
            buffer[..query.len()].copy_from_slice(query);
            let form = Form {
                question_end: name::literal_end(query, HEADER_BYTES).unwrap_or(HEADER_BYTES)
                    + QUESTION_TAIL_BYTES,
                dnssec_ok: Some(question.dnssec_ok),
            };
            let known = parts.cache.key(&target).map_or(Found::Miss, |key| {
                let limit_bytes = buffer.len();
                parts.cache.answer_read(&key, form, buffer, limit_bytes, *now_s, Purpose::Waiter)
            });
            let Found::Hit { bytes, .. } = known else {
                upstream.ask(number, next_zone, query);
                return Step::Asked;
            };
            found = Some(buffer[..bytes].to_vec());
        }
    }
}
