//! Frames past the kernel's network stack (`AF_XDP`, `Documentation/networking/af_xdp.rst`): sockets with their frames
//! and rings, and the program on a device that hands matching frames to them.
//!
//! A socket serves one queue of one device, and one thread. The program is held by a BPF link, which ends with the
//! process for whatever reason. What the program does not match goes on to the kernel.

mod attached;
mod carrier;
pub mod devices;
pub mod memory;
mod netdev;
pub mod place;
mod prefetch;
mod program;
mod rings;
pub mod route;
mod socket;
mod transmitter;
pub(crate) mod trial;
mod umem;

use std::io;

pub use attached::Attached;
pub use program::{Filter, Prefix, Protocols};
pub use socket::{RECEIVED_BYTES, ROOM_BYTES, SENT_BACK, XdpSocket, XdpStatistics};

/// Where a program runs, and whether frames are copied between the device and a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// The best that the driver has: the program in the driver and no copy, or else in the stack and with a copy.
    #[default]
    Auto,
    /// Frames are copied, also if the driver could do without. The program runs in the driver if it has a place for it.
    Copy,
    /// Frames are not copied, and the program runs in the driver. Fails if the driver cannot do that.
    ZeroCopy,
}

/// Settings of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpSettings {
    /// The index of the device (netdevice(7)) in the network namespace of the calling thread.
    pub device: u32,
    /// The queue of the device, counted from 0. No other socket may have it.
    pub queue: u32,
    /// Frames of 2048 bytes: a power of two from 2 to 2²⁰. Half of them receive; the others send.
    pub frames: u32,
    /// Whether frames are copied.
    pub mode: XdpMode,
}

/// Names the step that failed in its error.
fn failed(step: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{step}: {error}"))
}

#[cfg(test)]
mod tests;
