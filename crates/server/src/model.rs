//! The I/O models, by which a server receives datagrams and sends replies.

use std::str::FromStr;

use kqps_kernel::probe::probe_one;

/// The I/O models, each a loop with its own system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// A blocking `recvfrom`, then `sendto`.
    Blocking,
    /// A non-blocking `recvfrom`, repeated without pause, and `sendto`.
    Spin,
    /// `poll`, then `recvfrom` and `sendto`.
    Poll,
    /// `select`, then `recvfrom` and `sendto`.
    Select,
    /// `epoll`, then `recvfrom` and `sendto`.
    Epoll,
    /// The event library mio, then `recvfrom` and `sendto`.
    Event,
    /// `recvmmsg` and `sendmmsg`.
    Mmsg,
    /// `recvmmsg` and `sendmmsg` with segmentation offload: `UDP_GRO` to receive, `UDP_SEGMENT` to send.
    Segment,
    /// `io_uring`: multishot receive into provided buffers.
    Uring,
    /// `AF_XDP`: frames that pass the kernel's network stack, a queue of a device for each worker.
    Xdp,
}

impl Model {
    /// All variants.
    pub const ALL: [Self; 10] = [
        Self::Blocking,
        Self::Spin,
        Self::Poll,
        Self::Select,
        Self::Epoll,
        Self::Event,
        Self::Mmsg,
        Self::Segment,
        Self::Uring,
        Self::Xdp,
    ];

    /// The name of the model in flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Spin => "spin",
            Self::Poll => "poll",
            Self::Select => "select",
            Self::Epoll => "epoll",
            Self::Event => "event",
            Self::Mmsg => "mmsg",
            Self::Segment => "segment",
            Self::Uring => "uring",
            Self::Xdp => "xdp",
        }
    }

    /// Whether this host supports the model. The error says what is missing.
    pub fn available(self) -> Result<(), String> {
        match self {
            Self::Segment => probe_one("gro").and_then(|()| probe_one("gso")),
            Self::Uring => probe_one("uring"),
            Self::Xdp => probe_one("af-xdp"),
            _ => Ok(()),
        }
    }

    /// Whether one worker can serve several sockets.
    pub fn serves_many(self) -> bool {
        self != Self::Blocking
    }

    /// Whether the model receives frames of a device, and so none of loopback.
    pub fn needs_device(self) -> bool {
        self == Self::Xdp
    }

    /// Whether the kernel should deliver datagrams of equal length as one message (`UDP_GRO`).
    pub fn takes_segments(self) -> bool {
        self == Self::Segment
    }
}

impl FromStr for Model {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|model| model.name() == name).ok_or_else(|| {
            format!("no I/O model `{name}`; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}
