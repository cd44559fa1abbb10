//! Frames that go back to where they came from.

use crate::checksum;
use crate::headers::{HOPS, Layout};

/// Swaps the ends of a frame in place: Ethernet addresses, IP addresses and ports. The payload stays, and so does its
/// checksum, which is right if it was right before. The hop limit begins anew. Returns `false`, and changes nothing, if
/// the frame has no whole datagram or segment.
#[inline]
pub fn turn_round(frame: &mut [u8]) -> bool {
    let Some(layout) = Layout::from_frame(frame) else { return false };
    turn(frame, &layout);
    true
}

/// Does that in a frame with this layout.
#[inline]
pub(crate) fn turn(frame: &mut [u8], layout: &Layout) {
    swap(frame, 0, 6);
    let (addresses, bytes) = layout.addresses();
    swap(frame, addresses, bytes);
    swap(frame, layout.transport, 2);
    let ip = layout.ip;
    if !layout.is_ipv4 {
        frame[ip + 7] = HOPS;
        return;
    }
    // A sum is the same after its words have changed places, so only the hop limit changes the header's.
    let (old, new) =
        (u16::from_be_bytes([frame[ip + 8], frame[ip + 9]]), u16::from_be_bytes([HOPS, frame[ip + 9]]));
    let sum = checksum::updated(u16::from_be_bytes([frame[ip + 10], frame[ip + 11]]), old, new);
    frame[ip + 8] = HOPS;
    frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
}

/// Swaps two neighbours of so many bytes.
#[inline]
fn swap(frame: &mut [u8], at: usize, bytes: usize) {
    let (first, second) = frame[at..at + 2 * bytes].split_at_mut(bytes);
    first.swap_with_slice(second);
}
