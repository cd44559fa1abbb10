//! Common parts of the tests past the kernel: two private networks, joined by a veth pair.

use std::io;
use std::net::Ipv4Addr;

use kqps_kernel::namespace::NetNs;
use kqps_kernel::namespace::veth::{End, VethSettings, join};
use kqps_player::{Io, offers};
use kqps_skips::{Capability, skip};

/// The address of the player's end.
pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The address of the subject's end.
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// The networks of player and subject.
pub(crate) struct Networks {
    near: NetNs,
    far: NetNs,
}

impl Networks {
    /// Networks whose devices have so many queues. `None` if frames do not get past the kernel here, which is reported.
    pub(crate) fn new(queues: u32) -> Option<Self> {
        if let Err(reason) = offers(Io::Xdp) {
            skip(Capability::Networks, reason);
            return None;
        }
        let (near, far) = (NetNs::new().unwrap(), NetNs::new().unwrap());
        let settings = VethSettings { queues: Some(queues), ..VethSettings::default() };
        let (one, other) = (End { namespace: &near, address: NEAR }, End { namespace: &far, address: FAR });
        join(one, other, &settings).unwrap();
        Some(Self { near, far })
    }

    /// Runs this in the player's network.
    pub(crate) fn near<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        self.near.within(|| Ok(act())).unwrap()
    }

    /// Opens something in the subject's network.
    pub(crate) fn far<T: Send>(&self, open: impl FnOnce() -> io::Result<T> + Send) -> T {
        self.far.within(open).unwrap()
    }
}
