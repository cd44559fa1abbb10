//! Drops at the devices of the calling thread's network namespace that `/proc/net/dev` does not count.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixDatagram;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use rustix::net::netdevice::index_to_name;

use super::netlink::Netlink;
use crate::ethtool::counters::driver_counters;

/// Device → packets that its queueing discipline has dropped since it was created (`tc -s qdisc`). Wraps
/// at 2³².
pub fn of_queues() -> io::Result<BTreeMap<String, u64>> {
    let messages = Netlink::open()?.dump(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()))?;
    let drops = messages.into_iter().filter_map(|message| match message {
        // The root discipline also counts the drops of those below it.
        RouteNetlinkMessage::NewQueueDiscipline(queue) if queue.header.parent == TcHandle::ROOT => {
            let stats = queue.attributes.iter().find_map(|attribute| match attribute {
                TcAttribute::Stats(stats) => Some(u64::from(stats.drops)),
                _ => None,
            });
            Some((name(queue.header.index as u32)?, stats?))
        }
        _ => None,
    });
    Ok(drops.collect())
}

/// The counters of a device's driver (`ethtool -S`): name → count since the driver was loaded.
pub fn of_driver(device: &str) -> io::Result<Vec<(String, u64)>> {
    driver_counters(device)
}

/// The name of the device with an index; `None` if there is none.
pub(super) fn name(index: u32) -> Option<String> {
    index_to_name(UnixDatagram::unbound().ok()?, index).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::joined::joined;
    use crate::namespace::veth::{DEVICE, VethSettings};

    #[test]
    fn devices_count_what_they_dropped() {
        let Some((one, _other)) = joined(&VethSettings::default()) else { return };
        let queues = one.within(of_queues).unwrap();
        assert!(queues.values().all(|drops| *drops == 0), "{queues:?}");
        // The counters of every veth include the index of its peer (drivers/net/veth.c).
        let driver = one.within(|| of_driver(DEVICE)).unwrap();
        assert!(driver.iter().any(|(name, index)| name == "peer_ifindex" && *index == 2), "{driver:?}");
        assert_eq!(one.within(|| of_driver("lo")).unwrap_or_default(), []);
        assert!(one.within(|| of_driver("none")).is_err());
    }
}
