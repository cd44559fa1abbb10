//! Frames past the kernel's network stack (`AF_XDP`): the program on a device that selects them, and the queue of a
//! worker that has them.

use std::fmt;
use std::io;
use std::sync::Arc;

use kqps_kernel::xdp::{Attached, XdpSocket};

/// The program on a device that hands the server's frames to the workers' queues. It leaves the device with this value
/// or with the process.
#[derive(Debug)]
pub struct Program {
    attached: Attached,
    device: String,
    is_zero_copy: bool,
}

impl Program {
    /// A program that is on the device of this name. `is_zero_copy` says whether no queue copies frames.
    pub(crate) fn new(attached: Attached, device: String, is_zero_copy: bool) -> Self {
        Self { attached, device, is_zero_copy }
    }

    /// The name of the device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Whether the program runs in the device's driver, and not later in the stack.
    pub fn is_native(&self) -> bool {
        self.attached.is_native()
    }

    /// Whether the device reads and writes the frames of all queues itself. Otherwise the kernel copies them.
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Takes the program off the device. From then on no queue gets another frame, and the counts stay as they are.
    pub(crate) fn detach(&self) -> io::Result<()> {
        self.attached.detach()
    }

    /// The number of frames that went to queues of workers.
    pub(crate) fn matched(&self) -> io::Result<u64> {
        self.attached.matched()
    }

    /// The number of the server's frames that came by a queue without a worker, and went to the kernel.
    pub(crate) fn unclaimed(&self) -> io::Result<u64> {
        self.attached.unclaimed()
    }
}

/// The queue of one worker.
pub struct Queue {
    /// The frames of the queue.
    pub(crate) socket: XdpSocket,
    /// The length of the longest IP packet that the device sends, in bytes.
    pub(crate) mtu: usize,
    /// The program that fills the queue, which stays on the device as long as a worker has a queue.
    pub(crate) program: Arc<Program>,
    /// Datagrams that came to the worker by the kernel.
    pub(crate) by_kernel: u64,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("number", &self.socket.queue()).finish_non_exhaustive()
    }
}
