//! The counters of a worker: plain numbers of its own thread, read after the thread has ended. They need no
//! atomics.

use std::collections::BTreeMap;
use std::io;

use kqps_kernel::errno;
use kqps_message::{Header, edns, rcode};
use strum::{Display, VariantArray};

/// Why a query got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Cause {
    /// The query was shorter than a DNS header.
    QueryTooShort,
    /// The query was longer than [`crate::answer::QUERY_BYTES`].
    QueryTooLong,
    /// The message had QR set, so it was a response.
    IsResponse,
    /// The query came from port 0.
    PortZero,
    /// The query arrived when too many others were outstanding.
    OverloadNewest,
    /// The query was outstanding longest and was displaced by a newer one.
    OverloadOldest,
    /// The client's connection had ended before the answer came.
    ClientGone,
    /// The client's connection held too many replies already, which the client does not read.
    ClientSlow,
    /// The server stopped before the answer came.
    Stopped,
    /// The reply has many messages, which UDP cannot carry.
    NotByUdp,
    /// The lengths in the frame's headers contradict each other.
    BadFrame,
    /// The kernel did not report the address that the query was sent to.
    NoAddress,
    /// The server is meant to stay silent, or to lose this answer.
    Withheld,
    /// No drop: another thread answers the query later, and counts it.
    Later,
}

/// The counters of one worker. `received = answered + Σ dropped + later`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams received from the sockets.
    pub received: u64,
    /// Replies that the kernel took.
    pub answered: u64,
    dropped: [u64; Cause::VARIANTS.len()],
    /// Replies that the kernel refused, by error number. There are few kinds, so a list is fast enough.
    refused: Vec<(i32, u64)>,
}

impl Counts {
    /// Counts a query without an answer.
    #[inline]
    pub fn drop(&mut self, cause: Cause) {
        self.dropped[cause as usize] += 1;
    }

    /// Counts this many queries without an answer.
    pub fn drop_many(&mut self, cause: Cause, queries: u64) {
        self.dropped[cause as usize] += queries;
    }

    /// Queries that another thread answers later. They are no drops.
    pub fn later(&self) -> u64 {
        self.dropped[Cause::Later as usize]
    }

    /// Counts a reply by the outcome of sending it.
    #[inline]
    pub fn sent(&mut self, outcome: io::Result<()>) {
        match outcome {
            Ok(()) => self.answered += 1,
            Err(error) => self.refused(&error, 1),
        }
    }

    /// Counts this many replies as sent, or one as refused.
    #[inline]
    pub fn took(&mut self, outcome: io::Result<usize>) {
        match outcome {
            Ok(replies) => self.answered += replies as u64,
            Err(error) => self.refused(&error, 1),
        }
    }

    /// Counts replies that the kernel refused.
    #[cold]
    pub fn refused(&mut self, error: &io::Error, replies: u64) {
        let number = error.raw_os_error().unwrap_or(0);
        match self.refused.iter_mut().find(|(known, _)| *known == number) {
            Some((_, count)) => *count += replies,
            None => self.refused.push((number, replies)),
        }
    }

    /// Queries without an answer by cause, without causes that did not occur. The cause of a refused reply
    /// is `send-failed-` and the name of the error.
    pub fn dropped(&self) -> BTreeMap<String, u64> {
        let causes = Cause::VARIANTS.iter().filter(|cause| **cause != Cause::Later);
        let counted = causes.map(|cause| (cause.to_string(), self.dropped[*cause as usize]));
        let mut dropped: BTreeMap<String, u64> = counted.filter(|(_, count)| *count > 0).collect();
        for &(number, count) in &self.refused {
            dropped.insert(format!("send-failed-{}", errno::name(number)), count);
        }
        dropped
    }
}

/// The number of replies by rcode. Rcodes below 32, which include those with a name, need no allocation.
#[derive(Clone, Debug)]
pub struct Rcodes(Vec<u64>);

impl Default for Rcodes {
    fn default() -> Self {
        Self(vec![0; 32])
    }
}

impl Rcodes {
    /// Counts a reply with this rcode, at most [`rcode::MAX`].
    #[inline]
    pub fn add(&mut self, rcode: u16) {
        let place = usize::from(rcode);
        if place >= self.0.len() {
            self.grow(place);
        }
        self.0[place] += 1;
    }

    /// Counts a reply by its rcode, with the upper bits in its OPT record.
    #[inline]
    pub fn add_of(&mut self, reply: &[u8]) {
        self.add(Header::from_bytes(reply).map_or(rcode::NOERROR, |header| edns::rcode(header, reply)));
    }

    #[cold]
    fn grow(&mut self, place: usize) {
        self.0.resize(place + 1, 0);
    }

    /// The counts by name, without rcodes that did not occur.
    pub fn report(&self) -> BTreeMap<String, u64> {
        let seen = (0..).zip(&self.0).filter(|&(_, &count)| count > 0);
        seen.map(|(code, &count)| (rcode::RcodeName(code).to_string(), count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_they_are() {
        let expected = "query-too-short query-too-long is-response port-zero overload-newest overload-oldest \
             client-gone client-slow stopped not-by-udp bad-frame no-address withheld later";
        let names: Vec<String> = Cause::VARIANTS.iter().map(ToString::to_string).collect();
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn drops_are_reported_by_name() {
        let mut counts = Counts::default();
        counts.drop_many(Cause::PortZero, 2);
        counts.drop(Cause::Later);
        counts.sent(Ok(()));
        counts.sent(Err(io::Error::from_raw_os_error(1)));
        counts.refused(&io::Error::from_raw_os_error(1), 2);
        counts.refused(&io::Error::from_raw_os_error(4095), 1);
        let dropped: Vec<_> = counts.dropped().into_iter().collect();
        let expected = [("port-zero", 2), ("send-failed-EPERM", 3), ("send-failed-errno-4095", 1)];
        assert_eq!(dropped, expected.map(|(name, count)| (name.to_owned(), count)));
        assert_eq!((counts.answered, counts.later()), (1, 1));
    }

    #[test]
    fn rcodes_are_reported_by_name_with_their_upper_bits() {
        let mut rcodes = Rcodes::default();
        for rcode in [0, 0, 16, 23, 4095] {
            rcodes.add(rcode);
        }
        // NXDOMAIN. With upper bits of 1 in an OPT record the same header means RCODE19, which is BADMODE.
        let bare = [0, 0, 0x80, 3, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut extended = [&bare[..], b"\0\0\x29\x04\xd0\x01\0\0\0\0\0"].concat();
        extended[11] = 1;
        rcodes.add_of(&bare);
        rcodes.add_of(&extended);
        let counted: Vec<_> = rcodes.report().into_iter().collect();
        let expected = [
            ("BADCOOKIE", 1),
            ("BADMODE", 1),
            ("BADVERS", 1),
            ("NOERROR", 2),
            ("NXDOMAIN", 1),
            ("RCODE4095", 1),
        ];
        assert_eq!(counted, expected.map(|(name, count)| (name.to_owned(), count)));
    }
}
