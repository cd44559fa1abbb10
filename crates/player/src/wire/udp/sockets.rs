//! The sockets of a trial. They are bound before its threads start, and distributed among them.

use std::io;
use std::net::{IpAddr, SocketAddr};

use kqps_kernel::udp::{UdpOptions, UdpSocket};
use kqps_kernel::{ephemeral, limits};

use super::UdpIo;
use crate::error::PlayError;
use crate::plan::{BUFFER_BYTES, Plan, UdpPlan};
use crate::replay::Replayed;
use crate::sources::{Sources, several_reaching, unspecified};

/// The error number of "Too many open files".
const EMFILE: i32 = 24;

/// The sockets of all threads.
pub(crate) struct Sockets {
    /// In the order in which threads and targets take turns over them.
    pub(crate) all: Vec<UdpSocket>,
    /// Options that could not be met as asked.
    pub(crate) notes: Vec<String>,
}

impl Sockets {
    /// Binds all sockets of a plan. Those of a replay are bound to no address: each client has one of its own.
    pub(crate) fn bind(
        plan: &Plan,
        udp: &UdpPlan,
        io: UdpIo,
        replay: Option<&Replayed>,
    ) -> Result<Self, PlayError> {
        // If this fails, binding fails below with a better reason.
        let _ = limits::raise_open_files();
        let own: Option<Sources> = if replay.is_some() { None } else { plan.local };
        let local = own.unwrap_or_else(|| unspecified(plan.targets[0]).into());
        let bytes = udp.buffer_bytes.unwrap_or(BUFFER_BYTES);
        let options = UdpOptions {
            recv_buffer: Some(bytes),
            send_buffer: Some(bytes),
            timestamps: true,
            nonblocking: true,
            gro: io == UdpIo::Gso,
            pktinfo: replay.is_some() && plan.local.is_some(),
            ..UdpOptions::default()
        };
        let wanted =
            replay.map_or_else(|| plan.flows(), |replay| replay.flows.all() / replay.flows.together());
        let bind = |number: usize| {
            let port = udp.local_port.map_or(0, |first| first.saturating_add(number as u16));
            let address = SocketAddr::new(local.of_socket(number), port);
            let socket = UdpSocket::bind(address, &options).and_then(|socket| {
                // Then the kernel need not number the packets of many addresses, which takes long.
                if replay.is_some() {
                    socket.never_fragment()?;
                }
                Ok(socket)
            });
            socket.map_err(|error| match error.kind() {
                io::ErrorKind::AddrInUse if port > 0 => PlayError::PortTaken { address },
                io::ErrorKind::AddrInUse => no_port(plan, wanted, address.ip(), ephemeral::ports().len()),
                _ => too_many(plan, error, |error| PlayError::Bind { address, error }),
            })
        };
        let all = (0..wanted).map(bind).collect::<Result<Vec<UdpSocket>, PlayError>>()?;
        let notes = all[0].short_buffers(bytes);
        Ok(Self { all, notes })
    }
}

/// The error of a plan for `wanted` sockets that found no free port at an address, where each address has `ports` of
/// them. How many sockets a replay needs is up to its clients.
fn no_port(plan: &Plan, wanted: usize, address: IpAddr, ports: usize) -> PlayError {
    let several = several_reaching(&plan.targets);
    let (sockets, or) = match plan.replay {
        None => (format!("{wanted} sockets"), "or use fewer sockets (-c)"),
        Some(_) => (
            format!("{wanted} sockets for the clients of the capture"),
            "play fewer slices (--pile) or a shorter window (--window)",
        ),
    };
    let needed = wanted.div_ceil(ports.max(1));
    let has = plan.local.filter(|_| plan.replay.is_none()).map_or(1, |local| local.count());
    let advice = if plan.replay.is_some() {
        format!("send from more source addresses ({several}), {or}")
    } else if needed as u128 > has {
        format!("send from {needed} source addresses at least ({several}), {or}")
    } else {
        format!("other programs have some of these: send from more source addresses ({several}), {or}")
    };
    PlayError::NoPort { sockets, address, ports, advice }
}

/// The error of opening something for a plan: too many sockets, or what `otherwise` makes of it.
pub(crate) fn too_many(
    plan: &Plan,
    error: io::Error,
    otherwise: impl FnOnce(io::Error) -> PlayError,
) -> PlayError {
    if error.raw_os_error() != Some(EMFILE) {
        return otherwise(error);
    }
    let limit = limits::raise_open_files().unwrap_or(0);
    PlayError::too_many_sockets(plan, plan.flows(), limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ReplayPlan;
    use crate::plan::tests::plan;

    #[test]
    fn without_a_port_the_error_says_how_many_addresses_are_enough() {
        let said = |target: &str, local: Option<&str>, replay: Option<ReplayPlan>| {
            let local = local.map(|local| local.parse().unwrap());
            let plan = Plan { local, replay, ..plan(target.parse().unwrap()) };
            no_port(&plan, 2500, "127.0.0.9".parse().unwrap(), 1000).to_string()
        };
        let start = "cannot bind 2500 sockets: no port is free at 127.0.0.9, and each address has 1000 \
                     ports (net.ipv4.ip_local_port_range); ";
        let more = "send from 3 source addresses at least (-a 127.1.0.0/16), or use fewer sockets (-c)";
        assert_eq!(said("127.0.0.1:53", None, None), format!("{start}{more}"));
        assert_eq!(said("127.0.0.1:53", Some("127.1.0.0/31"), None), format!("{start}{more}"));
        let others = said("192.0.2.1:53", Some("192.0.2.0/24"), None);
        assert!(others.starts_with(&format!("{start}other programs have some of these: ")), "{others}");
        assert!(others.contains("(-a ADDR/PREFIX, once this host has such addresses)"), "{others}");
        let captured = said("127.0.0.1:53", None, Some(ReplayPlan::default()));
        assert!(captured.contains("2500 sockets for the clients of the capture: "), "{captured}");
        assert!(
            captured.ends_with("play fewer slices (--pile) or a shorter window (--window)"),
            "{captured}"
        );
    }
}
