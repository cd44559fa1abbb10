//! How long a device waits for more packets before it interrupts a core.

use std::io;

use super::request::{ask_words, if_offered};

/// From linux/ethtool.h; the libc crate lacks them.
const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_SCOALESCE: u32 = 0x0f;

/// The words of `struct ethtool_coalesce`.
const WORDS: usize = 23;

/// The delays of a device's interrupts. An interrupt comes after the time or after the number of packets, whichever is
/// first; 0 is no limit of that kind. Drivers ignore what they do not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalesce {
    /// Microseconds from a received packet to its interrupt.
    pub rx_usecs: u32,
    /// Received packets until an interrupt.
    pub rx_frames: u32,
    /// Microseconds from a sent packet to its interrupt.
    pub tx_usecs: u32,
    /// Sent packets until an interrupt.
    pub tx_frames: u32,
    /// The driver chooses the limits for received packets by itself, from their rate.
    pub adaptive_rx: bool,
    /// The driver chooses the limits for sent packets by itself.
    pub adaptive_tx: bool,
}

/// Asks a device for the delays of its interrupts.
pub fn coalesce(device: &str) -> io::Result<Option<Coalesce>> {
    let of_words = |words: [u32; WORDS]| Coalesce {
        rx_usecs: words[1],
        rx_frames: words[2],
        tx_usecs: words[5],
        tx_frames: words[6],
        adaptive_rx: words[10] != 0,
        adaptive_tx: words[11] != 0,
    };
    if_offered(read(device).map(of_words))
}

/// Sets the delays of interrupts. All other fields of the kernel's struct keep their values.
pub fn set_coalesce(device: &str, wanted: &Coalesce) -> io::Result<()> {
    let mut words = read(device)?;
    words[0] = ETHTOOL_SCOALESCE;
    (words[1], words[2]) = (wanted.rx_usecs, wanted.rx_frames);
    (words[5], words[6]) = (wanted.tx_usecs, wanted.tx_frames);
    (words[10], words[11]) = (wanted.adaptive_rx.into(), wanted.adaptive_tx.into());
    // SAFETY: as in `read`.
    unsafe { ask_words(device, words) }.map(drop)
}

/// struct `ethtool_coalesce`: the command, then time and packets for receiving, the same while an interrupt is handled,
/// the four for sending, the statistics' time, whether receiving and sending adapt, and what adapting uses.
fn read(device: &str) -> io::Result<[u32; WORDS]> {
    let mut words = [0; WORDS];
    words[0] = ETHTOOL_GCOALESCE;
    // SAFETY: the struct has this size, and no length fields.
    unsafe { ask_words(device, words) }
}
