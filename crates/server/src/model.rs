//! The I/O models, by which a server receives datagrams and sends replies.

use kqps_kernel::probe::probe_one;
use strum::{EnumString, IntoStaticStr, VariantArray, VariantNames};

/// The I/O models, each a loop with its own system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown)]
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
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    /// The names of all variants.
    pub const NAMES: &[&str] = <Self as VariantNames>::VARIANTS;

    /// The name of the model in flags and reports.
    pub fn name(self) -> &'static str {
        self.into()
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

/// The error for a name that no model has.
fn unknown(name: &str) -> String {
    format!("no I/O model `{name}`; there are {}", Model::NAMES.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_by_their_names() {
        let error = "epol".parse::<Model>().unwrap_err();
        let expected = "blocking, spin, poll, select, epoll, event, mmsg, segment, uring, xdp";
        assert_eq!(error, format!("no I/O model `epol`; there are {expected}"));
        for &model in Model::ALL {
            assert_eq!(model.name().parse(), Ok(model));
        }
    }
}
