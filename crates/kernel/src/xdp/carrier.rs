//! Whether a device has its carrier (rtnetlink(7)). Some drivers reset the link when they get a program, or when a
//! socket takes one of their queues, and drop every frame until it is back.

use std::io;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};

use crate::clock::{now_ns, sleep_until_ns};
use crate::namespace::netlink::Netlink;

/// How long a link may take to come back. Network cards agree on a speed within about 3 s.
const PATIENCE_NS: u64 = 5_000_000_000;

/// How long a link that was reset must stay: it may be lost once more while both sides agree.
const STEADY_NS: u64 = 100_000_000;

/// The pause between looks.
const PAUSE_NS: u64 = 5_000_000;

/// The carrier of a device at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Carrier {
    pub(super) is_on: bool,
    /// How often the device has lost it; 0 if the kernel does not count that (before Linux 4.16).
    losses: u32,
}

impl Carrier {
    /// The carrier of a device of the calling thread's network namespace.
    pub(super) fn read(device: u32) -> io::Result<Self> {
        ask(&Netlink::open()?, device).map(|(_, carrier)| carrier)
    }

    /// Waits until a device that had this carrier has it again, for 5 s at most. Returns at once if the device never
    /// lost it, or had none before.
    pub(super) fn await_again(self, device: u32) -> io::Result<()> {
        self.await_for(device, PATIENCE_NS)
    }

    fn await_for(self, device: u32, most_ns: u64) -> io::Result<()> {
        if !self.is_on {
            return Ok(());
        }
        let netlink = Netlink::open()?;
        let begin_ns = now_ns();
        let mut steady: Option<(u32, u64)> = None;
        loop {
            let (name, Self { is_on, losses }) = ask(&netlink, device)?;
            let at_ns = now_ns();
            if is_on && losses == self.losses {
                return Ok(());
            }
            match steady.filter(|(before, _)| is_on && *before == losses) {
                Some((_, since_ns)) if at_ns - since_ns >= STEADY_NS => return Ok(()),
                Some(_) => {}
                None => steady = is_on.then_some((losses, at_ns)),
            }
            if at_ns - begin_ns >= most_ns {
                let within_s = most_ns as f64 / 1e9;
                let what = format!("{name} lost its carrier, and did not get it back within {within_s} s");
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            sleep_until_ns(at_ns + PAUSE_NS);
        }
    }
}

/// The name of a device, and its carrier.
fn ask(netlink: &Netlink, device: u32) -> io::Result<(String, Carrier)> {
    let mut request = LinkMessage::default();
    request.header.index = device;
    let RouteNetlinkMessage::NewLink(link) = netlink.ask(RouteNetlinkMessage::GetLink(request))? else {
        return Err(io::Error::other("the kernel answered a request for a device with something else"));
    };
    let (mut name, mut carrier) = (String::new(), Carrier { is_on: false, losses: 0 });
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(found) => name = found,
            LinkAttribute::Carrier(state) => carrier.is_on = state != 0,
            LinkAttribute::CarrierDownCount(count) => carrier.losses = count,
            _ => {}
        }
    }
    Ok((name, carrier))
}

#[cfg(test)]
mod tests {
    use kqps_skips::{Capability, skip};
    use netlink_packet_route::link::LinkFlags;

    use super::*;
    use crate::namespace::NetNs;
    use crate::namespace::netlink::RequestMode;
    use crate::namespace::veth::DEVICE;
    use crate::xdp::devices::devices;
    use crate::xdp::trial::pair;

    const BRIEF_NS: u64 = 50_000_000;

    /// The index of the device in a network.
    fn device(namespace: &NetNs) -> u32 {
        let all = namespace.within(devices).unwrap();
        all.iter().find(|device| device.name == DEVICE).unwrap().index
    }

    fn set_up(namespace: &NetNs, is_up: bool) {
        let mut link = LinkMessage::default();
        link.header.index = device(namespace);
        link.header.flags = if is_up { LinkFlags::Up } else { LinkFlags::empty() };
        link.header.change_mask = LinkFlags::Up;
        let request = || Netlink::open()?.request(RouteNetlinkMessage::SetLink(link), RequestMode::Changed);
        namespace.within(request).unwrap();
    }

    #[test]
    fn a_link_that_was_reset_is_waited_for() {
        if let Err(reason) = crate::probe::probe_one("veth") {
            skip(Capability::Networks, reason);
            return;
        }
        let (near, far) = pair().unwrap();
        let index = device(&near);
        let now = || near.within(|| Carrier::read(index)).unwrap();
        let wait = |before: Carrier, most_ns| near.within(move || before.await_for(index, most_ns));
        let before = now();
        assert!(before.is_on);
        // It never lost it.
        wait(before, 0).unwrap();
        set_up(&far, false);
        assert!(!now().is_on);
        let lost = wait(before, BRIEF_NS).unwrap_err().to_string();
        assert!(lost.contains(DEVICE) && lost.contains("within 0.05 s"), "{lost}");
        // A device without a carrier is as it was.
        wait(now(), 0).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| wait(before, PATIENCE_NS));
            set_up(&far, true);
            waiting.join().unwrap().unwrap();
        });
        let after = now();
        assert!(after.is_on && after.losses > before.losses, "{before:?} {after:?}");
    }

    #[test]
    fn a_device_that_does_not_exist_has_no_carrier() {
        Carrier::read(u32::MAX >> 1).unwrap_err();
    }
}
