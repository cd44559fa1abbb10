//! UDP sockets: options, and sending and receiving one datagram at a time.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use socket2::{Domain, Protocol, Socket, Type};

use crate::address::{Address, LocalAddress};
use crate::buffers;
use crate::cmsg::{self, Control, ControlData};
use crate::headers;
use crate::reach;
use crate::sys::{check_size, get_option, is_not_now, set_option};

/// The maximum of the length field of a UDP header in bytes (RFC 768). It includes the 8 bytes of the header, and
/// IPv4 takes 20 more (RFC 791, section 3.1), so a buffer of this length has room for every datagram.
pub const DATAGRAM_BYTES: usize = 65_535;

/// The options of a socket. By default all are off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is a socket option, and every combination is good
pub struct UdpOptions {
    /// `SO_REUSEPORT`: several sockets of one user share the port, and the kernel distributes packets over them.
    pub reuse_port: bool,
    /// `SO_REUSEADDR`: several sockets may share the port; the kernel does not distribute packets.
    pub reuse_address: bool,
    /// The receive buffer in bytes (`SO_RCVBUF`). The kernel's own bookkeeping counts too. `None` for the default.
    pub recv_buffer: Option<usize>,
    /// The send buffer in bytes (`SO_SNDBUF`). `None` for the default.
    pub send_buffer: Option<usize>,
    /// `UDP_GRO`: packets of equal length of one flow arrive as one message.
    pub gro: bool,
    /// `SO_TIMESTAMPNS`: report when the kernel received each packet.
    pub timestamps: bool,
    /// `IP_PKTINFO` or `IPV6_PKTINFO`: report the destination address of each packet.
    pub pktinfo: bool,
    /// `O_NONBLOCK`. The calls of this crate do not need it: each takes a [`Wait`].
    pub nonblocking: bool,
    /// `IP_FREEBIND` or `IPV6_FREEBIND`: a reply may leave from an address that no interface has, such as one of a
    /// prefix that is routed to this host.
    pub free_bind: bool,
    /// `SO_BINDTODEVICE` with the loopback interface: no packet of another host arrives.
    pub loopback: bool,
}

/// A bound UDP socket. An IPv6 socket accepts IPv6 only (RFC 3493, section 5.3), so wildcard sockets of both
/// families can listen on one port.
#[derive(Debug)]
pub struct UdpSocket {
    fd: OwnedFd,
    v6: bool,
    pktinfo: bool,
}

/// The sender of a datagram, and the address to which it was sent, which the reply must come from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peer {
    /// The address of the sender.
    pub address: Address,
    /// The address to which the datagram was sent; `None` without [`UdpOptions::pktinfo`].
    pub asked: Option<LocalAddress>,
}

/// A received datagram with its arrival time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// The length of the datagram in bytes, at most that of the buffer.
    pub bytes: usize,
    /// When the kernel received the datagram, in nanoseconds of `CLOCK_REALTIME`; `None` without
    /// [`UdpOptions::timestamps`].
    pub arrived_ns: Option<u64>,
}

/// Whether a receiving call blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Takes what has arrived and returns (`MSG_DONTWAIT`).
    No,
    /// Waits for one datagram, and takes with it what else has arrived by then (`MSG_WAITFORONE`).
    ForOne,
}

impl UdpSocket {
    /// Opens a socket, sets its options and binds it. An error may come from any of these steps.
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_port(options.reuse_port)?;
        socket.set_reuse_address(options.reuse_address)?;
        socket.set_nonblocking(options.nonblocking)?;
        reach::widen(&socket, address, options.free_bind, options.loopback)?;
        let socket = Self { fd: socket.into(), v6: address.is_ipv6(), pktinfo: options.pktinfo };
        socket.set_up(options)?;
        socket2::SockRef::from(&socket).bind(&address.into())?;
        Ok(socket)
    }

    fn set_up(&self, options: &UdpOptions) -> io::Result<()> {
        let fd = self.as_raw_fd();
        if let Some(bytes) = options.recv_buffer {
            buffers::set_receive(self, bytes)?;
        }
        if let Some(bytes) = options.send_buffer {
            buffers::set_send(self, bytes)?;
        }
        if options.gro {
            set_option(fd, libc::SOL_UDP, libc::UDP_GRO, 1)
                .map_err(|error| io::Error::new(error.kind(), format!("UDP_GRO: {error}")))?;
        }
        if options.timestamps {
            set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        }
        if options.pktinfo {
            let (level, name) = self.pktinfo_option();
            set_option(fd, level, name, 1)?;
        }
        Ok(())
    }

    fn pktinfo_option(&self) -> (libc::c_int, libc::c_int) {
        if self.v6 {
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
        } else {
            (libc::IPPROTO_IP, libc::IP_PKTINFO)
        }
    }

    /// Takes over a socket that another process has bound.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let mut socket = Self { fd, v6: false, pktinfo: false };
        socket.v6 = socket.local_addr()?.is_ipv6();
        let (level, name) = socket.pktinfo_option();
        socket.pktinfo = get_option::<libc::c_int>(socket.as_raw_fd(), level, name)? != 0;
        Ok(socket)
    }

    /// A second descriptor of the same socket; both share one queue.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, v6: self.v6, pktinfo: self.pktinfo })
    }

    /// The address to which the socket is bound.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        socket2::SockRef::from(self)
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not an internet socket"))
    }

    /// Accepts packets from this peer only. Sends without an address go to it.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        socket2::SockRef::from(self).connect(&peer.into())
    }

    /// Lets later sockets bind to the same port, as the options of the same names do before binding.
    pub fn share_port(&self, reuse_port: bool, reuse_address: bool) -> io::Result<()> {
        let socket = socket2::SockRef::from(self);
        socket.set_reuse_port(reuse_port)?;
        socket.set_reuse_address(reuse_address)
    }

    /// Forbids fragmentation (RFC 9715, section 3). A datagram that is longer than the MTU of its link, or than the
    /// known MTU of its path, fails with `EMSGSIZE`. Over IPv4 the kernel then need not assign IDs to packets.
    pub fn never_fragment(&self) -> io::Result<()> {
        self.discover_mtu(Ipv4PathMtuDiscovery::DO, Ipv6PathMtuDiscovery::DO)
    }

    /// Allows fragmentation again, as it is at first.
    pub fn may_fragment(&self) -> io::Result<()> {
        self.discover_mtu(Ipv4PathMtuDiscovery::WANT, Ipv6PathMtuDiscovery::WANT)
    }

    fn discover_mtu(&self, v4: Ipv4PathMtuDiscovery, v6: Ipv6PathMtuDiscovery) -> io::Result<()> {
        let (set, words) = if self.v6 {
            (sockopt::set_ipv6_mtu_discover(self, v6), "IPV6_MTU_DISCOVER")
        } else {
            (sockopt::set_ip_mtu_discover(self, v4), "IP_MTU_DISCOVER")
        };
        set.map_err(|error| io::Error::new(error.kind(), format!("{words}: {error}")))
    }

    /// The size of the receive buffer in bytes according to the kernel: twice the requested size, or less.
    pub fn recv_buffer(&self) -> io::Result<usize> {
        socket2::SockRef::from(self).recv_buffer_size()
    }

    /// The size of the send buffer in bytes according to the kernel: twice the requested size, or less.
    pub fn send_buffer(&self) -> io::Result<usize> {
        socket2::SockRef::from(self).send_buffer_size()
    }

    /// A sentence for each buffer that is smaller than `asked_bytes`, with the reason. Without `CAP_NET_ADMIN` the
    /// kernel limits buffers to its sysctls.
    pub fn short_buffers(&self, asked_bytes: usize) -> Vec<String> {
        buffers::short(self, asked_bytes)
    }

    /// The number of packets that this socket has dropped since it was opened, because its buffer was full or they
    /// were malformed (`SO_MEMINFO`). Wraps at 2³².
    pub fn drops(&self) -> io::Result<u64> {
        const SO_MEMINFO: libc::c_int = 55;
        let facts: [u32; 9] = get_option(self.as_raw_fd(), libc::SOL_SOCKET, SO_MEMINFO)?;
        Ok(u64::from(facts[libc::SK_MEMINFO_DROPS as usize]))
    }

    /// Waits until there is something to read. Returns false after `timeout_ns` nanoseconds or a signal.
    pub fn wait_readable(&self, timeout_ns: u64) -> io::Result<bool> {
        crate::poll::wait_any(&[self], timeout_ns)
    }

    /// Ends every wait on this socket, in all threads and processes. A blocked receive returns without a datagram,
    /// and readiness calls report the socket as readable from now on. Queued datagrams can still be read.
    pub fn wake_readers(&self) {
        // On an unconnected socket Linux returns "not connected" and still does it (net/ipv4/af_inet.c,
        // inet_shutdown: "wake up other listeners ... even on unconnected UDP sockets").
        let _ = socket2::SockRef::from(self).shutdown(std::net::Shutdown::Read);
    }

    /// Receives one datagram, cut off at the length of the buffer, and writes its peer. `None` if there is none: the
    /// call did not wait, a signal arrived, or the readers were woken.
    #[inline]
    pub fn recv(&self, buffer: &mut [u8], peer: &mut Peer, wait: Wait) -> io::Result<Option<usize>> {
        let (returned, from_someone) = if self.pktinfo {
            let (returned, from_someone, data) = self.recv_with_data(buffer, peer, wait.flags());
            if returned >= 0 {
                peer.asked = data.to;
            }
            (returned, from_someone)
        } else {
            let mut length = size_of::<Address>() as libc::socklen_t;
            // SAFETY: the buffer and the address are live and exclusively ours, with their true lengths.
            let returned = unsafe {
                libc::recvfrom(
                    self.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    wait.flags(),
                    (&raw mut peer.address).cast(),
                    &raw mut length,
                )
            };
            (returned, length > 0)
        };
        received(returned, from_someone)
    }

    /// Like [`Self::recv`], and also returns when the kernel received the datagram.
    #[inline]
    pub fn recv_stamped(
        &self,
        buffer: &mut [u8],
        peer: &mut Peer,
        wait: Wait,
    ) -> io::Result<Option<Stamped>> {
        let (returned, from_someone, data) = self.recv_with_data(buffer, peer, wait.flags());
        let received = received(returned, from_someone)?;
        Ok(received.map(|bytes| Stamped { bytes, arrived_ns: data.arrived_ns }))
    }

    /// Receives with `recvmsg`. Returns its result, whether there was a sender, and the kernel's data about the
    /// datagram.
    #[inline]
    fn recv_with_data(
        &self,
        buffer: &mut [u8],
        peer: &mut Peer,
        flags: libc::c_int,
    ) -> (libc::ssize_t, bool, ControlData) {
        let mut control = Control::EMPTY;
        let mut slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: a header of zeros is valid: it points to nothing.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_name = (&raw mut peer.address).cast();
        header.msg_namelen = size_of::<Address>() as libc::socklen_t;
        header.msg_iov = &raw mut slice;
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut control).cast();
        headers::set_control_bytes(&mut header, size_of::<Control>());
        // SAFETY: everything that the header points to is live, exclusively ours, and of the length given.
        let returned = unsafe { headers::receive(self.as_raw_fd(), &raw mut header, flags) };
        let data = if returned >= 0 {
            cmsg::read(&control.0[..headers::control_bytes(&header)])
        } else {
            ControlData::default()
        };
        (returned, header.msg_namelen > 0, data)
    }

    /// Sends one datagram to a peer, from [`Peer::asked`] if it is known.
    #[inline]
    pub fn send(&self, bytes: &[u8], peer: &Peer) -> io::Result<()> {
        let returned = if peer.asked.is_some() {
            self.send_asked(bytes, peer)
        } else {
            // SAFETY: the bytes and the address are live for the call; the kernel only reads them.
            unsafe {
                libc::sendto(
                    self.as_raw_fd(),
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    0,
                    (&raw const peer.address).cast(),
                    peer.address.length(),
                )
            }
        };
        check_size(returned).map(drop)
    }

    fn send_asked(&self, bytes: &[u8], peer: &Peer) -> libc::ssize_t {
        let mut control = Control::EMPTY;
        let mut slice = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: a header of zeros is valid: it points to nothing.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_name = (&raw const peer.address).cast_mut().cast();
        header.msg_namelen = peer.address.length();
        header.msg_iov = &raw mut slice;
        header.msg_iovlen = 1;
        headers::set_control_bytes(&mut header, control.write(None, peer.asked.as_ref()));
        header.msg_control = (&raw mut control).cast();
        // SAFETY: everything that the header points to is live and of the length given; sending only reads it.
        unsafe { headers::send(self.as_raw_fd(), &raw const header) }
    }
}

impl Wait {
    fn flags(self) -> libc::c_int {
        if self == Self::No { libc::MSG_DONTWAIT } else { 0 }
    }
}

/// The outcome of a receive: `None` if there was no datagram or no sender.
#[inline]
fn received(returned: libc::ssize_t, from_someone: bool) -> io::Result<Option<usize>> {
    match check_size(returned) {
        Ok(bytes) => Ok(from_someone.then_some(bytes)),
        Err(error) if is_not_now(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for UdpSocket {
    #[inline]
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_is_smaller_than_asked_for_is_reported() {
        // More than the kernel grants to any process.
        let asked_bytes = 1 << 31;
        let options = UdpOptions { recv_buffer: Some(asked_bytes), ..UdpOptions::default() };
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let got_bytes = socket.recv_buffer().unwrap() / 2;
        let sentences = socket.short_buffers(asked_bytes);
        assert_eq!(sentences.len(), 2);
        assert!(
            sentences[0]
                .starts_with(&format!("receive buffers have {got_bytes} bytes instead of {asked_bytes}: "))
        );
        assert!(sentences[1].starts_with("send buffers have "));
        assert_eq!(socket.short_buffers(1), [""; 0]);
    }
}
