//! Sends dynamic updates (RFC 2136) at a rate: each pair adds an address below a zone, and removes it again.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::time::Duration;

use kqps_dataset::{Dataset, Format, Options};
use kqps_kernel::clock::now_ns;
use kqps_message::header;

use super::exchange::Target;
use super::message;
use super::over::Over;
use super::reconnecting::Reconnecting;

/// The wait for the last replies.
const PATIENCE: Duration = Duration::from_secs(1);

/// The interval at which a wait for replies looks for the end of the load.
const LOOK: Duration = Duration::from_millis(20);

/// Names that take turns. An update of one is answered long before its next.
const NAMES: u32 = 500;

/// The updates of one event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Updates<'a> {
    /// The messages, which take turns.
    pub(super) messages: &'a [Vec<u8>],
    pub(super) rate_qps: f64,
    pub(super) lasting: Duration,
}

/// Replies so far.
#[derive(Debug, Default)]
struct Replies {
    /// IDs of updates without a reply so far.
    waiting: HashSet<u16>,
    accepted: u64,
    refused: u64,
    /// The first other answer than NOERROR.
    said: Option<String>,
}

/// Sends updates until their time or the load is over, and waits for their replies. `begun` is called before the first.
/// Every address that was added is removed in the end. An update that is not accepted, or that finds no server, is counted,
/// and is a failure if no update was accepted.
pub(super) fn run(
    target: &Target<'_>,
    updates: Updates<'_>,
    counts: &mut BTreeMap<String, u64>,
    (over, begun): (&Over, impl FnOnce()),
) -> Result<(), String> {
    let messages = updates.messages;
    let mut connection = Reconnecting::new(target);
    begun();
    let begin_ns = now_ns();
    let count = (updates.rate_qps * updates.lasting.as_secs_f64()).ceil().max(1.0) as u64;
    // Pairs of an address that is added and removed.
    let count = count.next_multiple_of(2);
    let (mut sent, mut replies) = (0, Replies::default());
    while sent < count {
        let due_ns = begin_ns + (sent as f64 / updates.rate_qps * 1e9) as u64;
        replies.take_until(due_ns, &mut connection, |_| !over.is_over());
        // Also if this one is late: unread replies would be lost where the system has no room for more.
        replies.take_arrived(&mut connection);
        if over.is_over() && sent % 2 == 0 {
            break;
        }
        let mut message = messages[(sent % messages.len() as u64) as usize].clone();
        header::set_id(&mut message, id(sent));
        replies.waiting.insert(id(sent));
        connection.send(&message);
        sent += 1;
    }
    let last_ns = now_ns() + PATIENCE.as_nanos() as u64;
    replies.take_until(last_ns, &mut connection, |replies| !replies.waiting.is_empty());
    let Replies { accepted, refused, .. } = replies;
    let unanswered = sent - accepted - refused;
    counts.extend(
        [("updates", sent), ("accepted", accepted), ("refused", refused), ("unanswered", unanswered)]
            .map(|(name, count)| (name.to_owned(), count)),
    );
    match (replies.accepted, replies.said, connection.failure()) {
        (0, Some(said), _) => Err(format!("the server answered updates with {said}")),
        (0, None, Some(failure)) => Err(format!("the server answered no update: {failure}")),
        (0, None, None) => Err("the server answered no update".into()),
        _ => Ok(()),
    }
}

/// The ID of an update by its number: those of recent ones differ.
fn id(number: u64) -> u16 {
    let [.., high, low] = number.to_be_bytes();
    u16::from_be_bytes([high, low])
}

impl Replies {
    /// Takes replies until a moment, for as long as `goes_on` holds.
    fn take_until(
        &mut self,
        until_ns: u64,
        connection: &mut Reconnecting<'_>,
        goes_on: impl Fn(&Self) -> bool,
    ) {
        while goes_on(self) {
            let left_ns = until_ns.saturating_sub(now_ns());
            if left_ns == 0 {
                break;
            }
            if let Some(reply) = connection.receive(Duration::from_nanos(left_ns).min(LOOK)) {
                self.take(&reply);
            }
        }
    }

    /// Takes the replies that have arrived.
    fn take_arrived(&mut self, connection: &mut Reconnecting<'_>) {
        while let Some(reply) = connection.receive_arrived() {
            self.take(&reply);
        }
    }

    /// Counts a reply. One that no update waits for is a copy, or nobody's.
    fn take(&mut self, reply: &[u8]) {
        if !header::id(reply).is_some_and(|id| self.waiting.remove(&id)) {
            return;
        }
        match message::accepted(reply) {
            Ok(()) => self.accepted += 1,
            Err(said) => {
                self.refused += 1;
                self.said.get_or_insert(said);
            }
        }
    }
}

/// The messages: for every name one that adds its address, and then one that removes it.
pub(super) fn messages(zone: &str) -> Result<Vec<Vec<u8>>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("writing updates of {zone}: {error}");
    let mut text = String::new();
    for number in 0..NAMES {
        let name = format!("kqps-update-{number}");
        let _ = write!(text, "{zone}\nadd {name} 60 A 192.0.2.1\nsend\n{zone}\ndelete {name} A\nsend\n");
    }
    let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
    let path = folder.path().join("updates");
    std::fs::write(&path, text).map_err(|error| failed(&error))?;
    let options =
        Options { format: Format::Updates, cache_dir: Some(folder.path().into()), ..Options::default() };
    let dataset = Dataset::open(&path, &options).map_err(|error| failed(&error))?;
    Ok(dataset.iter().map(|update| update.message.to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use kqps_observation::trial::Transport;

    use super::*;
    use crate::path::LaidPath;

    /// Answers updates: of four the first is accepted, twice; the second is refused; the third gets an answer to another
    /// one, and the fourth gets none.
    fn answer(server: &UdpSocket, count: u32) {
        let mut update = [0; 512];
        for number in 0..count {
            let (bytes, client) = server.recv_from(&mut update).unwrap();
            let reply = &mut update[..bytes];
            reply[2] |= header::QR;
            let times = match number % 4 {
                0 => 2,
                1 => {
                    reply[3] = 5;
                    1
                }
                2 => {
                    reply[0] ^= 0x80;
                    1
                }
                _ => 0,
            };
            for _ in 0..times {
                server.send_to(reply, client).unwrap();
            }
        }
    }

    #[test]
    fn each_update_is_accepted_refused_or_unanswered() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = Target::new(server.local_addr().unwrap(), Transport::Udp, &LaidPath::Loopback).unwrap();
        let mut counts = BTreeMap::new();
        std::thread::scope(|scope| {
            scope.spawn(|| answer(&server, 20));
            let messages = &*messages("example.").unwrap();
            let updates = Updates { messages, rate_qps: 10_000.0, lasting: Duration::from_millis(2) };
            run(&target, updates, &mut counts, (&Over::default(), || ())).unwrap();
        });
        let wanted = [("accepted", 5), ("refused", 5), ("unanswered", 10), ("updates", 20)];
        assert_eq!(counts, wanted.map(|(name, count)| (name.to_owned(), count)).into());
    }

    /// Replies that have arrived are read before the next update is sent, also if it is due long ago.
    #[test]
    fn updates_that_are_late_read_replies_meanwhile() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = Target::new(server.local_addr().unwrap(), Transport::Udp, &LaidPath::Loopback).unwrap();
        let mut connection = Reconnecting::new(&target);
        let mut replies = Replies { waiting: (0..8).collect(), ..Replies::default() };
        for number in 0..8_u64 {
            let mut message = vec![0; 12];
            header::set_id(&mut message, id(number));
            connection.send(&message);
        }
        answer(&server, 8);
        replies.take_until(0, &mut connection, |_| true);
        assert_eq!((replies.accepted, replies.refused), (0, 0), "the moment is over");
        replies.take_arrived(&mut connection);
        assert_eq!((replies.accepted, replies.refused, replies.waiting.len()), (2, 2, 4));
    }

    /// An odd number of updates gets another one, and so does one that was sent when the load ended.
    #[test]
    fn no_address_is_left() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = Target::new(server.local_addr().unwrap(), Transport::Udp, &LaidPath::Loopback).unwrap();
        let messages = &*messages("example.").unwrap();
        let sent = |rate_qps: f64, over: &Over| {
            let mut counts = BTreeMap::new();
            let updates = Updates { messages, rate_qps, lasting: Duration::from_secs(1) };
            let _ = run(&target, updates, &mut counts, (over, || ()));
            counts["updates"]
        };
        let over = Over::default();
        let until_the_first = || {
            // The next one is due in an hour.
            server.recv_from(&mut [0; 512]).unwrap();
            over.end();
        };
        std::thread::scope(|scope| {
            scope.spawn(until_the_first);
            assert_eq!(sent(1.0 / 3600.0, &over), 2);
        });
        assert_eq!(sent(1.0 / 3600.0, &over), 0, "the load is over before");
    }

    #[test]
    fn a_port_without_a_server_ends_no_updates() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = Target::new(server.local_addr().unwrap(), Transport::Udp, &LaidPath::Loopback).unwrap();
        drop(server);
        let messages = &*messages("example.").unwrap();
        let mut counts = BTreeMap::new();
        let updates = Updates { messages, rate_qps: 10_000.0, lasting: Duration::from_millis(2) };
        let failure = run(&target, updates, &mut counts, (&Over::default(), || ())).unwrap_err();
        assert!(
            failure.starts_with("the server answered no update: ") && failure.contains("refused"),
            "{failure}"
        );
        let wanted = [("accepted", 0), ("refused", 0), ("unanswered", 20), ("updates", 20)];
        assert_eq!(counts, wanted.map(|(name, count)| (name.to_owned(), count)).into());
    }

    #[test]
    fn every_name_is_added_and_removed() {
        let messages = messages("example.").unwrap();
        assert_eq!(messages.len(), 2 * NAMES as usize);
        for message in &messages {
            // UPDATE with one zone and one change (RFC 2136, section 2.2).
            assert_eq!((message[2], &message[4..12]), (5 << 3, &[0, 1, 0, 0, 0, 1, 0, 0][..]));
        }
        let has = |message: &[u8], text: &[u8]| message.windows(text.len()).any(|part| part == text);
        assert!(has(&messages[0], b"\x0dkqps-update-0") && has(&messages[0], &[192, 0, 2, 1]));
        assert!(has(&messages[1], b"\x0dkqps-update-0") && !has(&messages[1], &[192, 0, 2, 1]));
        assert_eq!((id(1), id(65_537)), (1, 1));
    }
}
