//! Periodic work: queries without an answer, silent back ends, links that have ended, and checks that are due; and
//! the consequences of each.

use kqps_message::header::RD;

use super::{Dispatcher, has_trouble};
use crate::back_end::{BackEnd, Trouble, Way};
use crate::counts::{Bad, Lost};
use crate::health::URGENT;
use crate::parsed_query::ParsedQuery;
use crate::queries::{Client, Query, Whereabouts};
use crate::stream::StreamLink;
use crate::{SendContext, short};

/// The maximum number of outstanding checks at a back end that is down. With [`URGENT`] between them, each has more
/// than a second.
const CHECKS_MOST: usize = 32;

impl Dispatcher {
    /// Does what is due: times out queries, finds silent back ends, sends checks, opens connections, and removes
    /// back ends that have finished.
    pub(crate) fn look(&mut self) {
        self.find_needed();
        self.fail_parked();
        for number in 0..self.back_ends.len() {
            self.time_out(number);
            self.look_at(number);
        }
        self.mend();
    }

    /// Finds the back ends that are needed: those of a group without a usable back end, to which some queries are
    /// limited. They are checked more often, and their connections are opened sooner.
    fn find_needed(&mut self) {
        let soon_ns = self.now_ns + URGENT.as_nanos() as u64;
        let Self { back_ends, numbers, policy, .. } = self;
        back_ends.iter_mut().flatten().for_each(|back_end| back_end.is_needed = false);
        let of_rules = policy.rules.iter().map(|rule| &rule.to[..]);
        for rule in of_rules.map(Some).chain([None]) {
            // A query without a rule may go to all back ends.
            let places = rule.map_or(0..numbers.len(), |to| 0..to.len());
            let number = |place: usize| usize::from(numbers[rule.map_or(place, |to| to[place])]);
            let takes = |place| back_ends[number(place)].as_ref().is_some_and(BackEnd::is_usable);
            if places.clone().any(takes) {
                continue;
            }
            for place in places {
                let Some(back_end) = &mut back_ends[number(place)] else { continue };
                back_end.is_needed = true;
                back_end.streams.iter_mut().for_each(|stream| stream.hasten(soon_ns));
            }
        }
    }

    /// Whether a query may go to one back end only.
    fn has_no_choice(&self, query: &Query) -> bool {
        let rule = query.rule.and_then(|rule| self.policy.rules.get(usize::from(rule)));
        rule.map_or(self.numbers.len(), |rule| rule.to.len()) == 1
    }

    /// Handles the queries at a back end that have waited for long enough: for half of the client's timeout, so that
    /// another back end has the other half. If there is no other, the back end has all of it, and a datagram is sent
    /// again after the half.
    pub(crate) fn time_out(&mut self, number: usize) {
        let timeout_ns = self.settings.timeout.as_nanos() as u64;
        let mut late = std::mem::take(&mut self.lost);
        for place in self.queries.places_at(number) {
            let query = self.queries.get(place);
            let waited_ns = self.now_ns.saturating_sub(query.sent_ns);
            if waited_ns < timeout_ns / 2 {
                break;
            }
            if waited_ns >= timeout_ns || !self.has_no_choice(query) || self.is_to_repeat(query) {
                late.push(place);
            }
        }
        for place in late.drain(..) {
            let query = self.queries.get(place);
            let (sent_ns, at) = (query.sent_ns, query.at);
            let waited_ns = self.now_ns.saturating_sub(sent_ns);
            // Making room for one of them may have settled another.
            let is_here = usize::from(at.back_end) == number && self.queries.is_outstanding(place);
            if !is_here || waited_ns < timeout_ns / 2 {
                continue;
            }
            if waited_ns < timeout_ns && self.has_no_choice(query) {
                self.repeat(place);
                continue;
            }
            self.fail(place, Lost::TimedOut);
            // The back end's other connections may work while this one leads nowhere.
            if let Some(back_end) = &mut self.back_ends[number]
                && back_end.streams.get(usize::from(at.link)).is_some_and(|stream| stream.heard_ns < sent_ns)
                && !back_end.broken.contains(&(at.link, Trouble::Broken))
            {
                back_end.broken.push((at.link, Trouble::Broken));
            }
        }
        self.lost = late;
    }

    /// Whether a query is that of another server of this process, went out as a datagram, and did so once. A client of
    /// a front repeats its queries itself.
    fn is_to_repeat(&self, query: &Query) -> bool {
        let back_end = self.back_ends[usize::from(query.at.back_end)].as_ref();
        let by_datagram =
            back_end.is_some_and(|back_end| usize::from(query.at.link) >= back_end.streams.len());
        matches!(query.client, Client::Inner(_)) && by_datagram && !query.is_repeated
    }

    /// Sends the datagram of a query again, from the same port and with the same ID: the first may be lost. The answer
    /// to either is taken, so a slow back end has as long as before.
    fn repeat(&mut self, place: u16) {
        self.queries.get_mut(place).is_repeated = true;
        let query = self.queries.get(place);
        let Some(back_end) = &mut self.back_ends[usize::from(query.at.back_end)] else { return };
        match &back_end.cookies {
            Some(cookies) => cookies.write(&query.bytes, &mut self.with_cookie),
            None => self.with_cookie.clone_from(&query.bytes),
        }
        back_end.repeat(query.at, &mut self.with_cookie);
    }

    pub(crate) fn look_at(&mut self, number: usize) {
        if self.is_silent(number) {
            return self.note_down(number);
        }
        let has_queries = self.queries.at(number) > 0;
        let Some(back_end) = &mut self.back_ends[number] else { return };
        if back_end.drains {
            if !has_queries {
                self.see_off(number);
            }
            return;
        }
        let is_new = back_end.open(&self.registry, self.now_ns);
        if std::mem::take(&mut back_end.lacks_room) {
            self.clients.make_room();
        }
        if back_end.check_ns(&self.settings.checks) <= self.now_ns || is_new {
            self.check(number);
        }
    }

    /// Whether a back end that was up is down because it has been silent for too long. A query may take long to
    /// answer. So the back end is checked after half of the permitted time, and has the other half to answer.
    fn is_silent(&mut self, number: usize) -> bool {
        let oldest_ns = self.queries.oldest_at(number).map(|place| self.queries.get(place).sent_ns);
        let half_ns = self.settings.checks.silence.as_nanos() as u64 / 2;
        let Some(back_end) = &mut self.back_ends[number] else { return false };
        let silent_ns =
            oldest_ns.map_or(0, |sent_ns| self.now_ns.saturating_sub(sent_ns.max(back_end.heard_ns)));
        if silent_ns < half_ns {
            back_end.suspected_ns = None;
            return false;
        }
        let Some(suspected_ns) = back_end.suspected_ns else {
            back_end.suspected_ns = Some(self.now_ns);
            self.check(number);
            return false;
        };
        self.now_ns - suspected_ns >= half_ns && back_end.health.fell()
    }

    /// Sends a check to a back end.
    pub(crate) fn check(&mut self, number: usize) {
        self.limit_checks(number);
        let mut query = self.settings.checks.query.clone();
        let Some(back_end) = &mut self.back_ends[number] else { return };
        if let Some(flags) = query.get_mut(2).filter(|_| back_end.is_recursive) {
            *flags |= RD;
        }
        let Ok(asked) = ParsedQuery::from_query(&query) else { return };
        back_end.checked_ns = Some(self.now_ns);
        let Some(link) = back_end.link(Way::Usual, query.len()) else { return };
        let Some(place) = self.queries.add(Client::Check, &query, asked, None) else { return };
        let mut context = SendContext { random: &mut self.random, now_ns: self.now_ns };
        let (id, _) = back_end.push(link, place, &query, &mut context);
        back_end.counts.checks += 1;
        self.queries.send(place, Whereabouts { back_end: short(number), link, id }, self.now_ns);
    }

    /// Gives up the oldest check of a back end that is down and answers none, before another check is sent. Checks
    /// may follow each other much faster than queries time out.
    fn limit_checks(&mut self, number: usize) {
        if self.back_ends[number].as_ref().is_none_or(|back_end| back_end.health.is_up()) {
            return;
        }
        let is_check = |&place: &u16| self.queries.get(place).client == Client::Check;
        let mut checks = self.queries.places_at(number).filter(is_check);
        let oldest = checks.next();
        if let Some(oldest) = oldest.filter(|_| checks.count() + 1 >= CHECKS_MOST) {
            self.fail(oldest, Lost::TimedOut);
        }
    }

    /// Handles links that have ended, and the queries outstanding on them, until there are none.
    pub(crate) fn mend(&mut self) {
        while let Some(number) = self.back_ends.iter().position(|back_end| has_trouble(back_end.as_ref())) {
            let Some(back_end) = &mut self.back_ends[number] else { return };
            let Some((link, trouble)) = back_end.broken.pop() else { return };
            if trouble == Trouble::Garbled {
                Bad::Garbled.count_in(&mut back_end.counts);
            }
            let is_datagrams = usize::from(link) >= back_end.streams.len();
            let was_open = is_datagrams || back_end.streams[usize::from(link)].is_open();
            if let Some(stream) = back_end.streams.get_mut(usize::from(link)) {
                stream.close(&self.registry, self.now_ns);
            }
            // A server that works may refuse the connection beside datagrams.
            let counts_for_health = is_datagrams || back_end.datagrams.is_none();
            let is_cut_off = !back_end.streams.iter().any(StreamLink::is_open);
            let is_down = match trouble {
                Trouble::Ended => false,
                Trouble::Broken => is_datagrams || !was_open && is_cut_off,
                Trouble::Garbled => is_cut_off,
            };
            if counts_for_health && is_down && back_end.health.fell() {
                self.note_down(number);
            }
            self.cut_off(number, |at| at == link || is_datagrams && at >= link);
            // Queries that were cut off wait for the connection to be opened again. If that failed, they wait no longer.
            if !was_open {
                self.resume(number);
            }
        }
    }

    /// Handles the loss of all queries that are outstanding on these links of a back end.
    pub(crate) fn cut_off(&mut self, number: usize, of_link: impl Fn(u16) -> bool) {
        let mut lost = std::mem::take(&mut self.lost);
        lost.extend(self.queries.places_at(number).filter(|&place| of_link(self.queries.get(place).at.link)));
        for place in lost.drain(..) {
            // Making room for one of them may have settled another.
            let at = self.queries.get(place).at;
            if usize::from(at.back_end) == number && of_link(at.link) && self.queries.is_outstanding(place) {
                self.fail(place, Lost::CutOff);
            }
        }
        self.lost = lost;
    }

    /// Handles a back end that was just found to be down: it gets no more queries, and its queries are tried
    /// elsewhere.
    pub(crate) fn note_down(&mut self, number: usize) {
        let Some(back_end) = &mut self.back_ends[number] else { return };
        back_end.counts.downs += 1;
        for link in 0..back_end.streams.len() {
            if back_end.streams[link].is_open() {
                back_end.streams[link].close(&self.registry, self.now_ns);
            }
        }
        self.cut_off(number, |_| true);
        if let Some(Some(back_end)) = self.back_ends.get_mut(number)
            && let Some(datagrams) = &mut back_end.datagrams
        {
            datagrams.reset();
        }
        self.resume(number);
    }
}
