//! A program on a device, which hands frames to sockets.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};

use super::carrier::Carrier;
use super::program::{COUNTERS, Filter, MATCHED, UNCLAIMED, program};
use super::socket::XdpSocket;
use super::{XdpMode, XdpSettings, failed};
use crate::bpf;

/// More queues than a device has.
const QUEUES_MOST: u32 = 1 << 12;

/// Advice for a device that has a program. Some players leave theirs there when they end.
const IS_TAKEN: &str = "attaching an XDP program: the device has one already; end the command that it belongs to, or \
                        take a forgotten one away with `ip link set DEVICE xdp off`";

/// A program that runs on every frame that a device receives. When the value is dropped, or the process ends in
/// whatever way, the kernel removes the program from the device.
#[derive(Debug)]
pub struct Attached {
    /// Keeps the program on the device.
    link: OwnedFd,
    sockets: OwnedFd,
    counters: OwnedFd,
    device: u32,
    /// The device's carrier before it got the program.
    carrier: Carrier,
    mode: XdpMode,
    /// Why the program is not in the driver.
    not_native: Option<io::Error>,
}

impl Attached {
    /// Puts a program on a device of the calling thread's network namespace. Requires `CAP_NET_ADMIN` and `CAP_BPF`,
    /// and Linux 5.9. Fails if another program is on the device. The error names the step that the kernel refused.
    pub fn attach(filter: &Filter, mode: XdpMode) -> io::Result<Self> {
        let sockets = bpf::sockets(QUEUES_MOST).map_err(failed("making a map of sockets"))?;
        let counters = bpf::counters(COUNTERS).map_err(failed("making counters"))?;
        let program = program(filter, sockets.as_fd(), counters.as_fd())?;
        let program = bpf::load(&program, bpf::OF_XDP).map_err(failed("loading an XDP program"))?;
        let carrier = Carrier::read(filter.device).map_err(failed("asking for the carrier"))?;
        let attach = |place| bpf::attach(program.as_fd(), filter.device, place);
        let (link, not_native) = match attach(bpf::IN_DRIVER) {
            Ok(link) => (link, None),
            // A second program cannot be in the stack either.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, IS_TAKEN));
            }
            Err(error) if mode == XdpMode::ZeroCopy => {
                return Err(failed("attaching an XDP program in the driver")(error));
            }
            // In the stack every device can have one.
            Err(error) => {
                let link = attach(bpf::IN_STACK).map_err(failed("attaching an XDP program"))?;
                (link, Some(error))
            }
        };
        Ok(Self { link, sockets, counters, device: filter.device, carrier, mode, not_native })
    }

    /// Whether the program runs in the device's driver. Otherwise it runs in the stack, for which the kernel makes a
    /// buffer of its own for every frame first.
    pub fn is_native(&self) -> bool {
        self.not_native.is_none()
    }

    /// Whether the device had its carrier before it got the program. Without one it drops all that it should send.
    pub fn had_carrier(&self) -> bool {
        self.carrier.is_on
    }

    /// The error with which the driver refused the program, if it does not run there.
    pub fn why_not_native(&self) -> Option<&io::Error> {
        self.not_native.as_ref()
    }

    /// Opens a socket on each of these queues of the program's device, in their order, and has matching frames of the
    /// queues handed to them from now on. `frames` is the number of frames of each ([`XdpSettings::frames`]). If the
    /// program runs in the stack, frames are copied, since a driver then has none to share. If the driver reset the
    /// link for the program or the sockets, waits until it has its carrier again, and fails after 5 s. The error names
    /// the step that the kernel refused. Call it in the network namespace of the device.
    pub fn open(&self, queues: Range<u32>, frames: u32) -> io::Result<Vec<XdpSocket>> {
        let mode = if self.is_native() { self.mode } else { XdpMode::Copy };
        let open = |queue| {
            let socket = XdpSocket::open(&XdpSettings { device: self.device, queue, frames, mode })?;
            self.join(&socket).map(|()| socket)
        };
        let sockets = queues.map(open).collect::<io::Result<Vec<_>>>()?;
        let awaited = self.carrier.await_again(self.device);
        awaited.map_err(failed("waiting for the link after the program was attached"))?;
        Ok(sockets)
    }

    /// Hands the matching frames of a socket's queue to the socket from now on. The socket must be of the filter's
    /// device.
    pub fn join(&self, socket: &XdpSocket) -> io::Result<()> {
        let joined = bpf::put_socket(self.sockets.as_fd(), socket.queue(), socket.as_fd());
        joined.map_err(failed("joining a socket to an XDP program"))
    }

    /// Takes the program off the device. When this returns, no core runs it any more: all frames that matched are in
    /// their sockets' rings or were dropped, and the counts stay as they are.
    pub fn detach(&self) -> io::Result<()> {
        bpf::detach(self.link.as_fd()).map_err(failed("detaching an XDP program"))?;
        bpf::await_cores();
        Ok(())
    }

    /// The number of frames so far, over all cores, that matched and went to a socket. Each of them was read or is
    /// still to be read there, or its socket dropped it ([`super::XdpStatistics::dropped`]).
    pub fn matched(&self) -> io::Result<u64> {
        bpf::sum(self.counters.as_fd(), MATCHED)
    }

    /// The number of frames so far that matched, but came by a queue without a socket, and went on to the kernel.
    pub fn unclaimed(&self) -> io::Result<u64> {
        bpf::sum(self.counters.as_fd(), UNCLAIMED)
    }
}
