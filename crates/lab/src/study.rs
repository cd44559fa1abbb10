//! The default study: what it measures on a host, as a function of what the host offers.

use std::collections::BTreeMap;

use kqps_observation::Cell;
use kqps_observation::run::Role;

use crate::materials::RECORDS_FACTOR;
use crate::setup::Setup;
use crate::unit::LATENCY_FACTOR;

/// Its name.
pub const NAME: &str = "default";

/// Name servers and echoes have one worker each.
const WORKERS: u32 = 1;

/// Shares of a subject's figure at which its latency is measured, in percent.
const LATENCY_AT: &str = "25 50 75 90";

/// An I/O model of the echo, and what it needs from the host, by the names of `kqps probe`.
struct Model {
    name: &'static str,
    needs: &'static [&'static str],
}

const MODELS: [Model; 9] = [
    Model { name: "blocking", needs: &[] },
    Model { name: "spin", needs: &[] },
    Model { name: "poll", needs: &[] },
    Model { name: "select", needs: &[] },
    Model { name: "epoll", needs: &[] },
    Model { name: "event", needs: &[] },
    Model { name: "mmsg", needs: &["recvmmsg"] },
    Model { name: "segment", needs: &["recvmmsg", "gso", "gro"] },
    Model { name: "uring", needs: &["uring"] },
];

/// The names of the echo's I/O models.
pub fn models() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|model| model.name)
}

/// The echo's I/O models that can show the player's own ceiling, the cheapest first: the first that works does.
pub fn cheapest_first() -> impl Iterator<Item = &'static str> {
    CHEAPEST.into_iter()
}

/// The cheapest I/O model comes first: the player against it is the player's own ceiling.
const CHEAPEST: [&str; 3] = ["segment", "mmsg", "blocking"];

/// The echo's I/O model where nothing is said.
pub(crate) const ECHO_IO: &str = "blocking";

/// Why the echo cannot have an I/O model here, if so.
pub(crate) fn why_not(io: &str, lacking: &BTreeMap<String, String>) -> Option<String> {
    let Some(model) = MODELS.iter().find(|model| model.name == io) else {
        let known = models().collect::<Vec<_>>().join(", ");
        return Some(format!("the echo has no I/O model `{io}` (known: {known})"));
    };
    lacks(model, lacking).map(|(need, reason)| format!("no {need}: {reason}"))
}

/// What a model needs and the host lacks, with the reason.
fn lacks<'a>(model: &Model, lacking: &'a BTreeMap<String, String>) -> Option<(&'static str, &'a String)> {
    model.needs.iter().find_map(|need| Some((*need, lacking.get(*need)?)))
}

/// The I/O model of the echo that costs a player least.
pub(crate) fn cheapest(lacking: &BTreeMap<String, String>) -> &'static str {
    CHEAPEST.into_iter().find(|name| why_not(name, lacking).is_none()).unwrap_or(ECHO_IO)
}

/// What a study is laid out for.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Capability → the reason why the host lacks it.
    pub lacking: BTreeMap<String, String>,
    /// The subjects that can be started.
    pub subjects: Vec<Found>,
    /// The version of the reference echo.
    pub echo_version: Option<String>,
    /// The player's cores.
    pub player_cpus: Vec<u32>,
    /// The subject's cores.
    pub subject_cpus: Vec<u32>,
    /// Records of the zone that subjects serve.
    pub zone_records: u64,
    /// Whether latency by load is wanted.
    pub latency: bool,
    /// The I/O models of the echo that are wanted; empty for all.
    pub models: Vec<String>,
}

/// A subject that can be started.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// The echo's I/O model that comes nearest to its own.
    pub io: String,
    /// Its version, where it tells it.
    pub version: Option<String>,
}

/// What a study measures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// The cells.
    pub cells: Vec<Cell>,
    /// I/O model → the reason why it is left out.
    pub skipped: BTreeMap<String, String>,
}

/// Lays out the default study.
pub fn layout(given: &Given) -> Layout {
    let mut layout = Layout::default();
    let wanted =
        |model: &&Model| given.models.is_empty() || given.models.iter().any(|name| name == model.name);
    let mut models = Vec::new();
    for model in MODELS.iter().filter(wanted) {
        match why_not(model.name, &given.lacking) {
            None => models.push(model.name),
            Some(reason) => {
                layout.skipped.insert(format!("echo {}", model.name), reason);
            }
        }
    }
    // The player has one ceiling, whichever echoes are wanted beside it.
    let cheapest = cheapest(&given.lacking);
    layout.cells.push(Cell {
        name: "player ceiling".into(),
        role: Role::PlayerCeiling,
        ..echo(given, cheapest)
    });
    layout.cells.extend(models.iter().map(|model| echo(given, model)));
    layout.cells.extend(given.subjects.iter().map(|found| subject(given, found)));
    layout
}

fn echo(given: &Given, model: &str) -> Cell {
    Cell {
        name: format!("echo {model}"),
        role: Role::EchoCeiling,
        subject: "echo".into(),
        version: given.echo_version.clone(),
        io: model.into(),
        workers: WORKERS,
        player_cpus: given.player_cpus.clone(),
        subject_cpus: given.subject_cpus.clone(),
        factors: with_records(given, &Setup::MANY_FLOWS),
        ..Cell::default()
    }
}

fn with_records(given: &Given, setup: &Setup) -> BTreeMap<String, String> {
    let mut factors = setup.factors();
    factors.insert(RECORDS_FACTOR.into(), given.zone_records.to_string());
    factors
}

fn subject(given: &Given, found: &Found) -> Cell {
    let mut factors = with_records(given, &Setup::MANY_FLOWS);
    if given.latency {
        factors.insert(LATENCY_FACTOR.into(), LATENCY_AT.into());
    }
    Cell {
        name: found.name.clone(),
        role: Role::Subject,
        subject: found.name.clone(),
        version: found.version.clone(),
        io: found.io.clone(),
        factors,
        ..echo(given, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(layout: &Layout) -> Vec<&str> {
        layout.cells.iter().map(|cell| cell.name.as_str()).collect()
    }

    #[test]
    fn a_host_that_offers_all_is_measured_with_all() {
        let nsd = Found { name: "nsd".into(), io: "mmsg".into(), version: Some("4.6.1".into()) };
        let layout = layout(&Given { subjects: vec![nsd], latency: true, ..Given::default() });
        assert_eq!(layout.cells.len(), 1 + MODELS.len() + 1);
        assert!(layout.skipped.is_empty());
        assert_eq!(
            (layout.cells[0].name.as_str(), layout.cells[0].io.as_str()),
            ("player ceiling", "segment")
        );
        let last = layout.cells.last().unwrap();
        assert_eq!((last.role, last.io.as_str(), last.workers), (Role::Subject, "mmsg", 1));
        assert_eq!(last.factors[LATENCY_FACTOR], LATENCY_AT);
    }

    #[test]
    fn only_the_models_that_are_wanted_are_measured() {
        let layout = layout(&Given { models: vec!["mmsg".into(), "poll".into()], ..Given::default() });
        assert_eq!(names(&layout), ["player ceiling", "echo poll", "echo mmsg"]);
        assert_eq!(layout.cells[0].io, "segment");
    }

    #[test]
    fn what_the_host_lacks_is_skipped_with_its_reason() {
        let lacking =
            [("uring", "forbidden"), ("gro", "too old")].map(|(a, b)| (a.to_string(), b.to_string()));
        let layout = layout(&Given { lacking: lacking.into(), ..Given::default() });
        assert!(!names(&layout).contains(&"echo segment"));
        assert_eq!(layout.skipped["echo segment"], "no gro: too old");
        assert_eq!(layout.skipped["echo uring"], "no uring: forbidden");
        assert_eq!(layout.cells[0].io, "mmsg", "the next cheapest is the player's ceiling");
    }
}
