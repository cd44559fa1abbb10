//! The settings of the player for a cell. They are stored in the cell's factors, so that the store alone
//! explains a figure, and a resumed run plays as before.

use std::net::SocketAddr;
use std::time::Duration;

use kqps_host::SubjectWatched;
use kqps_kernel::local_address::is_local;
use kqps_observation::Cell;
use kqps_observation::factors::{PlayerFactors, SourceChoice, name};
use kqps_observation::trial::Transport;
use kqps_player::plan::{LAG_ALLOWED, OUTSTANDING_MOST, SEED, have_cores_of_their_own, usual_coalesce};
use kqps_player::{Arrivals, Close, Io, LoadPlan, Plan, Sources, Stop, TcpPlan, UdpPlan, Wire};

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
    /// Whether each socket or connection has a source address of its own, as far as there are addresses; false if all
    /// share one.
    pub spreads_sources: bool,
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
    Tcp {
        /// Number of connections that may be open at once, over all threads.
        connections: u32,
        /// Queries after which a connection is closed; `None` if it is kept for the whole trial.
        queries_per_connection: Option<u32>,
        /// The most unsettled queries of one connection.
        outstanding: u32,
    },
}

/// Sockets of a cell that names no number.
const SOCKETS: u32 = 8;

/// Connections of a cell that names no number.
const CONNECTIONS: u32 = 8;

/// Loopback addresses of this host (RFC 1122, section 3.2.1.3), apart from those that subjects listen on.
pub(crate) const SPREAD_PREFIX: &str = "127.1.0.0/16";

impl PlayerSetup {
    /// The settings of a player that looks like several clients.
    pub const MANY_FLOWS: Self = Self {
        wire: WireSetup::Udp { io: None, sockets: SOCKETS },
        senders: None,
        window: 500,
        burst: 32,
        timeout_s: 0.25,
        spreads_sources: false,
    };

    /// The settings as factors of a cell.
    pub fn factors(&self) -> PlayerFactors {
        let of_all = PlayerFactors {
            senders: self.senders,
            window: Some(self.window),
            burst: Some(self.burst),
            timeout_s: Some(self.timeout_s),
            sources: self.spreads_sources.then_some(SourceChoice::Spread),
            ..PlayerFactors::default()
        };
        match &self.wire {
            WireSetup::Udp { io, sockets } => {
                PlayerFactors { io: io.clone(), sockets: Some(*sockets), ..of_all }
            }
            WireSetup::Tcp { connections, queries_per_connection, outstanding } => PlayerFactors {
                transport: Some(Transport::Tcp),
                connections: Some(*connections),
                queries_per_connection: *queries_per_connection,
                outstanding_per_connection: Some(*outstanding),
                ..of_all
            },
        }
    }

    /// The plan of a player with these settings that plays `request` from `cpus` at `targets`. Returns the
    /// reason if a setting or the load cannot be played.
    pub fn plan(
        &self,
        request: &TrialRequest,
        targets: &[SocketAddr],
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
        let spread = || SPREAD_PREFIX.parse::<Sources>().map_err(|error| error.to_string());
        let local = if self.spreads_sources { Some(spread()?) } else { None };
        let plan = Plan {
            targets: targets.to_vec(),
            wire: self.wire.plan(timeout)?,
            burst: self.burst as usize,
            local,
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

    /// The settings in a stored cell; those that it lacks are those of [`PlayerSetup::MANY_FLOWS`].
    pub fn of(cell: &Cell) -> Self {
        let (player, usual) = (cell.factors.player(), Self::MANY_FLOWS);
        Self {
            wire: WireSetup::of(player),
            senders: player.senders,
            window: player.window.unwrap_or(usual.window),
            burst: player.burst.unwrap_or(usual.burst),
            timeout_s: player.timeout_s.unwrap_or(usual.timeout_s),
            spreads_sources: player.sources == Some(SourceChoice::Spread),
        }
    }
}

impl WireSetup {
    /// What carries the queries.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Udp { .. } => Transport::Udp,
            Self::Tcp { .. } => Transport::Tcp,
        }
    }

    /// The setup that factors name, or the usual one.
    fn of(player: &PlayerFactors) -> Self {
        match player.transport.unwrap_or_default() {
            Transport::Udp => Self::Udp { io: player.io.clone(), sockets: player.sockets.unwrap_or(SOCKETS) },
            // The factor names no other (`Transport::OF_STUDIES`).
            Transport::Tcp | Transport::Tls | Transport::Https => Self::Tcp {
                connections: player.connections.unwrap_or(CONNECTIONS),
                queries_per_connection: player.queries_per_connection,
                outstanding: player.outstanding_per_connection.unwrap_or(OUTSTANDING_MOST),
            },
        }
    }

    /// The plan of queries that travel like this. A connection may take as long as a reply to be made.
    fn plan(&self, timeout: Duration) -> Result<Wire, String> {
        Ok(match self {
            Self::Udp { io, sockets } => {
                let io = io.as_ref().map_or(Ok(Io::Auto), |io| io.parse::<Io>());
                Wire::Udp(UdpPlan {
                    io: io.map_err(|expected| format!("factor `{}`: {expected}", name::PLAYER_IO))?,
                    sockets: *sockets as usize,
                    buffer_bytes: None,
                    local_port: None,
                })
            }
            Self::Tcp { connections, queries_per_connection, outstanding } => Wire::Tcp(TcpPlan {
                connections: *connections as usize,
                queries_per_connection: *queries_per_connection,
                outstanding: *outstanding,
                close: Close::Fin,
                connect_timeout: timeout,
                tls: None,
            }),
        })
    }
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
            PlayerSetup { spreads_sources: true, ..PlayerSetup::MANY_FLOWS },
            PlayerSetup { wire: tcp(None), ..PlayerSetup::MANY_FLOWS },
            PlayerSetup { wire: tcp(Some(1)), spreads_sources: true, ..PlayerSetup::MANY_FLOWS },
        ] {
            let mut cell = Cell::default();
            cell.factors.set_player(setup.factors());
            assert_eq!(PlayerSetup::of(&cell), setup);
            let words = cell.factors.words().clone();
            assert_eq!(cell.factors.fitting().words(), &words, "nothing is stored for another transport");
        }
        assert_eq!(PlayerSetup::of(&Cell::default()), PlayerSetup::MANY_FLOWS);
    }

    fn tcp(queries_per_connection: Option<u32>) -> WireSetup {
        WireSetup::Tcp { connections: 64, queries_per_connection, outstanding: 10 }
    }

    fn plan(
        setup: &PlayerSetup,
        pace: RequestedPace,
        cpus: &[u32],
        subject_cpus: &[u32],
    ) -> Result<Plan, String> {
        let request = TrialRequest { pace, duration_s: 0.5, purpose: Purpose::Search };
        let subject = SubjectWatched { cpus: subject_cpus.to_vec(), ..SubjectWatched::default() };
        setup.plan(&request, &["127.0.0.1:53".parse().unwrap()], cpus, &subject)
    }

    #[test]
    fn a_plan_has_what_the_setup_says() {
        let setup = PlayerSetup {
            wire: WireSetup::Udp { io: Some("mmsg".into()), sockets: 3 },
            senders: Some(2),
            spreads_sources: true,
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
        assert_eq!(wire(tcp(None)), Ok(Wire::Tcp(TcpPlan { queries_per_connection: None, ..expected })));
        assert!(wire(tcp(Some(0))).unwrap_err().contains("0 queries on each connection"));
        let mut cell = Cell::default();
        cell.factors.set(name::PLAYER_TRANSPORT, "tcp").unwrap();
        let usual = WireSetup::Tcp { connections: 8, queries_per_connection: None, outstanding: 65_536 };
        assert_eq!(PlayerSetup::of(&cell).wire, usual);
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
