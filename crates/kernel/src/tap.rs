//! A tap: the UDP packets of some ports that pass an interface, each with the time at which the kernel took it from the
//! interface or handed it over (packet(7), `TPACKET_V3`).
//!
//! The kernel copies the beginning of each packet into a ring. What finds the ring full is counted, and no packet is
//! lost without being counted.

mod filter;
mod ring;
mod sample;

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;

use rustix::net::netdevice::name_to_index;
use socket2::{Domain, Socket, Type};

use crate::poll::wait_any;
use crate::sys::{check, get_option, set_option};
use crate::{bpf, clock};
use filter::{Filter, nothing};
use ring::Ring;
pub use sample::Sample;

/// The settings of a tap: the packets that it copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapSettings {
    /// The name of an interface of the calling thread's network namespace.
    pub interface: String,
    /// The ports of a server. Packets come in to one of these, and go out from it.
    pub ports: Vec<u16>,
    /// The sample of these packets: by the first two bytes of their payload.
    pub sample: Sample,
    /// The bytes of the frame that are copied. Of several datagrams that travel as one packet, all bytes are copied.
    pub snap_bytes: u32,
}

/// A packet. If a datagram was sent in fragments, it is the first one.
#[derive(Clone, Copy, Debug)]
pub struct Tapped<'a> {
    /// Whether this host sent it.
    pub is_outgoing: bool,
    /// When the kernel got it from the interface, or handed it over: nanoseconds of `CLOCK_REALTIME`.
    pub stamped_ns: u64,
    /// The packet from its IP header on, cut to [`TapSettings::snap_bytes`].
    pub bytes: &'a [u8],
    /// If several datagrams travel as one packet, the payload of each but the last, in bytes. They share one UDP header.
    pub segment_bytes: Option<u16>,
}

/// The packets of a tap so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapCounts {
    /// Packets that were put into the ring.
    pub passed: u64,
    /// Packets that found no room in it.
    pub dropped: u64,
}

/// A tap. Dropping it ends it.
#[derive(Debug)]
pub struct Tap {
    socket: OwnedFd,
    ring: Ring,
    counts: TapCounts,
}

/// A packet of the interface in either direction.
const ALL_PROTOCOLS: u16 = libc::ETH_P_ALL as u16;

impl Tap {
    /// Begins to copy packets. Requires `CAP_NET_RAW` and `CAP_BPF`. The error names the step that the kernel refused.
    pub fn open(settings: &TapSettings) -> io::Result<Self> {
        let needs = |what: &'static str| {
            move |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"))
        };
        let interface = index_of(&settings.interface)?;
        // Without a protocol the socket gets no packet yet.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None).map(OwnedFd::from);
        let socket = socket.map_err(needs("a packet socket, which needs CAP_NET_RAW"))?;
        bind(&socket, interface, 0)?;
        let program = Filter {
            ports: &settings.ports,
            sample: settings.sample,
            snap_bytes: settings.snap_bytes,
            has_ethernet: has_ethernet(&socket)?,
        };
        let program = bpf::load(&program.program()?, bpf::OF_SOCKET);
        let program = program.map_err(needs("a program on a packet socket, which needs CAP_BPF"))?;
        let fd = socket.as_raw_fd();
        set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, program.as_raw_fd())?;
        // Otherwise a packet that came in has the time at which the tap got it.
        set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        // Each packet says whether it is several datagrams.
        set_option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        let ring = Ring::new(&socket).map_err(needs("the ring of a packet socket"))?;
        bind(&socket, interface, ALL_PROTOCOLS)?;
        Ok(Self { socket, ring, counts: TapCounts::default() })
    }

    /// Passes each packet that the kernel has handed over, and returns their number. It hands packets over when a block
    /// of the ring is full, or about 10 ms after it began to fill.
    pub fn drain(&mut self, each: &mut dyn FnMut(&Tapped<'_>)) -> u64 {
        self.ring.drain(each)
    }

    /// Waits until packets were handed over, for at most this long. Returns false if there are none.
    pub fn wait(&self, timeout_ns: u64) -> io::Result<bool> {
        wait_any(&[&self.socket], timeout_ns)
    }

    /// The packets so far. Those that the kernel has not handed over yet are among them.
    pub fn counts(&mut self) -> io::Result<TapCounts> {
        // `struct tpacket_stats_v3`: packets with those dropped, packets dropped, and pauses. A call resets them.
        let [all, dropped, _] =
            get_option::<[u32; 3]>(self.socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        self.counts.dropped += u64::from(dropped);
        self.counts.passed += u64::from(all.saturating_sub(dropped));
        Ok(self.counts)
    }

    /// Copies no further packet. Then it passes those that `read` so far lack, and returns all counts. What the kernel
    /// does not hand over within a second counts as dropped.
    pub fn finish(mut self, mut read: u64, each: &mut dyn FnMut(&Tapped<'_>)) -> io::Result<TapCounts> {
        nothing(&self.socket)?;
        let until_ns = clock::now_ns() + 1_000_000_000;
        loop {
            read += self.drain(each);
            let counts = self.counts()?;
            let missing = counts.passed.saturating_sub(read);
            if missing == 0 || clock::now_ns() >= until_ns {
                return Ok(TapCounts { passed: read, dropped: counts.dropped + missing });
            }
            self.wait(LOOK_NS)?;
        }
    }
}

/// The interval at which a tap that ends looks for its last packets.
const LOOK_NS: u64 = 5_000_000;

fn index_of(interface: &str) -> io::Result<libc::c_int> {
    let index = name_to_index(UnixDatagram::unbound()?, interface);
    index
        .map(|index| index as libc::c_int)
        .map_err(|error| io::Error::new(error.kind(), format!("the interface `{interface}`: {error}")))
}

/// The address of no interface.
const NOWHERE: libc::sockaddr_ll = libc::sockaddr_ll {
    sll_family: libc::AF_PACKET as u16,
    sll_protocol: 0,
    sll_ifindex: 0,
    sll_hatype: 0,
    sll_pkttype: 0,
    sll_halen: 0,
    sll_addr: [0; 8],
};

/// Connects a socket to an interface. With protocol 0 it gets no packets.
fn bind(socket: &OwnedFd, interface: libc::c_int, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll { sll_protocol: protocol.to_be(), sll_ifindex: interface, ..NOWHERE };
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer is to a live address of the length given; the kernel only reads it.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) }).map(drop)
}

/// Whether the frames of the interface that a socket is bound to begin with an Ethernet header, or with their IP header.
/// Others are an error.
fn has_ethernet(socket: &OwnedFd) -> io::Result<bool> {
    let mut address = NOWHERE;
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer is to a live address of the length given, and the kernel writes no more than that.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut length) })?;
    match address.sll_hatype {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Ok(true),
        libc::ARPHRD_NONE | RAW_IP => Ok(false),
        other => Err(io::Error::other(format!("the interface has frames of type {other}, not Ethernet"))),
    }
}

/// An interface whose frames are IP packets (`ARPHRD_RAWIP`, `linux/if_arp.h`).
const RAW_IP: u16 = 519;

/// Shows whether this host can tap an interface.
pub(crate) fn try_on_loopback() -> io::Result<()> {
    let settings = TapSettings {
        interface: "lo".into(),
        ports: vec![9],
        sample: Sample::one_in(1 << 12),
        snap_bytes: 64,
    };
    Tap::open(&settings).map(drop)
}

#[cfg(test)]
mod tests;
