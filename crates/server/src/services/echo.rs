//! The echo: it returns every query as its own reply. No DNS server can do less work, so its rate is the
//! ceiling of an I/O model on this host.

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use kqps_kernel::clock::now_ns;
use kqps_kernel::signal::Signals;
use kqps_message::header::{CD, HEADER_BYTES, OPCODE, QR, RD};

use crate::answer::{Answer, Answered, Client, Query};
use crate::connections::{ConnectionThread, Limits};
use crate::counts::Cause;
use crate::error::ServeError;
use crate::service::{Description, RunningService, Service, Task, Transports};
use crate::worker::threads::{self, StartConnections, Threads};

/// The service of an echo.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo {
    /// The CPU time to spend on each query, in nanoseconds.
    pub work_ns: u64,
    /// Rounds of arithmetic for each query, of some nanoseconds each. Unlike `work_ns`, they take longer on a slower core,
    /// as the work of other servers does.
    pub rounds: u64,
    /// The time for which each query holds a lock that all threads of a process share, in nanoseconds; 0 for no lock.
    /// It makes known contention, for tests of profiles.
    pub lock_ns: u64,
    /// The limits of connections; `None` if it accepts none.
    pub connections: Option<Limits>,
    /// Whether it accepts TCP connections at its UDP addresses. It then has limits of connections.
    pub tcp: bool,
}

impl Service for Echo {
    fn transports(&self) -> Transports<'_> {
        Transports { tcp: self.tcp, unix: &[] }
    }

    /// A query may have arrived in fragments. The kernel then refuses its echo, which is counted, since fragments
    /// would distort what an echo measures.
    fn replies_pass(&self) -> bool {
        true
    }

    fn reloads(&self) -> bool {
        false
    }

    fn for_processes(&self) -> Option<Description> {
        let Self { work_ns, rounds, lock_ns, connections, .. } = *self;
        Some(Description::Echo { work_ns, rounds, lock_ns, connections })
    }

    fn begin(self: Box<Self>, task: Task, _: &Signals) -> Result<Box<dyn RunningService>, ServeError> {
        let answer = EchoAnswer { work_ns: self.work_ns, rounds: self.rounds, lock_ns: self.lock_ns };
        let connections = self.connections.map(|limits| {
            let limits = task.limits_of_each(limits);
            let start =
                move |listeners, cpus, stop| ConnectionThread::start(listeners, limits, cpus, answer, stop);
            Box::new(start) as StartConnections<'_>
        });
        let Task { model, workers, listeners, .. } = task;
        let start = |number, sockets, stop| threads::start(number, model, sockets, answer, stop);
        Ok(Box::new(Threads::start(model, workers, listeners, start, connections)?))
    }
}

/// Returns queries, after a configurable amount of work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EchoAnswer {
    work_ns: u64,
    rounds: u64,
    lock_ns: u64,
}

/// The lock of [`Echo::lock_ns`].
static PLANTED: Mutex<()> = Mutex::new(());

impl Answer for EchoAnswer {
    const GROWS: bool = false;

    type Many = Infallible;

    /// Sets QR. Keeps ID, opcode, RD and CD (RFC 1035, section 4.1.1; RFC 4035, section 3.2.2), and everything
    /// after the header, with the case of the question. Clears AA, TC, RA, Z and the rcode, and AD, since the
    /// echo authenticates nothing (RFC 6840, section 5.7). Responses, queries from port 0 and messages without
    /// a whole header get no answer. So two servers can never answer each other endlessly, and no reply goes
    /// to port 0.
    #[inline]
    fn answer(&mut self, query: Query<'_>) -> Answered<Infallible> {
        let length = query.bytes;
        if length < HEADER_BYTES {
            return Answered::None(Cause::QueryTooShort);
        }
        if query.is_too_long() {
            return Answered::None(Cause::QueryTooLong);
        }
        let message = &mut query.buffer[..length];
        if message[2] & QR != 0 {
            return Answered::None(Cause::IsResponse);
        }
        if matches!(query.client, Client::Udp(source) if source.port() == 0) {
            return Answered::None(Cause::PortZero);
        }
        message[2] = message[2] & (OPCODE | RD) | QR;
        message[3] &= CD;
        if self.work_ns > 0 {
            spin(self.work_ns);
        }
        if self.rounds > 0 {
            compute(self.rounds);
        }
        if self.lock_ns > 0 {
            hold_planted_lock(self.lock_ns);
        }
        Answered::One(length)
    }

    fn next(&mut self, many: &mut Infallible, _: &mut [u8]) -> Option<usize> {
        match *many {}
    }
}

/// Keeps its name in every build, since a profile must find it.
#[inline(never)]
fn hold_planted_lock(lock_ns: u64) {
    let _held = PLANTED.lock().unwrap_or_else(PoisonError::into_inner);
    spin(lock_ns);
}

/// Computes a chain of this many steps, none of which can begin before the one before it has ended.
fn compute(rounds: u64) {
    let mut state = rounds;
    for _ in 0..rounds {
        state = std::hint::black_box(state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
    }
}

fn spin(work_ns: u64) {
    let end_ns = now_ns() + work_ns;
    while now_ns() < end_ns {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use kqps_kernel::Address;

    use super::*;
    use crate::answer::QUERY_BYTES;

    /// `WwW.eXaMpLe. A IN` with these flags, and EDNS.
    fn query(flags: [u8; 2]) -> Vec<u8> {
        let mut bytes = vec![0xab, 0xcd, flags[0], flags[1], 0, 1, 0, 0, 0, 0, 0, 1];
        bytes.extend(b"\x03WwW\x07eXaMpLe\x00\x00\x01\x00\x01");
        bytes.extend(b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00");
        bytes
    }

    fn answer(bytes: &mut [u8], source_port: u16) -> Result<usize, Cause> {
        play(EchoAnswer::default(), bytes, source_port)
    }

    fn play(mut echo: EchoAnswer, buffer: &mut [u8], source_port: u16) -> Result<usize, Cause> {
        let source = Address::from(SocketAddr::from(([192, 0, 2, 1], source_port)));
        let bytes = buffer.len();
        echo.answer(Query::by_udp(buffer, bytes, &source)).one()
    }

    #[test]
    fn every_flag_is_set_kept_or_cleared_as_specified() {
        for flags in 0..=u16::MAX {
            let mut bytes = query(flags.to_be_bytes());
            let outcome = answer(&mut bytes, 1024);
            if flags & 0x8000 != 0 {
                assert_eq!(outcome, Err(Cause::IsResponse));
                continue;
            }
            assert_eq!(outcome, Ok(bytes.len()));
            // QR is set; opcode, RD and CD are kept; AA, TC, RA, Z, AD and the rcode are cleared.
            let expected = 0x8000 | flags & 0x7910;
            assert_eq!(bytes, query(expected.to_be_bytes()), "flags {flags:#06x}");
        }
    }

    #[test]
    fn what_must_not_be_answered_is_not() {
        assert_eq!(answer(&mut query([1, 0])[..11], 53), Err(Cause::QueryTooShort));
        assert_eq!(answer(&mut [], 53), Err(Cause::QueryTooShort));
        assert_eq!(answer(&mut query([1, 0])[..12], 53), Ok(12));
        assert_eq!(answer(&mut query([1, 0]), 0), Err(Cause::PortZero));
        assert_eq!(answer(&mut [0; QUERY_BYTES], 53), Ok(QUERY_BYTES));
        assert_eq!(answer(&mut [0; QUERY_BYTES + 1], 53), Err(Cause::QueryTooLong));
    }

    #[test]
    fn a_connection_brings_longer_queries_and_has_no_port() {
        let mut long = vec![0; 65_535];
        let client = Client::Tcp([192, 0, 2, 1].into());
        let origin = crate::later::Origin::default();
        let query = Query { bytes: long.len(), buffer: &mut long, client, origin };
        assert!(matches!(EchoAnswer::default().answer(query), Answered::One(65_535)));
        assert_eq!(long[2] & QR, QR);
    }

    #[test]
    fn work_takes_at_least_its_time() {
        let before_ns = now_ns();
        let mut bytes = query([1, 0]);
        play(EchoAnswer { work_ns: 50_000, ..EchoAnswer::default() }, &mut bytes, 53).unwrap();
        assert!(now_ns() - before_ns >= 50_000);
    }

    #[test]
    fn threads_hold_the_planted_lock_one_after_another() {
        let before_ns = now_ns();
        let hold = || {
            let echo = EchoAnswer { lock_ns: 2_000_000, ..EchoAnswer::default() };
            play(echo, &mut query([1, 0]), 53).unwrap();
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(hold);
            }
        });
        assert!(now_ns() - before_ns >= 6_000_000);
    }
}
