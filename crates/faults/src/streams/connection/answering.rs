//! The fate of a query whose connection goes on.

use super::Connection;
use crate::streams::fault::Fault;
use crate::streams::http2;
use crate::streams::reply::{self, APART_NS, HELD_NS, JOINED, Query};
use crate::streams::shared::Shared;

impl Connection {
    pub(super) fn answer_right(&mut self, query: Query, number: usize, shared: &mut Shared, now_ns: u64) {
        let due_ns = shared.reply_due_ns(&query.message, now_ns).unwrap_or(0);
        let frame = self.right(query);
        if shared.settings.witness {
            self.open -= 1;
            let bytes = self.layer.seal(&frame);
            self.out.push_noted(bytes, due_ns, number);
        } else if due_ns > 0 {
            self.open -= 1;
            let bytes = self.layer.seal(&frame);
            self.out.push_apart(bytes, due_ns, None);
        } else {
            self.reply(&frame);
        }
    }

    /// Answers a query at once, and after it the one that waited for the next reply.
    pub(super) fn reply(&mut self, frame: &[u8]) {
        self.open -= 1;
        self.send(frame);
        if let Some(waited) = self.after_next.take() {
            self.send(&waited);
        }
    }

    /// Adds a frame to what leaves at once.
    pub(super) fn send(&mut self, frame: &[u8]) {
        let bytes = self.layer.seal(frame);
        self.out.push(&bytes);
    }

    /// The bytes of the right reply, before TLS.
    pub(super) fn right(&self, query: Query) -> Vec<u8> {
        self.layer.frame(query.stream, &reply::right(query.message))
    }

    /// Answers with a fault that leaves the connection as it is.
    pub(super) fn answer_wrong(&mut self, fault: Fault, query: Query, shared: &mut Shared, now_ns: u64) {
        match fault {
            Fault::Split => {
                self.open -= 1;
                self.split(query, shared, now_ns);
            }
            Fault::Join => {
                self.open -= 1;
                let frame = self.right(query);
                self.joined.extend(frame);
                self.joined_replies += 1;
                self.held_until_ns = now_ns + HELD_NS;
                if self.joined_replies == JOINED {
                    self.release_joined();
                }
            }
            Fault::Reorder if self.after_next.is_none() => {
                self.open -= 1;
                self.after_next = Some(self.right(query));
                self.held_until_ns = now_ns + HELD_NS;
            }
            Fault::Twice => {
                let frame = self.right(query);
                self.reply(&[&frame[..], &frame].concat());
            }
            Fault::Empty => {
                let frame = self.right(query);
                self.reply(&[&[0_u8, 0][..], &frame].concat());
            }
            Fault::WrongId => {
                let frame = self.layer.frame(query.stream, &reply::with_wrong_id(query.message));
                self.send(&frame);
            }
            Fault::NotZero => {
                let frame = self.layer.frame(query.stream, &reply::with_wrong_id(query.message));
                self.reply(&frame);
            }
            Fault::WrongQuestion => {
                let frame = self.layer.frame(query.stream, &reply::with_wrong_question(query.message));
                self.reply(&frame);
            }
            Fault::Late => {
                self.open -= 1;
                let frame = self.right(query);
                self.late.push_back((now_ns + shared.settings.late_us * 1000, frame));
            }
            Fault::Never => {}
            Fault::Status503 | Fault::Status404 | Fault::ContentType => {
                self.reply(&wrong_response(fault, query));
            }
            Fault::StreamRefused | Fault::StreamFailed | Fault::StreamCancelled => {
                let code = reset_code(fault);
                shared.counts.reset_stream(http2::name(code));
                self.reply(&http2::reset(query.stream, code));
            }
            // Another reply waits already, and leaves after this one.
            _ => {
                let frame = self.right(query);
                self.reply(&frame);
            }
        }
    }

    /// Sends a reply in two pieces. The cut steps through all offsets; in TLS through those of the record, and then
    /// through those of the message, or of the frames of HTTP/2, which are in two records then. A body in HTTP/2 is cut
    /// after that, and is in two frames then.
    fn split(&mut self, query: Query, shared: &mut Shared, now_ns: u64) {
        let number = shared.next_split();
        let Query { message, stream } = query;
        let message = reply::right(message);
        let frame = self.layer.frame(stream, &message);
        // As long as the record, once one was cut.
        let whole = shared.counts.longest_cut.max(frame.len());
        let ways = 1 + usize::from(self.layer.is_secure()) + usize::from(self.layer.has_streams());
        let (first, second) = match (number / whole) % ways {
            0 => {
                let mut first = self.layer.seal(&frame);
                let at = 1 + number % (first.len() - 1);
                shared.counts.cut_at.insert(at);
                shared.counts.longest_cut = shared.counts.longest_cut.max(first.len());
                let second = first.split_off(at);
                (first, second)
            }
            1 => {
                let at = 1 + number % (frame.len() - 1);
                (self.layer.seal(&frame[..at]), self.layer.seal(&frame[at..]))
            }
            _ => {
                let at = 1 + number % (message.len() - 1);
                let (first, second) = http2::response_in_two(stream, &message, at);
                (self.layer.seal(&first), self.layer.seal(&second))
            }
        };
        self.out.push_apart(first, now_ns, None);
        self.out.push_apart(second, now_ns + APART_NS, None);
    }

    /// Sends the replies that have waited long enough.
    pub(super) fn release(&mut self, now_ns: u64) {
        if self.is_ending() {
            return;
        }
        while let Some((_, frame)) = self.late.pop_front_if(|(due_ns, _)| *due_ns <= now_ns) {
            self.send(&frame);
        }
        if self.held_until_ns <= now_ns {
            self.release_joined();
            if let Some(waited) = self.after_next.take() {
                self.send(&waited);
            }
        }
    }

    fn release_joined(&mut self) {
        let joined = std::mem::take(&mut self.joined);
        self.joined_replies = 0;
        if !joined.is_empty() {
            self.send(&joined);
        }
    }
}

/// A response that is wrong by its status or its content type.
fn wrong_response(fault: Fault, query: Query) -> Vec<u8> {
    let Query { message, stream } = query;
    match fault {
        Fault::Status503 => http2::response(stream, "503", "text/plain", b"busy"),
        Fault::Status404 => http2::response(stream, "404", http2::DNS, &reply::right(message)),
        _ => http2::response(stream, "200", "text/html", &reply::right(message)),
    }
}

/// The code with which a stream is reset.
fn reset_code(fault: Fault) -> u32 {
    match fault {
        Fault::StreamRefused => http2::REFUSED_STREAM,
        Fault::StreamFailed => http2::INTERNAL_ERROR,
        _ => http2::CANCEL,
    }
}
