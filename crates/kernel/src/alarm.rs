//! Sleeping again and again, for those who know the moment after the next one too.
//!
//! A core's timer chip is set to the earliest of its timers, which on a virtual machine takes the hypervisor, and
//! microseconds. Whoever sets a timer that is the earliest sets the chip, and so does every interrupt of a timer, to the
//! one that follows. So an alarm that is told while an earlier one is running needs no chip: the interrupt of the earlier
//! one, which sets it anyway, sets it to this.

use std::io;
use std::mem::swap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use crate::sys::{check, check_size, is_not_now, timespec};

/// Two alarms that take turns (`timerfd_create(2)`). All times are those of [`crate::clock::now_ns`].
#[derive(Debug)]
pub struct Alarms {
    next: Alarm,
    after: Alarm,
}

#[derive(Debug)]
struct Alarm {
    timer: OwnedFd,
    /// When it is to go off, or went off without anybody waiting; none when it is set to nothing.
    at_ns: Option<u64>,
}

impl Alarms {
    /// Two alarms that are set to nothing. Fails when the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { next: Alarm::new()?, after: Alarm::new()? })
    }

    /// When the alarm that was told ahead goes off, or went off.
    #[inline]
    pub fn told_ns(&self) -> Option<u64> {
        self.next.at_ns
    }

    /// Sleeps until `at_ns`, which is cheaper where that is [`Self::told_ns`]; a signal does not wake it for good. `then_ns`,
    /// later than that, is when the sleep after this one is likely to end.
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
        // SAFETY: the call takes numbers and touches no memory.
        let fd = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) })?;
        // SAFETY: the descriptor is new, and nobody else's.
        Ok(Self { timer: unsafe { OwnedFd::from_raw_fd(fd) }, at_ns: None })
    }

    /// Sets it to go off once, unless it is set to that, at once if the moment is past.
    fn set(&mut self, at_ns: u64) -> io::Result<()> {
        if self.at_ns == Some(at_ns) {
            return Ok(());
        }
        // The kernel takes 0 as "off".
        let when = libc::itimerspec { it_interval: timespec(0), it_value: timespec(at_ns.max(1)) };
        let (fd, flags) = (self.timer.as_raw_fd(), libc::TFD_TIMER_ABSTIME);
        // SAFETY: the pointer is to a live structure, which the kernel reads; it is not asked for the one before.
        check(unsafe { libc::timerfd_settime(fd, flags, &raw const when, null_mut()) })?;
        self.at_ns = Some(at_ns);
        Ok(())
    }

    /// Waits until it goes off.
    fn wait(&mut self) -> io::Result<()> {
        let mut times = 0_u64;
        loop {
            // SAFETY: the pointer is to live memory of the length told.
            let read =
                unsafe { libc::read(self.timer.as_raw_fd(), (&raw mut times).cast(), size_of::<u64>()) };
            match check_size(read) {
                Ok(_) => {
                    self.at_ns = None;
                    return Ok(());
                }
                Err(error) if is_not_now(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_sleep_ends_at_its_moment_whatever_was_told() {
        let mut alarms = Alarms::new().unwrap();
        let start_ns = clock::now_ns();
        // Told nothing before; as told; later than told; earlier than told; told nothing; told what is past, which a caller
        // should not, and which does no harm.
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
            assert!(alarms.told_ns() == then_ns.map(|then_ns| start_ns + then_ns));
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
