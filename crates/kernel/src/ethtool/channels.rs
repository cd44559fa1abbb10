//! The numbers of a device's queues.

use std::io;

use super::request::{ask_words, if_offered};

/// From linux/ethtool.h; the libc crate lacks them.
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_SCHANNELS: u32 = 0x3d;

/// The numbers of queues of a device, by what they do, and the most that its driver offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Queues that only receive.
    pub rx: u32,
    /// Queues that only send.
    pub tx: u32,
    /// Queues that do neither, such as for changes of the link.
    pub other: u32,
    /// Queues that receive and send.
    pub combined: u32,
    /// The most queues that only receive.
    pub rx_max: u32,
    /// The most queues that only send.
    pub tx_max: u32,
    /// The most queues that do neither.
    pub other_max: u32,
    /// The most queues that receive and send.
    pub combined_max: u32,
}

impl Channels {
    /// The number of queues that receive, whatever else they do.
    pub fn receiving(&self) -> u32 {
        self.rx + self.combined
    }
}

/// Asks a device for its queues. Drivers with a fixed number may not have this setting.
pub fn channels(device: &str) -> io::Result<Option<Channels>> {
    // SAFETY: struct ethtool_channels is nine words, and has no length fields.
    let answer = unsafe { ask_words(device, [ETHTOOL_GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0]) };
    let of_words = |words: [u32; 9]| {
        let [_, rx_max, tx_max, other_max, combined_max, rx, tx, other, combined] = words;
        Channels { rx, tx, other, combined, rx_max, tx_max, other_max, combined_max }
    };
    if_offered(answer.map(of_words))
}

/// Sets the numbers of queues. Only the counts are used, not the most. Many drivers take the link down, and distribute
/// interrupts and packets anew.
pub fn set_channels(device: &str, wanted: &Channels) -> io::Result<()> {
    let Channels { rx, tx, other, combined, .. } = *wanted;
    // SAFETY: as above.
    unsafe { ask_words(device, [ETHTOOL_SCHANNELS, 0, 0, 0, 0, rx, tx, other, combined]) }.map(drop)
}
