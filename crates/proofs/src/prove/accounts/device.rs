//! Counts of the kernel at the end of a veth path (proc(5), `/proc/net/dev`).

use std::fs;

use anyhow::{Context as _, Result};
use kqps_kernel::namespace::veth;
use kqps_testbed::path::LaidPath;

/// The counts of a device, from the start of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// Packets that it received.
    pub(super) received: u64,
    /// Packets that it should have sent and did not, since the other end's queue was full.
    pub(super) dropped: u64,
}

impl Device {
    /// The device at the subject's end.
    pub(super) fn at_subject(path: &LaidPath) -> Result<Self> {
        Self::read(&path.at_subject(text)?)
    }

    /// The device at the player's end.
    pub(super) fn at_player(path: &LaidPath) -> Result<Self> {
        Self::read(&path.at_player(text)?)
    }

    fn read(text: &str) -> Result<Self> {
        Self::in_text(text).with_context(|| format!("{} has no line in {text:?}", veth::DEVICE))
    }

    /// The device's line has eight figures of what it received, and then those of what it sent.
    fn in_text(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(veth::DEVICE)?.strip_prefix(':'))?;
        let figures: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { received: *figures.get(1)?, dropped: *figures.get(11)? })
    }
}

fn text() -> std::io::Result<String> {
    fs::read_to_string("/proc/thread-self/net/dev")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_the_device_are_read() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs\n    lo: 1 2 3\n \
                    kqps0: 900 12 0 3 0 0 0 0 800 11 0 7 0 0 0 0\n";
        assert_eq!(Device::in_text(text), Some(Device { received: 12, dropped: 7 }));
        assert_eq!(Device::in_text("kqps0: 900 12\n"), None);
        assert_eq!(Device::in_text("lo: 1 2"), None);
    }
}
