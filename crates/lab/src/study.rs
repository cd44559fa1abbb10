//! The default study: its cells on a host, as a function of what the host offers.

use std::collections::{BTreeMap, BTreeSet};

use kqps_host::Topology;
use kqps_observation::run::Role;
use kqps_observation::trial::Transport;
use kqps_observation::{Cell, Factors, Target};

use crate::configured::Configured;
use crate::running_server::{self, PlayerRequest, RunningServer};
use crate::study_file::ceilings;
use crate::study_file::offer::HostOffer;
use kqps_testbed::echo_io;
use kqps_testbed::past_kernel;
use kqps_testbed::player_hosts::PlayerHosts;
use kqps_testbed::player_setup::WINDOW;

/// The name of the study, as stored in the run.
pub const NAME: &str = "default";

/// Name servers and echoes have one worker each.
const WORKERS: u32 = 1;

/// Shares of a subject's figure at which its latency is measured, in percent.
const LATENCY_AT: [u32; 4] = [25, 50, 75, 90];

/// The input of the default study.
#[derive(Clone, Debug, Default)]
pub struct DefaultStudyInput {
    /// Capability → the reason why the host lacks it.
    pub lacking: BTreeMap<String, String>,
    /// The topology, for subjects that ask for more than one core.
    pub topology: Topology,
    /// The subjects that can be started, each with its version if known.
    pub subjects: Vec<(Configured, Option<String>)>,
    /// Servers that already run.
    pub running: Vec<RunningServer>,
    /// The echo that runs beside the servers on another host.
    pub echo_target: Option<Target>,
    /// The name of the user's query file; `None` if queries are generated.
    pub queries: Option<String>,
    /// The user's settings of the player.
    pub player: PlayerRequest,
    /// The version of the reference echo.
    pub echo_version: Option<String>,
    /// The player's cores.
    pub player_cpus: Vec<u32>,
    /// The subject's cores.
    pub subject_cpus: Vec<u32>,
    /// Number of records in the zone that subjects serve.
    pub zone_records: u64,
    /// Whether latency by load is measured.
    pub latency: bool,
    /// The requested I/O models of the echo; empty for all.
    pub models: Vec<String>,
    /// The hosts that play; `None` if the subjects' own host plays.
    pub players: Option<PlayerHosts>,
}

/// The cells of the default study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// The cells, in the order of the report.
    pub cells: Vec<Cell>,
    /// I/O model → the reason why it is left out.
    pub skipped: BTreeMap<String, String>,
}

/// Lays out the default study. Echoes on this host are ceilings only of subjects on this host.
pub fn layout(input: &DefaultStudyInput) -> Layout {
    let mut layout = Layout::default();
    let like = subject_like(input);
    let running: Vec<Cell> = input.running.iter().map(|running| running.cell(&like)).collect();
    let mut subjects = Vec::new();
    for (configured, version) in &input.subjects {
        let hosts = input.players.as_ref();
        match configured.cell_at(&input.topology, hosts, version.clone(), &like) {
            Ok(cell) => subjects.push(cell),
            Err(reason) => {
                layout.skipped.insert(configured.name.clone(), reason);
            }
        }
    }
    if running.iter().any(Cell::is_elsewhere) {
        echo_there(input, &running, &mut layout);
    } else {
        let mut measured = subjects.iter().chain(&running);
        let are_all_connected = measured.all(has_connections) && !(subjects.is_empty() && running.is_empty());
        // Models that the user names are measured in any case.
        if !are_all_connected || !input.models.is_empty() {
            echoes(input, &mut layout);
        }
        layout.cells.extend(ceilings_over_connections(input, &subjects, &running));
    }
    layout.cells.extend(subjects);
    layout.cells.extend(running);
    layout
}

fn has_connections(cell: &Cell) -> bool {
    cell.factors.transport().has_connections()
}

/// Adds the player's ceiling at the echo on the servers' host, over each of their transports.
fn echo_there(input: &DefaultStudyInput, running: &[Cell], layout: &mut Layout) {
    let Some(echo) = input.echo_target else {
        let transport = running.iter().map(|cell| cell.factors.transport()).max().unwrap_or_default();
        layout.skipped.insert("player ceiling".into(), no_echo_there(transport));
        return;
    };
    let mut transports = BTreeSet::new();
    let first_of_each = running.iter().filter(|cell| transports.insert(cell.factors.transport()));
    layout.cells.extend(first_of_each.map(|server| running_server::echo_cell(echo, server)));
}

/// Why the player's ceiling is not known if it plays at another host over this transport.
fn no_echo_there(transport: Transport) -> String {
    let how = match transport {
        Transport::Udp => "--io segment --listen ADDR:PORT".to_owned(),
        Transport::Tcp => "--tcp --listen ADDR:PORT".to_owned(),
        encrypted => format!("--listen {}://ADDR:PORT --cert FILE --key FILE", encrypted.word()),
    };
    format!(
        "no echo runs beside the server, so nothing shows that the player was not the limit, and the grade is at best \
         C. Start `kqps serve echo {how}` there, and give --echo-target ADDR:PORT"
    )
}

/// Adds the player's own ceiling, and the echo under each requested model, or under each that works over loopback.
fn echoes(input: &DefaultStudyInput, layout: &mut Layout) {
    let wanted: Vec<&str> = if input.models.is_empty() {
        echo_io::over_loopback().collect()
    } else {
        echo_io::models().filter(|model| input.models.iter().any(|name| name == model)).collect()
    };
    let mut models = Vec::new();
    let over_loopback = Factors::default();
    for model in wanted {
        let no_path = past_kernel::why_not(Some(model), &over_loopback, &input.lacking);
        match no_path.or_else(|| echo_io::why_not(model, &input.lacking)) {
            None => models.push(model),
            Some(reason) => {
                layout.skipped.insert(format!("echo {model}"), reason);
            }
        }
    }
    // The player has one ceiling, whatever other echoes are requested.
    let cheapest = echo_io::cheapest(&input.lacking);
    layout.cells.push(Cell {
        name: "player ceiling".into(),
        role: Role::PlayerCeiling,
        ..echo(input, cheapest)
    });
    layout.cells.extend(models.iter().map(|model| echo(input, model)));
}

/// The ceilings of the subjects that are played over connections: those that a study's file would have for them. Beside
/// a server that runs already, the echo has one worker, on the core that kqps gives to subjects.
fn ceilings_over_connections(input: &DefaultStudyInput, subjects: &[Cell], running: &[Cell]) -> Vec<Cell> {
    let placed = |cell: &Cell| Cell {
        workers: WORKERS,
        subject_cpus: input.subject_cpus.clone(),
        target: None,
        ..cell.clone()
    };
    let all = subjects.iter().cloned().chain(running.iter().map(placed));
    let mut cells: Vec<Cell> = all.filter(has_connections).collect();
    let versions = input.echo_version.iter().map(|version| ("echo".to_owned(), version.clone())).collect();
    let offer = HostOffer { lacking: input.lacking.clone(), versions, ..HostOffer::default() };
    ceilings::add(&offer, &mut cells);
    let ceilings = cells.into_iter().filter(|cell| cell.role != Role::Subject);
    let with_queries = |cell: Cell| Cell { factors: factors(input).with(&cell.factors).fitting(), ..cell };
    ceilings.map(with_queries).collect()
}

fn echo(input: &DefaultStudyInput, model: &str) -> Cell {
    Cell {
        name: format!("echo {model}"),
        role: Role::EchoCeiling,
        subject: "echo".into(),
        version: input.echo_version.clone(),
        io: model.into(),
        workers: WORKERS,
        player_cpus: input.player_cpus.clone(),
        subject_cpus: input.subject_cpus.clone(),
        factors: factors(input),
        ..Cell::default()
    }
}

/// The factors of the player's settings and of its queries.
fn factors(input: &DefaultStudyInput) -> Factors {
    let mut factors = Factors::default();
    factors.set_player(input.player.settings(WINDOW));
    match &input.queries {
        Some(name) => factors.set_file(name),
        None => factors.set_records(input.zone_records),
    }
    factors
}

/// The cell with the common properties of all subjects.
fn subject_like(input: &DefaultStudyInput) -> Cell {
    let mut factors = factors(input);
    if input.latency {
        factors.set_latency_at(&LATENCY_AT);
    }
    Cell {
        workers: WORKERS,
        player_cpus: input.player_cpus.clone(),
        subject_cpus: input.subject_cpus.clone(),
        factors,
        ..Cell::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_testbed::subject::builtin;

    fn names(layout: &Layout) -> Vec<&str> {
        layout.cells.iter().map(|cell| cell.name.as_str()).collect()
    }

    #[test]
    fn a_model_that_loopback_has_no_frames_for_is_skipped_if_it_is_named() {
        let models = vec!["mmsg".into(), "xdp".into()];
        let input = DefaultStudyInput { models, ..DefaultStudyInput::default() };
        let layout = layout(&input);
        assert_eq!(names(&layout), ["player ceiling", "echo mmsg"]);
        assert!(layout.skipped["echo xdp"].contains("loopback has none"), "{:?}", layout.skipped);
    }

    #[test]
    fn a_host_that_offers_all_is_measured_with_all() {
        let kqps_auth = builtin::servers().into_iter().find(|one| one.name == "kqps-auth").unwrap();
        let subjects = vec![(Configured::plain(kqps_auth), Some("4.6.1".into()))];
        let topology = Topology::read();
        let layout =
            layout(&DefaultStudyInput { subjects, topology, latency: true, ..DefaultStudyInput::default() });
        assert_eq!(layout.cells.len(), 1 + echo_io::over_loopback().count() + 1);
        assert_eq!(echo_io::over_loopback().count() + 1, echo_io::models().count());
        assert!(layout.skipped.is_empty());
        assert_eq!(
            (layout.cells[0].name.as_str(), layout.cells[0].io.as_str()),
            ("player ceiling", "segment")
        );
        let last = layout.cells.last().unwrap();
        assert_eq!((last.role, last.io.as_str(), last.workers), (Role::Subject, "mmsg", 1));
        assert_eq!(last.factors.latency_at_percent(), LATENCY_AT);
    }

    fn running(on_this_host: bool) -> RunningServer {
        let target = Target { address: "192.0.2.1:53".parse().unwrap(), on_this_host };
        RunningServer { name: "theirs".into(), target, factors: Box::default() }
    }

    fn over_tcp(on_this_host: bool) -> RunningServer {
        let factors = Factors::read([
            ("player.transport".to_owned(), "tcp".to_owned()),
            ("player.connections".to_owned(), "4".to_owned()),
        ]);
        let name = "theirs over tcp".to_owned();
        RunningServer { name, factors: Box::new(factors.unwrap()), ..running(on_this_host) }
    }

    #[test]
    fn a_server_on_this_host_is_measured_beside_the_echoes_here() {
        let input = DefaultStudyInput {
            running: vec![running(true)],
            models: vec!["mmsg".into()],
            queries: Some("theirs.queries".into()),
            ..DefaultStudyInput::default()
        };
        let layout = layout(&input);
        assert_eq!(names(&layout), ["player ceiling", "echo mmsg", "theirs"]);
        assert!(
            layout.cells.iter().all(|cell| cell.factors.dataset().file.as_deref() == Some("theirs.queries"))
        );
        assert!(layout.cells[2].target.is_some() && layout.cells[2].subject_cpus.is_empty());
        assert!(layout.skipped.is_empty());
    }

    #[test]
    fn a_server_elsewhere_has_the_echo_there_as_the_ceiling_or_none() {
        let player = PlayerRequest { senders: Some(2), timeout_s: Some(1.5) };
        let without =
            DefaultStudyInput { running: vec![running(false)], player, ..DefaultStudyInput::default() };
        let layout_without = layout(&without);
        assert_eq!(names(&layout_without), ["theirs"]);
        assert!(layout_without.skipped["player ceiling"].contains("--echo-target"));
        let echo = Target { address: "192.0.2.1:5301".parse().unwrap(), on_this_host: false };
        let with = layout(&DefaultStudyInput { echo_target: Some(echo), ..without });
        assert_eq!(names(&with), ["player ceiling, echo at 192.0.2.1:5301", "theirs"]);
        let [ceiling, theirs] = &with.cells[..] else { panic!() };
        assert_eq!((ceiling.role, ceiling.target), (Role::PlayerCeiling, Some(echo)));
        assert_eq!(ceiling.factors.player(), theirs.factors.player(), "the player is set up alike");
        assert_eq!(theirs.factors.player().senders, Some(2));
        assert_eq!(ceiling.factors.player().timeout_s, Some(1.5));
    }

    #[test]
    fn a_subject_over_tcp_has_ceilings_over_tcp() {
        let knot = builtin::servers().into_iter().find(|one| one.name == "knot").unwrap();
        let pairs = ["player.transport=tcp", "player.connections=4"].map(str::to_owned);
        let configured = Configured::with(knot, "knot over tcp", &pairs).unwrap();
        let input = DefaultStudyInput {
            subjects: vec![(configured, None)],
            topology: Topology::read(),
            models: vec!["mmsg".into()],
            zone_records: 10,
            ..DefaultStudyInput::default()
        };
        let layout = layout(&input);
        let [_, _, player, echo, knot] = &layout.cells[..] else { panic!("{:?}", names(&layout)) };
        let of_player = "player ceiling over tcp, burst 32, connections 4, ";
        assert!(player.name.starts_with(of_player), "{}", player.name);
        assert_eq!(echo.name, "echo over tcp, 1 worker, 4 kept connections");
        for ceiling in [player, echo] {
            assert_eq!(ceiling.factors.player(), knot.factors.player());
            assert_eq!((ceiling.io.as_str(), ceiling.factors.dataset().records), ("epoll", Some(10)));
        }
        assert_eq!((player.role, echo.role), (Role::PlayerCeiling, Role::EchoCeiling));
    }

    #[test]
    fn a_ceiling_over_tls_has_the_certificate_of_its_subject_and_the_trust_of_the_run() {
        let nsd = builtin::servers().into_iter().find(|one| one.name == "nsd").unwrap();
        let pairs = ["player.transport=tls", "player.resume=false", "subject.certificate=rsa-2048"];
        let configured = Configured::with(nsd, "nsd over tls", &pairs.map(str::to_owned)).unwrap();
        let words =
            [("player.transport", "tls"), ("player.tls_trust", "system"), ("player.tls_name", "dns.test")];
        let factors = Factors::read(words.map(|(name, word)| (name.to_owned(), word.to_owned()))).unwrap();
        let theirs = RunningServer { factors: factors.into(), ..running(true) };
        let input = DefaultStudyInput {
            subjects: vec![(configured, None)],
            running: vec![theirs],
            topology: Topology::read(),
            zone_records: 10,
            ..DefaultStudyInput::default()
        };
        let layout = layout(&input);
        let ceilings: Vec<&Cell> = layout.cells.iter().filter(|cell| cell.role != Role::Subject).collect();
        assert_eq!(ceilings.len(), 4, "{:?}", names(&layout));
        for cell in &ceilings {
            assert!(cell.name.contains(" over tls, ") && cell.io == "epoll", "{}", cell.name);
            let player = cell.factors.player();
            assert_eq!((player.tls_trust, &player.tls_name), (None, &None), "{}", cell.name);
        }
        let of_nsd = "echo over tls, 1 worker, 8 kept connections, not resumed, rsa-2048";
        assert!(names(&layout).contains(&of_nsd), "{:?}", names(&layout));
        assert!(names(&layout).contains(&"echo over tls, 1 worker, 8 kept connections"));
    }

    #[test]
    fn a_server_over_tcp_that_runs_has_ceilings_over_tcp_alone() {
        let input = DefaultStudyInput {
            running: vec![over_tcp(true)],
            queries: Some("theirs.queries".into()),
            subject_cpus: vec![1],
            ..DefaultStudyInput::default()
        };
        let over_tcp_alone = layout(&input);
        let [player, echo, theirs] = &over_tcp_alone.cells[..] else {
            panic!("{:?}", names(&over_tcp_alone))
        };
        assert!(player.name.starts_with("player ceiling over tcp, "), "{}", player.name);
        assert_eq!(echo.name, "echo over tcp, 1 worker, 4 kept connections");
        assert_eq!((theirs.io.as_str(), theirs.factors.player().connections), ("epoll", Some(4)));
        assert_eq!(theirs.factors.player().sockets, None);
        for ceiling in [player, echo] {
            assert_eq!(ceiling.factors.player(), theirs.factors.player());
            assert_eq!((&ceiling.subject_cpus[..], ceiling.target), (&[1][..], None));
            assert_eq!(ceiling.factors.dataset().file.as_deref(), Some("theirs.queries"));
        }
        let both = layout(&DefaultStudyInput { running: vec![running(true), over_tcp(true)], ..input });
        assert_eq!(both.cells.len(), 1 + echo_io::over_loopback().count() + 2 + 2, "{:?}", names(&both));
    }

    #[test]
    fn the_echo_elsewhere_is_measured_over_each_transport_of_the_servers() {
        let input = DefaultStudyInput { running: vec![over_tcp(false)], ..DefaultStudyInput::default() };
        assert!(layout(&input).skipped["player ceiling"].contains("`kqps serve echo --tcp --listen"));
        let echo = Target { address: "192.0.2.1:5301".parse().unwrap(), on_this_host: false };
        let running = vec![running(false), over_tcp(false)];
        let both = layout(&DefaultStudyInput { running, echo_target: Some(echo), ..input });
        let [udp, tcp, _, theirs] = &both.cells[..] else { panic!("{:?}", names(&both)) };
        assert_eq!(udp.name, "player ceiling, echo at 192.0.2.1:5301");
        assert_eq!(tcp.name, "player ceiling over tcp, echo at 192.0.2.1:5301");
        assert_eq!((udp.io.as_str(), tcp.io.as_str()), ("segment", "epoll"));
        assert_eq!((tcp.factors.player(), tcp.target), (theirs.factors.player(), Some(echo)));
    }

    #[test]
    fn only_the_models_that_are_wanted_are_measured() {
        let layout = layout(&DefaultStudyInput {
            models: vec!["mmsg".into(), "poll".into()],
            ..DefaultStudyInput::default()
        });
        assert_eq!(names(&layout), ["player ceiling", "echo poll", "echo mmsg"]);
        assert_eq!(layout.cells[0].io, "segment");
    }

    #[test]
    fn what_the_host_lacks_is_skipped_with_its_reason() {
        let lacking =
            [("uring", "forbidden"), ("gro", "too old")].map(|(a, b)| (a.to_string(), b.to_string()));
        let layout = layout(&DefaultStudyInput { lacking: lacking.into(), ..DefaultStudyInput::default() });
        assert!(!names(&layout).contains(&"echo segment"));
        assert_eq!(layout.skipped["echo segment"], "no gro: too old");
        assert_eq!(layout.skipped["echo uring"], "no uring: forbidden");
        assert_eq!(layout.cells[0].io, "mmsg", "the next cheapest is the player's ceiling");
    }
}
