//! Containers of packets: pcap and pcapng. The packets stay where they are, in the window.

mod clock;
pub(crate) mod pcap;
mod pcapng;

use std::ops::Range;

use crate::error::CaptureError;
use crate::link::Link;
use crate::window::Window;

use pcap::Pcap;
use pcapng::Pcapng;

/// A packet in the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// When it was captured, in nanoseconds of Unix time.
    pub(crate) at_ns: u64,
    pub(crate) link: Link,
    /// The number of the interface; 0 in pcap, which has no numbers.
    pub(crate) interface: u32,
    /// The place of its bytes in the window.
    pub(crate) packet: Range<usize>,
    /// Whether the packet was longer.
    pub(crate) is_cut: bool,
    /// Whether the packet is too long to be held. It is not in the window then.
    pub(crate) is_oversized: bool,
    /// The bytes of the record in the window, to be consumed before the next one is read.
    pub(crate) bytes: usize,
}

impl Record {
    /// A packet that is too long to be held, and was passed over.
    fn oversized(at_ns: u64, link: Link) -> Self {
        Self { at_ns, link, interface: 0, packet: 0..0, is_cut: false, is_oversized: true, bytes: 0 }
    }
}

#[derive(Clone)]
pub(crate) enum Container {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl Container {
    /// Reads the header of a file in the format of pcap.
    pub(crate) fn pcap(window: &mut Window) -> Result<Self, CaptureError> {
        Pcap::open(window).map(Self::Pcap)
    }

    pub(crate) fn pcapng() -> Self {
        Self::Pcapng(Pcapng::new())
    }

    /// The next packet, which begins at the window's place or after blocks without packets; `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self, window: &mut Window) -> Result<Option<Record>, CaptureError> {
        match self {
            Self::Pcap(pcap) => pcap.next(window),
            Self::Pcapng(pcapng) => pcapng.next(window),
        }
    }
}
