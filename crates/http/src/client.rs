//! A client's end of a connection: requests, each with the key of its query, and what became of them.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Error, RecvStream};
use http::header::CONTENT_TYPE;

use crate::MESSAGE_BYTES;
use crate::bells::Bells;
use crate::failure::Failure;
use crate::memory::Memory;
use crate::requests::Requests;
use crate::slots::Slots;
use crate::values::is_dns_message;

/// The streams that may be open before the server has said how many it takes: the least that RFC 9113, section 6.5.2,
/// recommends.
const STREAMS_AT_FIRST: usize = 100;

/// The library's value for that number until then. No server can say it, since a server's number has 32 bits.
const UNKNOWN: usize = usize::MAX - 1;

/// Bytes that the server may send on a stream, and on the connection, before the client has taken them: more than what
/// a read brings, so that a server never waits for the client.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 1 << 24;

/// After so many bytes were taken, the session grants the server new ones at once, and not with the next request.
const RELEASED_MOST: usize = 1 << 20;

/// The fate of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate<'a> {
    /// A whole response.
    Response {
        /// Its status, 200 to 999.
        status: u16,
        /// Whether its content type is that of DNS messages.
        is_dns: bool,
        /// Its body, at most 65,535 bytes. Empty if the status is not 2xx, or the content type another one.
        body: &'a [u8],
    },
    /// The body is longer than a DNS message can be.
    TooLong,
    /// The server ended the stream (`RST_STREAM`) for this reason, such as `REFUSED_STREAM`.
    Reset(String),
    /// The server goes away (GOAWAY), and did not process this request.
    GoneAway,
    /// The response breaks a rule of HTTP/2; which, in words.
    Malformed(String),
}

/// A client's end of one connection.
pub struct ClientSession {
    memory: Memory,
    open: Slots<PendingRequest>,
    bells: Bells,
    /// Streams to look at.
    rung: Vec<u32>,
    /// When each request was asked, nanoseconds, with its slot; the oldest first. Some are settled.
    asked: VecDeque<(u64, (u32, u32))>,
    /// `None` after [`Self::close`].
    requests: Option<SendRequest<Bytes>>,
    connection: Connection<Memory, Bytes>,
    /// The streams that the server takes at once, or [`UNKNOWN`].
    streams_most: usize,
    /// Why the server goes away, if it does.
    away: Option<String>,
    /// Whether the connection is over, and is polled no more.
    is_over: bool,
    /// Bytes that were taken since the connection was polled.
    released: usize,
}

/// A request under way.
struct PendingRequest {
    key: u16,
    stage: Stage,
}

enum Stage {
    Head(ResponseFuture),
    Body(Arriving),
}

/// A response whose head has arrived.
struct Arriving {
    status: u16,
    is_dns: bool,
    stream: RecvStream,
    body: Vec<u8>,
}

/// The end of a request.
enum Done {
    Whole { status: u16, is_dns: bool, body: Bytes },
    TooLong,
    Failed(Error),
}

impl ClientSession {
    /// A session that has begun. Its first bytes wait to be sent.
    pub fn new() -> Result<Self, Failure> {
        let memory = Memory::default();
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_max_send_streams(UNKNOWN)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            // A server may send any number of bad responses; each is counted.
            .max_local_error_reset_streams(None);
        let mut beginning = pin!(builder.handshake::<Memory, Bytes>(memory.clone()));
        let begun = match beginning.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(begun) => begun,
            Poll::Pending => unreachable!("memory always takes bytes"),
        };
        let (requests, connection) = begun.map_err(|error| Failure::from_error(&error))?;
        let mut session = Self {
            memory,
            open: Slots::default(),
            bells: Bells::default(),
            rung: Vec::new(),
            asked: VecDeque::new(),
            requests: Some(requests),
            connection,
            streams_most: UNKNOWN,
            away: None,
            is_over: false,
            released: 0,
        };
        session.advance()?;
        Ok(session)
    }

    /// The number of requests under way.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Whether the server goes away, or the connection has no streams left: it takes no more requests.
    pub fn is_going_away(&self) -> bool {
        self.away.is_some() || self.is_over
    }

    /// The reason with which the server goes away, such as `NO_ERROR`; `None` if it does not.
    pub fn away(&self) -> Option<&str> {
        self.away.as_deref()
    }

    /// Whether the server has said how many streams it takes.
    pub fn has_settings(&self) -> bool {
        self.streams_most != UNKNOWN
    }

    /// Whether another request may begin now: the server takes another stream.
    pub fn has_room(&mut self) -> bool {
        let most = if self.has_settings() { self.streams_most } else { STREAMS_AT_FIRST };
        if self.is_going_away() || self.open.len() >= most {
            return false;
        }
        let Some(requests) = &mut self.requests else { return false };
        match requests.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(error)) => {
                self.note_away(&error);
                false
            }
            Poll::Pending => false,
        }
    }

    /// Asks a query, known by this key, at this time in nanoseconds. Returns false if the connection takes no more
    /// requests. Call it only with [`Self::has_room`], and [`Self::advance`] after the last of several.
    pub fn ask(&mut self, key: u16, message: &[u8], how: &mut Requests, now_ns: u64) -> bool {
        let Some(requests) = &mut self.requests else { return false };
        let (request, body) = how.request(message);
        match requests.send_request(request, body.is_none()) {
            Ok((response, mut stream)) => {
                if let Some(body) = body {
                    // If it fails, so does the response.
                    let _ = stream.send_data(body, true);
                }
                let slot = self.open.enter(PendingRequest { key, stage: Stage::Head(response) });
                self.asked.push_back((now_ns, slot));
                self.rung.push(slot.0);
                true
            }
            Err(error) => {
                self.note_away(&error);
                false
            }
        }
    }

    /// Notes why no more requests are taken.
    fn note_away(&mut self, error: &Error) {
        let reason = error.reason().map_or_else(|| "NO_ERROR".to_owned(), |reason| format!("{reason:?}"));
        self.away.get_or_insert(reason);
    }

    /// When the oldest request was asked that may be under way, nanoseconds.
    pub fn oldest_ns(&mut self) -> Option<u64> {
        while let Some(&(asked_ns, slot)) = self.asked.front() {
            if self.open.has(slot) {
                return Some(asked_ns);
            }
            self.asked.pop_front();
        }
        None
    }

    /// Cancels the requests that were asked before this time in nanoseconds. Nothing more is reported of them. Returns
    /// whether there were any: [`Self::advance`] then frames that.
    pub fn abandon_before(&mut self, before_ns: u64) -> bool {
        let before = self.open.len();
        while self.oldest_ns().is_some_and(|asked_ns| asked_ns < before_ns) {
            if let Some((_, (number, _))) = self.asked.pop_front() {
                self.open.leave(number);
            }
        }
        self.open.len() < before
    }

    /// Takes bytes that arrived, and calls `each` for every request that they settle, with its key.
    ///
    /// # Errors
    ///
    /// If the server did something that HTTP/2 forbids. The connection then has ended, and the requests under way are
    /// not reported.
    pub fn receive(&mut self, bytes: &[u8], each: impl FnMut(u16, Fate<'_>)) -> Result<(), Failure> {
        self.memory.receive(bytes);
        let advanced = self.advance();
        self.settle(each);
        advanced?;
        // Settled requests leave room, of which the server learns with the next bytes that are sent, or at once.
        if self.released > RELEASED_MOST { self.advance() } else { Ok(()) }
    }

    /// Frames what must be sent.
    pub fn advance(&mut self) -> Result<(), Failure> {
        if self.is_over {
            return Ok(());
        }
        self.released = 0;
        let mut context = Context::from_waker(Waker::noop());
        let polled = Pin::new(&mut self.connection).poll(&mut context);
        self.is_over = polled.is_ready();
        match polled {
            Poll::Ready(Err(error)) if error.is_go_away() && error.is_remote() => self.note_away(&error),
            Poll::Ready(Err(error)) => return Err(Failure::from_error(&error)),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        self.streams_most = self.connection.max_concurrent_send_streams();
        if self.away.is_none()
            && let Some(requests) = &mut self.requests
            && let Poll::Ready(Err(error)) = requests.poll_ready(&mut context)
            && error.is_go_away()
            && error.is_remote()
        {
            self.note_away(&error);
        }
        Ok(())
    }

    /// Looks at the streams on which something arrived.
    fn settle(&mut self, mut each: impl FnMut(u16, Fate<'_>)) {
        let mut rung = std::mem::take(&mut self.rung);
        self.bells.take(&mut rung);
        for number in rung.drain(..) {
            let Some(asked) = self.open.get_mut(number) else { continue };
            let waker = self.bells.waker(number);
            let polled = asked.poll(&mut Context::from_waker(&waker), &mut self.released);
            let Poll::Ready(done) = polled else { continue };
            let key = asked.key;
            self.open.leave(number);
            match done {
                Done::Whole { status, is_dns, body } => {
                    each(key, Fate::Response { status, is_dns, body: &body });
                }
                Done::TooLong => each(key, Fate::TooLong),
                Done::Failed(error) => each_failed(key, &error, &mut each),
            }
        }
        self.rung = rung;
    }

    /// Whether bytes must be sent.
    pub fn has_outgoing(&self) -> bool {
        self.memory.has_outgoing()
    }

    /// Hands the bytes that must be sent to `take`, and forgets them.
    pub fn take_outgoing<R>(&self, take: impl FnOnce(&[u8]) -> R) -> R {
        self.memory.take_outgoing(take)
    }

    /// Ends the session: cancels the requests under way, and frames the last bytes, with GOAWAY.
    pub fn close(&mut self) {
        self.requests = None;
        self.open.clear();
        self.asked.clear();
        self.rung.clear();
        // The first call frames what cancels requests, and the second GOAWAY. A connection that failed frames nothing.
        let _ = self.advance();
        let _ = self.advance();
    }
}

/// Reports a request that failed, unless its connection did.
fn each_failed(key: u16, error: &Error, each: &mut impl FnMut(u16, Fate<'_>)) {
    if error.is_go_away() && error.is_remote() {
        each(key, Fate::GoneAway);
    } else if error.is_reset() && error.is_remote() {
        let reason = error.reason().map_or_else(String::new, |reason| format!("{reason:?}"));
        each(key, Fate::Reset(reason));
    } else if error.is_reset() {
        each(key, Fate::Malformed(Failure::from_error(error).to_string()));
    }
}

impl PendingRequest {
    /// Takes what arrived on the stream. Adds the number of bytes to `released`.
    fn poll(&mut self, context: &mut Context<'_>, released: &mut usize) -> Poll<Done> {
        if let Stage::Head(response) = &mut self.stage {
            let response = match Pin::new(response).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Done::Failed(error)),
                Poll::Ready(Ok(response)) => response,
            };
            let (head, stream) = response.into_parts();
            self.stage = Stage::Body(Arriving {
                status: head.status.as_u16(),
                is_dns: is_dns_message(head.headers.get(CONTENT_TYPE)),
                stream,
                body: Vec::new(),
            });
        }
        match &mut self.stage {
            Stage::Head(_) => Poll::Pending,
            Stage::Body(arriving) => arriving.poll(context, released),
        }
    }
}

impl Arriving {
    fn poll(&mut self, context: &mut Context<'_>, released: &mut usize) -> Poll<Done> {
        let &mut Self { status, is_dns, .. } = self;
        let is_wanted = (200..300).contains(&status) && is_dns;
        loop {
            let data = match self.stream.poll_data(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Done::Failed(error)),
                Poll::Ready(None) => {
                    let body = std::mem::take(&mut self.body).into();
                    return Poll::Ready(Done::Whole { status, is_dns, body });
                }
                Poll::Ready(Some(Ok(data))) => data,
            };
            *released += data.len();
            // It fails only for more bytes than arrived.
            let _ = self.stream.flow_control().release_capacity(data.len());
            if !is_wanted {
                continue;
            }
            if self.body.len() + data.len() > MESSAGE_BYTES {
                return Poll::Ready(Done::TooLong);
            }
            if self.body.is_empty() && self.stream.is_end_stream() {
                return Poll::Ready(Done::Whole { status, is_dns, body: data });
            }
            self.body.extend_from_slice(&data);
        }
    }
}
