//! Answers that are of no use to their client. One kind is SERVFAIL, since another back end may answer better. The
//! other is a truncated answer to a TCP client, which cannot ask for the whole answer in another way. Such a client
//! never gets a part: a resolver may take it for an answer without records. Nor does another server of this process,
//! which also gets no answer by datagrams that may be forged.

use kqps_message::Header;

use super::Dispatcher;
use crate::back_end::{BackEnd, Way};
use crate::parsed_query::ParsedQuery;
use crate::queries::Client;
use crate::reply;
use crate::short;

impl Dispatcher {
    /// Whether the query in this place was sent again, or refused, instead of getting this answer.
    #[cold]
    pub(crate) fn tries_again(&mut self, number: usize, place: u16, link: u16, message: &[u8]) -> bool {
        let query = self.queries.get(place);
        let (client, is_first) = (query.client, query.lost() <= 1);
        let is_harmless = ParsedQuery::is_harmless(&query.bytes);
        let Some(back_end) = &mut self.back_ends[number] else { return false };
        let is_servfail = reply::is_servfail(message);
        back_end.counts.servfails += u64::from(is_servfail);
        if client == Client::Check || !is_harmless {
            return false;
        }
        if is_servfail {
            self.looks_soon |= back_end.health.doubt();
            return self.policy.retry_servfail && is_first && self.ask_another(number, place);
        }
        let is_cut = Header::from_bytes(message).is_some_and(Header::is_truncated);
        if !is_cut || !matches!(client, Client::Tcp(_) | Client::Inner(_)) {
            return false;
        }
        back_end.counts.cut_short += 1;
        // The back end's own connection may take the query by now.
        let (came_by_one, has_one) = (usize::from(link) < back_end.streams.len(), back_end.has_connection());
        self.ask_whole(place, (came_by_one || !has_one).then_some(short(number)));
        true
    }

    /// Sends a query once more that got a truncated or doubtful answer: to a back end with a connection if there is
    /// one, and not to `but_not`. A query of another server waits for a connection if none is open. The second such
    /// answer is the last.
    #[cold]
    pub(crate) fn ask_whole(&mut self, place: u16, but_not: Option<u16>) {
        let from = usize::from(self.queries.get(place).at.back_end);
        self.queries.take_back(place);
        if self.queries.get(place).wants_whole {
            return self.give_up(place);
        }
        self.queries.get_mut(place).wants_whole = true;
        self.consider(place, but_not);
        if !self.has_connected_candidate() && self.park(place, from) {
            return;
        }
        self.retain_with_room();
        self.dispatch(place);
    }

    /// Sends a query once more to the same back end, which has refused its cookie and sent a better one (RFC 7873,
    /// section 5.3).
    #[cold]
    pub(crate) fn ask_with_cookie(&mut self, number: usize, place: u16) {
        self.queries.take_back(place);
        self.queries.get_mut(place).had_bad_cookie = true;
        self.send(place, short(number), Way::Usual);
    }

    /// Sends the query to another back end, if one has room. Returns whether one had.
    fn ask_another(&mut self, number: usize, place: u16) -> bool {
        self.consider(place, Some(short(number)));
        self.retain_with_room();
        if self.candidates.is_empty() {
            return false;
        }
        self.queries.take_back(place);
        self.dispatch(place);
        true
    }

    /// Keeps only candidates with room. Otherwise the query, which was accepted already, might be dropped for newer
    /// ones or might displace others.
    pub(super) fn retain_with_room(&mut self) {
        let most = self.settings.back_end_outstanding;
        self.candidates.retain(|candidate| candidate.outstanding < most);
    }

    /// Keeps only candidates with a connection for the query, if there are any.
    #[cold]
    pub(crate) fn prefer_connections(&mut self) {
        let back_ends = &self.back_ends;
        let has_one =
            |number: u16| back_ends[usize::from(number)].as_ref().is_some_and(BackEnd::has_connection);
        if self.candidates.iter().any(|candidate| has_one(candidate.back_end)) {
            self.candidates.retain(|candidate| has_one(candidate.back_end));
        }
    }

    /// Handles the answer to a check that was sent at `asked_ns`. SERVFAIL counts against the back end. Every other
    /// rcode is about the question, and its server works.
    pub(crate) fn hear_check(&mut self, number: usize, asked_ns: u64, message: &[u8]) {
        let Some(back_end) = &mut self.back_ends[number] else { return };
        back_end.answered_check(asked_ns, reply::is_servfail(message), &self.settings.checks);
        self.looks_soon = true;
    }
}
