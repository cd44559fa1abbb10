//! The settings of the player for a cell. They are stored in the cell's factors, so that the store alone
//! explains a figure, and a resumed run plays as before.

mod wire;

use std::net::SocketAddr;
use std::time::Duration;

use kqps_host::{PlayerPlace, SubjectWatched};
use kqps_kernel::local_address::is_local;
use kqps_observation::factors::{PlayerFactors, SourceChoice, name};
use kqps_observation::{Cell, Factors};
use kqps_player::plan::{LAG_ALLOWED, SEED, have_cores_of_their_own, usual_coalesce};
use kqps_player::{Arrivals, LoadPlan, Part, PerQueryPlan, Plan, Sources, Stop};

use crate::trial_request::{RequestedPace, TrialRequest};
pub use wire::{ConnectionSetup, HttpSetup, TlsSetup, WireSetup};

/// The player's settings for one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct PlayerSetup {
    /// How queries travel.
    pub wire: WireSetup,
    /// Sending threads; `None` for one on each of the player's cores.
    pub senders: Option<u32>,
    /// The most queries outstanding, in closed loop.
    pub window: u32,
    /// The most queries in one burst.
    pub burst: u32,
    /// Seconds after which a reply is late. The player also listens this long after its last query.
    pub timeout_s: f64,
    /// The source addresses of the sockets or connections.
    pub sources: SourceChoice,
}

/// Loopback addresses of this host (RFC 1122, section 3.2.1.3), apart from those that subjects listen on.
const SPREAD_PREFIX: &str = "127.1.0.0/16";

impl PlayerSetup {
    /// The settings of a player that looks like several clients.
    pub const MANY_FLOWS: Self = Self {
        wire: WireSetup::Udp { io: None, sockets: wire::SOCKETS },
        senders: None,
        window: 500,
        burst: 32,
        timeout_s: 0.25,
        sources: SourceChoice::One,
    };

    /// The settings as factors of a cell.
    pub fn factors(&self) -> PlayerFactors {
        let of_all = PlayerFactors {
            senders: self.senders,
            window: Some(self.window),
            burst: Some(self.burst),
            timeout_s: Some(self.timeout_s),
            sources: Some(self.sources).filter(|sources| *sources != SourceChoice::One),
            ..PlayerFactors::default()
        };
        match &self.wire {
            WireSetup::Udp { io, sockets } => {
                PlayerFactors { io: io.clone(), sockets: Some(*sockets), ..of_all }
            }
            WireSetup::Connected(setup) => setup.factors(of_all),
        }
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
        let (timeout, duration) = (seconds(self.timeout_s)?, seconds(request.duration_s)?);
        let senders = if cpus.is_empty() { None } else { self.senders };
        let threads = senders.map_or(cpus.len().max(1), |senders| senders as usize);
        // A subject on another host has other cores in any case.
        let is_elsewhere = subject.player == PlayerPlace::Elsewhere;
        let is_known = is_elsewhere || !subject.cpus.is_empty();
        let are_apart = is_known || targets.iter().all(|&target| !is_local(target));
        let own_cores = are_apart && have_cores_of_their_own(cpus, threads, &subject.cpus);
        let plan = Plan {
            targets: targets.to_vec(),
            wire: self.wire.plan(timeout, targets, ca)?,
            burst: self.burst as usize,
            local: self.local()?,
            load: match request.pace {
                RequestedPace::Open { rate_qps } => {
                    LoadPlan::Open { rate_qps, arrivals: Arrivals::Even, window: None }
                }
                RequestedPace::Closed => LoadPlan::Closed { outstanding: u64::from(self.window) },
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
            per_query: PerQueryPlan::default(),
        };
        plan.check().map_err(|error| error.to_string())?;
        Ok(plan)
    }

    /// The source addresses; `None` lets the kernel choose one.
    fn local(&self) -> Result<Option<Sources>, String> {
        let prefix = match self.sources {
            SourceChoice::One => return Ok(None),
            SourceChoice::Spread => SPREAD_PREFIX.to_owned(),
            prefix @ SourceChoice::Prefix(..) => prefix.word(),
        };
        let wrong = |error| format!("factor `{}`: {error}", name::PLAYER_SOURCES);
        prefix.parse::<Sources>().map(Some).map_err(wrong)
    }

    /// The settings in a stored cell; those that it lacks are those of [`PlayerSetup::MANY_FLOWS`].
    pub fn from_cell(cell: &Cell) -> Self {
        Self::of_factors(&cell.factors)
    }

    /// As [`Self::from_cell`], from the factors of a cell.
    pub(crate) fn of_factors(factors: &Factors) -> Self {
        let (player, usual) = (factors.player(), Self::MANY_FLOWS);
        Self {
            wire: WireSetup::from_factors(player),
            senders: player.senders,
            window: player.window.unwrap_or(usual.window),
            burst: player.burst.unwrap_or(usual.burst),
            timeout_s: player.timeout_s.unwrap_or(usual.timeout_s),
            sources: player.sources.unwrap_or(usual.sources),
        }
    }

    /// The number of its sockets or connections: at least one per thread, of which there is one at least.
    pub(crate) fn flows(&self) -> usize {
        let wanted = match &self.wire {
            WireSetup::Udp { sockets, .. } => *sockets,
            WireSetup::Connected(setup) => setup.connections,
        };
        wanted.max(self.senders.unwrap_or(1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use kqps_http::Method;
    use kqps_observation::factors::{KeyChoice, TrustChoice};
    use kqps_observation::run::Purpose;
    use kqps_observation::trial::Transport;
    use kqps_player::{Close, Io, TcpPlan, TlsPlan, UdpPlan, Wire};
    use kqps_quic::Congestion;
    use kqps_tls::Trust;
    use kqps_tls::certificate::KeyType;

    use super::*;

    #[test]
    fn a_setup_survives_being_stored() {
        for setup in [
            PlayerSetup::MANY_FLOWS,
            PlayerSetup {
                wire: WireSetup::Udp { io: Some("plain".into()), sockets: 3 },
                senders: Some(4),
                ..PlayerSetup::MANY_FLOWS
            },
            PlayerSetup { sources: SourceChoice::Spread, ..PlayerSetup::MANY_FLOWS },
            PlayerSetup { wire: tcp(None), ..PlayerSetup::MANY_FLOWS },
            PlayerSetup { wire: tcp(Some(1)), sources: SourceChoice::Spread, ..PlayerSetup::MANY_FLOWS },
            PlayerSetup { wire: tls(tls_setup()), sources: prefix(), ..PlayerSetup::MANY_FLOWS },
            PlayerSetup { wire: https(Method::Get, "/dns"), ..PlayerSetup::MANY_FLOWS },
            PlayerSetup { wire: quic(), ..PlayerSetup::MANY_FLOWS },
        ] {
            let mut cell = Cell::default();
            cell.factors.set_player(setup.factors());
            assert_eq!(PlayerSetup::from_cell(&cell), setup);
            let words = cell.factors.words().clone();
            assert_eq!(cell.factors.fitting().words(), &words, "nothing is stored for another transport");
        }
        assert_eq!(PlayerSetup::from_cell(&Cell::default()), PlayerSetup::MANY_FLOWS);
    }

    fn connections(queries_per_connection: Option<u32>) -> ConnectionSetup {
        ConnectionSetup {
            io: None,
            transport: Transport::Tcp,
            connections: 64,
            queries_per_connection,
            outstanding: 10,
            close: Close::Fin,
            connect_timeout_s: None,
            congestion: Congestion::default(),
            tls: None,
            http: None,
        }
    }

    fn tcp(queries_per_connection: Option<u32>) -> WireSetup {
        WireSetup::Connected(connections(queries_per_connection))
    }

    fn tls(tls: TlsSetup) -> WireSetup {
        let of_tcp = connections(None);
        WireSetup::Connected(ConnectionSetup {
            transport: Transport::Tls,
            close: Close::Rst,
            tls: Some(tls),
            ..of_tcp
        })
    }

    fn https(method: Method, path: &str) -> WireSetup {
        let WireSetup::Connected(of_tls) = tls(tls_setup()) else { panic!() };
        let http = Some(HttpSetup { method, path: path.into() });
        WireSetup::Connected(ConnectionSetup { transport: Transport::Https, http, ..of_tls })
    }

    fn quic() -> WireSetup {
        WireSetup::Connected(ConnectionSetup {
            transport: Transport::Quic,
            connect_timeout_s: Some(1.5),
            congestion: Congestion::Cubic,
            tls: Some(TlsSetup { early_data: true, certificate: None, packing: false, ..tls_setup() }),
            ..connections(Some(0))
        })
    }

    fn tls_setup() -> TlsSetup {
        TlsSetup {
            resume: false,
            group: Some("x25519".into()),
            suite: Some("TLS_AES_128_GCM_SHA256".into()),
            certificate: Some(KeyChoice::Rsa),
            early_data: false,
            packing: true,
            trust: None,
            name: None,
        }
    }

    fn prefix() -> SourceChoice {
        SourceChoice::Prefix([127, 2, 0, 0].into(), 24)
    }

    fn plan(
        setup: &PlayerSetup,
        pace: RequestedPace,
        cpus: &[u32],
        subject_cpus: &[u32],
    ) -> Result<Plan, String> {
        let request = TrialRequest { pace, duration_s: 0.5, purpose: Purpose::Search };
        let subject = SubjectWatched { cpus: subject_cpus.to_vec(), ..SubjectWatched::default() };
        setup.plan(&request, (&["127.0.0.1:53".parse().unwrap()], Some("the issuer")), cpus, &subject)
    }

    #[test]
    fn a_plan_has_what_the_setup_says() {
        let setup = PlayerSetup {
            wire: WireSetup::Udp { io: Some("mmsg".into()), sockets: 3 },
            senders: Some(2),
            sources: SourceChoice::Spread,
            ..PlayerSetup::MANY_FLOWS
        };
        let made = plan(&setup, RequestedPace::Open { rate_qps: 1234.5 }, &[2, 3, 4], &[1]).unwrap();
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
            per_query: PerQueryPlan::default(),
        };
        assert_eq!(made, expected);
    }

    #[test]
    fn a_plan_over_tcp_has_the_connections_of_the_setup() {
        let wire = |wire: WireSetup| {
            let setup = PlayerSetup { wire, ..PlayerSetup::MANY_FLOWS };
            plan(&setup, RequestedPace::Closed, &[1], &[0]).map(|plan| plan.wire)
        };
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
        let by_ring = ConnectionSetup { io: Some("uring".into()), ..connections(Some(1)) };
        let by_ring = wire(WireSetup::Connected(by_ring));
        assert_eq!(by_ring, Ok(Wire::Tcp(TcpPlan { io: Io::Uring, ..expected })));
        let mut cell = Cell::default();
        cell.factors.set(name::PLAYER_TRANSPORT, "tcp").unwrap();
        let usual = ConnectionSetup { connections: 8, outstanding: 65_536, ..connections(None) };
        assert_eq!(PlayerSetup::from_cell(&cell).wire, WireSetup::Connected(usual));
    }

    #[test]
    fn a_plan_over_tls_has_what_the_setup_offers_and_trusts() {
        let played = |tls_of: TlsSetup| {
            let setup = PlayerSetup { wire: tls(tls_of), sources: prefix(), ..PlayerSetup::MANY_FLOWS };
            plan(&setup, RequestedPace::Closed, &[1], &[0])
        };
        let tls_of = |plan: Plan| match plan.wire {
            Wire::Tcp(tcp) => tcp.tls.unwrap(),
            other => panic!("{other:?}"),
        };
        let made = played(tls_setup()).unwrap();
        assert_eq!(made.local, Some("127.2.0.0/24".parse().unwrap()));
        let TlsPlan { names, client, packing, .. } = tls_of(made);
        assert_eq!((names, client.resume), (vec!["127.0.0.1".to_owned()], false));
        assert_eq!((client.suites.len(), client.groups.len()), (1, 1));
        assert_eq!((client.certificate, client.early_data, packing), (Some(KeyType::Rsa), false, true));
        assert_eq!(client.trust, Trust::Ca("the issuer".into()));
        let theirs = TlsSetup {
            trust: Some(TrustChoice::System),
            name: Some("dns.test".into()),
            group: None,
            ..tls_setup()
        };
        let TlsPlan { names, client, .. } = tls_of(played(theirs).unwrap());
        assert_eq!((names, client.trust), (vec!["dns.test".to_owned()], Trust::System));
        assert!(client.groups.is_empty());
        let unknown = TlsSetup { suite: Some("TLS_NULL".into()), ..tls_setup() };
        assert!(played(unknown).unwrap_err().starts_with("factor `player.tls_suite`: expected one of "));
        let by_http = PlayerSetup { wire: https(Method::Get, "/dns"), ..PlayerSetup::MANY_FLOWS };
        let http = tls_of(plan(&by_http, RequestedPace::Closed, &[1], &[0]).unwrap()).http.unwrap();
        assert_eq!((http.method, http.authorities), (Method::Get, vec!["127.0.0.1:53".to_owned()]));
        assert_eq!(http.paths, ["/dns"]);
        let mut cell = Cell::default();
        cell.factors.set(name::PLAYER_TRANSPORT, "tls").unwrap();
        let WireSetup::Connected(usual) = PlayerSetup::from_cell(&cell).wire else { panic!() };
        assert!(usual.tls.unwrap().resume);
    }

    #[test]
    fn a_plan_over_quic_has_connections_early_data_and_tls() {
        let setup = PlayerSetup { wire: quic(), ..PlayerSetup::MANY_FLOWS };
        let made = plan(&setup, RequestedPace::Closed, &[1], &[0]).unwrap();
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
            plan(&PlayerSetup::MANY_FLOWS, RequestedPace::Closed, cpus, subject_cpus).unwrap()
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
        let error = |setup: PlayerSetup| plan(&setup, RequestedPace::Closed, &[], &[]).unwrap_err();
        let wire = WireSetup::Udp { io: Some("fast".into()), sockets: 8 };
        let fast = PlayerSetup { wire, ..PlayerSetup::MANY_FLOWS };
        assert!(error(fast).contains("`player.io`"));
        assert!(error(PlayerSetup { burst: 65, ..PlayerSetup::MANY_FLOWS }).contains("a burst of 65"));
        assert!(error(PlayerSetup { timeout_s: -1.0, ..PlayerSetup::MANY_FLOWS }).contains("-1 s"));
    }
}
