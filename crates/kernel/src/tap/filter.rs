//! The choice of packets that a tap copies, as a program that the kernel runs for each packet of the interface.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use super::sample::{FACTOR, Sample};
use crate::bpf::assembler::Register::{R0, R1, R2, R3, R4, R6, R7, R10};
use crate::bpf::assembler::{Assembler, Instruction, Is, Label, Width};
use crate::sys::check;

/// The choice of packets to copy.
pub(super) struct Filter<'a> {
    /// The ports to which packets come in, and from which they go out.
    pub(super) ports: &'a [u16],
    /// The sample of these packets, by the beginning of their payload. Several datagrams that travel as one packet are
    /// all copied, since their payloads begin differently.
    pub(super) sample: Sample,
    /// The bytes of a frame that are copied.
    pub(super) snap_bytes: u32,
    /// Whether the IP header follows an Ethernet header, or begins the frame.
    pub(super) has_ethernet: bool,
}

// Fields of the program's argument (`struct __sk_buff`, linux/bpf.h).
const DIRECTION: i16 = 4;
const PROTOCOL: i16 = 16;
/// The bytes of each datagram, if several travel as one packet (Linux 5.7).
const SEGMENT_BYTES: i16 = 176;

/// `bpf_skb_load_bytes`: copies bytes of the frame to the stack, also if they are not in one piece.
const LOAD_BYTES: i32 = 26;

/// Where bytes of the frame are put on the stack.
const AT: i16 = -32;

// Ethernet (IEEE 802.3 and 802.1Q).
const ETHERNET_BYTES: i32 = 14;
const TAG_BYTES: i32 = 4;
const TAG: u16 = 0x8100;

// IP (RFC 791, section 3.1; RFC 8200, sections 3 and 4.5).
const UDP: u16 = 17;
const FRAGMENT: u16 = 44;
const IPV6_BYTES: i32 = 40;
const FRAGMENT_BYTES: i32 = 8;

/// The most bytes of a frame.
const ALL: i32 = 0xffff;

impl Filter<'_> {
    /// Writes the program. Its result is the number of bytes that are copied.
    pub(super) fn program(&self) -> io::Result<Vec<Instruction>> {
        let mut code = Assembler::default();
        let (udp, skip, all) = (code.label(), code.label(), code.label());
        self.link(&mut code);
        ip(&mut code, udp, skip);
        code.place(udp);
        self.port(&mut code, skip);
        code.load(Width::Word, R3, R6, SEGMENT_BYTES);
        code.jump_if(R3, Is::NotEqual, 0, all);
        // The payload follows a header of 8 bytes (RFC 768).
        code.load(Width::Half, R2, R10, AT + 8);
        code.host_order_16(R2);
        code.multiply(R2, FACTOR);
        code.and(R2, 0xffff);
        code.jump_if_word(R2, Is::Above, self.sample.below() - 1, skip);
        code.set(R0, self.snap_bytes as i32);
        code.exit();
        code.place(all);
        code.set(R0, ALL);
        code.exit();
        code.place(skip);
        code.set(R0, 0);
        code.exit();
        code.finish()
    }

    /// Keeps the argument in R6. Leaves the place of the IP header in R7. A frame that goes out may have its VLAN tag in
    /// front of that; of a frame that came in, the kernel has taken it off.
    fn link(&self, code: &mut Assembler) {
        code.copy(R6, R1);
        if !self.has_ethernet {
            code.set(R7, 0);
            return;
        }
        let done = code.label();
        code.set(R7, ETHERNET_BYTES);
        code.load(Width::Word, R2, R6, PROTOCOL);
        code.jump_if(R2, Is::NotEqual, TAG.to_be(), done);
        code.add(R7, TAG_BYTES);
        code.place(done);
    }

    /// Loads the UDP header at R7 with two bytes of payload, and compares the server's port.
    fn port(&self, code: &mut Assembler, skip: Label) {
        let (out, compare, found) = (code.label(), code.label(), code.label());
        load(code, 10, skip);
        code.load(Width::Word, R3, R6, DIRECTION);
        code.jump_if(R3, Is::Equal, u16::from(libc::PACKET_OUTGOING), out);
        // Not for another host, nor for several.
        code.jump_if(R3, Is::NotEqual, u16::from(libc::PACKET_HOST), skip);
        code.load(Width::Half, R2, R10, AT + 2);
        code.jump(compare);
        code.place(out);
        code.load(Width::Half, R2, R10, AT);
        code.place(compare);
        for port in self.ports {
            code.jump_if(R2, Is::Equal, port.to_be(), found);
        }
        code.jump(skip);
        code.place(found);
    }
}

/// Moves R7 from the IP header to the UDP header. Fragments but the first, other protocols and other extensions of IPv6
/// are skipped.
fn ip(code: &mut Assembler, udp: Label, skip: Label) {
    let (version_4, version_6) = (code.label(), code.label());
    load(code, 20, skip);
    code.load(Width::Byte, R2, R10, AT);
    code.and(R2, 0xf0);
    code.jump_if(R2, Is::Equal, 0x40, version_4);
    code.jump_if(R2, Is::Equal, 0x60, version_6);
    code.jump(skip);

    code.place(version_4);
    code.load(Width::Byte, R2, R10, AT + 9);
    code.jump_if(R2, Is::NotEqual, UDP, skip);
    code.load(Width::Half, R2, R10, AT + 6);
    code.and(R2, u32::from(0x1fff_u16.to_be()));
    code.jump_if(R2, Is::NotEqual, 0, skip);
    code.load(Width::Byte, R2, R10, AT);
    code.and(R2, 0x0f);
    code.shift_left(R2, 2);
    code.add_register(R7, R2);
    code.jump(udp);

    code.place(version_6);
    code.load(Width::Byte, R2, R10, AT + 6);
    code.add(R7, IPV6_BYTES);
    code.jump_if(R2, Is::Equal, UDP, udp);
    code.jump_if(R2, Is::NotEqual, FRAGMENT, skip);
    load(code, 4, skip);
    code.load(Width::Byte, R2, R10, AT);
    code.jump_if(R2, Is::NotEqual, UDP, skip);
    code.load(Width::Half, R2, R10, AT + 2);
    code.and(R2, u32::from(0xfff8_u16.to_be()));
    code.jump_if(R2, Is::NotEqual, 0, skip);
    code.add(R7, FRAGMENT_BYTES);
}

/// Copies bytes of the frame from R7 on to the stack. Skips a frame that is too short.
fn load(code: &mut Assembler, bytes: i32, skip: Label) {
    code.copy(R1, R6);
    code.copy(R2, R7);
    code.copy(R3, R10);
    code.add(R3, i32::from(AT));
    code.set(R4, bytes);
    code.call(LOAD_BYTES);
    code.jump_if(R0, Is::NotEqual, 0, skip);
}

/// Makes a socket get no further packet (`SO_ATTACH_FILTER`, socket(7)).
pub(super) fn nothing(socket: &OwnedFd) -> io::Result<()> {
    let mut program = [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];
    let filter = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the filter is live and `len` is its length; the kernel copies it.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            length,
        )
    })
    .map(drop)
}

#[cfg(test)]
mod tests;
