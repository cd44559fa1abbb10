//! Which cores a thread may run on.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::sys::check;

/// Pins the calling thread to one core. Fails when the core does not exist or is not allowed here.
pub fn pin_thread(cpu: u32) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as u32 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no core {cpu}")));
    }
    // SAFETY: a CPU set is an array of integers.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: the number was checked to lie within the set.
    unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    // SAFETY: the pointer is to a live set of the size given; 0 is the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })
        .map(drop)
        .map_err(|error| io::Error::new(error.kind(), format!("core {cpu}: {error}")))
}

/// The calling thread's ID, as `/proc/<pid>/task` has it.
pub fn thread_id() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// Confines a child, and all that it starts, to these cores from its first instruction on. An empty list
/// leaves it as it is. Starting it fails when none of them exists or is allowed here.
pub fn confine<'c>(command: &'c mut Command, cpus: &[u32]) -> &'c mut Command {
    if cpus.is_empty() {
        return command;
    }
    // SAFETY: a CPU set is an array of integers.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as u32) {
        // SAFETY: the number was checked to lie within the set.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    // SAFETY: between fork and exec only sched_setaffinity is called, a plain system call, on a set that the
    // closure owns.
    unsafe {
        command.pre_exec(move || {
            check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)).map(drop)
        })
    }
}

/// The cores that the calling thread may run on, ascending.
pub fn allowed() -> io::Result<Vec<u32>> {
    // SAFETY: a CPU set is an array of integers.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: the pointer is to a live set of the size given; 0 is the calling thread.
    check(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) })?;
    // SAFETY: the numbers lie within the set.
    Ok((0..libc::CPU_SETSIZE as u32).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu as usize, &set) }).collect())
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
