//! dnstap over Frame Streams: what a server logged of its queries and responses (<https://dnstap.info>).
//!
//! For: files, and what was recorded of a socket. Taken is what the server received from its clients, and what it
//! responded: `CLIENT_*` and `AUTH_*` alike. BIND writes either for each message, by its flags, so that a query may be
//! of one kind and its response of the other. If the settings say so, it is what a resolver asks of name servers instead
//! (`RESOLVER_*`). Not for: what a forwarder asks of others.
//!
//! A response's frame may have its query too. If that had no frame of its own, the frame brings both (`further`).
//!
//! Invariant: each data frame counts as one packet, and memory is bounded by the longest frame and the connections.

mod connections;
mod frames;
mod proto;
mod recent_queries;
mod tap;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::BufRead;
use std::net::IpAddr;

use crate::counts::Counts;
use crate::error::CaptureError;
use crate::message::{Event, Kind, Message, Transport};
use crate::settings::Settings;
use crate::timeline::Timeline;
use connections::{Closed, Connections};
use frames::Frames;
use recent_queries::RecentQueries;
use tap::{Frame, Tapped};

pub(crate) struct Taps {
    frames: Frames,
    servers: Vec<IpAddr>,
    is_upstream: bool,
    timeline: Timeline<Frame>,
    connections: Connections,
    /// Connections that ended, for the next calls.
    closed: VecDeque<Closed>,
    /// The messages that come after them, with their connections: those of one frame.
    tapped: VecDeque<(Tapped, Option<u64>)>,
    asked: RecentQueries,
    /// How the stream ended, until what was held is taken.
    end: Option<Result<(), CaptureError>>,
    /// The message that was returned last.
    bytes: Vec<u8>,
}

impl Taps {
    /// Takes the addresses of servers from the settings. The ports do not count: a frame says itself what it is.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            frames: Frames::new(),
            servers: settings.servers.clone(),
            is_upstream: settings.is_upstream,
            timeline: Timeline::new(),
            connections: Connections::new(),
            closed: VecDeque::new(),
            tapped: VecDeque::new(),
            asked: RecentQueries::new(),
            end: None,
            bytes: Vec::new(),
        }
    }

    /// The next event, or `None` at the end. `source` must be the same stream in every call, from its first byte on.
    pub(crate) fn next(
        &mut self,
        source: &mut dyn BufRead,
        counts: &mut Counts,
    ) -> Result<Option<Event<'_>>, CaptureError> {
        let (tapped, connection) = loop {
            if let Some(Closed { at_ns, connection }) = self.closed.pop_front() {
                return Ok(Some(Event::Closed { at_ns, connection }));
            }
            if let Some(tapped) = self.tapped.pop_front() {
                break tapped;
            }
            if let Some((at_ns, frame)) = self.timeline.next() {
                self.take(at_ns, frame, counts);
                continue;
            }
            if let Some(end) = self.end.take() {
                return end.map(|()| None);
            }
            match self.frames.next(source) {
                Ok(true) => self.read(counts),
                ended => {
                    self.timeline.finish(counts);
                    self.end = Some(ended.map(|_| ()));
                }
            }
        };
        counts.found(tapped.kind);
        let Tapped { at_ns, kind, client, server, transport, bytes } = tapped;
        self.bytes = bytes;
        let bytes = &self.bytes;
        Ok(Some(Event::Message(Message { at_ns, kind, client, server, transport, connection, bytes })))
    }

    /// Reads the current frame, which is held if later ones decide its time.
    fn read(&mut self, counts: &mut Counts) {
        counts.packets += 1;
        let frame = match tap::read(self.frames.current(), (&self.servers, self.is_upstream)) {
            Ok(frame) => frame,
            Err(why) => return counts.skip(why),
        };
        let stamp_ns = frame.message.at_ns;
        match self.timeline.time_of(stamp_ns) {
            Some(at_ns) => self.take(at_ns, frame, counts),
            None => self.timeline.hold(stamp_ns, frame, counts),
        }
    }

    /// Takes the messages of a frame, whose time is known, and notes what that time ends.
    fn take(&mut self, at_ns: u64, frame: Frame, counts: &mut Counts) {
        let Frame { mut message, query } = frame;
        let stamp_ns = std::mem::replace(&mut message.at_ns, at_ns);
        self.connections.pass(at_ns, &mut self.closed);
        let ends = (message.client, message.server, message.transport);
        let connection = match message.transport {
            Transport::Udp => None,
            _ => Some(self.connections.meet(ends, &mut self.closed)),
        };
        if message.kind == Kind::Query {
            self.asked.remember(&message);
        }
        if let Some(mut query) = query.filter(|query| !self.asked.forget(query)) {
            counts.further += 1;
            query.at_ns = at_ns.saturating_sub(stamp_ns - query.at_ns);
            self.tapped.push_back((query, connection));
        }
        self.tapped.push_back((message, connection));
    }
}
