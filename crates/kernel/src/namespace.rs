//! Network namespaces: an empty network of one's own, with nobody else's traffic in its counters.
//!
//! A namespace is a descriptor here, and has no name on the host: the kernel takes it down, with every device
//! in it, when the last descriptor is closed and the last process in it has ended, whatever ended them. There
//! is nothing to clean up, not even after `kill -9`.

mod device;
pub mod drops;
mod netlink;
pub mod spreading;
pub mod veth;

use std::fs::File;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::sys::check;

/// A network namespace that is held by an open descriptor.
#[derive(Debug)]
pub struct NetNs(File);

impl NetNs {
    /// Makes a namespace whose only interface is loopback, up. Needs the right to administer the system
    /// (`CAP_SYS_ADMIN`).
    pub fn new() -> io::Result<Self> {
        let make = || {
            enter_new_network()?;
            // Not `/proc/self`, which is the first thread, and that one has stayed where it was.
            File::open("/proc/thread-self/ns/net").map(Self)
        };
        beside(make)
    }

    /// The namespace that a process is in.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/ns/net")).map(Self)
    }

    /// Its number, by which `/proc/PID/ns/net` names it: `net:[4026531840]`.
    pub fn number(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.ino())
    }

    /// Does something within the namespace, on a thread of its own. A socket that is opened in there stays
    /// there, whoever uses it; a child that is started in there and tied to its parent would end at once, with
    /// the thread: see [`enter`].
    pub fn within<T: Send>(&self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        beside(|| {
            set(self.as_fd())?;
            act()
        })
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Has a child begin its life in a namespace. The command keeps the namespace alive until it is dropped.
pub fn enter<'a>(command: &'a mut Command, namespace: &NetNs) -> io::Result<&'a mut Command> {
    let copy = namespace.as_fd().try_clone_to_owned()?;
    // SAFETY: between fork and exec only setns is called, on a descriptor that the closure keeps open.
    Ok(unsafe { command.pre_exec(move || set(copy.as_fd())) })
}

/// Moves the calling thread, and what it starts from now on, into a new network namespace whose only
/// interface is loopback, up. Needs the right to administer the system (`CAP_SYS_ADMIN`). The namespace ends
/// with its last thread and socket.
pub fn enter_new_network() -> io::Result<()> {
    enter_silent_network()?;
    // SAFETY: an interface request is plain old data.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: the request is live and of the kind that this call reads.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }).map(drop)
}

/// The same with loopback down, so that nothing can be sent at all.
pub fn enter_silent_network() -> io::Result<()> {
    // SAFETY: the call touches no memory, and changes the calling thread only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

fn set(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call touches no memory, and changes the calling thread only.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Namespaces belong to threads: what changes one is done on a thread that ends with it, so that it need not
/// be put back.
fn beside<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| scope.spawn(act).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
