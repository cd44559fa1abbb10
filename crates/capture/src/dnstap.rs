//! dnstap over Frame Streams: what a server logged of its queries and responses (<https://dnstap.info>).
//!
//! For: files, and what was recorded of a socket. Taken is what the server received from its clients, and what it
//! responded: `CLIENT_*` and `AUTH_*` alike. BIND writes either for each message, by its flags, so that a query may be
//! of one kind and its response of the other. Not for: what a resolver asks of others.
//!
//! A response's frame may have its query too. If that had no frame of its own, the frame brings both (`further`).
//!
//! Invariant: each data frame counts as one packet, and memory is bounded by the longest frame and the connections.

mod asked;
mod connections;
mod frames;
mod proto;
mod tap;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::BufRead;
use std::net::IpAddr;

use crate::counts::{Counts, Why};
use crate::error::CaptureError;
use crate::message::{Event, Kind, Message, Transport};
use crate::settings::Settings;
use asked::Asked;
use connections::{Closed, Connections};
use frames::Frames;
use tap::{Frame, Tapped};

pub(crate) struct Taps {
    frames: Frames,
    servers: Vec<IpAddr>,
    connections: Connections,
    /// Connections that ended, for the next calls.
    closed: VecDeque<Closed>,
    /// The messages that come after them, with their connections: those of one frame.
    tapped: VecDeque<(Tapped, Option<u64>)>,
    asked: Asked,
    /// The message that was returned last.
    bytes: Vec<u8>,
}

impl Taps {
    /// Of the settings, the addresses of servers count. The ports do not: a frame says itself what it is.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            frames: Frames::new(),
            servers: settings.servers.clone(),
            connections: Connections::new(),
            closed: VecDeque::new(),
            tapped: VecDeque::new(),
            asked: Asked::new(),
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
            if !self.frames.next(source)? {
                return Ok(None);
            }
            counts.packets += 1;
            if let Err(why) = self.read(counts) {
                counts.skip(why);
            }
        };
        counts.found(tapped.kind);
        let Tapped { at_ns, kind, client, server, transport, bytes } = tapped;
        self.bytes = bytes;
        let bytes = &self.bytes;
        Ok(Some(Event::Message(Message { at_ns, kind, client, server, transport, connection, bytes })))
    }

    /// Reads the messages in the current frame, and notes what its time ends.
    fn read(&mut self, counts: &mut Counts) -> Result<(), Why> {
        let Frame { message, query } = tap::read(self.frames.current(), &self.servers)?;
        self.connections.pass(message.at_ns, &mut self.closed);
        let ends = (message.client, message.server, message.transport);
        let connection = match message.transport {
            Transport::Udp => None,
            Transport::Tcp | Transport::Tls | Transport::Https | Transport::Quic => {
                Some(self.connections.meet(ends, &mut self.closed))
            }
        };
        if message.kind == Kind::Query {
            self.asked.remember(&message);
        }
        if let Some(query) = query.filter(|query| !self.asked.forget(query)) {
            counts.further += 1;
            self.tapped.push_back((query, connection));
        }
        self.tapped.push_back((message, connection));
        Ok(())
    }
}
