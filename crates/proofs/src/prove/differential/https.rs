//! Asking a server over HTTPS, with several queries on the connection at a time.

use std::net::SocketAddr;

use anyhow::{Result, anyhow, bail, ensure};
use kqps_http::{ALPN, ClientSession, Failure, Fate, Method, PATH, Requests, authority};

use super::query::Query;
use super::secure::{PIPELINE, Secure};

/// A connection by HTTP/2 in TLS.
pub(super) struct Asker {
    secure: Secure,
    session: ClientSession,
    requests: Requests,
}

impl Asker {
    /// Connects to a server, which gets queries by this method.
    pub(super) fn new(server: SocketAddr, method: Method) -> Result<Self> {
        let authority = authority(&server.ip().to_string(), server.port());
        Ok(Self {
            secure: Secure::connect(server, ALPN)?,
            session: ClientSession::new().map_err(failed)?,
            requests: Requests::new(method, &authority, PATH)?,
        })
    }

    /// Asks queries, and returns the reply to each, with the query's ID.
    pub(super) fn ask(&mut self, queries: &[Query]) -> Result<Vec<Vec<u8>>> {
        let mut replies = Vec::with_capacity(queries.len());
        for some in queries.chunks(PIPELINE) {
            replies.extend(self.ask_some(some)?);
        }
        Ok(replies)
    }

    fn ask_some(&mut self, queries: &[Query]) -> Result<Vec<Vec<u8>>> {
        let Self { secure, session, requests } = self;
        for (key, query) in (0..).zip(queries) {
            let is_asked = session.has_room() && session.ask(key, &query.bytes, requests, 0);
            ensure!(is_asked, "the server takes no more requests");
            session.advance().map_err(failed)?;
        }
        let (mut replies, mut other) = (vec![None; queries.len()], None);
        while replies.iter().any(Option::is_none) {
            session.take_outgoing(|bytes| secure.send(bytes))?;
            secure.receive()?;
            let arrived = std::mem::take(&mut secure.plain);
            let received = session.receive(&arrived, |key, fate| match fate {
                Fate::Response { status: 200, is_dns: true, body } => {
                    replies[usize::from(key)] = Some(body.to_vec());
                }
                fate => other = Some((key, format!("{fate:?}"))),
            });
            received.map_err(failed)?;
            if let Some((key, fate)) = &other {
                bail!("no answer but {fate} to {}", queries[usize::from(*key)].words);
            }
        }
        session.take_outgoing(|bytes| secure.send(bytes))?;
        let replies = replies.into_iter().flatten().zip(queries);
        Ok(replies.map(|(reply, query)| with_id(reply, query)).collect())
    }
}

/// A reply with the ID of its query, instead of the ID 0 that both have on streams.
pub(super) fn with_id(mut reply: Vec<u8>, query: &Query) -> Vec<u8> {
    if reply.starts_with(&[0, 0]) {
        reply[..2].copy_from_slice(&query.bytes[..2]);
    }
    reply
}

#[allow(clippy::needless_pass_by_value)] // `map_err` hands it over
fn failed(failure: Failure) -> anyhow::Error {
    anyhow!("{failure}")
}
