//! Setting and reading the cores on which a thread may run.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Pid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

/// Pins the calling thread to one core. Fails if the core does not exist or this process may not use it.
pub fn pin_thread(cpu: u32) -> io::Result<()> {
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no core {cpu}")));
    }
    let pinned = sched_setaffinity(None, &set_of(&[cpu]));
    pinned.map_err(|error| io::Error::new(error.kind(), format!("core {cpu}: {error}")))
}

/// The calling thread's ID, as in `/proc/<pid>/task`.
pub fn thread_id() -> u32 {
    gettid().as_raw_nonzero().get() as u32
}

/// Restricts a child process, and all that it starts, to these cores from its first instruction. An empty list
/// changes nothing. Starting the child fails if none of the cores exists or may be used.
pub fn confine<'c>(command: &'c mut Command, cpus: &[u32]) -> &'c mut Command {
    if cpus.is_empty() {
        return command;
    }
    let set = set_of(cpus);
    // SAFETY: between fork and exec the closure calls only sched_setaffinity, a plain system call, on a set
    // that it owns.
    unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &set)?)) }
}

/// Restricts another thread, by its ID in `/proc/PID/task`, to these cores, unless its own cores are a subset
/// already. A thread that has ended is no error.
pub fn confine_thread(thread: u32, cpus: &[u32]) -> io::Result<()> {
    let confine = || Ok(sched_setaffinity(of_thread(thread), &set_of(cpus))?);
    let confined = allowed_to(thread).and_then(|found| {
        let is_inside = found.iter().all(|cpu| cpus.contains(cpu));
        if is_inside { Ok(()) } else { confine() }
    });
    match confined {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other,
    }
}

/// A set of these cores, without numbers that a set cannot hold.
fn set_of(cpus: &[u32]) -> CpuSet {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| (cpu as usize) < CpuSet::MAX_CPU) {
        set.set(cpu as usize);
    }
    set
}

/// The cores that the calling thread may run on, ascending.
pub fn allowed() -> io::Result<Vec<u32>> {
    // 0 is the calling thread.
    allowed_to(0)
}

/// The cores that another thread may run on, by its ID in `/proc/PID/task`, ascending.
pub fn allowed_to(thread: u32) -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(of_thread(thread))?;
    Ok((0..CpuSet::MAX_CPU as u32).filter(|&cpu| set.is_set(cpu as usize)).collect())
}

/// The thread of this ID; `None` stands for the calling thread.
fn of_thread(thread: u32) -> Option<Pid> {
    i32::try_from(thread).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_confined() {
        let cpu = *allowed().unwrap().first().unwrap();
        let mut command = Command::new("grep");
        command.args(["Cpus_allowed_list", "/proc/self/status"]);
        let output = confine(&mut command, &[cpu]).output().unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap().split_whitespace().last(),
            Some(&*cpu.to_string())
        );
        assert!(confine(&mut Command::new("true"), &[1023]).output().is_err());
    }

    #[test]
    fn another_thread_is_confined_and_one_that_ended_is_no_error() {
        let cpu = *allowed().unwrap().last().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            sender.send(thread_id()).unwrap();
            may_go_on.recv().unwrap();
            allowed().unwrap()
        });
        let thread = receiver.recv().unwrap();
        confine_thread(thread, &[cpu]).unwrap();
        // The thread's cores are a subset already, so nothing changes.
        confine_thread(thread, &(0..1024).collect::<Vec<u32>>()).unwrap();
        go_on.send(()).unwrap();
        assert_eq!(other.join().unwrap(), [cpu]);
        // Larger than any thread ID: /proc/sys/kernel/pid_max is at most 2^22.
        confine_thread(1 << 23, &[cpu]).unwrap();
        assert!(confine_thread(thread_id(), &[1023]).is_err());
    }

    #[test]
    fn a_pinned_thread_has_one_core() {
        let cpu = *allowed().unwrap().last().unwrap();
        std::thread::spawn(move || {
            pin_thread(cpu).unwrap();
            assert_eq!(allowed().unwrap(), [cpu]);
            assert!(pin_thread(1023).unwrap_err().to_string().contains("core 1023"));
            assert!(pin_thread(5000).is_err());
        })
        .join()
        .unwrap();
    }
}
