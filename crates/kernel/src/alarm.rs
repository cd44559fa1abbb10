//! Repeated sleeps, for callers that often know the next wake-up time in advance.
//!
//! The timer chip of a core is set to the earliest timer of that core. On a virtual machine, setting the chip
//! involves the hypervisor and takes microseconds. A new timer sets the chip if it is the earliest. Every timer
//! interrupt also sets it, to the timer that follows. An alarm that is set while an earlier one is running therefore
//! costs no extra access: the interrupt of the earlier alarm sets the chip for it.

use std::io;
use std::mem::swap;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, read};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::sys::timespec;

/// Two alarms that alternate (`timerfd_create(2)`). All times are those of [`crate::clock::now_ns`].
#[derive(Debug)]
pub struct Alarms {
    next: Alarm,
    after: Alarm,
}

#[derive(Debug)]
struct Alarm {
    timer: OwnedFd,
    /// When it goes off, or when it went off if no call waited for it; `None` if it is not set.
    at_ns: Option<u64>,
}

impl Alarms {
    /// Two alarms that are not set. Fails if the process has no free file descriptor.
    pub fn new() -> io::Result<Self> {
        Ok(Self { next: Alarm::new()?, after: Alarm::new()? })
    }

    /// The time of the alarm that the previous call set in advance, which may be past; `None` if it set none.
    #[inline]
    pub fn announced_ns(&self) -> Option<u64> {
        self.next.at_ns
    }

    /// Sleeps until `at_ns`. The call is cheaper if `at_ns` is [`Self::announced_ns`]. A signal does not end the sleep.
    /// `then_ns`, later than `at_ns`, is when the next sleep will probably end.
    pub fn sleep_until_ns(&mut self, at_ns: u64, then_ns: Option<u64>) -> io::Result<()> {
        self.next.set(at_ns)?;
        if let Some(then_ns) = then_ns {
            self.after.set(then_ns)?;
        }
        self.next.wait()?;
        swap(&mut self.next, &mut self.after);
        Ok(())
    }
}

impl Alarm {
    fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        Ok(Self { timer, at_ns: None })
    }

    /// Sets the alarm to go off once, or at once if the time is past. Does nothing if it is set to this time
    /// already.
    fn set(&mut self, at_ns: u64) -> io::Result<()> {
        if self.at_ns == Some(at_ns) {
            return Ok(());
        }
        // To the kernel, 0 means "off".
        let when = Itimerspec { it_interval: timespec(0), it_value: timespec(at_ns.max(1)) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &when)?;
        self.at_ns = Some(at_ns);
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        let mut times = [0; size_of::<u64>()];
        loop {
            match read(&self.timer, &mut times) {
                Ok(_) => {
                    self.at_ns = None;
                    return Ok(());
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_sleep_ends_on_time_whatever_was_announced() {
        let mut alarms = Alarms::new().unwrap();
        let start_ns = clock::now_ns();
        // In turn: nothing set before; as set in advance; later than set; earlier than set; none set; and a
        // next time that is past, which callers should not pass, although it does no harm.
        let moments: [(u64, Option<u64>); 6] = [
            (1_000_000, Some(2_000_000)),
            (2_000_000, Some(2_500_000)),
            (4_000_000, Some(60_000_000_000)),
            (5_000_000, None),
            (6_000_000, Some(1_000_000)),
            (7_000_000, None),
        ];
        for (at_ns, then_ns) in moments {
            alarms.sleep_until_ns(start_ns + at_ns, then_ns.map(|then_ns| start_ns + then_ns)).unwrap();
            let slept_ns = clock::now_ns() - start_ns;
            assert!((at_ns..at_ns + 10_000_000_000).contains(&slept_ns), "{at_ns}: {slept_ns}");
            assert!(alarms.announced_ns() == then_ns.map(|then_ns| start_ns + then_ns));
        }
    }

    #[test]
    fn a_moment_that_is_past_is_not_slept_for() {
        let mut alarms = Alarms::new().unwrap();
        let now_ns = clock::now_ns();
        for at_ns in [0, 1, 1, 1, now_ns, now_ns, now_ns] {
            alarms.sleep_until_ns(at_ns, None).unwrap();
        }
    }
}
