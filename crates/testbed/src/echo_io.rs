//! The I/O models of the echo, and the capabilities that they need from the host.

use std::collections::BTreeMap;

/// An I/O model of the echo, and the capabilities that it needs from the host, as `kqps probe` names them.
struct Model {
    name: &'static str,
    needs: &'static [&'static str],
}

const MODELS: [Model; 10] = [
    Model { name: "blocking", needs: &[] },
    Model { name: "spin", needs: &[] },
    Model { name: "poll", needs: &[] },
    Model { name: "select", needs: &[] },
    Model { name: "epoll", needs: &[] },
    Model { name: "event", needs: &[] },
    Model { name: "mmsg", needs: &["recvmmsg"] },
    Model { name: "segment", needs: &["recvmmsg", "gso", "gro"] },
    Model { name: "uring", needs: &["uring"] },
    Model { name: XDP, needs: &["af-xdp"] },
];

/// The I/O model of a player or of the echo that passes the kernel's network stack.
pub const XDP: &str = "xdp";

/// The names of the echo's I/O models, in the order in which they are measured.
pub fn models() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|model| model.name)
}

/// The names of the echo's I/O models that work over loopback.
pub fn over_loopback() -> impl Iterator<Item = &'static str> {
    models().filter(|model| *model != XDP)
}

/// The echo's I/O models that can show the player's own ceiling, the cheapest first. The first one that works
/// does.
pub fn cheapest_first() -> impl Iterator<Item = &'static str> {
    CHEAPEST.into_iter()
}

/// The cheapest I/O models, in order. The player against the first that works is the player's own ceiling.
const CHEAPEST: [&str; 3] = ["segment", "mmsg", "blocking"];

/// The default I/O model of the echo.
pub(crate) const ECHO_IO: &str = "blocking";

/// The call by which the echo waits for connections, whatever the I/O model of its datagrams.
pub const OVER_TCP: &str = "epoll";

/// Why the echo cannot have an I/O model here; `None` if it can.
pub fn why_not(io: &str, lacking: &BTreeMap<String, String>) -> Option<String> {
    let Some(model) = MODELS.iter().find(|model| model.name == io) else {
        let known = models().collect::<Vec<_>>().join(", ");
        return Some(format!("the echo has no I/O model `{io}` (known: {known})"));
    };
    lacks(model, lacking).map(|(need, reason)| format!("no {need}: {reason}"))
}

/// A capability that a model needs and the host lacks, with the reason.
fn lacks<'a>(model: &Model, lacking: &'a BTreeMap<String, String>) -> Option<(&'static str, &'a String)> {
    model.needs.iter().find_map(|need| Some((*need, lacking.get(*need)?)))
}

/// The I/O model with which the echo costs a player least.
pub fn cheapest(lacking: &BTreeMap<String, String>) -> &'static str {
    CHEAPEST.into_iter().find(|name| why_not(name, lacking).is_none()).unwrap_or(ECHO_IO)
}
