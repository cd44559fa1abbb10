//! The sockets of a trial. They are bound before its threads start, and distributed among them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use kqps_kernel::limits;
use kqps_kernel::udp::{UdpOptions, UdpSocket};

use super::Chosen;
use crate::error::PlayError;
use crate::plan::{BUFFER_BYTES, LoadPlan, Plan};

/// The least room that a flow has for outstanding queries. Small tables stay in the cache.
const CAPACITY_LEAST: usize = 1 << 10;

/// The least room of each flow if there are more than `FLOWS_FEW`, so that 100,000 of them fit the memory.
const CAPACITY_LEAST_OF_MANY: usize = 1 << 4;
const FLOWS_FEW: usize = 4096;

/// The error number of "Too many open files".
const EMFILE: i32 = 24;

pub(crate) struct Sockets {
    /// In the order in which threads and targets take turns over them.
    pub(crate) all: Vec<UdpSocket>,
    /// Options that could not be met as asked.
    pub(crate) notes: Vec<String>,
}

impl Sockets {
    /// Binds all sockets of a plan.
    pub(crate) fn bind(plan: &Plan, chosen: Chosen) -> Result<Self, PlayError> {
        // If this fails, binding fails below with a better reason.
        let _ = limits::raise_open_files();
        let udp = plan.udp();
        let local = udp.local.unwrap_or_else(|| any(udp.targets[0]).into());
        let bytes = udp.buffer_bytes.unwrap_or(BUFFER_BYTES);
        let options = UdpOptions {
            recv_buffer: Some(bytes),
            send_buffer: Some(bytes),
            timestamps: true,
            nonblocking: true,
            gro: chosen == Chosen::Gso,
            ..UdpOptions::default()
        };
        let wanted = plan.sockets_in_fact();
        let bind = |number: usize| {
            let port = udp.local_port.map_or(0, |first| first.saturating_add(number as u16));
            let address = SocketAddr::new(local.of_socket(number), port);
            UdpSocket::bind(address, &options)
                .map_err(|error| too_many(plan, error, |error| PlayError::Bind { address, error }))
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
    PlayError::TooManySockets { wanted: plan.sockets_in_fact(), limit }
}

/// The unspecified address, with which the kernel chooses one that reaches the target.
fn any(target: SocketAddr) -> IpAddr {
    if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// Thread `number`'s part of `whole`. The parts add up to `whole` and differ by 1 at most.
pub(crate) fn part_of(whole: u64, threads: usize, number: usize) -> Range<u64> {
    let upto = |thread: usize| (u128::from(whole) * thread as u128 / threads as u128) as u64;
    upto(number)..upto(number + 1)
}

/// Slots of each socket: enough for everything that leaves through it until its fate is settled, if nothing
/// is answered. `sockets` is the number of sockets of all threads.
pub(crate) fn capacity(load: LoadPlan, timeout: Duration, settle: Duration, sockets: usize) -> usize {
    // A window is refilled once per timeout.
    let of_window = |window: u64| window as f64 * (settle.as_secs_f64() / timeout.as_secs_f64()).ceil();
    let unsettled = match load {
        LoadPlan::Open { rate_qps, window, .. } => {
            (rate_qps * settle.as_secs_f64()).min(window.map_or(f64::INFINITY, of_window))
        }
        LoadPlan::Closed { outstanding } => of_window(outstanding),
    };
    let needed = (1.25 * unsettled / sockets as f64) as usize;
    let least = if sockets > FLOWS_FEW { CAPACITY_LEAST_OF_MANY } else { CAPACITY_LEAST };
    needed.clamp(least, 1 << 16).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Arrivals;

    #[test]
    fn parts_add_up_and_none_is_empty_where_there_is_enough() {
        for (whole, threads) in [(4, 3), (6, 4), (8, 5), (1024, 1024), (32, 1), (7, 7)] {
            let parts: Vec<u64> = (0..threads)
                .map(|number| part_of(whole, threads, number))
                .map(|part| part.end - part.start)
                .collect();
            assert_eq!(parts.iter().sum::<u64>(), whole);
            assert!(
                parts
                    .iter()
                    .all(|part| [whole / threads as u64, whole.div_ceil(threads as u64)].contains(part))
            );
        }
    }

    #[test]
    fn a_flow_has_room_for_what_it_needs() {
        let second = Duration::from_secs(1);
        let open = |rate_qps| LoadPlan::Open { rate_qps, arrivals: Arrivals::Even, window: None };
        assert_eq!(capacity(open(1000.0), second, second, 1), 2048);
        assert_eq!(capacity(open(1000.0), second, second, 64), 1024, "small tables are not made smaller");
        assert_eq!(capacity(open(1e6), second, second, 100_000), 16);
        assert_eq!(capacity(open(1e7), second, second, 100_000), 128);
        assert_eq!(capacity(open(1e9), second, second, 1), 1 << 16, "a message has no more IDs");
    }
}
