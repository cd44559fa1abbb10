//! The settings of the player for a cell. They are stored in the cell's factors, so that the store alone
//! explains a figure, and a resumed run plays as before.

mod wire;

use std::net::SocketAddr;
use std::time::Duration;

use kqps_catalogue::choice::Transport;
use kqps_catalogue::course::Course;
use kqps_catalogue::factors::{PlayerFactors, SourceChoice, name};
use kqps_catalogue::settings::CONNECTIONS_MOST;
use kqps_host::{PlayerPlace, SubjectWatched};
use kqps_kernel::local_address::is_local;
use kqps_observation::Cell;
use kqps_observation::run::Purpose;
use kqps_player::plan::{LAG_ALLOWED, SEED, have_cores_of_their_own, usual_coalesce};
use kqps_player::{Arrivals, LoadPlan, MomentsPlan, Part, PerQueryPlan, Plan, Sources, Stop};

use crate::trial_request::{RequestedPace, TrialRequest};

/// The player's settings for one cell. A setting that the cell lacks has its usual value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlayerSetup(pub PlayerFactors);

/// Loopback addresses of this host (RFC 1122, section 3.2.1.3), apart from those that subjects listen on.
const SPREAD_PREFIX: &str = "127.1.0.0/16";

/// The most queries outstanding in a closed loop, of a cell that names no number.
pub const WINDOW: u32 = 500;

/// Seconds after which a reply is late, of a cell that names no time.
pub const TIMEOUT_S: f64 = 0.25;

/// Queries in one burst, sockets, and kept connections of a cell that names no number.
const BURST: u32 = 32;
const SOCKETS: u32 = 8;
const CONNECTIONS: u32 = 8;

impl PlayerSetup {
    /// The settings of a player that looks like several clients, as a run of kqps records them.
    pub fn many_flows() -> Self {
        Self(PlayerFactors {
            sockets: Some(SOCKETS),
            window: Some(WINDOW),
            burst: Some(BURST),
            timeout_s: Some(TIMEOUT_S),
            ..PlayerFactors::default()
        })
    }

    /// The settings in a stored cell.
    pub fn from_cell(cell: &Cell) -> Self {
        Self(cell.factors.player().clone())
    }

    /// The transport of the queries.
    pub fn transport(&self) -> Transport {
        self.0.transport.unwrap_or_default()
    }

    /// The transport in the name of a cell, ` over tcp`; nothing over UDP, which is the usual one.
    pub fn over(&self) -> String {
        match self.transport() {
            Transport::Udp => String::new(),
            transport => format!(" over {}", transport.word()),
        }
    }

    /// The most queries outstanding, in a closed loop.
    pub fn window(&self) -> u32 {
        self.0.window.unwrap_or(WINDOW)
    }

    /// Seconds after which a reply is late. The player also listens this long after its last query.
    pub fn timeout_s(&self) -> f64 {
        self.0.timeout_s.unwrap_or(TIMEOUT_S)
    }

    /// Sockets or connections that it asks for. Each connection that has one query or none is a place for one query of
    /// the window.
    pub fn places(&self) -> u32 {
        let Self(player) = self;
        let usual = match player.queries_per_connection {
            Some(0 | 1) => self.window().min(CONNECTIONS_MOST),
            _ => CONNECTIONS,
        };
        match self.transport() {
            Transport::Udp => player.sockets.unwrap_or(SOCKETS),
            _ => player.connections.unwrap_or(usual),
        }
    }

    /// The number of its sockets or connections: at least one per thread, of which there is one at least.
    pub fn flows(&self) -> usize {
        self.places().max(self.0.senders.unwrap_or(1)) as usize
    }

    /// The plan of a player with these settings that plays `request` from `cpus` at `targets`. `ca` are the issuers of
    /// certificates that it trusts unless the settings name others, as PEM. Returns the reason if a setting or the load
    /// cannot be played.
    pub fn plan(
        &self,
        request: &TrialRequest,
        (targets, ca): (&[SocketAddr], Option<&str>),
        cpus: &[u32],
        subject: &SubjectWatched,
    ) -> Result<Plan, String> {
        let seconds = |seconds: f64| {
            Duration::try_from_secs_f64(seconds).map_err(|error| format!("{seconds} s: {error}"))
        };
        let Self(player) = self;
        let (timeout, duration) = (seconds(self.timeout_s())?, seconds(request.duration_s)?);
        let senders = if cpus.is_empty() { None } else { player.senders };
        let threads = senders.map_or(cpus.len().max(1), |senders| senders as usize);
        // A subject on another host has other cores in any case.
        let is_elsewhere = subject.player == PlayerPlace::Elsewhere;
        let is_known = is_elsewhere || !subject.cpus.is_empty();
        let are_apart = is_known || targets.iter().all(|&target| !is_local(target));
        let own_cores = are_apart && have_cores_of_their_own(cpus, threads, &subject.cpus);
        let course = self.course(request)?;
        let plan = Plan {
            targets: targets.to_vec(),
            wire: self.wire(timeout, targets, ca)?,
            burst: player.burst.unwrap_or(BURST) as usize,
            local: self.local()?,
            load: match request.pace {
                RequestedPace::Open { rate_qps } => {
                    LoadPlan::Open { rate_qps, arrivals: Arrivals::Even, window: None }
                }
                RequestedPace::Closed => LoadPlan::Closed { outstanding: u64::from(self.window()) },
            },
            start_at_ns: None,
            stop: Stop { after: Some(duration), passes: None },
            part: Part::WHOLE,
            // The player that opens the queries knows whether they are a capture.
            replay: None,
            timeout,
            drain: timeout,
            listens_on: false,
            lag_allowed: LAG_ALLOWED,
            coalesce: usual_coalesce(own_cores),
            threads,
            cpus: cpus.to_vec(),
            own_cores,
            seed: SEED,
            drop_reasons: request.purpose.is_for_reasons(),
            moments: course.is_some().then(MomentsPlan::default),
            course,
            per_query: PerQueryPlan::default(),
            first_query: 0,
            hostile: None,
        };
        plan.check().map_err(|error| error.to_string())?;
        Ok(plan)
    }

    /// The course of a load at a rate that the cell asks for; `None` for other loads, or if the rate stays.
    fn course(&self, request: &TrialRequest) -> Result<Option<Course>, String> {
        let Some(shape) = self.0.course.as_ref().filter(|_| request.purpose == Purpose::Rate) else {
            return Ok(None);
        };
        let course = shape.lay(Some(request.duration_s)).map_err(|error| error.to_string())?;
        Ok(Some(course.shares()))
    }

    /// The source addresses; `None` lets the kernel choose one.
    fn local(&self) -> Result<Option<Sources>, String> {
        let prefix = match self.0.sources.unwrap_or(SourceChoice::One) {
            SourceChoice::One => return Ok(None),
            SourceChoice::Spread => SPREAD_PREFIX.to_owned(),
            prefix @ SourceChoice::Prefix(..) => prefix.word(),
        };
        let wrong = |error| format!("factor `{}`: {error}", name::PLAYER_SOURCES);
        prefix.parse::<Sources>().map(Some).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use kqps_catalogue::choice::{Close, Congestion, Io, KeyType, Method, TrustChoice};
    use kqps_observation::run::Purpose;
    use kqps_player::{TcpPlan, TlsPlan, UdpPlan, Wire};
    use kqps_tls::Trust;

    use super::*;

    /// Settings of 64 connections.
    fn tcp(queries_per_connection: Option<u32>) -> PlayerFactors {
        PlayerFactors {
            transport: Some(Transport::Tcp),
            connections: Some(64),
            queries_per_connection,
            outstanding_per_connection: Some(10),
            ..PlayerFactors::default()
        }
    }

    fn tls() -> PlayerFactors {
        PlayerFactors {
            transport: Some(Transport::Tls),
            close: Some(Close::Rst),
            resume: Some(false),
            tls_group: Some("x25519".into()),
            tls_suite: Some("TLS_AES_128_GCM_SHA256".into()),
            tls_certificate: Some(KeyType::Rsa),
            tls_packing: Some(true),
            sources: Some(SourceChoice::Prefix([127, 2, 0, 0].into(), 24)),
            ..tcp(None)
        }
    }

    fn https(path: &str) -> PlayerFactors {
        PlayerFactors {
            transport: Some(Transport::Https),
            http_method: Some(Method::Get),
            http_path: Some(path.into()),
            ..tls()
        }
    }

    fn quic() -> PlayerFactors {
        PlayerFactors {
            transport: Some(Transport::Quic),
            queries_per_connection: Some(0),
            connect_timeout_s: Some(1.5),
            congestion: Some(Congestion::Cubic),
            early_data: Some(true),
            ..tls()
        }
    }

    fn plan(
        player: PlayerFactors,
        pace: RequestedPace,
        cpus: &[u32],
        subject_cpus: &[u32],
    ) -> Result<Plan, String> {
        let request = TrialRequest { pace, duration_s: 0.5, purpose: Purpose::Search };
        let subject = SubjectWatched { cpus: subject_cpus.to_vec(), ..SubjectWatched::default() };
        let setup = PlayerSetup(player);
        setup.plan(&request, (&["127.0.0.1:53".parse().unwrap()], Some("the issuer")), cpus, &subject)
    }

    #[test]
    fn a_plan_has_what_the_setup_says() {
        let setup = PlayerFactors {
            io: Some(Io::Mmsg),
            sockets: Some(3),
            senders: Some(2),
            sources: Some(SourceChoice::Spread),
            ..PlayerFactors::default()
        };
        let made = plan(setup, RequestedPace::Open { rate_qps: 1234.5 }, &[2, 3, 4], &[1]).unwrap();
        let timeout = Duration::from_millis(250);
        let expected = Plan {
            targets: vec!["127.0.0.1:53".parse().unwrap()],
            wire: Wire::Udp(UdpPlan {
                io: Io::Mmsg,
                sockets: 3,
                buffer_bytes: None,
                local_port: None,
                device: None,
            }),
            burst: 32,
            local: Some("127.1.0.0/16".parse().unwrap()),
            load: LoadPlan::Open { rate_qps: 1234.5, arrivals: Arrivals::Even, window: None },
            start_at_ns: None,
            stop: Stop { after: Some(Duration::from_millis(500)), passes: None },
            part: Part::WHOLE,
            replay: None,
            timeout,
            drain: timeout,
            listens_on: false,
            lag_allowed: Duration::from_millis(10),
            coalesce: Duration::from_micros(10),
            threads: 2,
            cpus: vec![2, 3, 4],
            own_cores: true,
            seed: 1,
            drop_reasons: false,
            moments: None,
            course: None,
            per_query: PerQueryPlan::default(),
            first_query: 0,
            hostile: None,
        };
        assert_eq!(made, expected);
    }

    #[test]
    fn a_plan_over_tcp_has_the_connections_of_the_setup() {
        let wire =
            |player: PlayerFactors| plan(player, RequestedPace::Closed, &[1], &[0]).map(|plan| plan.wire);
        let expected = TcpPlan {
            io: Io::Auto,
            connections: 64,
            queries_per_connection: Some(1),
            outstanding: 10,
            close: Close::Fin,
            connect_timeout: Duration::from_millis(250),
            buffer_bytes: None,
            tls: None,
            device: None,
            local_port: None,
        };
        assert_eq!(wire(tcp(Some(1))), Ok(Wire::Tcp(expected.clone())));
        assert_eq!(
            wire(tcp(None)),
            Ok(Wire::Tcp(TcpPlan { queries_per_connection: None, ..expected.clone() }))
        );
        let alone = TcpPlan { queries_per_connection: Some(0), ..expected.clone() };
        assert_eq!(wire(tcp(Some(0))), Ok(Wire::Tcp(alone)));
        let by_ring = wire(PlayerFactors { io: Some(Io::Uring), ..tcp(Some(1)) });
        assert_eq!(by_ring, Ok(Wire::Tcp(TcpPlan { io: Io::Uring, ..expected.clone() })));
        let usual = PlayerFactors { transport: Some(Transport::Tcp), ..PlayerFactors::default() };
        let kept = TcpPlan { connections: 8, outstanding: 65_536, queries_per_connection: None, ..expected };
        assert_eq!(wire(usual.clone()), Ok(Wire::Tcp(kept)));
        let places = |queries| {
            PlayerSetup(PlayerFactors { queries_per_connection: Some(queries), ..usual.clone() }).places()
        };
        assert_eq!((places(0), places(1), places(2)), (500, 500, 8));
    }

    #[test]
    fn a_plan_over_tls_has_what_the_setup_offers_and_trusts() {
        let played = |player: PlayerFactors| plan(player, RequestedPace::Closed, &[1], &[0]);
        let tls_of = |plan: Plan| match plan.wire {
            Wire::Tcp(tcp) => tcp.tls.unwrap(),
            other => panic!("{other:?}"),
        };
        let made = played(tls()).unwrap();
        assert_eq!(made.local, Some("127.2.0.0/24".parse().unwrap()));
        let TlsPlan { names, client, packing, .. } = tls_of(made);
        assert_eq!((names, client.resume), (vec!["127.0.0.1".to_owned()], false));
        assert_eq!((client.suites.len(), client.groups.len()), (1, 1));
        assert_eq!((client.certificate, client.early_data, packing), (Some(KeyType::Rsa), false, true));
        assert_eq!(client.trust, Trust::Ca("the issuer".into()));
        let theirs = PlayerFactors {
            tls_trust: Some(TrustChoice::System),
            tls_name: Some("dns.test".into()),
            tls_group: None,
            ..tls()
        };
        let TlsPlan { names, client, .. } = tls_of(played(theirs).unwrap());
        assert_eq!((names, client.trust), (vec!["dns.test".to_owned()], Trust::System));
        assert!(client.groups.is_empty());
        let unknown = PlayerFactors { tls_suite: Some("TLS_NULL".into()), ..tls() };
        assert!(played(unknown).unwrap_err().starts_with("factor `player.tls_suite`: expected one of "));
        let http = tls_of(played(https("/dns")).unwrap()).http.unwrap();
        assert_eq!((http.method, http.authorities), (Method::Get, vec!["127.0.0.1:53".to_owned()]));
        assert_eq!(http.paths, ["/dns"]);
        let usual = PlayerFactors { transport: Some(Transport::Tls), ..PlayerFactors::default() };
        assert!(tls_of(played(usual).unwrap()).client.resume);
    }

    #[test]
    fn a_plan_over_quic_has_connections_early_data_and_tls() {
        let made = plan(quic(), RequestedPace::Closed, &[1], &[0]).unwrap();
        assert!(made.has_connections_alone());
        let Wire::Quic(quic) = made.wire else { panic!("{:?}", made.wire) };
        assert_eq!((quic.connections, quic.outstanding, quic.tls.client.early_data), (64, 10, true));
        assert_eq!((quic.connect_timeout, quic.congestion), (Duration::from_millis(1500), Congestion::Cubic));
        assert_eq!(quic.tls.client.trust, Trust::Ca("the issuer".into()));
        assert_eq!(quic.tls.names, ["127.0.0.1"]);
    }

    #[test]
    fn a_player_beside_its_subject_has_no_core_of_its_own() {
        let closed = |cpus: &[u32], subject_cpus: &[u32]| {
            plan(PlayerFactors::default(), RequestedPace::Closed, cpus, subject_cpus).unwrap()
        };
        let beside = closed(&[0], &[0]);
        assert!(!beside.own_cores);
        assert_eq!((beside.coalesce, beside.threads), (Duration::from_micros(20), 1));
        assert_eq!(beside.load, LoadPlan::Closed { outstanding: 500 });
        assert!(!closed(&[0], &[]).own_cores, "the subject on this host may run anywhere");
        let unpinned = closed(&[], &[1]);
        assert_eq!((unpinned.threads, unpinned.has_own_cores()), (1, false));
    }

    #[test]
    fn a_setup_that_cannot_be_played_says_why() {
        let error = |player: PlayerFactors| plan(player, RequestedPace::Closed, &[], &[]).unwrap_err();
        let usual = PlayerFactors::default();
        assert!(error(PlayerFactors { burst: Some(65), ..usual.clone() }).contains("a burst of 65"));
        assert!(error(PlayerFactors { timeout_s: Some(-1.0), ..usual }).contains("-1 s"));
    }
}
