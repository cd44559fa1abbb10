//! Network namespaces: private networks without other programs' traffic in their counters.
//!
//! A namespace is a file descriptor here. The kernel removes it, with every device in it, when its last descriptor is
//! closed and its last process has ended, for whatever reason. Nothing needs cleaning up, not even after `kill -9`, unless
//! the namespace was given a name on the host ([`named`]): a name stays until it is removed.

mod device;
pub mod drops;
pub mod impair;
#[cfg(test)]
pub(crate) mod joined;
pub mod named;
pub(crate) mod netlink;
pub mod new_routes;
pub mod routes;
pub mod sysfs;
pub mod veth;
pub mod veth_v6;

use std::fs::File;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::sys::check;

/// A network namespace that an open descriptor keeps alive.
#[derive(Debug)]
pub struct NetNs(File);

impl NetNs {
    /// Makes a namespace whose only interface is loopback, up. Requires `CAP_SYS_ADMIN`.
    pub fn new() -> io::Result<Self> {
        let make = || {
            enter_new_network()?;
            // Not `/proc/self`: that is the first thread, which has not changed its namespace.
            File::open("/proc/thread-self/ns/net").map(Self)
        };
        beside(make)
    }

    /// The namespace of this process, whatever its threads have entered.
    pub fn of_this_process() -> io::Result<Self> {
        File::open("/proc/self/ns/net").map(Self)
    }

    /// The namespace of a process.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/ns/net")).map(Self)
    }

    /// The namespace that a path stands for, such as `/proc/PID/fd/N` of a descriptor of another process.
    pub fn at(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// Returns the same namespace by another descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// The inode number that identifies the namespace in `/proc/PID/ns/net`: `net:[4026531840]`.
    pub fn number(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.ino())
    }

    /// Runs `act` within the namespace, on a thread of its own. A socket that `act` opens stays in the
    /// namespace, whichever thread uses it. A child that `act` starts and ties to its parent would die at
    /// once, with that thread; use [`enter`] for children.
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

/// Makes a child start in a namespace. The command keeps the namespace alive until it is dropped.
pub fn enter<'a>(command: &'a mut Command, namespace: &NetNs) -> io::Result<&'a mut Command> {
    let copy = namespace.as_fd().try_clone_to_owned()?;
    // SAFETY: between fork and exec the closure calls only setns, on a descriptor that it keeps open.
    Ok(unsafe { command.pre_exec(move || set(copy.as_fd())) })
}

/// Moves the calling thread, and what it starts from now on, into a new network namespace whose only interface
/// is loopback, up. Requires `CAP_SYS_ADMIN`. The namespace ends with its last thread and socket.
pub fn enter_new_network() -> io::Result<()> {
    enter_silent_network()?;
    // SAFETY: an interface request is plain old data.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: the request is live and of the type that this call reads.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) }).map(drop)
}

/// Like [`enter_new_network`], but loopback stays down, so that nothing can be sent.
pub fn enter_silent_network() -> io::Result<()> {
    // SAFETY: the call touches no memory, and changes the calling thread only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Moves the calling thread, and the threads that it starts from now on, into a namespace for good. Requires
/// `CAP_SYS_ADMIN`.
pub fn move_into(namespace: &NetNs) -> io::Result<()> {
    set(namespace.as_fd())
}

fn set(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?)
}

/// Runs `act` on a thread that ends with it. Namespaces belong to threads, so nothing needs to be restored
/// afterwards.
fn beside<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| scope.spawn(act).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
