//! The request to each player of a trial over several hosts.

use std::net::SocketAddr;
use std::path::Path;

use kqps_dataset::Check;
use kqps_fleet::Host;
use kqps_host::SubjectWatched;
use kqps_observation::Cell;
use kqps_observation::factors::PlayerFactors;
use kqps_player::plan::Part;
use kqps_player::{Io, Plan, Sources, Wire};

use super::share;
use kqps_testbed::attack::CellAttack;
use kqps_testbed::play::{PlayRequest, QueryFile};
use kqps_testbed::player_hosts::{Players, Senders, senders};
use kqps_testbed::player_setup::PlayerSetup;
use kqps_testbed::trial_request::TrialRequest;

/// A load that players share.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    /// The cell of the subject.
    pub(super) cell: &'a Cell,
    /// Where the subject answers.
    pub(super) targets: &'a [SocketAddr],
    /// The issuer of its certificate, as PEM.
    pub(super) ca: Option<&'a str>,
    /// Whether answers are checked against the expectations of the queries.
    pub(super) checks: bool,
}

impl Shared<'_> {
    /// The request for each player, in the order of `hosts`, which are those of `players`. An error is the reason why a
    /// setting or the load cannot be played.
    pub(super) fn of_each(
        &self,
        request: &TrialRequest,
        players: &Players<'_>,
        hosts: &[&Host],
    ) -> Result<Vec<PlayRequest>, String> {
        let Self { cell, .. } = *self;
        let threads = cell.factors.player().senders.unwrap_or(1);
        let mut cpus = players.cpus(threads as usize, &cell.subject_cpus);
        // Cores of the first player are in the store.
        if let Some(first) = cpus.first_mut() {
            first.clone_from(&cell.player_cpus);
        }
        let own = share::of_each(request, hosts.len());
        let each = hosts.iter().enumerate().map(|(number, host)| {
            let PlayerSetup(of_cell) = PlayerSetup::from_cell(cell);
            let window = share::window(PlayerSetup::from_cell(cell).window(), (number, hosts.len()));
            let setup = PlayerSetup(PlayerFactors { window: Some(window), sources: None, ..of_cell });
            let others = players.others(number, &cpus, &cell.subject_cpus);
            let beside = SubjectWatched { cpus: others, ..SubjectWatched::elsewhere() };
            let plan = setup.plan(&own, (self.targets, self.ca), &cpus[number], &beside)?;
            let [number, of] = [number, hosts.len()].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
            let part = Part { number, of };
            let mut plan = Plan { part, local: Some(sources(host, senders(&cell.factors))?), ..plan };
            let attack = CellAttack::from_cell(cell).map(|attack| attack.shared(hosts.len()));
            let scenario = attack.and_then(|attack| attack.lay(&mut plan, &own, &own));
            name_device(&mut plan.wire, host.device.as_deref());
            plan.check().map_err(|error| error.to_string())?;
            Ok(PlayRequest {
                plan,
                queries: QueryFile {
                    check: (!self.checks).then_some(Check::Off),
                    ..QueryFile::new(Path::new(""))
                },
                classes: Vec::new(),
                scenario,
                is_allowed: false,
                subject: SubjectWatched::elsewhere(),
                shows_bar: false,
                live_every: None,
            })
        });
        each.collect()
    }
}

/// Frames past the kernel pass the device that the hosts' file names. If it names none, the player follows the routes.
fn name_device(wire: &mut Wire, device: Option<&str>) {
    let named = match wire {
        Wire::Udp(udp) if udp.io == Io::Xdp => &mut udp.device,
        Wire::Tcp(tcp) if tcp.io == Io::Xdp => &mut tcp.device,
        _ => return,
    };
    *named = device.map(str::to_owned);
}

/// The addresses that a host's queries come from.
fn sources(host: &Host, senders: Senders) -> Result<Sources, String> {
    match (senders, &host.sources) {
        (Senders::Own, _) | (Senders::Given(_), None) => Ok(host.data.into()),
        (Senders::Given(count), Some(text)) => {
            let all = given(host, text)?;
            Ok(count.map_or(all, |count| all.first(count)))
        }
    }
}

/// The addresses that the hosts' file gives a host to send from.
pub(super) fn given(host: &Host, text: &str) -> Result<Sources, String> {
    text.parse::<Sources>().map_err(|error| format!("{}: sources = \"{text}\": {error}", host.name))
}

#[cfg(test)]
mod tests {
    use kqps_host::Topology;
    use kqps_observation::Factors;
    use kqps_observation::fingerprint::CoreFacts;
    use kqps_observation::run::Purpose;
    use kqps_player::{LoadPlan, UdpPlan};

    use super::*;
    use kqps_testbed::player_hosts::{PlayerHost, PlayerHosts, players_of};
    use kqps_testbed::trial_request::RequestedPace;

    fn host(number: u8) -> Host {
        Host {
            name: format!("p{number}"),
            reach: Vec::new(),
            kqps: "kqps".into(),
            data: [192, 0, 2, number].into(),
            sources: Some(format!("192.0.2.{}/28", 16 * number)),
            cores: None,
            device: None,
        }
    }

    fn planned(words: &[(&str, &str)], pace: RequestedPace, count: u8) -> Vec<Plan> {
        let core = |cpu| CoreFacts { cpu, core: cpu, smt: vec![cpu], ..CoreFacts::default() };
        let topology = Topology { cores: (0..2).map(core).collect(), ..Topology::default() };
        let player = |number| PlayerHost {
            name: format!("p{number}"),
            machine: format!("m{number}"),
            topology: topology.clone(),
            sources: Some(14),
        };
        let players = (1..=count).map(player).collect();
        let all = PlayerHosts { server_machine: "s".into(), players, ..PlayerHosts::default() };
        let words = words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned()));
        let factors = Factors::read(words).unwrap();
        let players = players_of(Some(&all), &factors).unwrap().unwrap();
        let cell = Cell {
            player_cpus: vec![1],
            subject_cpus: vec![0, 1],
            factors: factors.clone(),
            ..Cell::default()
        };
        let targets: Vec<SocketAddr> = vec!["192.0.2.99:5300".parse().unwrap()];
        let shared = Shared { cell: &cell, targets: &targets, ca: None, checks: true };
        let hosts: Vec<Host> = (1..=count).map(host).collect();
        let request = TrialRequest { pace, duration_s: 0.5, purpose: Purpose::Search };
        let requests = shared.of_each(&request, &players, &hosts.iter().collect::<Vec<_>>()).unwrap();
        requests.into_iter().map(|request| request.plan).collect()
    }

    #[test]
    fn each_player_has_its_share_its_part_and_its_own_cores() {
        let plans = planned(&[], RequestedPace::Open { rate_qps: 3_000.0 }, 3);
        for (number, plan) in (0..).zip(&plans) {
            let LoadPlan::Open { rate_qps, .. } = plan.load else { panic!("a closed loop") };
            assert!((rate_qps - 1_000.0).abs() < 1e-9);
            assert_eq!(plan.part, Part { number, of: 3 });
            assert!(plan.own_cores && plan.cpus.len() == 1, "its machine has nothing else to do");
        }
        assert_eq!(plans[0].cpus, [1], "those in the store");
        let closed = planned(&[("player.window", "7")], RequestedPace::Closed, 2);
        let windows: Vec<_> = closed.iter().map(|plan| plan.load.window()).collect();
        assert_eq!(windows, [Some(4), Some(3)]);
    }

    #[test]
    fn frames_pass_the_device_of_the_file() {
        let device = |io, named| {
            let udp = UdpPlan { io, sockets: 1, buffer_bytes: None, local_port: None, device: None };
            let mut wire = Wire::Udp(udp);
            name_device(&mut wire, named);
            match wire {
                Wire::Udp(udp) => udp.device,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(device(Io::Xdp, Some("eth1")).as_deref(), Some("eth1"));
        assert_eq!(device(Io::Xdp, None), None, "the routes decide");
        assert_eq!(device(Io::Mmsg, Some("eth1")), None, "the kernel's sockets have none");
    }

    #[test]
    fn queries_come_from_the_addresses_of_the_file_or_as_many_as_the_cell_asks_for() {
        let local = |words: &[(&str, &str)]| {
            let plans = planned(words, RequestedPace::Closed, 2);
            let local = plans[1].local.unwrap();
            (local.of_socket(0).to_string(), local.count())
        };
        assert_eq!(local(&[]), ("192.0.2.33".to_owned(), 14));
        assert_eq!(local(&[("hosts.sources", "3")]), ("192.0.2.33".to_owned(), 3));
        assert_eq!(local(&[("player.sources", "one")]), ("192.0.2.2".to_owned(), 1));
        assert_eq!(local(&[("player.sources", "spread")]), ("192.0.2.33".to_owned(), 14));
    }
}
