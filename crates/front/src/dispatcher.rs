//! The life of each query: it goes to a back end, comes back answered or is tried once more elsewhere, and its
//! client receives a reply. The dispatcher connects the query table, the back ends and the clients of one worker.
//! Nothing here blocks.

mod fate;
mod hear;
mod parked;
mod roster;
mod unfit;
mod watch;

use std::sync::Arc;

use kqps_kernel::poll::FOREVER_NS;
use kqps_server::counts::{Cause, Counts, Rcodes};
use kqps_server::report::{BackEndReports, add_back_ends};
use mio::Registry;

use super::answers::Answers;
use super::back_end::{BackEnd, Way};
use super::choose::{self, Candidate};
use super::clients::TcpClients;
use super::cookies::OPTION_MOST;
use super::counts::Lost;
use super::ids::RandomIds;
use super::parsed_query::{ParsedQuery, Refusal};
use super::policy::Policy;
use super::queries::{Client, Queries, Whereabouts};
use super::reply_queue::ReplyQueue;
use super::stream::StreamLink;
use super::{FrontSettings, Overload, SendContext};
use parked::Parked;

pub(super) struct Dispatcher {
    pub(super) settings: Arc<FrontSettings>,
    pub(super) policy: Arc<Policy>,
    pub(super) queries: Queries,
    pub(super) back_ends: Vec<Option<BackEnd>>,
    /// The number of each back end of the policy.
    pub(super) numbers: Vec<u16>,
    /// The number of choices made without a rule, and under each rule.
    turns: Vec<u64>,
    pub(super) random: RandomIds,
    pub(super) reply_queues: Vec<ReplyQueue>,
    pub(super) clients: TcpClients,
    pub(super) counts: Counts,
    /// Rcodes of replies to clients that sent datagrams.
    pub(super) rcodes: Rcodes,
    /// The counts of back ends that were removed.
    gone: BackEndReports,
    pub(super) registry: Registry,
    pub(super) now_ns: u64,
    /// The back ends to which the query that is being dispatched may go.
    candidates: Vec<Candidate>,
    lost: Vec<u16>,
    /// The back ends that may have sent something.
    talking: Vec<usize>,
    /// Whether an answer of a back end changed when it is due for a check.
    looks_soon: bool,
    /// The queries that wait for a connection to a back end.
    parked: Vec<Parked>,
    /// The outcomes of queries of another server of this process.
    pub(super) answers: Answers,
    /// The query with a cookie that is being sent.
    with_cookie: Vec<u8>,
}

impl Dispatcher {
    pub(super) fn new(
        settings: Arc<FrontSettings>,
        reply_queues: Vec<ReplyQueue>,
        clients: TcpClients,
        registry: Registry,
    ) -> std::io::Result<Self> {
        let policy = Policy { back_ends: Vec::new(), rules: Vec::new(), ..settings.policy.clone() };
        Ok(Self {
            queries: Queries::new(settings.outstanding),
            policy: Arc::new(policy),
            back_ends: Vec::new(),
            numbers: Vec::new(),
            turns: Vec::new(),
            random: RandomIds::new()?,
            reply_queues,
            clients,
            counts: Counts::default(),
            rcodes: Rcodes::default(),
            gone: BackEndReports::new(),
            registry,
            now_ns: 0,
            candidates: Vec::new(),
            lost: Vec::new(),
            talking: Vec::new(),
            looks_soon: false,
            parked: Vec::new(),
            answers: Answers::default(),
            with_cookie: Vec::new(),
            settings,
        })
    }

    /// Handles a client's query.
    #[inline]
    pub(super) fn take(&mut self, client: Client, bytes: &[u8]) {
        match ParsedQuery::from_query(bytes) {
            Ok(asked) => self.take_in(client, bytes, asked, self.policy.rule(bytes, asked)),
            Err(Refusal::Drop(cause)) => self.drop(client, cause),
            Err(Refusal::Say(rcode)) => self.refuse(client, bytes, rcode),
        }
    }

    /// Handles the query of another server of this process, which knows the rule of the query.
    #[inline]
    pub(super) fn ask(&mut self, number: u32, rule: usize, bytes: &[u8]) {
        match ParsedQuery::from_query(bytes) {
            Ok(asked) => self.take_in(Client::Inner(number), bytes, asked, Some(rule)),
            Err(_) => self.answers.failed(number),
        }
    }

    #[inline]
    fn take_in(&mut self, client: Client, bytes: &[u8], asked: ParsedQuery, rule: Option<usize>) {
        if self.queries.len() >= self.settings.outstanding && !self.make_room(None) {
            return self.drop(client, Cause::OverloadNewest);
        }
        match self.queries.add(client, bytes, asked, rule) {
            Some(place) => {
                self.consider(place, None);
                self.dispatch(place);
            }
            None => self.drop(client, Cause::OverloadNewest),
        }
    }

    /// Makes room for one more query, at one back end or in all, if the settings say to displace the oldest.
    #[cold]
    fn make_room(&mut self, back_end: Option<usize>) -> bool {
        if self.settings.overload == Overload::Newest {
            return false;
        }
        let oldest = back_end.map_or_else(|| self.queries.oldest(), |number| self.queries.oldest_at(number));
        let Some(oldest) = oldest else { return false };
        self.withdraw(oldest, Lost::Displaced);
        self.forget(oldest, Cause::OverloadOldest);
        true
    }

    /// Finds the usable back ends to which a query may go, except one. Returns whether there are any.
    #[inline]
    fn consider(&mut self, place: u16, but_not: Option<u16>) -> bool {
        let rule = self.queries.get(place).rule;
        let rule = rule.and_then(|rule| self.policy.rules.get(usize::from(rule)));
        self.candidates.clear();
        let consider = |number: u16, candidates: &mut Vec<Candidate>| {
            let Some(back_end) = &self.back_ends[usize::from(number)] else { return };
            if Some(number) == but_not || !back_end.is_usable() {
                return;
            }
            candidates.push(Candidate {
                back_end: number,
                weight: back_end.weight,
                outstanding: self.queries.at(usize::from(number)),
                name_hash: back_end.name_hash,
            });
        };
        match rule {
            Some(rule) => rule.to.iter().for_each(|&to| consider(self.numbers[to], &mut self.candidates)),
            None => self.numbers.iter().for_each(|&number| consider(number, &mut self.candidates)),
        }
        if self.queries.get(place).wants_whole {
            self.prefer_connections();
        }
        !self.candidates.is_empty()
    }

    /// Sends a query to one of the back ends found for it, or answers SERVFAIL if there are none.
    #[inline]
    fn dispatch(&mut self, place: u16) {
        let query = self.queries.get(place);
        let wants_stream = matches!(query.client, Client::Tcp(_)) || query.wants_whole;
        let way = if wants_stream { Way::Stream } else { Way::Usual };
        let Some(number) = self.choose(place) else { return self.give_up(place) };
        let at = usize::from(number);
        if self.queries.at(at) >= self.settings.back_end_outstanding && !self.make_room(Some(at)) {
            return self.forget(place, Cause::OverloadNewest);
        }
        self.send(place, number, way);
    }

    #[inline]
    fn choose(&mut self, place: u16) -> Option<u16> {
        if self.candidates.is_empty() {
            return None;
        }
        // A full back end gets a query only if all are full.
        let most = self.settings.back_end_outstanding;
        let has_room = |candidate: &Candidate| candidate.outstanding < most;
        if !self.candidates.iter().all(has_room) && self.candidates.iter().any(has_room) {
            self.candidates.retain(has_room);
        }
        let query = self.queries.get(place);
        let rule = query.rule.and_then(|rule| self.policy.rules.get(usize::from(rule)));
        let choice = rule.and_then(|rule| rule.choice).unwrap_or(self.policy.choice);
        let turn = &mut self.turns[query.rule.map_or(0, |rule| usize::from(rule) + 1)];
        let name = query.asked.name(&query.bytes);
        Some(choose::choose(choice, &self.candidates, turn, name, &mut self.random))
    }

    /// Queues a query at a usable back end, and flushes the queue when it is full.
    #[inline]
    fn send(&mut self, place: u16, number: u16, way: Way) {
        let Some(back_end) = &mut self.back_ends[usize::from(number)] else { return };
        let query = self.queries.get(place);
        let bytes = query.bytes.len() + OPTION_MOST;
        let Some(link) = back_end.link(way, bytes) else { return self.give_up(place) };
        let bytes = match back_end.cookies_for(query.client) {
            Some(cookies) => {
                cookies.write(&query.bytes, &mut self.with_cookie);
                &self.with_cookie
            }
            None => &query.bytes,
        };
        let mut context = SendContext { random: &mut self.random, now_ns: self.now_ns };
        let (id, queued) = back_end.push(link, place, bytes, &mut context);
        back_end.counts.second_tries += u64::from(query.tries > 0);
        self.queries.send(place, Whereabouts { back_end: number, link, id }, self.now_ns);
        if queued >= self.settings.batch {
            back_end.flush_link(link, &self.registry);
        }
    }

    /// Sends all queues whose first query was queued no later than `before_ns`.
    #[inline]
    pub(super) fn flush(&mut self, before_ns: u64) {
        for back_end in self.back_ends.iter_mut().flatten() {
            back_end.flush(before_ns, &self.registry);
        }
    }

    /// Sends the replies that wait for clients.
    #[inline]
    pub(super) fn send_replies(&mut self) {
        for queue in &mut self.reply_queues {
            queue.send(&mut self.counts);
        }
        self.clients.write(self.now_ns);
    }

    /// The counts of all back ends so far.
    pub(super) fn reports(&self) -> BackEndReports {
        let mut reports = self.gone.clone();
        for back_end in self.back_ends.iter().flatten() {
            let mut counts = back_end.counts.clone();
            counts.up = u64::from(back_end.is_usable());
            add_back_ends(&mut reports, &[(back_end.name.clone(), counts)].into());
        }
        reports
    }

    /// Settles everything without waiting for any back end.
    pub(super) fn stop(&mut self) {
        while let Some(place) = self.queries.oldest() {
            self.withdraw(place, Lost::Unsettled);
            self.forget(place, Cause::Stopped);
        }
        self.drop_parked();
        self.send_replies();
        self.clients.close();
    }

    /// Whether a back end may have sent more than was read.
    pub(super) fn has_more(&self) -> bool {
        !self.talking.is_empty()
    }

    /// Whether a connection is being opened.
    pub(super) fn is_opening(&self) -> bool {
        self.back_ends.iter().flatten().flat_map(|back_end| &back_end.streams).any(StreamLink::is_opening)
    }

    /// When a back end is due for something even if no event happens, in nanoseconds.
    pub(super) fn due_ns(&self) -> u64 {
        let used = self.back_ends.iter().flatten().filter(|back_end| !back_end.drains);
        used.map(|back_end| back_end.due_ns(&self.settings.checks)).min().unwrap_or(FOREVER_NS)
    }

    /// Accepts waiting connections of clients.
    pub(super) fn accept(&mut self) {
        self.clients.accept(&self.registry, self.now_ns);
    }

    /// Whether something arrived that changed when back ends are due for a check. Resets the flag.
    pub(super) fn looks_soon(&mut self) -> bool {
        std::mem::take(&mut self.looks_soon)
    }

    /// Whether there are links on which something happened that was not handled yet.
    pub(super) fn has_trouble(&self) -> bool {
        self.back_ends.iter().any(|back_end| has_trouble(back_end.as_ref()))
    }
}

fn has_trouble(back_end: Option<&BackEnd>) -> bool {
    back_end.is_some_and(|back_end| !back_end.broken.is_empty())
}
