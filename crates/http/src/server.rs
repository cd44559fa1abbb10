//! A server's end of a connection: queries out of requests, and responses with the replies. Queries are handed out one
//! by one, and replies come back in that order. What is no query is answered here, with the status that says why.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use h2::server::{Builder, Connection, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};

use crate::bells::Bells;
use crate::failure::Failure;
use crate::memory::Memory;
use crate::slots::Slots;
use crate::values::{Values, dns_message, is_dns_message};
use crate::{HEADER_BYTES, MESSAGE_BYTES, PATH};

/// The streams that a client may have open at once: what RFC 9113, section 6.5.2, recommends as the least.
const STREAMS: u32 = 100;

/// Bytes that a client may send before the server has taken them, on all streams together.
const CONNECTION_WINDOW: u32 = 1 << 20;

/// The longest header of a request in bytes, with the message of a GET.
const HEAD_BYTES: u32 = 1 << 14;

/// Bytes of bodies that have not arrived in full. Beyond that the latest request is answered 503.
const HELD_MOST: usize = 1 << 20;

/// Bytes of a body that are read before its request is refused. Without them the response would be followed by
/// `RST_STREAM` (RFC 9113, section 8.1), and curl 7.88 reports that instead of the status. A request with a longer body is
/// refused without the rest.
const UNUSED_MOST: usize = 1 << 20;

/// Something that a session took from its client.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerEvent<'a> {
    /// A query, of 12 bytes at least and 65,535 at most. It waits for its reply.
    Query(&'a [u8]),
    /// A request that is no query, and got this status.
    Refused(u16),
}

/// Whether the client may still send requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It may.
    Open,
    /// It went away (GOAWAY), and all of its requests are answered.
    Closed,
}

/// A server's end of one connection.
pub struct ServerSession {
    memory: Memory,
    stage: Stage,
    /// Requests whose body has not arrived in full.
    arriving: Slots<Arriving>,
    /// The bytes of their bodies.
    held: usize,
    bells: Bells,
    /// Requests to look at.
    rung: Vec<u32>,
    /// The requests of queries without a reply, the oldest first.
    unanswered: VecDeque<SendResponse<Bytes>>,
    /// The query of a GET.
    query: Vec<u8>,
}

enum Stage {
    Opening(Pin<Box<Handshake<Memory, Bytes>>>),
    Open(Box<Connection<Memory, Bytes>>),
    Ended,
}

struct Arriving {
    respond: SendResponse<Bytes>,
    stream: RecvStream,
    body: Vec<u8>,
    /// The status of a request that is refused once its body has arrived.
    refused: Option<StatusCode>,
    /// The bytes of a body that is of no use.
    unused: usize,
}

/// The fate of a body.
enum Body {
    Whole,
    /// The client gave the request up.
    Broken,
}

impl Default for ServerSession {
    fn default() -> Self {
        let memory = Memory::default();
        let handshake = Builder::new()
            .max_concurrent_streams(STREAMS)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEAD_BYTES)
            .handshake(memory.clone());
        Self {
            memory,
            stage: Stage::Opening(Box::pin(handshake)),
            arriving: Slots::default(),
            held: 0,
            bells: Bells::default(),
            rung: Vec::new(),
            unanswered: VecDeque::new(),
            query: Vec::new(),
        }
    }
}

impl ServerSession {
    /// Takes bytes that arrived, and calls `each` for every request that they complete. No bytes begin the session.
    ///
    /// # Errors
    ///
    /// If the client did something that HTTP/2 forbids. The connection then has ended.
    pub fn receive(&mut self, bytes: &[u8], each: impl FnMut(ServerEvent<'_>)) -> Result<Peer, Failure> {
        self.receive_early(bytes, |_| true, each)
    }

    /// Takes bytes as [`Self::receive`] does, which may be early data, and a replay: a query that is not `safe` gets
    /// status 425 (RFC 8470, section 5.2).
    pub fn receive_early(
        &mut self,
        bytes: &[u8],
        safe: impl Fn(&[u8]) -> bool,
        mut each: impl FnMut(ServerEvent<'_>),
    ) -> Result<Peer, Failure> {
        self.memory.receive(bytes);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let failed = match &mut self.stage {
                Stage::Opening(handshake) => match handshake.as_mut().poll(&mut context) {
                    Poll::Pending => return Ok(Peer::Open),
                    Poll::Ready(Ok(connection)) => {
                        self.stage = Stage::Open(Box::new(connection));
                        continue;
                    }
                    Poll::Ready(Err(error)) => Some(Failure::from_error(&error)),
                },
                Stage::Open(connection) => match connection.poll_accept(&mut context) {
                    Poll::Pending => break,
                    Poll::Ready(Some(Ok((request, respond)))) => {
                        self.accept(request, respond, &safe, &mut each);
                        continue;
                    }
                    Poll::Ready(Some(Err(error))) => Some(Failure::from_error(&error)),
                    Poll::Ready(None) => None,
                },
                Stage::Ended => None,
            };
            self.end();
            return failed.map_or(Ok(Peer::Closed), Err);
        }
        if self.settle(&safe, &mut each) {
            // Bodies that were taken leave room, of which the client must learn, and some requests have a status.
            self.flush();
        }
        Ok(Peer::Open)
    }

    /// Forgets the connection, whose requests get no response.
    fn end(&mut self) {
        self.stage = Stage::Ended;
        self.arriving.clear();
        self.held = 0;
    }

    /// Takes a request whose header has arrived.
    fn accept(
        &mut self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        safe: &impl Fn(&[u8]) -> bool,
        each: &mut impl FnMut(ServerEvent<'_>),
    ) {
        let (head, stream) = request.into_parts();
        match query_of(&head, &mut self.query) {
            Ok(IsWhole::Yes) if !safe(&self.query) => refuse(&mut respond, StatusCode::TOO_EARLY, each),
            Ok(IsWhole::Yes) => {
                each(ServerEvent::Query(&self.query));
                self.unanswered.push_back(respond);
            }
            Ok(IsWhole::No) => self.await_body(respond, stream, None),
            Err(status) if stream.is_end_stream() => refuse(&mut respond, status, each),
            Err(status) => self.await_body(respond, stream, Some(status)),
        }
    }

    fn await_body(&mut self, respond: SendResponse<Bytes>, stream: RecvStream, refused: Option<StatusCode>) {
        let arriving = Arriving { respond, stream, body: Vec::new(), refused, unused: 0 };
        let (number, _) = self.arriving.enter(arriving);
        self.rung.push(number);
    }

    /// Looks at the requests of whose bodies something arrived. Returns whether there were any.
    fn settle(&mut self, safe: &impl Fn(&[u8]) -> bool, each: &mut impl FnMut(ServerEvent<'_>)) -> bool {
        let mut rung = std::mem::take(&mut self.rung);
        self.bells.take(&mut rung);
        let has_any = !rung.is_empty();
        for number in rung.drain(..) {
            self.hear(number, safe, each);
        }
        self.rung = rung;
        has_any
    }

    fn hear(&mut self, number: u32, safe: &impl Fn(&[u8]) -> bool, each: &mut impl FnMut(ServerEvent<'_>)) {
        let Some(arriving) = self.arriving.get_mut(number) else { return };
        let waker = self.bells.waker(number);
        let before = arriving.body.len();
        let heard = arriving.poll(&mut Context::from_waker(&waker));
        self.held = self.held + arriving.body.len() - before;
        if heard.is_pending() {
            if self.held > HELD_MOST && arriving.refused.is_none() {
                self.held -= arriving.refuse(StatusCode::SERVICE_UNAVAILABLE);
            }
            if arriving.unused <= UNUSED_MOST {
                return;
            }
        }
        let Some(Arriving { mut respond, body, refused, .. }) = self.arriving.leave(number) else { return };
        self.held -= body.len();
        match (refused, heard) {
            (_, Poll::Ready(Body::Broken)) => {}
            (Some(status), _) => refuse(&mut respond, status, each),
            (None, _) if body.len() < HEADER_BYTES => refuse(&mut respond, StatusCode::BAD_REQUEST, each),
            (None, _) if !safe(&body) => refuse(&mut respond, StatusCode::TOO_EARLY, each),
            (None, _) => {
                each(ServerEvent::Query(&body));
                self.unanswered.push_back(respond);
            }
        }
    }

    /// Answers the oldest query without a reply. Without a message the query was malformed (status 400). `max_age_s` is
    /// how long the reply may be kept, seconds. Call [`Self::flush`] after the last of several.
    pub fn reply(&mut self, message: Option<&[u8]>, max_age_s: Option<u32>, values: &mut Values) {
        let Some(mut respond) = self.unanswered.pop_front() else { return };
        let Some(message) = message else {
            return refuse(&mut respond, StatusCode::BAD_REQUEST, &mut |_: ServerEvent<'_>| ());
        };
        let mut response = Response::new(());
        let headers = response.headers_mut();
        headers.reserve(3);
        headers.insert(CONTENT_TYPE, dns_message());
        headers.insert(CONTENT_LENGTH, values.length(message.len()));
        if let Some(age_s) = max_age_s {
            headers.insert(CACHE_CONTROL, values.max_age(age_s));
        }
        // A client that gave the request up needs no response.
        if let Ok(mut stream) = respond.send_response(response, false) {
            let _ = stream.send_data(values.bytes(&[message]), true);
        }
    }

    /// Frames what must be sent.
    pub fn flush(&mut self) {
        if let Stage::Open(connection) = &mut self.stage {
            // If it has failed, the next bytes that arrive report it.
            let _ = connection.poll_closed(&mut Context::from_waker(Waker::noop()));
        }
    }

    /// Whether requests are under way: their bodies arrive, their queries wait for replies, or the client has not taken
    /// its responses.
    pub fn is_busy(&self) -> bool {
        !self.arriving.is_empty() || !self.unanswered.is_empty() || self.has_responses()
    }

    /// Whether responses wait for the client to take more.
    pub fn has_responses(&self) -> bool {
        let has_streams = matches!(&self.stage, Stage::Open(connection) if connection.has_streams());
        has_streams && self.arriving.is_empty() && self.unanswered.is_empty()
    }

    /// Whether bytes must be sent.
    pub fn has_outgoing(&self) -> bool {
        self.memory.has_outgoing()
    }

    /// Hands the bytes that must be sent to `take`, and forgets them.
    pub fn take_outgoing<R>(&self, take: impl FnOnce(&[u8]) -> R) -> R {
        self.memory.take_outgoing(take)
    }

    /// Ends the session: frames GOAWAY.
    pub fn close(&mut self) {
        if let Stage::Open(connection) = &mut self.stage {
            connection.abrupt_shutdown(Reason::NO_ERROR);
        }
        self.flush();
        self.end();
    }
}

/// Whether a query is whole with the header of its request.
enum IsWhole {
    Yes,
    No,
}

/// Writes the query of a GET to `query`. A POST has it in its body. An error is the status of a request that is no
/// query (RFC 8484, sections 4.1 and 4.2.1).
fn query_of(head: &Parts, query: &mut Vec<u8>) -> Result<IsWhole, StatusCode> {
    if head.uri.path() != PATH {
        return Err(StatusCode::NOT_FOUND);
    }
    if head.method == http::Method::POST {
        let is_dns = is_dns_message(head.headers.get(CONTENT_TYPE));
        return if is_dns { Ok(IsWhole::No) } else { Err(StatusCode::UNSUPPORTED_MEDIA_TYPE) };
    }
    if head.method != http::Method::GET {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let mut fields = head.uri.query().unwrap_or_default().split('&');
    let text = fields.find_map(|field| field.strip_prefix("dns=")).ok_or(StatusCode::BAD_REQUEST)?;
    query.clear();
    URL_SAFE_NO_PAD.decode_vec(text, query).map_err(|_| StatusCode::BAD_REQUEST)?;
    match query.len() {
        ..HEADER_BYTES => Err(StatusCode::BAD_REQUEST),
        HEADER_BYTES..=MESSAGE_BYTES => Ok(IsWhole::Yes),
        _ => Err(StatusCode::PAYLOAD_TOO_LARGE),
    }
}

/// Answers a request that is no query.
fn refuse(respond: &mut SendResponse<Bytes>, status: StatusCode, each: &mut impl FnMut(ServerEvent<'_>)) {
    let mut response = Response::new(());
    *response.status_mut() = status;
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST"));
    }
    // A client that gave the request up needs no response.
    let _ = respond.send_response(response, true);
    each(ServerEvent::Refused(status.as_u16()));
}

impl Arriving {
    /// Takes what arrived of the body, up to the end of what is read.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Body> {
        while self.unused <= UNUSED_MOST {
            match self.stream.poll_data(context) {
                Poll::Pending => break,
                Poll::Ready(None) => return Poll::Ready(Body::Whole),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Body::Broken),
                Poll::Ready(Some(Ok(data))) => {
                    // It fails only for more bytes than arrived.
                    let _ = self.stream.flow_control().release_capacity(data.len());
                    if self.refused.is_none() && self.body.len() + data.len() > MESSAGE_BYTES {
                        self.refuse(StatusCode::PAYLOAD_TOO_LARGE);
                    }
                    if self.refused.is_some() {
                        self.unused += data.len();
                    } else {
                        self.body.extend_from_slice(&data);
                    }
                }
            }
        }
        Poll::Pending
    }

    /// Has the request get this status once its body has arrived. Returns how many bytes of the body were held, which are
    /// forgotten.
    fn refuse(&mut self, status: StatusCode) -> usize {
        self.refused = Some(status);
        let body = std::mem::take(&mut self.body);
        self.unused += body.len();
        body.len()
    }
}
