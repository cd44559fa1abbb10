//! The sockets of a trial. They are bound before its threads start, and distributed among them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kqps_kernel::limits;
use kqps_kernel::udp::{UdpOptions, UdpSocket};

use super::UdpIo;
use crate::error::PlayError;
use crate::plan::{BUFFER_BYTES, Plan, UdpPlan};
use crate::replay::Replayed;
use crate::sources::Sources;

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
        let local = own.unwrap_or_else(|| any(plan.targets[0]).into());
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
            socket.map_err(|error| too_many(plan, error, |error| PlayError::Bind { address, error }))
        };
        let all = (0..wanted).map(bind).collect::<Result<Vec<UdpSocket>, PlayError>>()?;
        let notes = all[0].short_buffers(bytes);
        Ok(Self { all, notes })
    }
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

/// The unspecified address, with which the kernel chooses one that reaches the target.
fn any(target: SocketAddr) -> IpAddr {
    if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}
