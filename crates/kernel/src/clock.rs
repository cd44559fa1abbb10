//! Reading clocks in nanoseconds, and sleeping until a given time.

use std::io;
use std::num::NonZeroU64;

use rustix::io::Errno;
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

use crate::sys::{check, timespec};

#[inline]
fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Monotonic time (`CLOCK_MONOTONIC`) in nanoseconds since an unspecified moment around boot.
#[inline]
pub fn now_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Seconds of [`now_ns`], up to 10 ms late: the cheapest clock that no step of the wall clock changes
/// (`CLOCK_MONOTONIC_COARSE`). It stands still while the system is suspended.
#[inline]
pub fn now_s() -> u64 {
    read_ns(ClockId::MonotonicCoarse) / 1_000_000_000
}

/// Seconds since 1970, up to 10 ms late: the cheapest clock (`CLOCK_REALTIME_COARSE`).
#[inline]
pub fn wall_s() -> u64 {
    read_ns(ClockId::RealtimeCoarse) / 1_000_000_000
}

/// A time as the clock on the wall shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// The year, such as 2026.
    pub year: i32,
    /// The month, 1 to 12.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
    /// The day of the week, 0 for Sunday.
    pub weekday: u8,
    /// The hour, 0 to 23.
    pub hour: u8,
    /// The minute.
    pub minute: u8,
    /// The second.
    pub second: u8,
}

/// The local time of a moment, in seconds since 1970, by the time zone of this process (`localtime_r(3)`). `None` if it
/// cannot be represented.
pub fn local_time(unix_s: u64) -> Option<LocalTime> {
    let seconds = i64::try_from(unix_s).ok()?;
    // SAFETY: `tm` is a structure of integers and a pointer, for which zero bytes are a value.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the right types, and the function keeps neither.
    if unsafe { libc::localtime_r(&raw const seconds, &raw mut local) }.is_null() {
        return None;
    }
    Some(LocalTime {
        year: local.tm_year + 1900,
        month: local.tm_mon as u8 + 1,
        day: local.tm_mday as u8,
        weekday: local.tm_wday as u8,
        hour: local.tm_hour as u8,
        minute: local.tm_min as u8,
        second: local.tm_sec as u8,
    })
}

/// The difference between `CLOCK_REALTIME`, which kernel timestamps of packets use, and [`now_ns`]. Add it to
/// [`now_ns`]. It is the tightest of nine readings, and a step of the wall clock invalidates it.
pub fn realtime_offset_ns() -> i64 {
    let sample = || {
        let before = now_ns();
        let real = read_ns(ClockId::Realtime);
        let after = now_ns();
        (after - before, real as i64 - i64::midpoint(before as i64, after as i64))
    };
    (0..9).map(|_| sample()).min().map_or(0, |(_, offset_ns)| offset_ns)
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

/// CPU time of another thread of this process in nanoseconds, by its ID ([`crate::affinity::thread_id`]). Up to date
/// even while the thread runs. Fails if the thread has ended.
pub fn thread_cpu_ns_of(thread: u32) -> io::Result<u64> {
    // The kernel's number of this clock (include/linux/posix-timers.h, `make_thread_cpuclock`): the complement of
    // the thread ID, a bit for a thread instead of a process, and 2 for the scheduler's CPU time.
    let clock = (!can_exist(thread)? << 3) | 4 | 2;
    read_ns_of(clock)
}

/// CPU time of all threads of this process, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    read_ns(ClockId::ProcessCPUTime)
}

/// CPU time of all threads of another process, including those that have ended, in nanoseconds. Works for a process
/// that has ended until its parent has waited for it.
pub fn process_cpu_ns_of(pid: u32) -> io::Result<u64> {
    let mut clock = 0;
    // SAFETY: the pointer is to a live clock ID, which the call writes.
    let error = unsafe { libc::clock_getcpuclockid(can_exist(pid)?, &raw mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    read_ns_of(clock)
}

/// The ID of a process or a thread. One above 2²² cannot exist on Linux (`PID_MAX_LIMIT`). The number of its clock
/// would lose the ID's upper bits and could be the clock of another process, or of this one.
fn can_exist(id: u32) -> io::Result<libc::pid_t> {
    if id > 1 << 22 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(id as libc::pid_t)
}

/// Reads the clock of another process or thread, which may have ended.
fn read_ns_of(clock: libc::clockid_t) -> io::Result<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec. A clock that does not exist is an error.
    check(unsafe { libc::clock_gettime(clock, &raw mut now) })?;
    Ok(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Sleeps until [`now_ns`] reaches `deadline_ns`, and wakes up later by up to the timer slack. A signal does not end
/// the sleep.
pub fn sleep_until_ns(deadline_ns: u64) {
    let deadline = timespec(deadline_ns);
    while clock_nanosleep_absolute(ClockId::Monotonic, &deadline) == Err(Errno::INTR) {}
}

/// Sets the timer slack: by how many nanoseconds the kernel may delay the calling thread's timers, to let several
/// expire at once. The default is 50,000 ns; the minimum is 1 ns.
pub fn set_timer_slack_ns(slack_ns: u64) -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(slack_ns))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_ends_at_or_after_the_deadline() {
        set_timer_slack_ns(1).unwrap();
        let deadline_ns = now_ns() + 200_000;
        sleep_until_ns(deadline_ns);
        assert!(now_ns() >= deadline_ns);
    }

    #[test]
    fn coarse_seconds_are_those_of_the_clock() {
        let before_s = now_s();
        let (now_s_exactly, after_s) = (now_ns() / 1_000_000_000, now_s());
        assert!(before_s <= now_s_exactly && now_s_exactly.abs_diff(after_s) <= 1);
    }

    #[test]
    fn the_offset_leads_from_one_clock_to_the_other() {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let wall_ns = now_ns() as i64 + realtime_offset_ns();
        assert!((wall_ns - since_1970.as_nanos() as i64).abs() < 1_000_000_000);
        assert!(since_1970.as_secs().abs_diff(wall_s()) <= 1);
    }

    #[test]
    fn cpu_time_of_a_process_by_its_number() {
        let before_ns = process_cpu_ns();
        let used_ns = process_cpu_ns_of(std::process::id()).unwrap();
        assert!((before_ns..=process_cpu_ns()).contains(&used_ns));
        // Process IDs on Linux are at most 2²².
        assert!(process_cpu_ns_of((1 << 22) + 1).is_err());
        assert!(process_cpu_ns_of(u32::MAX >> 1).is_err(), "shifted it is the clock of this process");
    }

    #[test]
    fn cpu_time_of_another_thread_by_its_number() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, may_end) = std::sync::mpsc::channel::<()>();
        let spin = move || {
            while thread_cpu_ns() < 2_000_000 {}
            sender.send((crate::affinity::thread_id(), thread_cpu_ns())).unwrap();
            may_end.recv().unwrap();
            thread_cpu_ns()
        };
        let other = std::thread::spawn(spin);
        let (thread, least_ns) = receiver.recv().unwrap();
        let used_ns = thread_cpu_ns_of(thread).unwrap();
        end.send(()).unwrap();
        assert!((least_ns..=other.join().unwrap()).contains(&used_ns));
        // Thread IDs on Linux are at most 2²².
        assert!(thread_cpu_ns_of((1 << 22) + 1).is_err());
    }

    #[test]
    fn cpu_time_is_of_the_thread() {
        let before_ns = thread_cpu_ns();
        while thread_cpu_ns() < before_ns + 100_000 {}
        assert!(process_cpu_ns() >= before_ns + 100_000);
    }
}
