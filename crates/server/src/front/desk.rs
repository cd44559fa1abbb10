//! What becomes of each query: it goes to a back end, comes back answered, or is tried once more elsewhere, and its
//! client hears about it. Here meet the table of queries, the back ends and the clients of one worker; nothing here
//! waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use kqps_kernel::batch::RecvBatch;
use kqps_kernel::poll::FOREVER_NS;
use kqps_message::rcode;
use mio::Registry;
use mio::event::Event;

use super::asked::{self, Asked, Refusal};
use super::back_end::{BackEnd, Trouble, Way};
use super::choose::{self, Candidate};
use super::clients::TcpClients;
use super::counts::{BackEndReports, Bad, Lost, add_back_ends};
use super::ids::Chance;
use super::policy::Policy;
use super::post::{Post, Receiver};
use super::queries::{Client, Queries, Query, Whereabouts};
use super::stream::{Gone, first_frame};
use super::{Overload, Ready, Settings};
use crate::counts::{Cause, Counts};
use crate::echo::QUERY_BYTES;

/// Rcodes that a header can have.
const RCODES: usize = 16;

/// Rounds of reading from one back end before others have their turn.
const ROUNDS: usize = 8;

/// A worker's queries, back ends and clients.
pub(super) struct Desk {
    pub(super) settings: Arc<Settings>,
    pub(super) policy: Arc<Policy>,
    pub(super) queries: Queries,
    pub(super) back_ends: Vec<Option<BackEnd>>,
    /// The number of each back end of the policy.
    pub(super) numbers: Vec<u16>,
    /// Choices made under each rule, and without one.
    turns: Vec<u64>,
    pub(super) chance: Chance,
    pub(super) posts: Vec<Post>,
    pub(super) clients: TcpClients,
    pub(super) counts: Counts,
    pub(super) rcodes: [u64; RCODES],
    /// Counts of back ends that have gone.
    gone: BackEndReports,
    pub(super) registry: Registry,
    pub(super) now_ns: u64,
    candidates: Vec<Candidate>,
    lost: Vec<u16>,
    /// Back ends that may have something to say.
    talking: Vec<usize>,
}

impl Desk {
    pub(super) fn new(
        settings: Arc<Settings>,
        posts: Vec<Post>,
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
            chance: Chance::new()?,
            posts,
            clients,
            counts: Counts::default(),
            rcodes: [0; RCODES],
            gone: BackEndReports::new(),
            registry,
            now_ns: 0,
            candidates: Vec::new(),
            lost: Vec::new(),
            talking: Vec::new(),
            settings,
        })
    }

    /// Goes by another policy from now on: back ends that it has too stay as they are, new ones are opened, and
    /// those that it has no more finish what they have.
    pub(super) fn adopt(&mut self, policy: Arc<Policy>) -> std::io::Result<()> {
        let mut numbers = Vec::new();
        for wanted in &policy.back_ends {
            let is_it = |known: &Option<BackEnd>| {
                let known = known.as_ref().filter(|known| !known.drains);
                known.is_some_and(|known| known.name == wanted.name && known.target == wanted.target)
            };
            let number = match self.back_ends.iter().position(is_it) {
                Some(number) => number,
                None => self.settle_in(wanted)?,
            };
            if let Some(back_end) = &mut self.back_ends[number] {
                back_end.weight = wanted.weight;
            }
            numbers.push(number as u16);
        }
        for (number, back_end) in self.back_ends.iter_mut().enumerate() {
            if let Some(back_end) = back_end {
                back_end.drains = !numbers.contains(&(number as u16));
            }
        }
        self.numbers = numbers;
        self.turns = vec![0; policy.rules.len() + 1];
        self.policy = policy;
        Ok(())
    }

    fn settle_in(&mut self, wanted: &super::policy::BackEnd) -> std::io::Result<usize> {
        let free = self.back_ends.iter().position(Option::is_none);
        let number = free.unwrap_or(self.back_ends.len());
        let mut back_end = BackEnd::new(number, wanted, &self.settings, &self.registry)?;
        back_end.open(&self.registry, self.now_ns);
        back_end.heard_ns = self.now_ns;
        if number == self.back_ends.len() {
            self.back_ends.push(None);
        }
        self.back_ends[number] = Some(back_end);
        self.queries.make_list(number);
        Ok(number)
    }

    /// A client's query.
    #[inline]
    pub(super) fn take(&mut self, client: Client, bytes: &[u8]) {
        match Asked::of(bytes) {
            Ok(asked) => self.take_in(client, bytes, asked),
            Err(Refusal::Drop(cause)) => self.drop(client, cause),
            Err(Refusal::Say(rcode)) => self.refuse(client, bytes, rcode),
        }
    }

    #[inline]
    fn take_in(&mut self, client: Client, bytes: &[u8], asked: Asked) {
        let rule = self.policy.rule(bytes, &asked);
        if self.queries.len() >= self.settings.outstanding && !self.make_room(None) {
            return self.drop(client, Cause::OverloadNewest);
        }
        match self.queries.add(client, bytes, asked, rule) {
            Some(place) => self.dispatch(place, None),
            None => self.drop(client, Cause::OverloadNewest),
        }
    }

    /// Makes room for one more query, at one back end or in all, where it is the oldest that has to go.
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

    /// Sends a query to one of the back ends that it may go to, or says SERVFAIL where none can be used.
    #[inline]
    fn dispatch(&mut self, place: u16, but_not: Option<u16>) {
        let query = self.queries.get(place);
        let way = if matches!(query.client, Client::Tcp(_)) { Way::Stream } else { Way::Usual };
        let Some(number) = self.choose(place, way, but_not) else { return self.give_up(place) };
        let at = usize::from(number);
        if self.queries.at(at) >= self.settings.back_end_outstanding && !self.make_room(Some(at)) {
            return self.forget(place, Cause::OverloadNewest);
        }
        self.send(place, number, way);
    }

    #[inline]
    fn choose(&mut self, place: u16, way: Way, but_not: Option<u16>) -> Option<u16> {
        let query = self.queries.get(place);
        let rule = query.rule.and_then(|rule| self.policy.rules.get(usize::from(rule)));
        self.candidates.clear();
        let consider = |number: u16, candidates: &mut Vec<Candidate>| {
            let Some(back_end) = &self.back_ends[usize::from(number)] else { return };
            if Some(number) == but_not || !back_end.is_usable(way) {
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
        if self.candidates.is_empty() {
            return None;
        }
        let choice = rule.and_then(|rule| rule.choice).unwrap_or(self.policy.choice);
        let turn = &mut self.turns[query.rule.map_or(0, |rule| usize::from(rule) + 1)];
        let name = query.asked.name(&query.bytes);
        Some(choose::choose(choice, &self.candidates, turn, name, &mut self.chance))
    }

    /// Puts a query into the queue of a back end that can be used, and flushes that where it is full.
    #[inline]
    fn send(&mut self, place: u16, number: u16, way: Way) {
        let Some(back_end) = &mut self.back_ends[usize::from(number)] else { return };
        let query = self.queries.get(place);
        let Some(link) = back_end.link(way, query.bytes.len()) else { return self.give_up(place) };
        let mut ready = Ready { chance: &mut self.chance, now_ns: self.now_ns };
        let (id, queued) = back_end.push(link, place, &query.bytes, &mut ready);
        back_end.counts.second_tries += u64::from(query.tries > 0);
        self.queries.send(place, Whereabouts { back_end: number, link, id }, self.now_ns);
        if queued >= self.settings.batch {
            back_end.flush_link(link, &self.registry);
        }
    }

    /// Asks a back end whether it is well.
    fn check(&mut self, number: usize) {
        let query = &self.settings.checks.query;
        let (Ok(asked), Some(back_end)) = (Asked::of(query), &mut self.back_ends[number]) else { return };
        let Some(link) = back_end.link(Way::Usual, query.len()) else { return };
        let Some(place) = self.queries.add(Client::Check, query, asked, None) else { return };
        let mut ready = Ready { chance: &mut self.chance, now_ns: self.now_ns };
        let (id, _) = back_end.push(link, place, query, &mut ready);
        back_end.counts.checks += 1;
        self.queries.send(place, Whereabouts { back_end: number as u16, link, id }, self.now_ns);
    }

    /// Takes a query back from its back end.
    #[inline]
    fn withdraw(&mut self, place: u16, why: Lost) {
        let at = self.queries.get(place).at;
        self.queries.take_back(place);
        if let Some(back_end) = &mut self.back_ends[usize::from(at.back_end)] {
            back_end.free(at.link, at.id);
            back_end.counts.lose(why);
        }
    }

    /// A query came to nothing at its back end: it is tried once more, at another where that one may be at fault, or
    /// its client hears that nobody can answer it.
    fn fail(&mut self, place: u16, why: Lost) {
        self.withdraw(place, why);
        let Query { tries, client, at, .. } = *self.queries.get(place);
        if client == Client::Check {
            return self.give_up(place);
        }
        if tries > 1 {
            return self.give_up(place);
        }
        self.dispatch(place, (why == Lost::TimedOut).then_some(at.back_end));
    }

    /// Nobody can answer a query.
    fn give_up(&mut self, place: u16) {
        let Query { client, at, .. } = *self.queries.get(place);
        if client == Client::Check {
            let checks = &self.settings.checks;
            let back_end = self.back_ends[usize::from(at.back_end)].as_mut();
            if back_end.is_some_and(|back_end| back_end.health.failed(checks)) {
                self.note_down(usize::from(at.back_end));
            }
            return self.queries.forget(place);
        }
        let bytes = std::mem::take(&mut self.queries.get_mut(place).bytes);
        self.refuse(client, &bytes, rcode::SERVFAIL);
        self.queries.get_mut(place).bytes = bytes;
        self.queries.forget(place);
    }

    /// A query that no back end is asked.
    fn refuse(&mut self, client: Client, query: &[u8], rcode: u16) {
        self.rcodes[usize::from(rcode)] += 1;
        match client {
            Client::Udp { endpoint, to, from } => {
                let post = &mut self.posts[usize::from(endpoint)];
                post.refuse(Receiver { to, from }, query, rcode, &mut self.counts);
            }
            Client::Tcp(caller) => {
                let mut reply = [0; QUERY_BYTES];
                let bytes = asked::refuse(query, rcode, &mut reply);
                self.clients.reply(caller, &reply[..bytes], |_| {});
            }
            Client::Check => {}
        }
    }

    /// A query gets no answer.
    fn drop(&mut self, client: Client, cause: Cause) {
        match client {
            Client::Udp { .. } => self.counts.drop(cause),
            Client::Tcp(caller) => self.clients.drop(caller, cause),
            Client::Check => {}
        }
    }

    /// A query that is outstanding nowhere gets no answer.
    fn forget(&mut self, place: u16, cause: Cause) {
        self.drop(self.queries.get(place).client, cause);
        self.queries.forget(place);
    }

    /// Takes what clients have sent by their connections.
    pub(super) fn hear_clients(&mut self, input: &mut [u8]) {
        for _ in 0..self.clients.ready() {
            let Some((caller, filled, mut most)) = self.clients.read(input) else { continue };
            let (mut bytes, mut is_dns) = (&input[..filled], true);
            while most > 0 {
                match first_frame(bytes) {
                    Ok(Some((query, used))) => {
                        self.clients.begin(caller, self.now_ns);
                        self.take(Client::Tcp(caller), query);
                        bytes = &bytes[used..];
                        most -= 1;
                    }
                    Ok(None) => break,
                    Err(_) => {
                        is_dns = false;
                        break;
                    }
                }
            }
            self.clients.keep(caller, bytes, is_dns);
        }
    }

    /// Something happened to a back end's connection.
    pub(super) fn note_stream(&mut self, number: usize, link: usize, event: &Event) {
        let Some(Some(back_end)) = self.back_ends.get_mut(number) else { return };
        match back_end.streams[link].note(event) {
            Ok(false) => {}
            Ok(true) => {
                back_end.counts.connections += 1;
                // What cannot be used until it is checked is checked at once.
                if back_end.datagrams.is_none() {
                    self.check(number);
                }
            }
            Err(_) => back_end.broken.push((link as u16, Trouble::Broken)),
        }
        self.heard_from(number);
    }

    /// Something has come to a back end's socket.
    pub(super) fn note_datagrams(&mut self, number: usize, socket: usize) {
        let Some(Some(back_end)) = self.back_ends.get_mut(number) else { return };
        if let Some(datagrams) = &mut back_end.datagrams {
            datagrams.sockets[socket].is_readable = true;
        }
        self.heard_from(number);
    }

    fn heard_from(&mut self, number: usize) {
        if !self.talking.contains(&number) {
            self.talking.push(number);
        }
    }

    /// Takes what has come from back ends, and hands it on.
    pub(super) fn hear_back_ends(&mut self, input: &mut [u8], replies: &mut RecvBatch) {
        for number in std::mem::take(&mut self.talking) {
            let Some(back_end) = &self.back_ends[number] else { continue };
            let sockets = back_end.datagrams.as_ref().map_or(0, |datagrams| datagrams.sockets.len());
            for link in 0..back_end.streams.len() {
                self.hear_stream(number, link, input);
            }
            for socket in 0..sockets {
                self.hear_datagrams(number, socket, replies);
            }
            if self.back_ends[number].as_ref().is_some_and(BackEnd::has_more) {
                self.talking.push(number);
            }
        }
    }

    /// Whether a back end has said more than was taken.
    pub(super) fn has_more(&self) -> bool {
        !self.talking.is_empty()
    }

    /// Takes what has come by a back end's connection, and hands it on.
    fn hear_stream(&mut self, number: usize, link: usize, input: &mut [u8]) {
        for _ in 0..ROUNDS {
            let Some(back_end) = &mut self.back_ends[number] else { return };
            if !back_end.streams[link].is_readable() {
                return;
            }
            let trouble = match back_end.streams[link].read(input) {
                Ok(filled) => self.cut(number, link, &input[..filled]),
                Err(Gone::Ended) => Some(Trouble::Ended),
                Err(Gone::Broken) => Some(Trouble::Broken),
            };
            if let Some(trouble) = trouble
                && let Some(back_end) = &mut self.back_ends[number]
            {
                back_end.broken.push((link as u16, trouble));
                return;
            }
        }
    }

    /// Hands on the whole replies of these bytes, and keeps the rest.
    fn cut(&mut self, number: usize, link: usize, mut bytes: &[u8]) -> Option<Trouble> {
        loop {
            match first_frame(bytes) {
                Ok(Some((message, used))) => {
                    self.hear(number, link as u16, message);
                    bytes = &bytes[used..];
                }
                Ok(None) => {
                    let back_end = self.back_ends[number].as_mut()?;
                    back_end.streams[link].keep(bytes);
                    return None;
                }
                Err(_) => return Some(Trouble::Garbled),
            }
        }
    }

    /// Takes what has come to one of a back end's sockets, and hands it on.
    fn hear_datagrams(&mut self, number: usize, socket: usize, replies: &mut RecvBatch) {
        for _ in 0..ROUNDS {
            let Some(back_end) = &mut self.back_ends[number] else { return };
            let link = (back_end.streams.len() + socket) as u16;
            let Some(datagrams) = &mut back_end.datagrams else { return };
            if !datagrams.sockets[socket].is_readable {
                return;
            }
            match datagrams.recv(socket, replies) {
                Ok(count) => {
                    for index in 0..count {
                        let message = replies.message(index);
                        for reply in message.bytes.chunks(message.segment_bytes) {
                            self.hear(number, link, reply);
                        }
                    }
                }
                Err(_) => back_end.broken.push((link, Trouble::Broken)),
            }
        }
    }

    /// A message of a back end: the reply to a query, or nothing that anybody waits for.
    #[inline]
    fn hear(&mut self, number: usize, link: u16, message: &[u8]) {
        let Some(back_end) = &mut self.back_ends[number] else { return };
        let Some(&[high, low]) = message.first_chunk() else { return back_end.counts.bad(Bad::Garbled) };
        let id = u16::from_be_bytes([high, low]);
        let Some(place) = back_end.query(link, id) else { return back_end.counts.bad(Bad::Unsolicited) };
        let query = self.queries.get(place);
        if !asked::is_reply_to(&query.bytes, &query.asked, message) {
            return back_end.counts.bad(Bad::Mismatched);
        }
        back_end.free(link, id);
        back_end.heard_ns = self.now_ns;
        back_end.counts.answered += 1;
        if let Some(stream) = back_end.streams.get_mut(usize::from(link)) {
            stream.is_good();
        }
        match query.client {
            Client::Udp { endpoint, to, from } => {
                let post = &mut self.posts[usize::from(endpoint)];
                post.hand_on(Receiver { to, from }, &query.bytes, &query.asked, message, &mut self.counts);
                self.rcodes[usize::from(message[3] & 0x0f)] += 1;
            }
            Client::Tcp(caller) => {
                let restore = |reply: &mut [u8]| query.asked.restore(&query.bytes, reply);
                self.clients.reply(caller, message, restore);
                self.rcodes[usize::from(message[3] & 0x0f)] += 1;
            }
            Client::Check => back_end.health.passed(&self.settings.checks),
        }
        self.queries.take_back(place);
        self.queries.forget(place);
    }

    /// Deals with links that have ended, and with what was under way on them, until there are none.
    pub(super) fn mend(&mut self) {
        while let Some(number) = self.back_ends.iter().position(has_trouble) {
            let Some(back_end) = &mut self.back_ends[number] else { return };
            let Some((link, trouble)) = back_end.broken.pop() else { return };
            if trouble == Trouble::Garbled {
                back_end.counts.bad(Bad::Garbled);
            }
            let is_datagrams = usize::from(link) >= back_end.streams.len();
            let was_open = is_datagrams || back_end.streams[usize::from(link)].is_open();
            if let Some(stream) = back_end.streams.get_mut(usize::from(link)) {
                stream.close(&self.registry, self.now_ns);
            }
            // The connection beside datagrams may be refused by a server that is well.
            let counts_for_health = is_datagrams || back_end.datagrams.is_none();
            let is_cut_off = !back_end.streams.iter().any(super::stream::StreamLink::is_open);
            let is_down = match trouble {
                Trouble::Ended => false,
                Trouble::Broken => is_datagrams || !was_open && is_cut_off,
                Trouble::Garbled => is_cut_off,
            };
            if counts_for_health && is_down && back_end.health.fell() {
                self.note_down(number);
            }
            self.cut_off(number, |at| at == link || is_datagrams && at >= link);
        }
    }

    /// What is under way on these links of a back end came to nothing.
    fn cut_off(&mut self, number: usize, of_link: impl Fn(u16) -> bool) {
        let mut lost = std::mem::take(&mut self.lost);
        lost.extend(self.queries.of(number).filter(|&place| of_link(self.queries.get(place).at.link)));
        for place in lost.drain(..) {
            // Making room for one of them may have settled another.
            let at = self.queries.get(place).at;
            if usize::from(at.back_end) == number && of_link(at.link) && self.queries.is_outstanding(place) {
                self.fail(place, Lost::CutOff);
            }
        }
        self.lost = lost;
    }

    /// A back end has just been found to be down: it gets no more queries, and those that it has are tried elsewhere.
    pub(super) fn note_down(&mut self, number: usize) {
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
    }

    /// What is due: queries that were not answered in time, back ends that have gone silent, checks, connections to
    /// open, back ends that have finished.
    pub(super) fn look(&mut self) {
        for number in 0..self.back_ends.len() {
            self.time_out(number);
            self.look_at(number);
        }
        self.mend();
    }

    fn time_out(&mut self, number: usize) {
        let try_ns = self.settings.try_ns();
        while let Some(place) = self.queries.oldest_at(number) {
            if self.now_ns.saturating_sub(self.queries.get(place).sent_ns) < try_ns {
                return;
            }
            self.fail(place, Lost::TimedOut);
        }
    }

    fn look_at(&mut self, number: usize) {
        let oldest_ns = self.queries.oldest_at(number).map(|place| self.queries.get(place).sent_ns);
        let Some(back_end) = &mut self.back_ends[number] else { return };
        let silence_ns = self.settings.checks.silence.as_nanos() as u64;
        let since_ns = oldest_ns.map(|oldest_ns| oldest_ns.max(back_end.heard_ns));
        let is_silent = since_ns.is_some_and(|since_ns| self.now_ns.saturating_sub(since_ns) >= silence_ns);
        if is_silent && back_end.health.fell() {
            return self.note_down(number);
        }
        if back_end.drains {
            if oldest_ns.is_none() {
                self.see_off(number);
            }
            return;
        }
        let is_new = back_end.open(&self.registry, self.now_ns);
        if back_end.check_ns <= self.now_ns || is_new {
            back_end.check_ns = self.now_ns + self.settings.checks.interval.as_nanos() as u64;
            self.check(number);
        }
    }

    /// A back end that finished has gone.
    fn see_off(&mut self, number: usize) {
        let Some(mut back_end) = self.back_ends[number].take() else { return };
        for stream in &mut back_end.streams {
            stream.close(&self.registry, self.now_ns);
        }
        add_back_ends(&mut self.gone, &[(back_end.name, back_end.counts)].into());
    }

    /// Hands all queues to the kernel whose first query came before `before_ns`.
    #[inline]
    pub(super) fn flush(&mut self, before_ns: u64) {
        for back_end in self.back_ends.iter_mut().flatten() {
            back_end.flush(before_ns, &self.registry);
        }
    }

    /// Sends what waits to be sent to clients.
    #[inline]
    pub(super) fn post(&mut self) {
        for post in &mut self.posts {
            post.send(&mut self.counts);
        }
        self.clients.write(self.now_ns);
    }

    /// Whether a link has ended that was not dealt with.
    pub(super) fn has_trouble(&self) -> bool {
        self.back_ends.iter().any(has_trouble)
    }

    /// When something is due though nothing happens, nanoseconds.
    pub(super) fn due_ns(&self) -> u64 {
        self.back_ends.iter().flatten().map(BackEnd::due_ns).min().unwrap_or(FOREVER_NS)
    }

    /// Takes in clients that wait to be connected.
    pub(super) fn accept(&mut self) {
        self.clients.accept(&self.registry, self.now_ns);
    }

    /// Replies to clients by rcode.
    pub(super) fn rcodes(&self) -> BTreeMap<String, u64> {
        let seen = (0..).zip(self.rcodes).filter(|(_, count)| *count > 0);
        seen.map(|(code, count)| (rcode::Shown(code).to_string(), count)).collect()
    }

    /// What the back ends counted so far.
    pub(super) fn reports(&self) -> BackEndReports {
        let mut reports = self.gone.clone();
        for back_end in self.back_ends.iter().flatten() {
            let mut counts = back_end.counts.clone();
            counts.up = u64::from(back_end.is_usable(Way::Usual));
            add_back_ends(&mut reports, &[(back_end.name.clone(), counts)].into());
        }
        reports
    }

    /// Settles everything: nobody is waited for any more.
    pub(super) fn stop(&mut self) {
        while let Some(place) = self.queries.oldest() {
            self.withdraw(place, Lost::Unsettled);
            self.forget(place, Cause::Stopped);
        }
        self.post();
        self.clients.close();
    }
}

fn has_trouble(back_end: &Option<BackEnd>) -> bool {
    back_end.as_ref().is_some_and(|back_end| !back_end.broken.is_empty())
}
