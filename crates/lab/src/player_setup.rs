//! The settings of the player for a cell. They are stored in the cell's factors, so that the store alone
//! explains a figure, and a resumed run plays as before.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use kqps_host::SubjectWatched;
use kqps_kernel::local_address::is_local;
use kqps_observation::Cell;
use kqps_observation::factors::{CloseChoice, PlayerFactors, SourceChoice, TrustChoice, name};
use kqps_observation::trial::Transport;
use kqps_player::plan::{LAG_ALLOWED, OUTSTANDING_MOST, SEED, have_cores_of_their_own, usual_coalesce};
use kqps_player::{Arrivals, Close, Io, LoadPlan, Plan, Sources, Stop, TcpPlan, TlsPlan, UdpPlan, Wire};
use kqps_tls::{ClientSettings, Trust};

use crate::trial_request::{RequestedPace, TrialRequest};

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

/// How a cell's queries travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireSetup {
    /// Datagrams.
    Udp {
        /// The player's I/O; `None` for the best that the host offers.
        io: Option<String>,
        /// Number of sockets, over all threads.
        sockets: u32,
    },
    /// Connections.
    Connected(ConnectionSetup),
}

/// How a cell's queries travel on connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSetup {
    /// The transport, which has connections.
    pub transport: Transport,
    /// Number of connections that may be open at once, over all threads.
    pub connections: u32,
    /// Queries after which a connection is closed; `None` if it is kept for the whole trial.
    pub queries_per_connection: Option<u32>,
    /// The most unsettled queries of one connection.
    pub outstanding: u32,
    /// How the player closes connections.
    pub close: Close,
    /// TLS; `None` over a transport that is not encrypted.
    pub tls: Option<TlsSetup>,
}

/// How connections speak TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSetup {
    /// Whether connections resume the sessions of earlier ones.
    pub resume: bool,
    /// The group that the player offers; `None` for all usual ones.
    pub group: Option<String>,
    /// The cipher suite that the player offers; `None` for all usual ones.
    pub suite: Option<String>,
    /// Which certificates the player accepts; `None` for those of the run's own issuer.
    pub trust: Option<TrustChoice>,
    /// The server's name in its certificate; `None` for its address.
    pub name: Option<String>,
}

/// Sockets of a cell that names no number.
const SOCKETS: u32 = 8;

/// Connections of a cell that names no number.
const CONNECTIONS: u32 = 8;

/// Loopback addresses of this host (RFC 1122, section 3.2.1.3), apart from those that subjects listen on.
const SPREAD_PREFIX: &str = "127.1.0.0/16";

impl PlayerSetup {
    /// The settings of a player that looks like several clients.
    pub const MANY_FLOWS: Self = Self {
        wire: WireSetup::Udp { io: None, sockets: SOCKETS },
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
        let are_apart = !subject.cpus.is_empty() || targets.iter().all(|&target| !is_local(target));
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
            stop: Stop { after: Some(duration), passes: None },
            timeout,
            drain: timeout,
            lag_allowed: LAG_ALLOWED,
            coalesce: usual_coalesce(own_cores),
            threads,
            cpus: cpus.to_vec(),
            own_cores,
            seed: SEED,
            drop_reasons: request.purpose.is_for_reasons(),
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
    pub fn of(cell: &Cell) -> Self {
        let (player, usual) = (cell.factors.player(), Self::MANY_FLOWS);
        Self {
            wire: WireSetup::of(player),
            senders: player.senders,
            window: player.window.unwrap_or(usual.window),
            burst: player.burst.unwrap_or(usual.burst),
            timeout_s: player.timeout_s.unwrap_or(usual.timeout_s),
            sources: player.sources.unwrap_or(usual.sources),
        }
    }
}

impl WireSetup {
    /// What carries the queries.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Udp { .. } => Transport::Udp,
            Self::Connected(setup) => setup.transport,
        }
    }

    /// The transport in the name of a cell, ` over tcp`; nothing over UDP, which is the usual one.
    pub(crate) fn over(&self) -> String {
        match self.transport() {
            Transport::Udp => String::new(),
            transport => format!(" over {}", transport.word()),
        }
    }

    /// The setup that factors name, or the usual one.
    fn of(player: &PlayerFactors) -> Self {
        let transport = player.transport.unwrap_or_default();
        if transport.has_connections() {
            Self::Connected(ConnectionSetup::of(transport, player))
        } else {
            Self::Udp { io: player.io.clone(), sockets: player.sockets.unwrap_or(SOCKETS) }
        }
    }

    /// The plan of queries that travel like this.
    fn plan(&self, timeout: Duration, targets: &[SocketAddr], ca: Option<&str>) -> Result<Wire, String> {
        match self {
            Self::Udp { io, sockets } => {
                let io = io.as_ref().map_or(Ok(Io::Auto), |io| io.parse::<Io>());
                Ok(Wire::Udp(UdpPlan {
                    io: io.map_err(|expected| format!("factor `{}`: {expected}", name::PLAYER_IO))?,
                    sockets: *sockets as usize,
                    buffer_bytes: None,
                    local_port: None,
                }))
            }
            Self::Connected(setup) => setup.plan(timeout, targets, ca),
        }
    }
}

impl ConnectionSetup {
    fn of(transport: Transport, player: &PlayerFactors) -> Self {
        Self {
            transport,
            connections: player.connections.unwrap_or(CONNECTIONS),
            queries_per_connection: player.queries_per_connection,
            outstanding: player.outstanding_per_connection.unwrap_or(OUTSTANDING_MOST),
            close: match player.close {
                Some(CloseChoice::Rst) => Close::Rst,
                Some(CloseChoice::Fin) | None => Close::Fin,
            },
            tls: transport.is_encrypted().then(|| TlsSetup::of(player)),
        }
    }

    /// Adds these settings to those that every transport has.
    fn factors(&self, of_all: PlayerFactors) -> PlayerFactors {
        let of_connections = PlayerFactors {
            transport: Some(self.transport),
            connections: Some(self.connections),
            queries_per_connection: self.queries_per_connection,
            outstanding_per_connection: Some(self.outstanding),
            close: (self.close == Close::Rst).then_some(CloseChoice::Rst),
            ..of_all
        };
        match &self.tls {
            None => of_connections,
            Some(tls) => PlayerFactors {
                resume: Some(tls.resume),
                tls_group: tls.group.clone(),
                tls_suite: tls.suite.clone(),
                tls_trust: tls.trust,
                tls_name: tls.name.clone(),
                ..of_connections
            },
        }
    }

    /// The plan of queries on such connections. A connection may take as long as a reply to be made.
    fn plan(&self, timeout: Duration, targets: &[SocketAddr], ca: Option<&str>) -> Result<Wire, String> {
        match self.transport {
            Transport::Udp => Err("udp has no connections".into()),
            Transport::Tcp | Transport::Tls => Ok(Wire::Tcp(TcpPlan {
                connections: self.connections as usize,
                queries_per_connection: self.queries_per_connection,
                outstanding: self.outstanding,
                close: self.close,
                connect_timeout: timeout,
                tls: self.tls.as_ref().map(|tls| tls.plan(targets, ca)).transpose()?,
            })),
        }
    }
}

impl TlsSetup {
    fn of(player: &PlayerFactors) -> Self {
        Self {
            resume: player.resume.unwrap_or(true),
            group: player.tls_group.clone(),
            suite: player.tls_suite.clone(),
            trust: player.tls_trust,
            name: player.tls_name.clone(),
        }
    }

    fn plan(&self, targets: &[SocketAddr], ca: Option<&str>) -> Result<TlsPlan, String> {
        let trust = match self.trust {
            Some(TrustChoice::System) => Trust::System,
            Some(TrustChoice::Anyone) => Trust::Anyone,
            Some(TrustChoice::Ca) | None => Trust::Ca(
                ca.ok_or("no issuer is known whose certificates the player could trust")?.to_owned(),
            ),
        };
        let own_name = |target: &SocketAddr| self.name.clone().unwrap_or_else(|| target.ip().to_string());
        let client = ClientSettings {
            trust,
            resume: self.resume,
            suites: offered(name::PLAYER_TLS_SUITE, self.suite.as_deref())?,
            groups: offered(name::PLAYER_TLS_GROUP, self.group.as_deref())?,
        };
        Ok(TlsPlan { names: targets.iter().map(own_name).collect(), client })
    }
}

/// What the player offers by a factor: the one that it names, or all usual ones.
fn offered<T: FromStr<Err = String>>(name: &str, word: Option<&str>) -> Result<Vec<T>, String> {
    let one = |word: &str| word.parse::<T>().map_err(|expected| format!("factor `{name}`: {expected}"));
    word.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use kqps_observation::run::Purpose;

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
        ] {
            let mut cell = Cell::default();
            cell.factors.set_player(setup.factors());
            assert_eq!(PlayerSetup::of(&cell), setup);
            let words = cell.factors.words().clone();
            assert_eq!(cell.factors.fitting().words(), &words, "nothing is stored for another transport");
        }
        assert_eq!(PlayerSetup::of(&Cell::default()), PlayerSetup::MANY_FLOWS);
    }

    fn connections(queries_per_connection: Option<u32>) -> ConnectionSetup {
        ConnectionSetup {
            transport: Transport::Tcp,
            connections: 64,
            queries_per_connection,
            outstanding: 10,
            close: Close::Fin,
            tls: None,
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

    fn tls_setup() -> TlsSetup {
        TlsSetup {
            resume: false,
            group: Some("x25519".into()),
            suite: Some("TLS_AES_128_GCM_SHA256".into()),
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
            wire: Wire::Udp(UdpPlan { io: Io::Mmsg, sockets: 3, buffer_bytes: None, local_port: None }),
            burst: 32,
            local: Some("127.1.0.0/16".parse().unwrap()),
            load: LoadPlan::Open { rate_qps: 1234.5, arrivals: Arrivals::Even, window: None },
            stop: Stop { after: Some(Duration::from_millis(500)), passes: None },
            timeout,
            drain: timeout,
            lag_allowed: Duration::from_millis(10),
            coalesce: Duration::from_micros(10),
            threads: 2,
            cpus: vec![2, 3, 4],
            own_cores: true,
            seed: 1,
            drop_reasons: false,
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
            connections: 64,
            queries_per_connection: Some(1),
            outstanding: 10,
            close: Close::Fin,
            connect_timeout: Duration::from_millis(250),
            tls: None,
        };
        assert_eq!(wire(tcp(Some(1))), Ok(Wire::Tcp(expected.clone())));
        assert_eq!(
            wire(tcp(None)),
            Ok(Wire::Tcp(TcpPlan { queries_per_connection: None, ..expected.clone() }))
        );
        let alone = TcpPlan { queries_per_connection: Some(0), ..expected };
        assert_eq!(wire(tcp(Some(0))), Ok(Wire::Tcp(alone)));
        let mut cell = Cell::default();
        cell.factors.set(name::PLAYER_TRANSPORT, "tcp").unwrap();
        let usual = ConnectionSetup { connections: 8, outstanding: 65_536, ..connections(None) };
        assert_eq!(PlayerSetup::of(&cell).wire, WireSetup::Connected(usual));
    }

    #[test]
    fn a_plan_over_tls_has_what_the_setup_offers_and_trusts() {
        let played = |tls_of: TlsSetup| {
            let setup = PlayerSetup { wire: tls(tls_of), sources: prefix(), ..PlayerSetup::MANY_FLOWS };
            plan(&setup, RequestedPace::Closed, &[1], &[0])
        };
        let tls_of = |plan: Plan| match plan.wire {
            Wire::Tcp(tcp) => tcp.tls.unwrap(),
            Wire::Udp(udp) => panic!("{udp:?}"),
        };
        let made = played(tls_setup()).unwrap();
        assert_eq!(made.local, Some("127.2.0.0/24".parse().unwrap()));
        let TlsPlan { names, client } = tls_of(made);
        assert_eq!((names, client.resume), (vec!["127.0.0.1".to_owned()], false));
        assert_eq!((client.suites.len(), client.groups.len()), (1, 1));
        assert_eq!(client.trust, Trust::Ca("the issuer".into()));
        let theirs = TlsSetup {
            trust: Some(TrustChoice::System),
            name: Some("dns.test".into()),
            group: None,
            ..tls_setup()
        };
        let TlsPlan { names, client } = tls_of(played(theirs).unwrap());
        assert_eq!((names, client.trust), (vec!["dns.test".to_owned()], Trust::System));
        assert!(client.groups.is_empty());
        let unknown = TlsSetup { suite: Some("TLS_NULL".into()), ..tls_setup() };
        assert!(played(unknown).unwrap_err().starts_with("factor `player.tls_suite`: expected one of "));
        let mut cell = Cell::default();
        cell.factors.set(name::PLAYER_TRANSPORT, "tls").unwrap();
        let WireSetup::Connected(usual) = PlayerSetup::of(&cell).wire else { panic!() };
        assert!(usual.tls.unwrap().resume);
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
