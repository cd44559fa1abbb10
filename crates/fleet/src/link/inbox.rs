//! Messages that came from an agent.

use std::collections::BTreeMap;

use memchr::memmem;
use serde_json::value::RawValue;

use crate::message::{self, Done, FromAgent, HELLO, LINE_MOST, ToController};
use crate::remote::{Collects, LineKind};

/// JSON as it came.
pub(super) type Raw = Box<RawValue>;

/// The most lines before the hello. Login banners and messages of the day are some dozens.
const NOISE_LINES: usize = 1000;

/// The most bytes of a line before the hello, and of all lines before it.
const NOISE_BYTES: usize = 1 << 20;

/// The messages that nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    is_greeted: bool,
    hello: Option<Raw>,
    noise_lines: usize,
    noise_bytes: usize,
    /// Ping that is waited for → when the agent read it, and when its answer was read.
    pongs: BTreeMap<u64, Option<(u64, u64)>>,
    /// Job that is waited for → its result, if it came.
    results: BTreeMap<u64, Option<Done<Raw>>>,
}

impl Inbox {
    pub(super) fn take_hello(&mut self) -> Option<Raw> {
        self.hello.take()
    }

    /// From now on, the answer to this ping is kept.
    pub(super) fn expect_pong(&mut self, id: u64) {
        self.pongs.insert(id, None);
    }

    /// No answer to a ping is kept any more.
    pub(super) fn forget_pongs(&mut self) {
        self.pongs.clear();
    }

    /// When the agent read a ping (its clock), and when its answer was read (our clock).
    pub(super) fn pong(&mut self, id: u64) -> Option<(u64, u64)> {
        let times = self.pongs.get_mut(&id)?.take()?;
        self.pongs.remove(&id);
        Some(times)
    }

    /// From now on, the result of this job is kept.
    pub(super) fn expect(&mut self, id: u64) {
        self.results.insert(id, None);
    }

    /// The result of this job is not kept any more.
    pub(super) fn forget(&mut self, id: u64) {
        self.results.remove(&id);
    }

    /// The result of a job, if it came.
    pub(super) fn result(&mut self, id: u64) -> Option<Done<Raw>> {
        let done = self.results.get_mut(&id)?.take()?;
        self.forget(id);
        Some(done)
    }

    /// A line before the hello: programs on the way to the agent may print some, and even before the hello on its line.
    fn before_hello(&mut self, line: &[u8]) -> Result<LineKind, String> {
        let hello = memmem::find(line, HELLO).map(|place| &line[place..]);
        if let Some(Ok(FromAgent::Hello(hello))) = hello.map(serde_json::from_slice) {
            self.is_greeted = true;
            self.hello = Some(hello);
            return Ok(LineKind::Message);
        }
        if let Ok(ToController::Alive {} | ToController::Said { .. }) =
            serde_json::from_slice::<FromAgent>(line)
        {
            return Ok(LineKind::Message);
        }
        self.noise_lines += 1;
        self.noise_bytes += line.len();
        if self.noise_lines > NOISE_LINES || self.noise_bytes > NOISE_BYTES {
            let (lines, last) = (self.noise_lines, message::shown(line));
            return Err(format!("{lines} lines and no hello, the last of them {last}"));
        }
        Ok(LineKind::Noise)
    }
}

impl Collects for Inbox {
    fn take(&mut self, line: &[u8], read_ns: u64) -> Result<LineKind, String> {
        if !self.is_greeted {
            return self.before_hello(line);
        }
        match serde_json::from_slice::<FromAgent>(line) {
            Ok(ToController::Alive {}) => {}
            Ok(ToController::Pong { id, at_ns }) => {
                // An answer to no ping, or a second one, is dropped.
                if let Some(place) = self.pongs.get_mut(&id).filter(|place| place.is_none()) {
                    *place = Some((at_ns, read_ns));
                }
            }
            Ok(ToController::Done(done)) => {
                // Nobody waits for the result of a job that was late.
                if let Some(place) = self.results.get_mut(&done.id) {
                    *place = Some(done);
                }
            }
            Ok(ToController::Said { line }) => return Ok(LineKind::Text(line)),
            Ok(ToController::Hello(_)) => return Err("a second hello".into()),
            Err(_) => return Err(message::shown(line)),
        }
        Ok(LineKind::Message)
    }

    fn line_most(&self) -> usize {
        if self.is_greeted { LINE_MOST } else { NOISE_BYTES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREETING: &[u8] = br#"{"hello":{"any":[1]}}"#;

    fn greeted() -> Inbox {
        let mut inbox = Inbox::default();
        inbox.take(GREETING, 0).unwrap();
        inbox
    }

    #[test]
    fn noise_before_the_hello_is_skipped() {
        let mut inbox = Inbox::default();
        for line in [
            &b"Welcome to Debian"[..],
            b"",
            b"{\"level\":\"info\"}",
            b"[1]",
            b"{\"hello\":",
            b"\xff\xfe",
            b"{\"done\":{\"id\":1,\"ok\":1}}",
        ] {
            assert!(matches!(inbox.take(line, 0), Ok(LineKind::Noise)), "{line:?}");
            assert_eq!(inbox.line_most(), NOISE_BYTES);
        }
        assert!(matches!(inbox.take(b"{\"alive\":{}}", 0), Ok(LineKind::Message)));
        let line = [b"last login: never ", GREETING].concat();
        assert!(matches!(inbox.take(&line, 0), Ok(LineKind::Message)));
        assert_eq!(inbox.take_hello().unwrap().get(), r#"{"any":[1]}"#);
        assert_eq!(inbox.line_most(), LINE_MOST);
    }

    #[test]
    fn noise_has_a_limit() {
        let mut inbox = Inbox::default();
        for _ in 0..NOISE_LINES {
            inbox.take(b"y", 0).unwrap();
        }
        assert_eq!(inbox.take(b"y", 0).unwrap_err(), "1001 lines and no hello, the last of them `y`");
        let mut inbox = Inbox::default();
        inbox.take(&vec![b'x'; NOISE_BYTES], 0).unwrap();
        assert!(inbox.take(b"x", 0).is_err());
    }

    #[test]
    fn after_the_hello_every_line_must_be_a_message() {
        for line in [&b"rubbish"[..], b"{}", b"", b"[]", b"{\"pong\":{\"id\":-1,\"at_ns\":0}}", GREETING] {
            assert!(greeted().take(line, 0).is_err(), "{line:?}");
        }
        assert_eq!(greeted().take(b"rubbish", 0).unwrap_err(), "`rubbish`");
        let text = greeted().take(br#"{"said":{"line":"words"}}"#, 0);
        assert!(matches!(text, Ok(LineKind::Text(text)) if text == "words"));
    }

    #[test]
    fn only_expected_results_are_kept() {
        let mut inbox = greeted();
        inbox.expect(2);
        for id in 1..=3 {
            let line = format!(r#"{{"done":{{"id":{id},"ok":[{id}]}}}}"#);
            inbox.take(line.as_bytes(), 0).unwrap();
        }
        assert_eq!(inbox.results.len(), 1);
        assert_eq!(inbox.result(2).and_then(|done| done.ok).unwrap().get(), "[2]");
        assert!(inbox.result(2).is_none() && inbox.results.is_empty());
        inbox.expect(4);
        assert!(inbox.result(4).is_none());
        inbox.forget(4);
        assert!(inbox.results.is_empty());
    }

    #[test]
    fn a_pong_has_both_times() {
        let mut inbox = greeted();
        inbox.expect_pong(7);
        inbox.take(br#"{"pong":{"id":7,"at_ns":1234}}"#, 99).unwrap();
        inbox.take(br#"{"pong":{"id":7,"at_ns":1}}"#, 100).unwrap();
        assert_eq!((inbox.pong(7), inbox.pong(7)), (Some((1234, 99)), None));
        inbox.expect_pong(8);
        inbox.take(br#"{"pong":{"id":8,"at_ns":1}}"#, 2).unwrap();
        inbox.forget_pongs();
        assert_eq!(inbox.pong(8), None);
    }

    #[test]
    fn pongs_that_nobody_asked_for_are_not_kept() {
        let mut inbox = greeted();
        inbox.expect_pong(500);
        for id in 0..1000 {
            inbox.take(format!(r#"{{"pong":{{"id":{id},"at_ns":1}}}}"#).as_bytes(), 2).unwrap();
        }
        assert_eq!((inbox.pongs.len(), inbox.pong(500), inbox.pong(501)), (1, Some((1, 2)), None));
        assert!(inbox.pongs.is_empty());
    }
}
