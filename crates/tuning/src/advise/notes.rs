//! Facts that the advice lacks, and settings that it cannot change.

use super::ground::Ground;
use super::layout::Layout;
use super::{Ask, Piece};

const NO_COSTS: &str = "The layouts are in the order of rules, since the time of a packet and of an answer is not \
                        known. Measure the server once (kqps run), and give the run's folder with --run.";

const ONE_SOCKET: &str = "All workers share one socket, and wait for each other there. A socket for each \
                          (SO_REUSEPORT) is usually worth more than any layout.";

const OWN_SOCKETS: &str = "The layouts assume a socket for each worker (SO_REUSEPORT). NLnet Labs (unbound-scaling) \
                           measured 18,600 q/s with one socket for four threads, and 25,797 q/s with a port for \
                           each of four processes.";

const MANAGED: &str = "The kernel places the interrupts of this device and refuses other cores. They follow the \
                       queues: set the number of queues, and pin the server beside them.";

const CONNTRACK: &str = "Connection tracking is loaded. It costs a look-up for each packet, and drops packets of new \
                         flows when its table is full. Exempt DNS (nft: `udp dport 53 notrack` and `udp sport 53 \
                         notrack` in raw hooks), or unload it. Shotgun and RIPE switch it off.";

const BUSY_POLLING: &str = "Busy polling: tuned sets net.core.busy_read to 50, Knot DNS to 0. It polls the device, so \
                            measure it with the player on another host";

pub(super) fn notes(ground: &Ground<'_>, ask: &Ask, layouts: &[Layout], pieces: &[Piece]) -> Vec<String> {
    let has_costs = ask.softirq_s_per_packet.is_some() && ask.server_s_per_answer.is_some();
    let has_workers = layouts.first().is_some_and(|layout| layout.worker_cpus.len() > 1);
    let known = [
        (!has_costs).then_some(NO_COSTS),
        ask.one_socket.then_some(ONE_SOCKET),
        (!ask.one_socket && has_workers).then_some(OWN_SOCKETS),
        ground.are_interrupts_managed().then_some(MANAGED),
        ground.setup.conntrack.loaded.then_some(CONNTRACK),
    ];
    let mut notes: Vec<String> = device(ground, ask).into_iter().collect();
    notes.extend(known.into_iter().flatten().map(String::from));
    notes.extend(the_way_here(ground, pieces));
    notes.extend(to_measure(ground));
    notes
}

fn device(ground: &Ground<'_>, ask: &Ask) -> Option<String> {
    let names: Vec<&str> = ground.setup.devices.iter().map(|device| device.name.as_str()).collect();
    let known = if names.is_empty() { String::new() } else { format!(" (known: {})", names.join(", ")) };
    match (ground.device, &ask.device) {
        (Some(_), Some(_)) => None,
        (Some(device), None) => Some(format!(
            "The advice is for {}. Name the device with --device if another one carries the queries.",
            device.name
        )),
        (None, Some(name)) => Some(format!("There is no device {name}{known}.")),
        (None, None) => {
            Some(format!("Which device carries the queries is not known: name it with --device{known}."))
        }
    }
}

fn the_way_here(ground: &Ground<'_>, pieces: &[Piece]) -> Option<String> {
    let device = ground.device.filter(|device| device.carries_default_route)?;
    pieces.iter().any(|piece| piece.takes_link_down).then(|| {
        format!(
            "{} carries the default route. What takes its link down is applied only with --confirm-within, and is \
             undone if nobody confirms.",
            device.name
        )
    })
}

/// Settings on which those who publish advice disagree, or which trade one figure for another.
fn to_measure(ground: &Ground<'_>) -> Vec<String> {
    let Some(device) = ground.device else { return Vec::new() };
    let name = &device.name;
    let mut notes = vec![format!("{BUSY_POLLING}: {}", in_a_run("sysctl.net.core.busy_read=50"))];
    if let Some(delays) = &device.coalesce {
        // As long as the driver adapts the delays, it ignores those that are set.
        let fixed = if delays.adaptive_rx { ",adaptive-rx=off" } else { "" };
        notes.push(format!(
            "Interrupt coalescing trades latency for rate: Knot DNS recommends 75 µs. Measure it with the player on \
             another host: {}",
            in_a_run(&format!("coalesce.{name}=rx-usecs=75{fixed}"))
        ));
    }
    if device.features.get("gro") == Some(&true) {
        notes.push(format!(
            "Knot DNS switches GRO and TSO off; servers that read segments in one call want GRO. Measure it with the \
             player on another host: {}",
            in_a_run(&format!("feature.{name}.gro=off"))
        ));
    }
    notes
}

/// The command that measures a setting of a device: without it and with it, by players on other hosts. `kqps host try`
/// plays on this host, where no packet passes the device.
fn in_a_run(change: &str) -> String {
    format!("kqps run --hosts hosts.toml --subject nsd --subject 'nsd host.{change}'")
}
