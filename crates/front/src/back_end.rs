//! A back end as one worker sees it: its connections or sockets, its health, its counts.

use kqps_server::report::BackEndReport;
use mio::{Registry, Token};

use super::choose::name_hash;
use super::cookies::Cookies;
use super::datagrams::Datagrams;
use super::health::{Checks, Health};
use super::ids::Ids;
use super::policy::{self, Target};
use super::queries::{Client, Whereabouts};
use super::stream::{Gone, StreamLink};
use super::token::{Source, token};
use super::{FrontSettings, SendContext, short};

#[allow(clippy::struct_excessive_bools)] // each is a fact of its own, and every combination happens
pub(super) struct BackEnd {
    pub(super) name: String,
    pub(super) target: Target,
    pub(super) weight: u32,
    pub(super) name_hash: u64,
    /// The back end gets no more queries, and is removed once its outstanding queries are settled.
    pub(super) drains: bool,
    pub(super) health: Health,
    /// Its connections. A back end that is reached over UDP has one too, for queries of TCP clients.
    pub(super) streams: Vec<StreamLink>,
    /// `None` if the back end is reached over connections only.
    pub(super) datagrams: Option<Datagrams>,
    /// Its cookies, if datagrams of others may look like its own.
    pub(super) cookies: Option<Cookies>,
    /// When it last answered, in nanoseconds.
    pub(super) heard_ns: u64,
    /// When it was checked because it had been silent for half of the permitted time, in nanoseconds.
    pub(super) suspected_ns: Option<u64>,
    /// When it was last checked, in nanoseconds.
    pub(super) checked_ns: Option<u64>,
    /// Whether this back end belongs to a group without a usable back end, to which some queries are limited.
    pub(super) is_needed: bool,
    /// Whether it gets only queries with RD, so that checks have RD too.
    pub(super) is_recursive: bool,
    /// Links on which something happened that was not handled yet.
    pub(super) broken: Vec<(u16, Trouble)>,
    /// A connection could not be opened because no descriptor was free, which says nothing about the back end.
    pub(super) lacks_room: bool,
    /// The connection that takes the next query.
    turn: usize,
    pub(super) counts: BackEndReport,
}

/// A fault of a link, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The back end closed the connection between two messages.
    Ended,
    /// The link broke, or could not be opened.
    Broken,
    /// The back end sent something that is not DNS.
    Garbled,
}

/// The kind of link that a query takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Datagrams if the back end has them, else a connection.
    Usual,
    /// A connection if possible: the client uses one, so it accepts long replies.
    Stream,
}

impl BackEnd {
    /// Opens its sockets; its connections stay closed for now.
    pub(super) fn new(
        number: usize,
        back_end: &policy::BackEnd,
        settings: &FrontSettings,
        registry: &Registry,
    ) -> std::io::Result<Self> {
        let (connections, datagrams) = match back_end.target {
            Target::Udp(address) => (1, Some(Datagrams::open(number, address, settings, registry)?)),
            Target::Tcp(_) | Target::Unix(_) => (settings.connections, None),
        };
        let link = |link| -> Token { token(Source::Stream, number, link) };
        let has_cookies = settings.cautious && datagrams.is_some();
        let cookies = has_cookies.then(Cookies::new).transpose()?;
        Ok(Self {
            name: back_end.name.clone(),
            target: back_end.target.clone(),
            weight: back_end.weight,
            name_hash: name_hash(back_end.name.as_bytes()),
            drains: false,
            health: Health::new(),
            streams: (0..connections).map(|number| StreamLink::new(link(number))).collect(),
            datagrams,
            cookies,
            heard_ns: 0,
            suspected_ns: None,
            checked_ns: None,
            is_needed: false,
            is_recursive: false,
            broken: Vec::new(),
            lacks_room: false,
            turn: 0,
            counts: BackEndReport { url: back_end.target.to_string(), ..BackEndReport::default() },
        })
    }

    /// Whether queries may go to this back end.
    pub(super) fn is_usable(&self) -> bool {
        let is_reached = self.datagrams.is_some() || self.has_connection();
        self.health.is_up() && !self.drains && is_reached
    }

    /// Whether a connection of this back end takes a query.
    pub(super) fn has_connection(&self) -> bool {
        self.streams.iter().any(StreamLink::takes)
    }

    /// The link for a query of this length: the index of a connection, or of a socket after all connections. A
    /// query of a TCP client uses datagrams if the back end has no open connection.
    #[inline]
    pub(super) fn link(&mut self, way: Way, bytes: usize) -> Option<u16> {
        let has_datagrams = self.datagrams.is_some();
        if way == Way::Stream || !has_datagrams {
            let count = self.streams.len();
            let mut in_turn = (0..count).map(|step| (self.turn + step) % count);
            let found = in_turn.find(|&link| self.streams[link].takes());
            if found.is_some() || !has_datagrams {
                return found.map(short);
            }
        }
        if self.datagrams.as_ref()?.current(bytes).is_none() {
            self.flush_datagrams();
        }
        let socket = self.datagrams.as_ref()?.current(bytes)?;
        Some(short(self.streams.len() + socket))
    }

    /// The cookies for a query of this client, if it carries any. They go by connections as well: the answer, which
    /// nobody forges there, shows whether the back end still has cookies.
    #[inline]
    pub(super) fn cookies_for(&self, client: Client) -> Option<&Cookies> {
        self.cookies.as_ref().filter(|_| matches!(client, Client::Inner(_)))
    }

    /// Sends the datagram of a query again, which is outstanding there.
    pub(super) fn repeat(&mut self, at: Whereabouts, query: &mut [u8]) {
        let socket = usize::from(at.link).checked_sub(self.streams.len());
        if let (Some(socket), Some(datagrams)) = (socket, &mut self.datagrams) {
            query[..2].copy_from_slice(&at.id.to_be_bytes());
            self.counts.flushes += 1;
            datagrams.repeat(socket, query);
        }
    }

    /// Gives a query an ID on a link and queues it there. Returns the ID and the length of the queue.
    #[inline]
    pub(super) fn push(
        &mut self,
        link: u16,
        place: u16,
        bytes: &[u8],
        context: &mut SendContext<'_>,
    ) -> (u16, usize) {
        self.counts.sent += 1;
        let id = self.ids_mut(link).give(place, context.random);
        let queued = match &mut self.datagrams {
            Some(datagrams) if usize::from(link) >= self.streams.len() => {
                datagrams.push(bytes, id, context.now_ns)
            }
            _ => self.streams[usize::from(link)].push(bytes, id, context.now_ns),
        };
        (id, queued)
    }

    /// The query with this ID on a link.
    #[inline]
    pub(super) fn query(&mut self, link: u16, id: u16) -> Option<u16> {
        self.ids_mut(link).query(id)
    }

    /// Frees the ID.
    #[inline]
    pub(super) fn free(&mut self, link: u16, id: u16) {
        self.ids_mut(link).free(id);
    }

    fn ids_mut(&mut self, link: u16) -> &mut Ids {
        let (link, streams) = (usize::from(link), self.streams.len());
        match &mut self.datagrams {
            Some(datagrams) if link >= streams => &mut datagrams.sockets[link - streams].ids,
            _ => &mut self.streams[link].ids,
        }
    }

    /// Sends all queues whose first query was queued no later than `before_ns`.
    #[inline]
    pub(super) fn flush(&mut self, before_ns: u64, registry: &Registry) {
        let is_due = |since: Option<u64>| since.is_some_and(|since_ns| since_ns <= before_ns);
        for link in 0..self.streams.len() {
            let stream = &self.streams[link];
            if is_due(stream.waits_since_ns()) || stream.can_write() && stream.waits_since_ns().is_none() {
                self.flush_stream(link, registry);
            }
        }
        if self.datagrams.as_ref().is_some_and(|datagrams| is_due(datagrams.waits_since_ns())) {
            self.flush_datagrams();
        }
        if let Some(datagrams) = self.datagrams.as_mut().filter(|datagrams| datagrams.is_spent()) {
            datagrams.renew(registry, before_ns);
        }
    }

    /// Sends the queue of one link.
    pub(super) fn flush_link(&mut self, link: u16, registry: &Registry) {
        if usize::from(link) < self.streams.len() {
            self.flush_stream(usize::from(link), registry);
        } else {
            self.flush_datagrams();
        }
    }

    fn flush_stream(&mut self, link: usize, registry: &Registry) {
        self.counts.flushes += 1;
        // The next batch uses the next connection.
        self.turn = (link + 1) % self.streams.len();
        if self.streams[link].flush(registry).is_err() {
            self.broken.push((short(link), Trouble::Broken));
        }
    }

    fn flush_datagrams(&mut self) {
        let Some(datagrams) = &mut self.datagrams else { return };
        self.counts.flushes += 1;
        let flushed = datagrams.flush();
        self.counts.send_refused += flushed.refused;
        if flushed.no_listener {
            self.broken.push((short(self.streams.len()), Trouble::Broken));
        }
    }

    /// Opens connections that are due. Returns whether any opened at once.
    pub(super) fn open(&mut self, registry: &Registry, now_ns: u64) -> bool {
        let mut is_new = false;
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.renew(registry, now_ns);
        }
        for (number, stream) in (0..).zip(&mut self.streams) {
            match stream.open(&self.target, registry, now_ns) {
                Ok(is_open) => {
                    self.counts.connections += u64::from(is_open);
                    is_new |= is_open;
                }
                Err(Gone::NoRoom) => self.lacks_room = true,
                Err(_) => self.broken.push((number, Trouble::Broken)),
            }
        }
        is_new
    }

    /// Whether it may have sent more than was read.
    pub(super) fn has_more(&self) -> bool {
        let sockets = self.datagrams.iter().flat_map(|datagrams| &datagrams.sockets);
        self.streams.iter().any(StreamLink::is_readable)
            || sockets.into_iter().any(|socket| socket.is_readable)
    }

    /// When the next check is due, in nanoseconds.
    pub(super) fn check_ns(&self, checks: &Checks) -> u64 {
        let pause_ns = self.health.pause(checks, self.is_needed).as_nanos() as u64;
        self.checked_ns.map_or(0, |checked_ns| checked_ns + pause_ns)
    }

    /// When something is due even if no event happens, in nanoseconds.
    pub(super) fn due_ns(&self, checks: &Checks) -> u64 {
        let check_ns = self.check_ns(checks);
        let streams = self.streams.iter().filter_map(StreamLink::due_ns).min();
        streams.map_or(check_ns, |due_ns| due_ns.min(check_ns))
    }

    /// Records the answer to a check that was sent at `asked_ns`: SERVFAIL or anything else.
    pub(super) fn answered_check(&mut self, asked_ns: u64, is_servfail: bool, checks: &Checks) {
        let was_up = self.health.is_up();
        self.health.answered(asked_ns, is_servfail, checks);
        if was_up && !self.health.is_up() {
            // It keeps its connections and queries: its answers to those may be better.
            self.counts.downs += 1;
        }
        if !was_up && self.health.is_up() {
            self.streams.iter_mut().for_each(|stream| stream.hasten(0));
        }
    }
}
