//! A device in memory: the other side of a socket's rings, for a thread of the same program. It takes the frames that
//! the socket sends and makes others arrive there, without a kernel in between. So it shows what a loop costs alone.

use std::io;
use std::os::fd::OwnedFd;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::program::ARRIVAL_BYTES;
use super::rings::{Incoming, Outgoing};
use super::socket::XdpSocket;
use super::transmitter::ENTRIES_PER_FRAME;
use super::umem::{FRAME_BYTES, RECEIVED_AT, Umem};
use crate::clock::now_ns;

/// Where the parts of each ring are: numbers on cache lines of their own, then the entries.
const OFFSETS: libc::xdp_ring_offset =
    libc::xdp_ring_offset { producer: 0, consumer: 64, flags: 128, desc: 192 };

/// More frames than this are of no use to a loop that nothing delays.
const FRAMES_MOST: u32 = 1 << 16;

/// The other side of a socket's rings.
pub struct MemoryDevice {
    frames: MmapRaw,
    /// The frames that the socket sends, and those that go back to it.
    to_send: Incoming<libc::xdp_desc>,
    sent: Outgoing<u64>,
    /// The empty frames of the socket, and those that arrive there.
    empty: Incoming<u64>,
    received: Outgoing<libc::xdp_desc>,
    /// An empty frame that was taken and not used.
    spare: Option<u64>,
}

/// Makes a socket and the device behind it. `frames` is a power of two from 2 to 2¹⁶; half of them receive.
pub fn pair(frames: u32) -> io::Result<(XdpSocket, MemoryDevice)> {
    if !frames.is_power_of_two() || !(2..=FRAMES_MOST).contains(&frames) {
        let what = format!("{frames} frames: it must be a power of two from 2 to {FRAMES_MOST}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let share = frames / 2;
    let pages = [
        libc::XDP_PGOFF_RX_RING as u64,
        libc::XDP_PGOFF_TX_RING as u64,
        libc::XDP_UMEM_PGOFF_FILL_RING,
        libc::XDP_UMEM_PGOFF_COMPLETION_RING,
    ];
    // The rings begin where those of a socket do. The file has holes between them.
    let last = pages.into_iter().max().unwrap_or_default();
    let bytes = OFFSETS.desc + u64::from(frames) * size_of::<libc::xdp_desc>() as u64;
    let rings = file("kqps-rings", last + bytes)?;
    let [rx, tx, fill, completion] = pages;
    let memory = file("kqps-frames", u64::from(frames) * FRAME_BYTES as u64)?;
    let device = MemoryDevice {
        frames: MmapOptions::new().len(frames as usize * FRAME_BYTES).populate().map_raw(&memory)?,
        to_send: Incoming::map(&rings, tx, &OFFSETS, frames * ENTRIES_PER_FRAME)?,
        sent: Outgoing::map(&rings, completion, &OFFSETS, frames)?,
        empty: Incoming::map(&rings, fill, &OFFSETS, share)?,
        received: Outgoing::map(&rings, rx, &OFFSETS, share)?,
        spare: None,
    };
    let offsets = libc::xdp_mmap_offsets { rx: OFFSETS, tx: OFFSETS, fr: OFFSETS, cr: OFFSETS };
    let socket = XdpSocket::in_memory(rings, Umem::of_file(frames, &memory)?, &offsets, frames)?;
    Ok((socket, device))
}

/// A file in memory of this length, without content.
fn file(name: &str, bytes: u64) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC)?;
    ftruncate(&file, bytes)?;
    Ok(file)
}

impl MemoryDevice {
    /// Takes up to `most` of the frames that the socket sent, and returns how many. `answer` gets each of them, and
    /// room for a frame that arrives in return; it returns that frame's length, or `None` if nothing arrives. Takes
    /// none while the socket has no empty frame.
    pub fn turn(&mut self, most: usize, mut answer: impl FnMut(&[u8], &mut [u8]) -> Option<usize>) -> usize {
        self.received.look();
        self.sent.look();
        let mut taken = 0;
        let mut arrived_ns = 0;
        while taken < most {
            let Some(empty) = self.spare.take().or_else(|| self.empty.pop()) else { break };
            let Some(sent) = self.to_send.pop() else {
                self.spare = Some(empty);
                break;
            };
            if taken == 0 {
                arrived_ns = now_ns();
            }
            taken += 1;
            let at = empty as usize / FRAME_BYTES * FRAME_BYTES;
            // SAFETY: the socket gave the frame up when it put it in the ring of empty frames. It is given back by the
            // other ring after the use, or kept as the spare one.
            let (stamp, room) = unsafe { self.room(at) };
            stamp.copy_from_slice(&arrived_ns.to_ne_bytes());
            match answer(self.frame(&sent), room) {
                Some(length) => {
                    let frame =
                        libc::xdp_desc { addr: (at + RECEIVED_AT) as u64, len: length as u32, options: 0 };
                    assert!(self.received.push(frame), "more frames arrive than the socket has");
                }
                None => self.spare = Some(empty),
            }
            assert!(self.sent.push(sent.addr), "more frames were sent than the socket has");
        }
        if taken > 0 {
            self.empty.release();
            self.to_send.release();
            self.received.publish(self.received.written());
            self.sent.publish(self.sent.written());
        }
        taken
    }

    /// A frame that the socket sent.
    fn frame(&self, sent: &libc::xdp_desc) -> &[u8] {
        let (start, length) = (sent.addr as usize, sent.len as usize);
        assert!(start + length <= self.frames.len(), "a frame beyond its memory");
        // SAFETY: the bytes are within the mapping. The socket gave the frame up when it put it in the ring, and gets
        // it back by `sent` later.
        unsafe { std::slice::from_raw_parts(self.frames.as_ptr().add(start), length) }
    }

    /// The room for a frame that arrives in the memory that begins at `at`, and for the time before it. Not bound to
    /// `self`, since it never is the memory of a frame that was sent.
    ///
    /// # Safety
    /// The frame must be an empty one that the socket gave up. The slices must be gone before it is given back, before
    /// its room is asked for again, and before `self` is dropped.
    unsafe fn room<'f>(&self, at: usize) -> (&'f mut [u8], &'f mut [u8]) {
        assert!(at + FRAME_BYTES <= self.frames.len(), "a frame beyond its memory");
        let before = RECEIVED_AT - ARRIVAL_BYTES as usize;
        // SAFETY: the bytes are within the mapping. The caller answers for the rest.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(self.frames.as_mut_ptr().add(at + before), FRAME_BYTES - before)
        };
        bytes.split_at_mut(ARRIVAL_BYTES as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_to_the_device_and_others_come_back() {
        let (mut socket, mut device) = pair(16).unwrap();
        assert_eq!((socket.room(), socket.receives(), socket.is_zero_copy()), (8, 8, true));
        for round in 0..20_u8 {
            let write = |frame: &mut [u8]| {
                frame[..60].fill(round);
                60
            };
            assert!((0..5).all(|token| socket.put(write, token)));
            assert_eq!(socket.flush(|token| panic!("frame {token} was refused")).unwrap(), 0);
            // The first is not answered.
            let mut first = true;
            let taken = device.turn(10, |sent, room| {
                assert_eq!(sent, [round; 60]);
                room[..70].fill(round + 1);
                (!std::mem::take(&mut first)).then_some(70)
            });
            assert_eq!((taken, device.turn(10, |_, _| None)), (5, 0));
            assert_eq!(socket.flush(|_| ()).unwrap(), 5);
            let mut frames = Vec::new();
            let read = socket.receive(10, |frame, bytes, arrived_ns| {
                assert!((1..=now_ns()).contains(&arrived_ns));
                frames.push(frame[..bytes].to_vec());
                None
            });
            assert_eq!((read, frames), (4, vec![vec![round + 1; 70]; 4]));
            assert_eq!((socket.room(), socket.waiting()), (8, 0));
        }
        assert_eq!(socket.statistics().unwrap().dropped(), 0);
    }

    #[test]
    fn a_socket_without_an_empty_frame_keeps_what_it_sends() {
        let (mut socket, mut device) = pair(8).unwrap();
        let write = |frame: &mut [u8]| {
            frame[..60].fill(7);
            60
        };
        let echo = |sent: &[u8], room: &mut [u8]| {
            room[..sent.len()].copy_from_slice(sent);
            Some(sent.len())
        };
        assert!((0..4).all(|token| socket.put(write, token)));
        socket.flush(|_| ()).unwrap();
        assert_eq!(device.turn(10, echo), 4);
        assert_eq!(socket.room(), 4);
        assert!((0..4).all(|token| socket.put(write, token)));
        assert_eq!(socket.flush(|_| ()).unwrap(), 4);
        assert_eq!(device.turn(10, echo), 0);
        assert_eq!(socket.receive(10, |_, _, _| None), 4);
        assert_eq!(device.turn(10, echo), 4);
    }

    #[test]
    fn impossible_numbers_are_errors() {
        for frames in [0, 1, 3, 1 << 17] {
            assert_eq!(pair(frames).err().unwrap().kind(), io::ErrorKind::InvalidInput, "{frames}");
        }
    }
}
