//! Observations: the records that measuring writes and judging reads.
//!
//! For: the trial, the run, the histogram, readings of cores and the store, each with a version; and one trial of what many
//! players measured ([`merge`]). Not for: deciding what a record means (`verdict`), nor for how it looks (`report`).
//!
//! Invariant: facts only. A record holds what was counted and timed, and the reason if something could not be read.
//! Measuring and judging meet only here.

pub mod accounts;
pub mod arrivals;
pub mod connections;
pub mod event;
pub mod fingerprint;
pub mod gauge;
pub mod goal;
pub mod histogram;
pub mod host;
pub mod hostile;
pub mod http;
pub mod ledger;
pub mod live;
pub mod merge;
pub mod moments;
pub mod network;
pub mod non_empty;
pub mod part;
pub mod percentile;
pub mod profile;
pub mod question;
pub mod quic;
pub mod replay;
pub mod residence;
pub mod run;
pub mod run_host;
pub mod secret;
pub mod store;
pub mod subject;
pub mod tls;
pub mod trial;
pub mod upstream;
pub mod visible;

pub use accounts::{Accounts, IdentityViolated};
pub use connections::ConnectionFacts;
pub use event::{EventFacts, EventUsage, Silence};
pub use fingerprint::Fingerprint;
pub use gauge::{CoreGauge, GaugeFacts, SpeedFacts, Stall, StallFacts};
pub use goal::GoalFacts;
pub use histogram::{Histogram, Quantiles};
pub use host::HostFacts;
pub use hostile::{HandshakesMade, HostileConnections, HostileFacts, StreamsReset};
pub use http::HttpFacts;
pub use kqps_catalogue::{Factors, cpu_list, factors};
pub use ledger::{Ledger, Place, Placed};
pub use live::{LiveClass, LiveConnections, LiveCounts, LivePhase, LiveTimes};
pub use network::NetworkFacts;
pub use non_empty::NonEmpty;
pub use part::{PlayerPart, StartFacts};
pub use percentile::Percentile;
pub use profile::ProfileFacts;
pub use question::Question;
pub use quic::QuicFacts;
pub use replay::{CaptureContent, Difference, Example, Replay, ReplayLane};
pub use residence::ResidenceFacts;
pub use run::{Cell, CellLoad, Run, RunTrial, Target};
pub use run_host::{HostRole, RunHost};
pub use store::{Store, StoreError};
pub use subject::SubjectFacts;
pub use tls::{EarlyFacts, SessionFacts, TlsFacts};
pub use trial::Trial;
pub use upstream::UpstreamFacts;

/// The version written into every record. A reader accepts this version and all older ones.
pub const SCHEMA: u32 = 4;
