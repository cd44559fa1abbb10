//! The fate of a query that no back end answers: a second try, an rcode from the front itself, or nothing.

use kqps_message::rcode;
use kqps_server::answer::QUERY_BYTES;
use kqps_server::counts::Cause;

use super::Dispatcher;
use crate::counts::Lost;
use crate::parsed_query::ParsedQuery;
use crate::queries::{Client, Query};
use crate::reply;
use crate::reply_queue::Receiver;

impl Dispatcher {
    /// Takes a query back from its back end.
    #[inline]
    pub(crate) fn withdraw(&mut self, place: u16, why: Lost) {
        let at = self.queries.get(place).at;
        self.queries.take_back(place);
        if let Some(back_end) = &mut self.back_ends[usize::from(at.back_end)] {
            back_end.free(at.link, at.id);
            why.count_in(&mut back_end.counts);
        }
    }

    /// Handles a query that got no answer at its back end. It is tried once more, at another back end if there is
    /// one; otherwise its client gets SERVFAIL. A query that changes something is not sent twice.
    pub(crate) fn fail(&mut self, place: u16, why: Lost) {
        self.withdraw(place, why);
        let query = self.queries.get(place);
        let Query { client, at, ref bytes, .. } = *query;
        if client == Client::Check || query.lost() > 1 || !ParsedQuery::is_harmless(bytes) {
            return self.give_up(place);
        }
        let has_other = self.consider(place, Some(at.back_end));
        if !has_other && why != Lost::TimedOut {
            // A back end that did not answer in time had its chance. A back end that cut the query off may work
            // again.
            self.consider(place, None);
        }
        // By datagrams it would get a part of the answer once more.
        let wants_whole = self.queries.get(place).wants_whole;
        if wants_whole && !self.has_connected_candidate() && self.park(place, usize::from(at.back_end)) {
            return;
        }
        self.dispatch(place);
    }

    /// Handles a query that no back end can answer.
    pub(crate) fn give_up(&mut self, place: u16) {
        let Query { client, at, sent_ns, .. } = *self.queries.get(place);
        if client == Client::Check {
            let checks = &self.settings.checks;
            let back_end = self.back_ends[usize::from(at.back_end)].as_mut();
            if back_end.is_some_and(|back_end| back_end.health.failed(sent_ns, checks)) {
                self.note_down(usize::from(at.back_end));
            }
            return self.queries.forget(place);
        }
        let bytes = std::mem::take(&mut self.queries.get_mut(place).bytes);
        self.refuse(client, &bytes, rcode::SERVFAIL);
        self.queries.get_mut(place).bytes = bytes;
        self.queries.forget(place);
    }

    /// Answers a query with an rcode from the front itself.
    pub(crate) fn refuse(&mut self, client: Client, query: &[u8], rcode: u16) {
        match client {
            Client::Udp { endpoint, to, from } => {
                self.rcodes.add(rcode);
                let queue = &mut self.reply_queues[usize::from(endpoint)];
                queue.refuse(Receiver { to, from }, query, rcode, &mut self.counts);
            }
            Client::Tcp(caller) => {
                let mut room = [0; QUERY_BYTES];
                let bytes = reply::refuse(query, rcode, &mut room);
                self.clients.reply(caller, &room[..bytes], |_| {});
            }
            Client::Inner(number) => self.answers.failed(number),
            Client::Check => {}
        }
    }

    /// Counts a query that gets no answer.
    pub(crate) fn drop(&mut self, client: Client, cause: Cause) {
        match client {
            Client::Udp { .. } => self.counts.drop(cause),
            Client::Tcp(caller) => self.clients.drop(caller, cause),
            Client::Inner(number) => self.answers.dropped(number, cause),
            Client::Check => {}
        }
    }

    /// Drops a query that is outstanding at no back end.
    pub(crate) fn forget(&mut self, place: u16, cause: Cause) {
        self.drop(self.queries.get(place).client, cause);
        self.queries.forget(place);
    }
}
