//! The echo's ceiling on this host, measured in the same session as the search: the player's own maximum, and
//! the maximum of the standard interface. It is measured only for a target on this host, whose path the echo
//! shares. An echo answers every query with NOERROR, so its answers are not checked against the query file.

use std::time::Duration;

use kqps_dataset::Check;
use kqps_files::unfinished::Unfinished;
use kqps_host::SubjectWatched;
use kqps_lab::gauged::{Cores, Gauges};
use kqps_observation::Trial;
use kqps_observation::factors::{CertificateType, name};
use kqps_observation::run::{Purpose, Role};
use kqps_observation::trial::Transport;
use kqps_player::{LoadPlan, Plan, Wire};
use kqps_testbed::certificates::{Certificates, ServerCertificate};
use kqps_testbed::echo_io;
use kqps_testbed::play::PlayerProgram;
use kqps_testbed::subject::{LaunchSetting, Over, Subject, Zone, builtin};
use kqps_testbed::trial_request::{RequestedPace, TrialRequest};
use kqps_tls::Trust;
use kqps_tls::certificate::KeyType;
use kqps_verdict::estimate::{self, Estimate};
use kqps_verdict::evidence::answered_qps;

use super::lines::ceiling_line;
use super::player::Player;
use super::standing::SearchView;
use super::{Args, Ended};
use crate::exit::bad_input;

/// Duration of each measurement of a ceiling.
const DURATION: Duration = Duration::from_millis(500);

/// The echo's I/O model that is closest to most name servers.
const USUAL_IO: &str = "mmsg";

/// How the subject receives queries, as far as kqps knows. The echo behind its ceiling does the same.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    /// The transport that carries the queries.
    pub(super) transport: Transport,
    /// The closest I/O model of the echo.
    pub(super) io: String,
    pub(super) workers: u32,
    /// Whether the user gave the workers.
    pub(super) are_workers_given: bool,
    /// Whether the user left out the model or the workers.
    pub(super) is_assumed: bool,
}

/// The echo's rates on this host, at the reference speed of the search.
#[derive(Debug, Default)]
pub(super) struct Ceilings {
    /// The player's own ceiling (a), against the cheapest echo; `None` if that is also the echo with the
    /// subject's I/O.
    pub(super) player: Option<Measured>,
    pub(super) echo: Option<Measured>,
}

#[derive(Debug)]
pub(super) struct Measured {
    pub(super) io: String,
    pub(super) trial: Trial,
}

impl Interface {
    /// The subject's interface: as the flags say, or else the usual one of name servers.
    pub(super) fn from_flags(args: &Args, plan: &Plan) -> anyhow::Result<Self> {
        let (transport, usual) = match &plan.wire {
            Wire::Udp(_) => (Transport::Udp, USUAL_IO),
            wire => (wire.transport(), echo_io::OVER_TCP),
        };
        let is_udp = transport == Transport::Udp;
        if !is_udp && args.subject_io.is_some() {
            return Err(bad_input(format!(
                "--subject-io is for udp: over {} the echo has one model; leave the flag out",
                transport.word()
            )));
        }
        let are_workers_given = args.player.subject_workers.is_some();
        Ok(Self {
            transport,
            io: args.subject_io.clone().unwrap_or_else(|| usual.into()),
            workers: args.player.subject_workers.unwrap_or(1),
            are_workers_given,
            is_assumed: !are_workers_given || (is_udp && args.subject_io.is_none()),
        })
    }
}

impl Ceilings {
    /// The player's own ceiling, correct answers a second: the larger rate of the two echoes.
    pub(super) fn player_qps(&self) -> Option<f64> {
        let both = self.player.iter().chain(&self.echo);
        both.map(Measured::rate_qps).reduce(f64::max)
    }

    /// The standard interface's ceiling, correct answers a second.
    pub(super) fn echo_qps(&self) -> Option<f64> {
        self.echo.as_ref().map(Measured::rate_qps)
    }

    pub(super) fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.player.iter().chain(&self.echo).map(|measured| &measured.trial)
    }

    /// The standard interface's ceiling as an estimate with its interval.
    pub(super) fn echo_estimate(&self) -> Option<Estimate> {
        estimate::of_echo(&self.echo.as_ref()?.trial)
    }
}

impl Measured {
    fn rate_qps(&self) -> f64 {
        answered_qps(&self.trial)
    }
}

/// The name of the cell of an echo in this role.
pub(super) fn cell_name(role: Role, interface: &Interface) -> String {
    match (role, interface.transport) {
        (Role::PlayerCeiling, _) => "player ceiling".to_owned(),
        (_, Transport::Udp) => format!("echo {}", interface.io),
        (_, transport) => format!("echo {}", transport.word()),
    }
}

/// An echo in a sentence.
pub(super) fn echo_in_words(transport: Transport, io: &str) -> String {
    match transport {
        Transport::Udp => format!("the echo with {io}"),
        transport => format!("the echo over {}", transport.word()),
    }
}

/// Measures both ceilings, each even if the other fails, with the player of the search: the ceiling of
/// another player would not apply. The echoes run on `cpus`, the subject's cores if they are known. After an
/// interrupt, or if the player got no CPU time, it starts nothing more.
pub(super) fn measure(
    interface: &Interface,
    (player, shown): (&Player<'_>, &SearchView<'_>),
    cpus: &[u32],
    gauges: &Gauges,
) -> Ceilings {
    eprintln!("measuring the echo's ceiling on this host ...");
    let measured = |role, io: &str, workers| {
        if player.is_over() {
            return None;
        }
        shown.begin_ceiling(role, cell_name(role, interface), DURATION.as_secs_f64());
        match against((io, workers, interface.transport), player, cpus, gauges) {
            Ok(trial) => {
                eprintln!("{}", ceiling_line(&trial, &echo_in_words(interface.transport, io)));
                Some(Measured { io: io.to_owned(), trial })
            }
            Err(Ended::Failed(error)) if !player.is_over() => {
                let what =
                    if role == Role::PlayerCeiling { "the player's ceiling" } else { "the echo's ceiling" };
                eprintln!("kqps: {what} could not be measured with {io}: {error:#}");
                None
            }
            Err(_) => None,
        }
    };
    if interface.transport.has_connections() {
        // The echo has one model for connections, so one figure serves for both.
        return Ceilings {
            player: None,
            echo: measured(Role::EchoCeiling, &interface.io, interface.workers),
        };
    }
    // The cheapest echo may also be the subject's. A single figure then stands for both.
    let is_both = |io: &str| io == interface.io && interface.workers == 1;
    let role = |io| if is_both(io) { Role::EchoCeiling } else { Role::PlayerCeiling };
    let mut cheapest = echo_io::cheapest_first();
    let player = cheapest.find_map(|io| measured(role(io), io, 1));
    match player {
        Some(both) if is_both(&both.io) => Ceilings { player: None, echo: Some(both) },
        player => Ceilings { player, echo: measured(Role::EchoCeiling, &interface.io, interface.workers) },
    }
}

/// Plays a trial against an echo with this I/O model and these workers, over this transport, on these cores. Over an
/// encrypted transport the echo has a certificate of its own, which the player then trusts, and takes its early data.
fn against(
    (io, workers, transport): (&str, u32, Transport),
    player: &Player<'_>,
    cpus: &[u32],
    gauges: &Gauges,
) -> Result<Trial, Ended> {
    let (folder, _unfinished) = Unfinished::made(tempfile::tempdir).map_err(failed)?;
    let mut plan = player.plan.clone();
    let (key, is_early) =
        plan.wire.tls_mut().map_or((None, false), |tls| (tls.client.certificate, tls.client.early_data));
    let early = is_early.then(|| (name::EARLY_DATA.to_owned(), "yes".to_owned()));
    let PlayerProgram { kqps, path, interrupts, .. } = player.program;
    let setting = LaunchSetting {
        path,
        folder: folder.path(),
        zones: &[Zone::new(".", "")],
        kqps,
        io,
        workers,
        cpus,
        settings: &early.into_iter().collect(),
    };
    let of_type = match key {
        Some(KeyType::Rsa) => CertificateType::Rsa2048,
        Some(KeyType::Ecdsa) => CertificateType::EcdsaP256,
        None => CertificateType::default(),
    };
    let certificates =
        if transport.is_encrypted() { Some(Certificates::make([of_type]).map_err(failed)?) } else { None };
    let certificate = certificates.as_ref().and_then(|made| made.certificate(of_type));
    let over = Over { transport, certificate };
    let echo = Subject::start_over(over, &builtin::echo(), &setting, interrupts, None).map_err(failed)?;
    plan.targets = vec![echo.address()];
    ask_at_path_of_echo(&mut plan);
    if let Some(certificate) = certificate {
        trust(&mut plan, certificate);
    }
    plan.load = LoadPlan::Closed { outstanding: super::WINDOW * plan.threads as u64 };
    plan.stop.after = Some(DURATION);
    let (pace, duration_s) = (RequestedPace::Closed, DURATION.as_secs_f64());
    let request = TrialRequest { pace, duration_s, purpose: Purpose::Ceiling };
    let echo_watched = SubjectWatched::of_processes(vec![echo.pid()], echo.address().ip());
    let subject = SubjectWatched { cpus: cpus.to_vec(), ..echo_watched };
    let cores = Cores::new(&plan.cpus, cpus);
    let play = |_: &TrialRequest| player.play((plan, Vec::new()), &subject, Some(Check::Off), false);
    let trial = gauges.play(&cores, &subject.pids, &request, play);
    echo.stop();
    trial.and_then(|trial| if trial.interrupted { Err(Ended::Interrupted) } else { Ok(trial) })
}

/// Makes the player accept this certificate, which names the addresses of its targets, and no other.
fn trust(plan: &mut Plan, certificate: &ServerCertificate) {
    let names = plan.targets.iter().map(|target| target.ip().to_string()).collect();
    if let Some(tls) = plan.wire.tls_mut() {
        tls.names = names;
        tls.client.trust = Trust::Ca(certificate.ca.clone());
    }
}

/// Makes HTTPS ask at the echo's path, whatever the path of the subject is.
fn ask_at_path_of_echo(plan: &mut Plan) {
    let targets = plan.targets.len();
    if let Some(http) = plan.wire.tls_mut().and_then(|tls| tls.http.as_mut()) {
        http.paths = vec![kqps_http::PATH.to_owned(); targets];
    }
}

fn failed(error: impl Into<anyhow::Error>) -> Ended {
    Ended::Failed(error.into())
}
