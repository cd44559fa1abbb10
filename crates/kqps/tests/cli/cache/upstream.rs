//! A server that the test plays: it answers by UDP and TCP at one port, as the test's function says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kqps_faults::scripted::{Asked, Scripted};

use crate::auth::dns::SOA;
use crate::serve::PATIENCE;

/// A question that the server got.
pub(super) struct Question {
    pub(super) query: Vec<u8>,
    /// Its name, in lower case and without the last dot.
    pub(super) name: String,
    pub(super) by_tcp: bool,
    /// Where a datagram came from.
    pub(super) from: SocketAddr,
}

#[derive(Default)]
struct Counts {
    asked: AtomicUsize,
    /// The flags of the last check: byte 2 of its header, above 8 bits that are set once there was one.
    checked: AtomicUsize,
}

/// The server. Dropping it stops it.
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    counts: Arc<Counts>,
    server: Scripted,
}

impl Upstream {
    /// A server on a free port.
    pub(super) fn new(say: impl FnMut(&Question) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let counts = Arc::<Counts>::default();
        let server = Scripted::start([127, 0, 0, 1].into(), replies(counts.clone(), say)).unwrap();
        Self { address: server.address(), counts, server }
    }

    /// A server at an address that was free a moment ago.
    pub(super) fn at(
        address: SocketAddr,
        say: impl FnMut(&Question) -> Vec<Vec<u8>> + Send + 'static,
    ) -> Self {
        let counts = Arc::<Counts>::default();
        let server = Scripted::at(address, replies(counts.clone(), say)).unwrap();
        Self { address, counts, server }
    }

    /// Its address, for `--forward`.
    pub(super) fn flag(&self) -> String {
        self.address.to_string()
    }

    /// Has it close each connection after a reply.
    pub(super) fn close_after_replies(&self) {
        self.server.close_after_replies();
    }

    /// Whether RD was set in the last check, for which it waits.
    pub(super) fn was_checked_with_rd(&self) -> bool {
        let begin = Instant::now();
        loop {
            let checked = self.counts.checked.load(SeqCst);
            if checked > 0 {
                return checked & 1 > 0;
            }
            assert!(begin.elapsed() < PATIENCE, "it is not checked");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How many questions it got, without checks.
    pub(super) fn asked(&self) -> usize {
        self.counts.asked.load(SeqCst)
    }

    /// Waits until it got this many questions.
    pub(super) fn wait_for(&self, count: usize) {
        let begin = Instant::now();
        while self.asked() < count {
            assert!(begin.elapsed() < PATIENCE, "it was asked {} of {count} questions", self.asked());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The replies of a server: its own to checks, and those of the test to questions.
fn replies(
    counts: Arc<Counts>,
    say: impl FnMut(&Question) -> Vec<Vec<u8>> + Send,
) -> impl Fn(&Asked<'_>) -> Vec<Vec<u8>> + Send + Sync {
    let say = Mutex::new(say);
    move |asked| {
        let (query, (name, rtype)) = (asked.query, question(asked.query));
        if name.is_empty() && rtype == SOA {
            counts.checked.store(0xff00 | usize::from(query[2]), SeqCst);
            return vec![empty(query, 0)];
        }
        counts.asked.fetch_add(1, SeqCst);
        let asked =
            Question { query: query.to_vec(), name, by_tcp: asked.socket.is_none(), from: asked.from };
        let mut say = say.lock().unwrap();
        (*say)(&asked)
    }
}

/// The name and the type that a query asks for.
fn question(query: &[u8]) -> (String, u16) {
    let (mut at, mut labels) = (12, Vec::new());
    while query[at] > 0 {
        let label = &query[at + 1..][..usize::from(query[at])];
        labels.push(String::from_utf8(label.to_ascii_lowercase()).unwrap());
        at += 1 + label.len();
    }
    (labels.join("."), u16::from_be_bytes([query[at + 1], query[at + 2]]))
}

/// The position after the question of a message.
pub(super) fn question_end(message: &[u8]) -> usize {
    let mut at = 12;
    while message[at] > 0 {
        at += 1 + usize::from(message[at]);
    }
    at + 5
}

/// A reply without records, with this rcode.
pub(super) fn empty(query: &[u8], rcode: u8) -> Vec<u8> {
    let mut reply = query[..question_end(query)].to_vec();
    (reply[2], reply[3]) = (0x80 | query[2] & 1, 0x80 | rcode);
    reply[6..12].fill(0);
    reply
}

/// A reply without records, which is truncated.
pub(super) fn truncated(query: &[u8]) -> Vec<u8> {
    let mut reply = empty(query, 0);
    reply[2] |= 0x02;
    reply
}

/// A record of the question's name.
fn record(rtype: u16, ttl_s: u32, data: &[u8]) -> Vec<u8> {
    let head = [&[0xc0, 12][..], &rtype.to_be_bytes(), &[0, 1], &ttl_s.to_be_bytes()].concat();
    [&head[..], &(data.len() as u16).to_be_bytes(), data].concat()
}

/// A reply with an address, whose last byte is `last`.
pub(super) fn address(query: &[u8], ttl_s: u32, last: u8) -> Vec<u8> {
    let mut reply = empty(query, 0);
    reply[7] = 1;
    reply.extend(record(1, ttl_s, &[192, 0, 2, last]));
    reply
}

/// A reply that says that the name is an alias of this one.
pub(super) fn alias(query: &[u8], target: &str) -> Vec<u8> {
    let mut data = Vec::new();
    for label in target.split('.') {
        data.push(label.len() as u8);
        data.extend(label.as_bytes());
    }
    data.push(0);
    let mut reply = empty(query, 0);
    reply[7] = 1;
    reply.extend(record(5, 300, &data));
    reply
}

/// A reply with this many texts of 100 bytes.
pub(super) fn texts(query: &[u8], count: u8) -> Vec<u8> {
    let mut reply = empty(query, 0);
    reply[7] = count;
    for number in 0..count {
        let mut text = vec![b'0' + number % 10; 101];
        text[0] = 100;
        text[1] = number;
        reply.extend(record(16, 300, &text));
    }
    reply
}

/// A negative reply with this rcode, and the SOA record of the root, by which it may be kept for so many seconds.
pub(super) fn negative(query: &[u8], rcode: u8, ttl_s: u32) -> Vec<u8> {
    let mut reply = empty(query, rcode);
    reply[9] = 1;
    let numbers: Vec<u8> = [1, 2, 3, 4, ttl_s].iter().flat_map(|number: &u32| number.to_be_bytes()).collect();
    let data = [&[0, 0][..], &numbers].concat();
    reply.extend([&[0][..], &record(SOA, 3600, &data)[2..]].concat());
    reply
}
