//! A connection by HTTP/2 in TLS, with a request for each query.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use kqps_http::{ClientSession, Fate, Method, PATH, Requests, authority};
use kqps_message::header;
use kqps_tls::Connector;

use crate::error::{AskError, Result};
use crate::link::{Link, with_id};
use crate::stream::Stream;

pub(crate) struct Https {
    stream: Stream,
    session: ClientSession,
    requests: Requests,
    /// Statuses of responses that are replies.
    statuses: Range<u16>,
    /// Replies that were not taken yet, and why others will not come.
    replies: VecDeque<Result<Vec<u8>>>,
}

impl Https {
    pub(crate) fn connect(
        server: SocketAddr,
        (connector, method, statuses): (&Connector, Method, Range<u16>),
        until: Instant,
    ) -> Result<Self> {
        let authority = authority(&server.ip().to_string(), server.port());
        Ok(Self {
            stream: Stream::connect(server, Some(connector), until)?,
            session: ClientSession::new().map_err(AskError::Http)?,
            requests: Requests::new(method, &authority, PATH).expect("an address and a path make a URL"),
            statuses,
            replies: VecDeque::new(),
        })
    }
}

impl Link for Https {
    fn send(&mut self, queries: &[&[u8]]) -> Result<()> {
        for query in queries {
            let id = header::id(query).unwrap_or_default();
            if !self.session.has_room() || !self.session.ask(id, query, &mut self.requests, 0) {
                return Err(AskError::NoRoom);
            }
            self.session.advance().map_err(AskError::Http)?;
        }
        self.session.take_outgoing(|bytes| self.stream.write(bytes))
    }

    fn receive(&mut self, until: Instant) -> Result<Vec<u8>> {
        loop {
            if let Some(reply) = self.replies.pop_front() {
                return reply;
            }
            self.stream.read(until)?;
            let arrived = std::mem::take(&mut self.stream.plain);
            let Self { session, replies, statuses, .. } = self;
            let received =
                session.receive(&arrived, |id, fate| replies.push_back(reply_of(id, &fate, statuses)));
            received.map_err(AskError::Http)?;
            self.session.take_outgoing(|bytes| self.stream.write(bytes))?;
        }
    }

    fn is_readable(&self) -> Result<bool> {
        self.stream.is_readable()
    }
}

/// The reply in the fate of a request.
fn reply_of(id: u16, fate: &Fate<'_>, statuses: &Range<u16>) -> Result<Vec<u8>> {
    match fate {
        Fate::Response { status, is_dns: true, body } if statuses.contains(status) => Ok(with_id(id, body)),
        Fate::Response { status, .. } => Err(AskError::Status(*status)),
        other => Err(AskError::NoResponse(format!("{other:?}"))),
    }
}
