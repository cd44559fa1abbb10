//! Transfers a zone out of a server, and counts it: AXFR (RFC 5936) and IXFR (RFC 1995).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kqps_ask::AskError;
use kqps_message::{Header, question, record, rtype};

use super::exchange::Target;
use super::message;
use super::over::Over;

/// The longest wait for the connection, and for the next message.
const PATIENCE: Duration = Duration::from_secs(10);

/// The interval at which the end of the load is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// The name of the count of incremental transfers for which the server sent the whole zone.
pub(crate) const WHOLE: &str = "whole";

/// Counts of a transfer that goes on, and what its end is known by.
#[derive(Debug, Default)]
struct Progress {
    since: Option<u32>,
    messages: u64,
    records: u64,
    bytes: u64,
    /// The serial of the first record.
    serial: Option<u32>,
    /// SOA records with this serial so far.
    closing: u32,
    /// Whether the second record is the SOA of an older version, so that changes follow.
    is_incremental: bool,
    is_over: bool,
}

/// Transfers a zone from the target: all of it, or its changes since a serial. `begun` is called before the request.
pub(super) fn run(
    target: &Target<'_>,
    (zone, since): (&str, Option<u32>),
    counts: &mut BTreeMap<String, u64>,
    (over, begun): (&Over, impl FnOnce()),
) -> Result<(), String> {
    let request = message::transfer(zone, since).map_err(|error| error.to_string())?;
    let mut connection = target.stream(PATIENCE).map_err(|error| error.to_string())?;
    begun();
    connection.send(&[&request]).map_err(|error| error.to_string())?;
    let mut progress = Progress { since, ..Progress::default() };
    let mut last = Instant::now();
    let outcome = loop {
        match connection.receive(LOOK) {
            Ok(message) => {
                last = Instant::now();
                match progress.take(&message) {
                    Ok(()) if progress.is_over => break Ok(()),
                    Ok(()) => (),
                    Err(why) => break Err(why),
                }
            }
            Err(AskError::TimedOut) if last.elapsed() < PATIENCE && !over.is_long_over() => (),
            Err(AskError::TimedOut) => break Err("its last record did not come in time".to_owned()),
            Err(error) => break Err(error.to_string()),
        }
    };
    let Progress { messages, records, bytes, is_incremental, .. } = progress;
    counts.extend([("messages", messages), ("records", records), ("bytes", bytes)].map(named));
    if since.is_some() && records > 1 && !is_incremental {
        counts.extend([(WHOLE, 1)].map(named));
    }
    outcome
}

fn named((name, count): (&str, u64)) -> (String, u64) {
    (name.to_owned(), count)
}

impl Progress {
    /// Counts a message, and sees whether its records end the transfer.
    fn take(&mut self, message: &[u8]) -> Result<(), String> {
        message::accepted(message).map_err(|said| format!("the server answered with {said}"))?;
        self.messages += 1;
        self.bytes += message.len() as u64;
        let malformed = || "a message of the transfer is malformed".to_owned();
        let answers = Header::from_bytes(message).map_or(0, Header::answers);
        let mut at = question::end(message).ok_or_else(malformed)?;
        for _ in 0..answers {
            let record = record::read(message, at).ok_or_else(malformed)?;
            self.take_record(message, &record)?;
            at = record.end;
        }
        // A server whose serial is not newer than that of the request sends its SOA alone (RFC 1995, section 2).
        let is_current = |(serial, since)| serial == since || is_newer(since, serial);
        if self.records == 1 && self.serial.zip(self.since).is_some_and(is_current) {
            self.is_over = true;
        }
        Ok(())
    }

    fn take_record(&mut self, message: &[u8], record: &record::Record<'_>) -> Result<(), String> {
        self.records += 1;
        let serial = if record.rtype == rtype::SOA { message::serial(message, record) } else { None };
        match (self.records, serial) {
            (1, None) => return Err("its first record is no SOA".into()),
            (1, Some(_)) => (self.serial, self.closing) = (serial, 1),
            (number, Some(_)) => {
                self.is_incremental |= number == 2 && self.since.is_some() && serial != self.serial;
                self.closing += u32::from(serial == self.serial);
                // The newest version's SOA also begins the records that its changes add.
                self.is_over |= self.closing == if self.is_incremental { 3 } else { 2 };
            }
            (_, None) => (),
        }
        Ok(())
    }
}

/// Whether a serial is newer than another (RFC 1982, section 3.2). Neither is if they differ by 2^31.
fn is_newer(serial: u32, other: u32) -> bool {
    serial.wrapping_sub(other).cast_signed() > 0
}

#[cfg(test)]
mod tests {
    use super::super::message::tests::{answer, reply, soa};
    use super::*;

    fn taken(since: Option<u32>, messages: &[Vec<u8>]) -> Progress {
        let mut progress = Progress { since, ..Progress::default() };
        for message in messages {
            assert!(!progress.is_over, "it ended before its last message");
            progress.take(message).unwrap();
        }
        progress
    }

    #[test]
    fn a_zone_ends_with_its_second_soa() {
        let a = || answer(rtype::A, &[192, 0, 2, 1]);
        let messages = [reply(&[soa(5), a()]), reply(&[a(), a()]), reply(&[a(), soa(5)])];
        let progress = taken(None, &messages);
        assert!(progress.is_over);
        assert_eq!((progress.messages, progress.records), (3, 6));
        assert_eq!(progress.bytes, messages.iter().map(|message| message.len() as u64).sum::<u64>());
        assert!(!taken(None, &[reply(&[soa(5)])]).is_over, "its first message may have one record");
    }

    #[test]
    fn changes_end_with_the_third_soa_of_the_newest_version() {
        let a = || answer(rtype::A, &[192, 0, 2, 1]);
        // Two versions: 3 to 4, and 4 to 5.
        let changes = [soa(5), soa(3), a(), soa(4), a(), soa(4), soa(5), a(), soa(5)];
        assert!(taken(Some(3), &[reply(&changes)]).is_over);
        assert!(!taken(Some(3), &[reply(&changes[..8])]).is_over);
        // The whole zone instead of changes.
        assert!(taken(Some(3), &[reply(&[soa(5), a(), soa(5)])]).is_over);
        // Nothing changed.
        assert!(taken(Some(5), &[reply(&[soa(5)])]).is_over);
        assert!(!taken(Some(3), &[reply(&[soa(5)])]).is_over);
        // The server is behind the request, also where serials wrap around.
        assert!(taken(Some(7), &[reply(&[soa(5)])]).is_over);
        assert!(taken(Some(2), &[reply(&[soa(u32::MAX)])]).is_over);
        assert!(!taken(Some(u32::MAX), &[reply(&[soa(2)])]).is_over);
        // Neither of two serials is newer if they differ by 2^31.
        assert!(!taken(Some(1 << 31), &[reply(&[soa(0)])]).is_over);
    }

    #[test]
    fn a_refused_or_broken_transfer_says_so() {
        let mut progress = Progress::default();
        let mut refused = reply(&[]);
        refused[3] = 5;
        assert_eq!(progress.take(&refused).unwrap_err(), "the server answered with REFUSED");
        let other = reply(&[answer(rtype::A, &[1; 4])]);
        assert_eq!(progress.take(&other).unwrap_err(), "its first record is no SOA");
        let whole = reply(&[soa(5)]);
        assert!(progress.take(&whole[..whole.len() - 1]).unwrap_err().contains("malformed"));
    }
}
