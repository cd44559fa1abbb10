//! Opening what passes the kernel, before the threads of a trial start: the ways to the targets, the program on their
//! device, and a socket on each of its queues.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use kqps_kernel::local_address::is_local;
use kqps_kernel::probe::probe_one;
use kqps_kernel::xdp::devices::{Device, devices};
use kqps_kernel::xdp::route::{self, Route};
use kqps_kernel::xdp::{Attached, Filter, Prefix, Protocols, RECEIVED_BYTES, ROOM_BYTES, XdpMode, XdpSocket};
use kqps_stack::Path;

use super::post::Post;
use super::shared::Shared;
use super::{IO, PastPart, Way};
use crate::error::PlayError;
use crate::plan::Plan;

/// Frames of a thread, of which half receive: room for the replies that arrive while it stands still for some
/// milliseconds.
const FRAMES: usize = 1 << 14;
const FRAMES_LEAST: usize = 1 << 4;
const FRAMES_MOST: usize = 1 << 20;

/// Bytes of a frame's memory.
const FRAME_BYTES: usize = 2048;

/// Bytes of Ethernet's header with a VLAN.
const LINK_BYTES: usize = 18;

/// The driver whose devices leave checksums to each other.
const VETH: &str = "veth";

/// The settings that a plan asks for.
#[derive(Clone, Debug)]
pub(crate) struct XdpRequest<'a> {
    /// The name of the device; `None` for that of the routes.
    pub(crate) device: Option<&'a str>,
    /// Bytes of a thread's buffer for what arrives; `None` for the usual.
    pub(crate) buffer_bytes: Option<usize>,
    pub(crate) protocols: Protocols,
    /// The ports of this host to which replies come.
    pub(crate) ports: RangeInclusive<u16>,
}

/// Opens what a plan asks for: the part of each thread, and notes on how frames pass. From then on the kernel sees no
/// reply to the ports.
pub(crate) fn open(plan: &Plan, asked: &XdpRequest<'_>) -> Result<(Vec<PastPart>, Vec<String>), PlayError> {
    let own = own_addresses(plan)?;
    let routes: Vec<Route> =
        plan.targets.iter().map(|target| way_to(target.ip())).collect::<Result<_, _>>()?;
    let device = device(&routes, asked.device)?;
    let vlan = routes[0].vlan;
    if routes.iter().any(|route| route.vlan != vlan) {
        return Err(refused("the targets are in several VLANs; play at those of one".into()));
    }
    let queues = device.queues.map_or(plan.threads, |queues| queues as usize);
    if plan.threads > queues {
        let (threads, name) = (plan.threads, &device.name);
        return Err(refused(format!(
            "{threads} threads need a queue each, and {name} has {queues} (ethtool -l {name}); use fewer threads (-T)"
        )));
    }
    let own = own.unwrap_or_else(|| of_routes(&routes));
    let filter = Filter {
        device: device.index,
        own,
        ports: asked.ports.clone(),
        peers: plan.targets.clone(),
        protocols: asked.protocols,
        vlan,
        untagged: true,
    };
    let attached = Attached::attach(&filter, XdpMode::Auto).map_err(|error| failed(&error))?;
    let frames = frames(asked.buffer_bytes, queues.div_ceil(plan.threads));
    let opened = attached.open(0..queues as u32, frames).map_err(|error| failed(&error))?;
    let mut notes = ways_of_frames(&device.name, &attached, &opened);
    notes.extend(too_long(&routes));
    let sockets = dealt(opened, plan.threads);
    let verifies = attached.is_native() && device.driver.as_deref() != Some(VETH);
    let ways: Arc<[Way]> = routes.iter().map(way).collect();
    Ok((parts(sockets, Some(attached), &ways, &asked.ports, verifies), notes))
}

/// A note if replies may be too long for a frame's memory.
fn too_long(routes: &[Route]) -> Option<String> {
    let room = RECEIVED_BYTES - LINK_BYTES;
    let longest = routes.iter().map(|route| route.mtu as usize).max().filter(|mtu| *mtu > room)?;
    let what = format!("the route takes packets of {longest} bytes, and a frame has room for {room}");
    Some(format!("{what}; longer replies are dropped (no-frame)"))
}

/// How frames pass at this device.
fn ways_of_frames(device: &str, attached: &Attached, sockets: &[XdpSocket]) -> Vec<String> {
    let queues = if sockets.len() == 1 { "queue" } else { "queues" };
    let mut notes = vec![format!("frames pass the kernel at {device}, by {} {queues}", sockets.len())];
    if let Some(error) = attached.why_not_native() {
        notes
            .push(format!("the program runs in the stack, since the driver of {device} refused it: {error}"));
    }
    if !attached.had_carrier() {
        notes.push(format!("{device} had no carrier when the trial was set up"));
    }
    if !sockets.iter().all(XdpSocket::is_zero_copy) {
        notes.push("frames are copied between the device and the player".into());
    }
    notes
}

/// The part of each thread of a trial of UDP whose frames go to a device in memory. Addresses of hardware are made up.
pub(crate) fn in_memory(
    plan: &Plan,
    sockets: Vec<XdpSocket>,
    ports: &RangeInclusive<u16>,
) -> Result<Vec<PastPart>, PlayError> {
    if sockets.len() < plan.threads {
        return Err(refused(format!("{} sockets for {} threads", sockets.len(), plan.threads)));
    }
    let path = Path { source_mac: [2, 0, 0, 0, 0, 1], target_mac: [2, 0, 0, 0, 0, 2], vlan: None };
    let source = match plan.targets[0].ip() {
        IpAddr::V4(_) => Ipv4Addr::new(198, 18, 0, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let way = Way { path, source, mtu: ROOM_BYTES - LINK_BYTES };
    let ways: Arc<[Way]> = plan.targets.iter().map(|_| way).collect();
    Ok(parts(dealt(sockets, plan.threads), None, &ways, ports, false))
}

/// The sockets of each thread, which get them in turn.
fn dealt(sockets: Vec<XdpSocket>, threads: usize) -> Vec<Vec<XdpSocket>> {
    let mut dealt: Vec<Vec<XdpSocket>> = (0..threads).map(|_| Vec::new()).collect();
    for (queue, socket) in sockets.into_iter().enumerate() {
        dealt[queue % threads].push(socket);
    }
    dealt
}

fn parts(
    sockets: Vec<Vec<XdpSocket>>,
    attached: Option<Attached>,
    ways: &Arc<[Way]>,
    ports: &RangeInclusive<u16>,
    verifies: bool,
) -> Vec<PastPart> {
    let threads = sockets.len();
    let shared = Arc::new(Shared::new(attached, threads));
    let posts: Vec<Option<Post>> =
        if threads > 1 { Post::of_all(threads).into_iter().map(Some).collect() } else { vec![None] };
    let part = |(number, (sockets, post))| PastPart {
        number,
        threads,
        sockets,
        ways: Arc::clone(ways),
        post,
        ports: ports.clone(),
        verifies,
        read: 0,
        unstamped: 0,
        has_opened: false,
        has_finished: false,
        shared: Arc::clone(&shared),
    };
    sockets.into_iter().zip(posts).enumerate().map(part).collect()
}

fn refused(reason: String) -> PlayError {
    PlayError::Past(reason)
}

/// The error of a step. If the host cannot do it at all, that is the reason.
fn failed(error: &std::io::Error) -> PlayError {
    match probe_one("af-xdp") {
        Ok(()) => refused(error.to_string()),
        Err(reason) => {
            PlayError::Io { io: IO, reason: format!("{error} ({reason}); `kqps probe` shows more") }
        }
    }
}

fn way_to(target: IpAddr) -> Result<Route, PlayError> {
    route::to(target).map_err(|error| {
        let hint = "past the kernel a target is on another host, or at the other end of a veth pair";
        if target.is_loopback() || is_local((target, 0).into()) {
            refused(format!("{error}; {hint}: loopback has no frames"))
        } else {
            refused(error.to_string())
        }
    })
}

fn way(route: &Route) -> Way {
    let Route { source_mac, target_mac, vlan, mtu, source, .. } = *route;
    let mtu = (mtu as usize).min(ROOM_BYTES - LINK_BYTES);
    Way { path: Path { source_mac, target_mac, vlan }, source, mtu }
}

/// The device that a plan names, or to which all routes lead.
fn device(routes: &[Route], named: Option<&str>) -> Result<Device, PlayError> {
    let all = devices().map_err(|error| refused(format!("listing devices: {error}")))?;
    let names = || all.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(", ");
    let first = routes[0].device;
    let found = match named {
        Some(name) => match all.iter().find(|device| device.name == name) {
            Some(device) if routes.iter().any(|route| route.device != device.index) => {
                let by = all.iter().find(|device| device.index == first);
                let by = by.map_or("another device", |by| by.name.as_str());
                Err(format!(
                    "--device {name}: the route to the targets is by {by}, and frames take no other way"
                ))
            }
            Some(device) => Ok(device),
            None => {
                let expected = "expected a device with Ethernet frames, which loopback has not";
                Err(format!("--device {name}: {expected}; there are: {}", names()))
            }
        },
        None if routes.iter().any(|route| route.device != first) => {
            Err("the targets are behind several devices; play at those of one".to_owned())
        }
        None => all.iter().find(|device| device.index == first).ok_or_else(|| {
            format!("the route's device {first} has no Ethernet frames; there are: {}", names())
        }),
    };
    found.cloned().map_err(refused)
}

/// The networks of the source addresses that the plan names, which must be this host's; `None` if it names none.
fn own_addresses(plan: &Plan) -> Result<Option<Vec<Prefix>>, PlayError> {
    let Some(local) = plan.local else { return Ok(None) };
    if local.is_ipv4() != plan.targets[0].is_ipv4() {
        let target = plan.targets[0];
        let what = format!("the source addresses (-a) and the target {target} are of different families");
        return Err(refused(what));
    }
    if plan.replay.is_some() {
        // Clients may have any of them. That they are this host's was checked with the clients.
        return Ok(Some(cover(local.of_socket(0), local.count())));
    }
    let count = local.count().min(plan.flows() as u128);
    let mut used = (0..count as usize).map(|number| local.of_socket(number));
    if let Some(foreign) = used.find(|address| !is_local((*address, 0).into())) {
        return Err(refused(format!("-a: this host has no address {foreign}")));
    }
    Ok(Some(cover(local.of_socket(0), count)))
}

/// The addresses from which the kernel would send.
fn of_routes(routes: &[Route]) -> Vec<Prefix> {
    let sources: BTreeSet<IpAddr> = routes.iter().map(|route| route.source).collect();
    sources.into_iter().map(Prefix::of_one).collect()
}

/// The fewest networks that have these many addresses from the first one on, and no others.
fn cover(first: IpAddr, count: u128) -> Vec<Prefix> {
    let (mut at, width) = match first {
        IpAddr::V4(first) => (u128::from(first.to_bits()), 32),
        IpAddr::V6(first) => (first.to_bits(), 128),
    };
    let address = |at: u128| match first {
        IpAddr::V4(_) => Ipv4Addr::from_bits(at as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(at).into(),
    };
    let mut left = count;
    let mut all = Vec::new();
    while left > 0 {
        let free = at.trailing_zeros().min(width).min(left.ilog2());
        all.push(Prefix { address: address(at), bits: (width - free) as u8 });
        at = at.wrapping_add(1 << free);
        left -= 1 << free;
    }
    all
}

/// Frames of a socket: a power of two.
fn frames(buffer_bytes: Option<usize>, queues_of_thread: usize) -> u32 {
    let all = buffer_bytes.map_or(FRAMES, |bytes| bytes.div_ceil(FRAME_BYTES).saturating_mul(2));
    let of_each = (all / queues_of_thread.max(1)).clamp(FRAMES_LEAST, FRAMES_MOST);
    of_each.next_power_of_two() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_cover_a_range_exactly() {
        let covered = |first: &str, count| {
            let all = cover(first.parse().unwrap(), count);
            all.iter().map(|one| format!("{}/{}", one.address, one.bits)).collect::<Vec<_>>()
        };
        assert_eq!(covered("192.0.2.1", 1), ["192.0.2.1/32"]);
        assert_eq!(covered("192.0.2.1", 6), ["192.0.2.1/32", "192.0.2.2/31", "192.0.2.4/31", "192.0.2.6/32"]);
        assert_eq!(covered("10.0.0.0", 1 << 16), ["10.0.0.0/16"]);
        assert_eq!(covered("0.0.0.0", 1 << 32), ["0.0.0.0/0"]);
        assert_eq!(covered("2001:db8::fffe", 4), ["2001:db8::fffe/127", "2001:db8::1:0/127"]);
    }

    #[test]
    fn buffers_are_powers_of_two_frames() {
        assert_eq!((frames(None, 1), frames(None, 64), frames(None, 3)), (1 << 14, 256, 8192));
        assert_eq!(
            (frames(Some(8 * 2048), 1), frames(Some(1), 1), frames(Some(usize::MAX), 1)),
            (16, 16, 1 << 20)
        );
    }
}
