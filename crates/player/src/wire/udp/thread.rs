//! A sending thread over UDP: its sockets, how it sends through them, and when it sleeps.

use std::io;
use std::ops::Range;

use kqps_kernel::address::Address;
use kqps_kernel::batch::SendBatch;
use kqps_kernel::poll::PollSet;
use kqps_kernel::udp::UdpSocket;

use super::look::messages_most;
use super::polling::Polling;
use crate::books::Due;
use crate::thread::{NAP_LONGEST_NS, PlayerThread};

/// How often a send is tried again when the kernel has no room for a packet, and the pause before each try.
pub(super) const SEND_TRIES: u32 = 20;
const SEND_NAP_NS: u64 = 50_000;

/// A sending thread over UDP.
pub(crate) type UdpThread<'a> = PlayerThread<'a, UdpSockets<'a>>;

/// The sockets of one thread.
pub(crate) struct UdpSockets<'a> {
    pub(super) polling: Polling,
    pub(super) sockets: &'a [UdpSocket],
    /// The target of each socket, from which its replies must come.
    pub(super) targets: Box<[Address]>,
    /// Sockets that fell back from segmentation to single sends.
    pub(super) fallbacks: u32,
    readable: PollSet,
    /// The most messages that a socket's buffer can hold.
    pub(super) messages_most: usize,
}

impl<'a> UdpSockets<'a> {
    /// `targets` are the targets of the sockets, in the same order. Fails if the kernel does not return a buffer's
    /// size.
    pub(super) fn new(sockets: &'a [UdpSocket], targets: Box<[Address]>) -> io::Result<Self> {
        Ok(Self {
            polling: Polling::new(sockets.len()),
            sockets,
            targets,
            fallbacks: 0,
            readable: PollSet::new(sockets),
            messages_most: messages_most(sockets)?,
        })
    }
}

impl UdpSockets<'_> {
    /// Gives each socket this many flows.
    pub(super) fn with_flows(mut self, each: usize) -> Self {
        self.polling = Polling::with_flows(self.sockets.len(), each);
        self
    }
}

impl UdpThread<'_> {
    /// Takes the next burst of this turn. Returns the number of its socket, if there is a burst.
    #[inline]
    pub(super) fn next_burst(&mut self, burst: &mut Vec<Due>) -> Option<usize> {
        let (socket, now_ns) = self.take_burst(burst)?;
        if self.state.books.unsettled_of(socket) as usize == burst.len() {
            self.wire.polling.was_idle(socket, now_ns);
        }
        Some(socket)
    }

    /// Writes each query of a burst as a message of its own.
    #[inline]
    pub(super) fn write_queries(&self, socket: usize, burst: &[Due], queries: &mut SendBatch) {
        queries.clear();
        for due in burst {
            let query = queries.add(&self.wire.targets[socket], usize::from(due.bytes), None);
            self.state.supply.write(due.query, due.due_ns, due.key, query);
        }
    }

    /// Sleeps until there is probably something to do: until a burst is due, or until several replies have come. Does
    /// not sleep during a round of looks. `received` is whether a reply came in this turn.
    pub(super) fn rest(&mut self, now_ns: u64, received: bool) -> io::Result<()> {
        if self.wire.polling.is_looking() || self.state.is_seeking() {
            return Ok(());
        }
        if self.state.is_held_back() {
            let most_ns = NAP_LONGEST_NS.min(self.state.supply.nap_most_ns());
            return self.wire.readable.wait(most_ns).map(drop);
        }
        if let (Some(wait), Some(leaves)) = (&mut self.wait, self.state.supply.leaves_ns(self.burst_most)) {
            wait.withheld.runs_first = self.precedence.runs_first();
            return wait.until(&mut self.state, leaves, self.burst_most, now_ns + NAP_LONGEST_NS);
        }
        if let Some(at_ns) = self.state.supply.not_before_ns(self.state.books.waiting()) {
            return self.wire.readable.wait(at_ns.saturating_sub(now_ns).min(NAP_LONGEST_NS)).map(drop);
        }
        match self.nap_ns(received) {
            Some(nap_ns) => {
                self.state.clock.sleep_until_ns(now_ns + nap_ns);
                Ok(())
            }
            None => self.wire.readable.wait(NAP_LONGEST_NS).map(drop),
        }
    }

    /// Ends the sending, and reads replies through `receive` until the end of the drain.
    pub(super) fn drain(
        &mut self,
        receive: impl FnMut(&mut Self, u64) -> io::Result<bool>,
    ) -> io::Result<()> {
        let wait = |thread: &mut Self, most_ns| thread.wire.readable.wait(most_ns).map(drop);
        self.drain_with(receive, wait, |wire| wire.polling.look_for_the_last_time())
    }

    /// Sleeps 50 µs, to wait for room in a socket's send buffer.
    pub(super) fn wait_for_room(&self) {
        self.state.clock.sleep_until_ns(self.state.now_ns() + SEND_NAP_NS);
    }

    /// Records that the kernel accepted these queries at `now_ns`.
    #[inline]
    pub(super) fn sent(&mut self, socket: usize, now_ns: u64, burst: &[Due]) {
        self.wire.polling.sent(socket, now_ns);
        self.state.sent(socket, now_ns, burst);
    }

    /// Records that the kernel refused these queries.
    pub(super) fn refused(&mut self, socket: usize, errno: i32, burst: &[Due]) {
        self.state.books.refused(socket, errno, burst);
    }

    /// Sends through `send`, which returns how many of the remaining messages the kernel took. If the kernel has no
    /// room, tries again up to [`SEND_TRIES`] times. Calls `book` for each message, with the time at which the kernel
    /// took it (see [`taken_up_ns`]) or with the error of the last try.
    #[inline]
    pub(super) fn send_all(
        &mut self,
        socket: usize,
        messages: usize,
        mut send: impl FnMut(&UdpSocket, usize) -> io::Result<usize>,
        mut book: impl FnMut(&mut Self, usize, Result<u64, i32>),
    ) {
        let (mut first, mut tries) = (0, 0);
        let mut began_ns = self.state.now_ns();
        self.state.books.tally.send_began(began_ns);
        while first < messages {
            let errno = match send(&self.wire.sockets[socket], first) {
                Ok(0) if tries < SEND_TRIES => {
                    tries += 1;
                    self.wait_for_room();
                    began_ns = self.state.now_ns();
                    continue;
                }
                Ok(0) => WOULD_BLOCK,
                Ok(taken) => {
                    self.state.books.tally.messages_sent += taken as u64;
                    let call_ns = began_ns..self.state.now_ns();
                    for message in 0..taken {
                        let at_ns = taken_up_ns(&call_ns, message, taken);
                        book(self, first + message, Ok(at_ns));
                    }
                    began_ns = call_ns.end;
                    first += taken;
                    continue;
                }
                Err(error) => error.raw_os_error().unwrap_or(0),
            };
            book(self, first, Err(errno));
            began_ns = self.state.now_ns();
            first += 1;
        }
    }
}

/// When the kernel took a message of those that one call passed to it. It takes one after the other, the first as the
/// call begins.
#[inline]
pub(super) fn taken_up_ns(call_ns: &Range<u64>, message: usize, messages: usize) -> u64 {
    call_ns.start + (call_ns.end - call_ns.start) * message as u64 / messages as u64
}

/// The error number `EAGAIN`.
pub(super) const WOULD_BLOCK: i32 = 11;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use kqps_kernel::interrupts::Interrupts;
    use kqps_kernel::udp::UdpOptions;

    use super::*;
    use crate::plan::tests::plan;
    use crate::plan::{AWAKE_COALESCE_MOST, Arrivals, LoadPlan, Plan};
    use crate::state::tests::Fixture;
    use crate::thread::Signals;

    #[test]
    fn messages_of_one_call_are_taken_up_one_after_another() {
        let at = |messages| (0..messages).map(move |message| taken_up_ns(&(1000..1600), message, messages));
        assert_eq!(at(1).collect::<Vec<_>>(), [1000]);
        assert_eq!(at(3).collect::<Vec<_>>(), [1000, 1200, 1400]);
    }

    #[test]
    fn a_thread_stays_awake_only_to_be_in_time() {
        let closed = plan(SocketAddr::from(([127, 0, 0, 1], 53)));
        let load = LoadPlan::Open { rate_qps: 1.0, arrivals: Arrivals::Even, window: None };
        let open = Plan { load, own_cores: true, cpus: vec![0], ..closed.clone() };
        assert!(open.stays_awake());
        for sleeps in [
            closed,
            Plan { own_cores: false, ..open.clone() },
            Plan { cpus: Vec::new(), ..open.clone() },
            Plan { load: LoadPlan::Closed { outstanding: 1 }, ..open.clone() },
            Plan { coalesce: AWAKE_COALESCE_MOST + Duration::from_nanos(1), ..open.clone() },
        ] {
            assert!(!sleeps.stays_awake(), "{sleeps:?}");
        }
        assert!(Plan { coalesce: AWAKE_COALESCE_MOST, ..open }.stays_awake());
    }

    /// The outcome of three sends, with `send` in the place of the kernel.
    fn outcomes(mut send: impl FnMut(usize) -> io::Result<usize>) -> Vec<Result<(), i32>> {
        let (fixture, stop, broken) = (Fixture::new(), Interrupts::default(), AtomicBool::new(false));
        let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &UdpOptions::default()).unwrap();
        let plan = plan(socket.local_addr().unwrap());
        let signals =
            Signals { ready: &|| None, stop: &stop, broken: &broken, load_ended: &|| (), runs_first: false };
        let (state, sockets) = (fixture.state(1, 16, u64::MAX, Arrivals::Even), [socket]);
        let wire = UdpSockets::new(&sockets, Box::default()).unwrap();
        let mut thread = PlayerThread::new(&plan, 1, wire, state, signals).unwrap();
        let mut outcomes = Vec::new();
        let book = |_: &mut UdpThread<'_>, message, outcome: Result<u64, i32>| {
            assert_eq!(message, outcomes.len());
            outcomes.push(outcome.map(|_| ()));
        };
        thread.send_all(0, 3, |_, first| send(first), book);
        outcomes
    }

    #[test]
    fn a_full_buffer_is_tried_again_until_there_is_room() {
        let mut calls = 0;
        let outcomes = outcomes(|first| {
            calls += 1;
            // There is room for one, then for none for a while, then for all.
            Ok(match calls {
                1 => 1,
                2..=10 => 0,
                _ => 3 - first,
            })
        });
        assert_eq!((outcomes, calls), (vec![Ok(()); 3], 11));
    }

    #[test]
    fn what_is_refused_in_the_end_does_not_stop_the_rest() {
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        assert_eq!(outcomes(|first| if first == 1 { refused(1) } else { Ok(1) }), [Ok(()), Err(1), Ok(())]);
        let mut calls = 0;
        let outcomes = outcomes(|_| {
            calls += 1;
            Ok(0)
        });
        assert_eq!((outcomes, calls), (vec![Err(WOULD_BLOCK); 3], SEND_TRIES + 3));
    }
}
