//! What the advice does not know, and what it cannot set.

use super::Ask;
use super::ground::Ground;
use super::interface;
use super::layout::Layout;

pub(super) fn notes(ground: &Ground<'_>, ask: &Ask, layouts: &[Layout]) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(device(ground, ask));
    if ask.softirq_s_per_packet.is_none() || ask.server_s_per_answer.is_none() {
        notes.push(
            "The order of the layouts follows rules, since the time of a packet and of an answer is not known. Measure \
             the server once (kqps run), and give the run's folder with --run."
                .into(),
        );
    }
    notes.extend(sockets(ask, layouts));
    if ground.are_interrupts_managed() {
        notes.push(
            "The kernel manages the interrupts of this device, and they cannot be moved. They follow the queues: set the \
             number of queues, and pin the server beside them."
                .into(),
        );
    }
    notes.extend(the_way_here(ground, layouts));
    notes.extend(conntrack(ground));
    notes.extend(to_measure(ground));
    notes
}

fn device(ground: &Ground<'_>, ask: &Ask) -> Option<String> {
    let names: Vec<&str> = ground.setup.devices.iter().map(|device| device.name.as_str()).collect();
    match (ground.device, &ask.device) {
        (Some(device), None) => Some(format!(
            "The advice is for {}. Name the device with --device if another one carries the queries.",
            device.name
        )),
        (Some(_), Some(_)) => None,
        (None, Some(name)) => Some(format!("There is no device {name} (known: {}).", names.join(", "))),
        (None, None) => Some(format!(
            "Which device carries the queries is not known: name it with --device (known: {}).",
            names.join(", ")
        )),
    }
}

fn sockets(ask: &Ask, layouts: &[Layout]) -> Option<String> {
    let workers = layouts.first()?.worker_cpus.len();
    if ask.one_socket {
        return Some(
            "All workers share one socket, and wait for each other there. A socket for each (SO_REUSEPORT) is usually \
             worth more than any layout."
                .into(),
        );
    }
    (workers > 1).then(|| {
        "The layouts assume a socket for each worker (SO_REUSEPORT). NLnet Labs (unbound-scaling) measured 18,600 q/s with \
         one socket for four threads, and 25,797 q/s with a port for each of four processes."
            .into()
    })
}

fn the_way_here(ground: &Ground<'_>, layouts: &[Layout]) -> Option<String> {
    let device = ground.device.filter(|device| device.carries_default_route)?;
    let takes_link_down = interface::pieces(ground, layouts.first()).iter().any(|piece| piece.takes_link_down);
    takes_link_down.then(|| {
        format!(
            "{} carries the default route. What takes its link down is applied only with --confirm-within, and is undone \
             if nobody confirms.",
            device.name
        )
    })
}

fn conntrack(ground: &Ground<'_>) -> Option<String> {
    ground.setup.conntrack.is_loaded.then(|| {
        "Connection tracking is loaded. It costs a look-up for each packet, and drops new clients when its table is full. \
         Exempt DNS (nft: `udp dport 53 notrack` and `udp sport 53 notrack` in raw hooks), or unload it. Shotgun and RIPE \
         switch it off."
            .into()
    })
}

/// Settings on which those who publish advice disagree.
fn to_measure(ground: &Ground<'_>) -> Vec<String> {
    let Some(device) = ground.device else { return Vec::new() };
    let name = &device.name;
    let mut notes = vec![
        "Busy polling: tuned sets net.core.busy_read to 50, Knot DNS to 0. Measure it: kqps host try \
         sysctl.net.core.busy_read=50"
            .into(),
    ];
    if device.coalesce.is_some() {
        notes.push(format!(
            "Interrupt coalescing trades latency for rate: Knot DNS recommends 75 µs. Measure it: kqps host try \
             coalesce.{name}=rx-usecs=75"
        ));
    }
    if device.features.get("gro") == Some(&true) {
        notes.push(format!(
            "Knot DNS switches GRO and TSO off; servers that read segments in one call want GRO. Measure it: kqps host try \
             feature.{name}.gro=off"
        ));
    }
    notes
}
