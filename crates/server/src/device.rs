//! The device of a server whose frames pass the kernel's network stack: found by the addresses or by its name, with a
//! queue for each worker.
//!
//! The ordinary sockets of the same addresses stay bound. They keep the port from other programs, show which process
//! has it, and take what the program leaves to the kernel: fragments, headers with options or extensions, and frames by
//! queues without a worker. Workers answer these as well.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use kqps_kernel::xdp::place::{self, Place};
use kqps_kernel::xdp::{Attached, Filter, Prefix, Protocols, XdpMode, XdpSocket};

use crate::error::ServeError;
use crate::frames::{Program, Queue};
use crate::setup::{Reply, ServerSetup, Sockets};
use crate::sockets::WorkerSockets;

/// Bytes of `--buffer` for each frame of a queue. Half of the frames receive. So a buffer of the usual size holds about
/// as many short datagrams as that of a socket, which the kernel doubles.
const BUFFER_BYTES_PER_FRAME: usize = 256;

/// The fewest and the most frames of a queue, of 2 KiB each.
const FRAMES: std::ops::RangeInclusive<usize> = 64..=1 << 17;

/// Checks for settings that do not go with the I/O model.
pub(crate) fn check(setup: &ServerSetup) -> Result<(), ServeError> {
    if !setup.io.needs_device() {
        let why = "--device says where frames pass the kernel: it needs --io xdp";
        return if setup.device.is_some() { Err(ServeError::Setup(why.to_owned())) } else { Ok(()) };
    }
    let why = if setup.processes > 1 {
        "one process has the frames of a device: use --threads"
    } else if setup.sockets == Sockets::PortEach {
        "all workers have the same port, so --sockets port-each does not go with it"
    } else if setup.reply == Reply::Own {
        "a reply leaves by the queue of its query, so --reply own does not go with it"
    } else if setup.steer {
        "the device chooses the queue of a flow, so --steer does not go with it"
    } else {
        return Ok(());
    };
    Err(wrong(why))
}

/// Opens a queue for each worker, and puts the program on the device that hands frames for these addresses to them.
/// Returns `None` if there are no addresses, or if the I/O model has no frames.
pub(crate) fn open(
    setup: &ServerSetup,
    addresses: &[SocketAddr],
    workers: &mut [WorkerSockets],
) -> Result<Option<Arc<Program>>, ServeError> {
    let Some(first) = addresses.first().filter(|_| setup.io.needs_device()) else { return Ok(None) };
    if let Some(other) = addresses.iter().find(|other| other.port() != first.port()) {
        return Err(wrong(&format!("{first} and {other} have different ports, and all must share one")));
    }
    let place = place_of(setup, addresses)?;
    if let Some(queues) = place.queues.filter(|queues| (*queues as usize) < workers.len()) {
        let (name, workers) = (&place.name, workers.len());
        let advice = "use fewer --threads, or give the device more queues (ethtool -L)";
        let has = format!("{name} has {queues} queues, and each of {workers} workers needs one");
        return Err(wrong(&format!("{has}: {advice}")));
    }
    let failed = |error: io::Error| unusable(&place, &error);
    let attached = Attached::attach(&filter(&place, addresses), XdpMode::Auto).map_err(failed)?;
    let queues = u32::try_from(workers.len()).expect("each worker is a thread");
    let sockets = attached.open(0..queues, frames(setup.buffer_bytes)).map_err(failed)?;
    let is_zero_copy = sockets.iter().all(XdpSocket::is_zero_copy);
    let program = Arc::new(Program::new(attached, place.name, is_zero_copy));
    for (worker, socket) in workers.iter_mut().zip(sockets) {
        let (mtu, program) = (place.mtu as usize, program.clone());
        worker.queue = Some(Queue { socket, mtu, program, by_kernel: 0 });
    }
    Ok(Some(program))
}

/// The number of frames of a queue for buffers of this size.
fn frames(buffer_bytes: usize) -> u32 {
    let frames = (buffer_bytes / BUFFER_BYTES_PER_FRAME).clamp(*FRAMES.start(), *FRAMES.end());
    u32::try_from(frames.next_power_of_two()).expect("few frames")
}

/// The device that the user named, or the one that has all addresses.
fn place_of(setup: &ServerSetup, addresses: &[SocketAddr]) -> Result<Place, ServeError> {
    if let Some(name) = &setup.device {
        return place::named(name).map_err(|error| wrong(&format!("--device {name}: {error}")));
    }
    let mut found: Option<(SocketAddr, Place)> = None;
    for &address in addresses {
        if address.ip().is_unspecified() {
            return Err(wrong(&format!("--listen {address} names no device: add --device NAME")));
        }
        let advice = "listen at an address of a device with Ethernet frames, or name the device by --device";
        let unfit = |error: io::Error| wrong(&format!("--listen {address}: {error}; {advice}"));
        let here = place::with_address(address.ip()).map_err(unfit)?;
        match &found {
            Some((other, there)) if (there.device, there.vlan) != (here.device, here.vlan) => {
                let what = format!("{other} and {address} are at two devices, and all must be at one");
                return Err(wrong(&what));
            }
            Some(_) => {}
            None => found = Some((address, here)),
        }
    }
    found.map(|(_, place)| place).ok_or_else(|| wrong("it needs an address for datagrams"))
}

/// The frames of datagrams for these addresses. An unspecified address stands for those that the device has now.
fn filter(place: &Place, addresses: &[SocketAddr]) -> Filter {
    let own = addresses.iter().flat_map(|address| {
        let ip = address.ip();
        let all = place.addresses.iter().copied().filter(move |own| own.is_ipv4() == ip.is_ipv4());
        let named = (!ip.is_unspecified()).then_some(ip);
        named.into_iter().chain(all.filter(move |_| ip.is_unspecified()))
    });
    let port = addresses.first().map_or(0, SocketAddr::port);
    Filter {
        device: place.device,
        own: own.map(Prefix::of_one).collect(),
        ports: port..=port,
        peers: Vec::new(),
        protocols: Protocols::Udp,
        vlan: place.vlan,
        // They would be answered without a tag.
        untagged: false,
    }
}

/// The error for settings that cannot work.
fn wrong(why: &str) -> ServeError {
    ServeError::Setup(format!("--io xdp: {why}"))
}

/// The error for a device that the kernel does not give out.
fn unusable(place: &Place, error: &io::Error) -> ServeError {
    let needs = match error.kind() {
        io::ErrorKind::PermissionDenied => "; it needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF",
        _ => "",
    };
    ServeError::Device { device: place.name.clone(), reason: format!("{error}{needs}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    fn setup() -> ServerSetup {
        ServerSetup::small(vec!["192.0.2.1:53".parse().unwrap()], Model::Xdp)
    }

    fn place() -> Place {
        let addresses = ["192.0.2.1", "192.0.2.9", "2001:db8::1"].map(|text| text.parse().unwrap()).to_vec();
        Place { device: 7, name: "eth7".into(), vlan: Some(5), mtu: 1500, queues: Some(1), addresses }
    }

    #[test]
    fn settings_that_do_not_go_with_it_are_refused() {
        assert!(check(&setup()).is_ok());
        for (setup, why) in [
            (ServerSetup { processes: 2, ..setup() }, "--threads"),
            (ServerSetup { sockets: Sockets::PortEach, ..setup() }, "port-each"),
            (ServerSetup { reply: Reply::Own, ..setup() }, "--reply own"),
            (ServerSetup { steer: true, ..setup() }, "--steer"),
            (ServerSetup { io: Model::Mmsg, device: Some("eth0".into()), ..setup() }, "--io xdp"),
        ] {
            let error = check(&setup).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn addresses_that_frames_cannot_have_are_refused() {
        let error = |listen: &[&str], device: Option<&str>| {
            let addresses: Vec<SocketAddr> = listen.iter().map(|text| text.parse().unwrap()).collect();
            let setup = ServerSetup { device: device.map(str::to_owned), ..setup() };
            open(&setup, &addresses, &mut []).map(drop).unwrap_err().to_string()
        };
        let loopback = error(&["127.0.0.1:53"], None);
        assert!(loopback.starts_with("--io xdp: --listen 127.0.0.1:53: "), "{loopback}");
        assert!(loopback.contains("no Ethernet frames"), "{loopback}");
        assert!(error(&["0.0.0.0:53"], None).contains("add --device NAME"));
        assert!(error(&["192.0.2.1:53", "192.0.2.1:54"], None).contains("different ports"));
        assert!(error(&["127.0.0.1:53"], Some("lo")).contains("--device lo: "));
        assert!(open(&setup(), &[], &mut []).unwrap().is_none());
    }

    #[test]
    fn frames_are_for_the_addresses_that_the_server_listens_at() {
        let own = |listen: &[&str]| {
            let addresses: Vec<SocketAddr> = listen.iter().map(|text| text.parse().unwrap()).collect();
            let filter = filter(&place(), &addresses);
            assert_eq!((filter.device, filter.ports, filter.vlan), (7, 53..=53, Some(5)));
            assert!(!filter.untagged);
            filter.own.iter().map(|prefix| prefix.address.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(own(&["192.0.2.1:53"]), ["192.0.2.1"]);
        assert_eq!(own(&["0.0.0.0:53"]), ["192.0.2.1", "192.0.2.9"]);
        assert_eq!(own(&["[::]:53", "192.0.2.80:53"]), ["2001:db8::1", "192.0.2.80"]);
    }

    #[test]
    fn a_larger_buffer_has_more_frames() {
        assert_eq!([0, 4096, 1 << 20, 1 << 30].map(frames), [64, 64, 4096, 1 << 17]);
    }
}
