//! The rings of descriptors through which a device and the kernel pass packets.

use std::io;

use super::request::{ask_words, if_offered};

/// From linux/ethtool.h; the libc crate lacks them.
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_SRINGPARAM: u32 = 0x11;

/// The packets that fit in each queue's ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// Packets in a ring of received packets.
    pub rx: u32,
    /// Packets in a ring of packets to send.
    pub tx: u32,
    /// The most packets that the driver offers for a ring of received packets.
    pub rx_max: u32,
    /// The most packets that the driver offers for a ring of packets to send.
    pub tx_max: u32,
}

/// Asks a device for the sizes of its rings.
pub fn rings(device: &str) -> io::Result<Option<Rings>> {
    let of_words = |words: [u32; 9]| Rings { rx: words[5], tx: words[8], rx_max: words[1], tx_max: words[4] };
    if_offered(read(device).map(of_words))
}

/// Sets the sizes of the rings, in packets. Rings of small or jumbo packets keep theirs. Many drivers take the link
/// down.
pub fn set_rings(device: &str, rx: u32, tx: u32) -> io::Result<()> {
    let mut words = read(device)?;
    (words[0], words[5], words[8]) = (ETHTOOL_SRINGPARAM, rx, tx);
    // SAFETY: as in `read`.
    unsafe { ask_words(device, words) }.map(drop)
}

/// struct `ethtool_ringparam`: the command, then the sizes of rings that receive, receive small packets, receive jumbo
/// packets and send: first the most, then the present ones.
fn read(device: &str) -> io::Result<[u32; 9]> {
    // SAFETY: the struct is nine words, and has no length fields.
    unsafe { ask_words(device, [ETHTOOL_GRINGPARAM, 0, 0, 0, 0, 0, 0, 0, 0]) }
}
