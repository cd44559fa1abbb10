//! The answer at a path, and how it is written to a client (RFC 9112).

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::Duration;

/// Room for an event's lines, so that a client gets them by few calls.
const ROOM_BYTES: usize = 1 << 15;

/// How long a stream may be silent. A comment then shows whether the client is still there.
const SILENCE_MOST: Duration = Duration::from_secs(5);

/// The answer at a path.
pub enum Answer {
    /// A whole body with its media type.
    Body {
        /// The media type.
        media_type: &'static str,
        /// The text.
        text: String,
    },
    /// A stream of events (`text/event-stream`, HTML Living Standard, section 9.2).
    Events(Box<dyn Events>),
    /// There is nothing at this path; the text says where there is something.
    Nothing(String),
}

/// The events of one client.
pub trait Events: Send {
    /// The next event. Waits for it as long as `patience`.
    fn next(&mut self, patience: Duration) -> Next;
}

/// The next step of a stream of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// An event: its name and its data, which may have several lines. Clients share the data.
    Event(&'static str, Arc<str>),
    /// Nothing has happened yet.
    Nothing,
    /// The stream is over.
    Over,
}

/// Writes an answer. `with_body` is whether the client wants more than the head.
pub(crate) fn write(answer: Answer, with_body: bool, to: &mut impl Write) -> io::Result<()> {
    match answer {
        Answer::Body { media_type, text } => whole(200, media_type, &text, with_body, to),
        Answer::Nothing(text) => whole(404, TEXT, &text, with_body, to),
        Answer::Events(mut events) => {
            head(200, "text/event-stream", None, to)?;
            to.flush()?;
            if with_body { stream(&mut *events, to) } else { Ok(()) }
        }
    }
}

/// The media type of messages for people.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// Writes a body and its head.
pub(crate) fn whole(
    status: u16,
    media_type: &str,
    text: &str,
    with_body: bool,
    to: &mut impl Write,
) -> io::Result<()> {
    head(status, media_type, Some(text.len()), to)?;
    if with_body {
        to.write_all(text.as_bytes())?;
    }
    to.flush()
}

fn head(status: u16, media_type: &str, length: Option<usize>, to: &mut impl Write) -> io::Result<()> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    };
    let mut head = format!("HTTP/1.1 {status} {reason}\r\nContent-Type: {media_type}\r\n");
    if let Some(length) = length {
        let _ = write!(head, "Content-Length: {length}\r\n");
    }
    if status == 405 {
        head += "Allow: GET, HEAD\r\n";
    }
    head += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nConnection: close\r\n\r\n";
    to.write_all(head.as_bytes())
}

/// Writes events until the stream is over or the client has gone.
fn stream(events: &mut dyn Events, to: &mut impl Write) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(ROOM_BYTES, to);
    let mut each = || -> io::Result<()> {
        loop {
            match events.next(SILENCE_MOST) {
                Next::Over => return Ok(()),
                Next::Nothing => to.write_all(b":\n\n")?,
                Next::Event(name, data) => event(name, &data, &mut to)?,
            }
            to.flush()?;
        }
    };
    let outcome = each();
    // Bytes that a client did not take are not written again.
    drop(to.into_parts());
    outcome
}

/// Writes an event as a stream has it. A carriage return would end a line there, so it is left out.
fn event(name: &str, data: &str, to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "event: {name}")?;
    for line in data.split('\n') {
        to.write_all(b"data: ")?;
        line.split('\r').try_for_each(|part| to.write_all(part.as_bytes()))?;
        to.write_all(b"\n")?;
    }
    to.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_data_is_a_field() {
        let mut written = Vec::new();
        event("live", "a\r\n\nb", &mut written).unwrap();
        assert_eq!(written, b"event: live\ndata: a\ndata: \ndata: b\n\n");
    }

    #[test]
    fn a_stream_ends_when_its_events_do_and_shows_that_it_lives() {
        struct Three(u8);
        impl Events for Three {
            fn next(&mut self, _: Duration) -> Next {
                self.0 += 1;
                match self.0 {
                    1 => Next::Event("end", "x".into()),
                    2 => Next::Nothing,
                    _ => Next::Over,
                }
            }
        }
        let mut written = Vec::new();
        write(Answer::Events(Box::new(Three(0))), true, &mut written).unwrap();
        let written = String::from_utf8(written).unwrap();
        let (head, body) = written.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"), "{head}");
        assert_eq!(body, "event: end\ndata: x\n\n:\n\n");
    }

    #[test]
    fn a_head_without_its_body_has_the_same_length() {
        let mut written = Vec::new();
        whole(200, TEXT, "four", false, &mut written).unwrap();
        let written = String::from_utf8(written).unwrap();
        assert!(written.contains("Content-Length: 4\r\n") && written.ends_with("\r\n\r\n"), "{written}");
    }
}
