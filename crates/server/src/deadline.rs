//! Waiting for the next event of a server, at most until its end.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::Duration;

use kqps_kernel::clock::now_ns;
use kqps_kernel::poll::{FOREVER_NS, PollSet};
use kqps_kernel::process::Signal;
use kqps_kernel::signal::Signals;

/// The time at which a server ends if no signal ends it before.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    end_ns: u64,
}

/// The event that ended a wait.
pub(crate) enum Event {
    /// The time has passed, or a signal to end arrived.
    End(Option<Signal>),
    /// SIGHUP arrived.
    HangUp,
    /// The descriptor with this index is readable.
    From(usize),
}

impl Deadline {
    /// This time from now; `None` for no end.
    pub(crate) fn after(time: Option<Duration>) -> Self {
        Self { end_ns: time.map_or(FOREVER_NS, |time| now_ns() + time.as_nanos() as u64) }
    }

    /// Waits for a signal, the end of the time, or one of these descriptors to become readable.
    pub(crate) fn wait(self, signals: &Signals, descriptors: &[RawFd]) -> io::Result<Event> {
        let signal = signals.as_raw_fd();
        let mut set = PollSet::new(std::iter::once(&signal).chain(descriptors));
        loop {
            let now_ns = now_ns();
            if now_ns >= self.end_ns {
                return Ok(Event::End(None));
            }
            let left_ns = if self.end_ns == FOREVER_NS { FOREVER_NS } else { self.end_ns - now_ns };
            if !set.wait(left_ns)? {
                continue;
            }
            match signals.read()? {
                Some(Signal::HangUp) => return Ok(Event::HangUp),
                Some(signal) => return Ok(Event::End(Some(signal))),
                None => {}
            }
            if let Some(place) = (0..descriptors.len()).find(|place| set.is_ready(place + 1)) {
                return Ok(Event::From(place));
            }
        }
    }
}
