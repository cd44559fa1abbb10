//! The ring of a packet socket in blocks (`TPACKET_V3`). The kernel fills a block with packets and hands it over; then
//! it is not written until it is handed back.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::Tapped;
use crate::sys::set_option;

/// The bytes of a block, more than of the longest packet.
const BLOCK_BYTES: usize = 1 << 18;

/// The number of blocks.
const BLOCKS: usize = 64;

/// The kernel asks for a size of frames, and does not use it in this version.
const FRAME_BYTES: usize = 1 << 11;

/// Milliseconds after which the kernel hands over a block that is not full.
const HANDED_OVER_MS: u32 = 10;

// The header of a block (`struct tpacket_block_desc`, linux/if_packet.h).
const STATUS: usize = 8;
const PACKETS: usize = 12;
const FIRST: usize = 16;

// The header of a packet (`struct tpacket3_hdr`), and the address behind it (`struct sockaddr_ll`).
const NEXT: usize = 0;
const SECONDS: usize = 4;
const NANOSECONDS: usize = 8;
const COPIED: usize = 12;
const PACKET_STATUS: usize = 20;
const FRAME: usize = 24;
const NETWORK: usize = 26;
const DIRECTION: usize = size_of::<libc::tpacket3_hdr>() + 10;

// The header before a frame (`struct virtio_net_hdr`, linux/virtio_net.h).
const SEGMENTS_BYTES: usize = 10;
const SEGMENTS_KIND: usize = 1;
const SEGMENT_BYTES: usize = 4;
const SEGMENTS_OF_UDP: u8 = 5;

#[derive(Debug)]
pub(super) struct Ring {
    start: NonNull<u8>,
    /// The block that is handed over next.
    block: usize,
    /// Keeps all of it mapped.
    _map: MmapRaw,
}

// SAFETY: the value owns its mapping, which is the same in all threads.
unsafe impl Send for Ring {}

impl Ring {
    /// Makes the ring of a socket that is not connected to an interface yet.
    pub(super) fn new(socket: &OwnedFd) -> io::Result<Self> {
        let fd = socket.as_raw_fd();
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set_option(fd, libc::SOL_PACKET, libc::PACKET_VERSION, version)?;
        // `struct tpacket_req3`: blocks, frames, when blocks are handed over, private bytes of a block, features.
        let frames = (BLOCKS * BLOCK_BYTES / FRAME_BYTES) as u32;
        let request: [u32; 7] =
            [BLOCK_BYTES as u32, BLOCKS as u32, FRAME_BYTES as u32, frames, HANDED_OVER_MS, 0, 0];
        set_option(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        let map = MmapOptions::new().len(BLOCKS * BLOCK_BYTES).map_raw(socket)?;
        let start = NonNull::new(map.as_mut_ptr()).ok_or_else(|| io::Error::other("a map at address 0"))?;
        Ok(Self { start, block: 0, _map: map })
    }

    /// Passes each packet of the blocks that are handed over, hands the blocks back, and returns the number of packets.
    pub(super) fn drain(&mut self, each: &mut dyn FnMut(&Tapped<'_>)) -> u64 {
        let mut read = 0;
        // Once around at most, so that the caller goes on however many packets come.
        for _ in 0..BLOCKS {
            // SAFETY: the block is within the mapping, which lives as long as `self`.
            let block = unsafe { self.start.add(self.block * BLOCK_BYTES) };
            // SAFETY: the status is within the block and aligned; the kernel uses it atomically.
            let status = unsafe { block.add(STATUS).cast::<AtomicU32>().as_ref() };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            // SAFETY: the block is initialised memory of this length. The kernel has handed it over and writes none of
            // it until the status says so, which is after the last use of the slice.
            let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), BLOCK_BYTES) };
            read += packets(bytes, each);
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.block = (self.block + 1) % BLOCKS;
        }
        read
    }
}

/// Passes the packets of a block. Returns their number. Before Linux 6.2 the kernel has a place, but no bytes, for
/// datagrams that travel as one packet: it counts them as dropped, and they are not in that number.
fn packets(block: &[u8], each: &mut dyn FnMut(&Tapped<'_>)) -> u64 {
    let mut at = word(block, FIRST) as usize;
    let mut written = 0;
    for _ in 0..word(block, PACKETS) {
        let Some(packet) = block.get(at..).filter(|rest| rest.len() > DIRECTION) else { break };
        at += word(packet, NEXT) as usize;
        if word(packet, PACKET_STATUS) & libc::TP_STATUS_USER == 0 {
            continue;
        }
        written += 1;
        if let Some(tapped) = tapped(packet) {
            each(&tapped);
        }
    }
    written
}

/// A packet by its header; `None` if the header is not one that the kernel writes.
fn tapped(packet: &[u8]) -> Option<Tapped<'_>> {
    let frame = usize::from(half(packet, FRAME));
    let bytes = packet.get(usize::from(half(packet, NETWORK))..frame + word(packet, COPIED) as usize)?;
    let segments = packet.get(frame.checked_sub(SEGMENTS_BYTES)?..frame)?;
    Some(Tapped {
        is_outgoing: packet[DIRECTION] == libc::PACKET_OUTGOING,
        stamped_ns: u64::from(word(packet, SECONDS)) * 1_000_000_000 + u64::from(word(packet, NANOSECONDS)),
        bytes,
        segment_bytes: (segments[SEGMENTS_KIND] == SEGMENTS_OF_UDP).then(|| half(segments, SEGMENT_BYTES)),
    })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn places_are_those_of_the_kernels_structures() {
        use libc::{sockaddr_ll, tpacket_block_desc, tpacket_hdr_v1, tpacket3_hdr};
        let in_block = |at| offset_of!(tpacket_block_desc, hdr) + at;
        assert_eq!(STATUS, in_block(offset_of!(tpacket_hdr_v1, block_status)));
        assert_eq!(PACKETS, in_block(offset_of!(tpacket_hdr_v1, num_pkts)));
        assert_eq!(FIRST, in_block(offset_of!(tpacket_hdr_v1, offset_to_first_pkt)));
        assert_eq!(NEXT, offset_of!(tpacket3_hdr, tp_next_offset));
        assert_eq!(SECONDS, offset_of!(tpacket3_hdr, tp_sec));
        assert_eq!(NANOSECONDS, offset_of!(tpacket3_hdr, tp_nsec));
        assert_eq!(COPIED, offset_of!(tpacket3_hdr, tp_snaplen));
        assert_eq!(PACKET_STATUS, offset_of!(tpacket3_hdr, tp_status));
        assert_eq!(FRAME, offset_of!(tpacket3_hdr, tp_mac));
        assert_eq!(NETWORK, offset_of!(tpacket3_hdr, tp_net));
        let behind = libc::TPACKET3_HDRLEN - size_of::<sockaddr_ll>();
        assert_eq!(DIRECTION, behind + offset_of!(sockaddr_ll, sll_pkttype));
        assert_eq!(size_of::<libc::tpacket_req3>(), 28);
    }
}
