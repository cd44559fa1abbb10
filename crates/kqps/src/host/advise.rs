//! `kqps host advise`: how queues, interrupts and workers should lie on this host's cores, and which settings go with
//! that.

mod measured;
mod words;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use kqps_files::toml_file::{did_you_mean, nearest};
use kqps_host::setup::HostSetup;
use kqps_host::topology::Topology;
use kqps_observation::factors::name::WORKERS;
use kqps_testbed::subject::Definition;
use kqps_tuning::advise::{Advice, Ask, advise};
use kqps_tuning::{Change, Real, Setting, System as _, plain};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::bad_input;
use crate::print;
use crate::run::subjects;
use crate::value::{SOME, parse_rate, parse_within};
use measured::Measured;

const EXAMPLES: &str = "\
Examples:
  kqps host advise
  kqps host advise --for nsd --workers 8 --rate 1M
  kqps host advise --for knot --run kqps-runs/20261121T220507Z-default
  kqps host advise --device eth1 --plain";

/// Say how queues, interrupts and workers should lie on the cores of this host
///
/// Nothing is changed. Each layout and each setting has its reason, its source and what it may cost. `kqps host try`
/// measures one of them, `kqps host apply` sets it, and `kqps host undo` takes it back. With --run the layouts are
/// ranked by the time that a packet and an answer took in the trials of that run; without it, by rules.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The server that will answer, as in `kqps run --subject`; with --run, as it is called there
    #[arg(long = "for", value_name = "SUBJECT")]
    subject: Option<String>,

    /// How many workers it has (default: as many as a layout has room for)
    #[arg(long, value_name = "N", value_parser = parse_within::<u32>(SOME))]
    workers: Option<u32>,

    /// The rate that the server should answer, q/s (default: as many as possible)
    #[arg(long, value_name = "Q", value_parser = parse_rate)]
    rate: Option<f64>,

    /// The device that carries the queries (default: the fastest one that is up)
    #[arg(long, value_name = "DEV")]
    device: Option<String>,

    /// Take the time of a packet and of an answer from the trials of this run
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,

    /// All workers of the server share one socket
    #[arg(long)]
    one_socket: bool,

    /// Print the commands that set the first layout, for use without kqps
    #[arg(long)]
    plain: bool,
}

/// Advice as `--json` prints it.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename = "advice")]
pub(crate) struct Advised {
    /// The request, with the known facts about the server.
    ask: Ask,
    #[serde(flatten)]
    advice: Advice,
}

pub(crate) fn run(args: &Args, json: bool) -> anyhow::Result<ExitCode> {
    let setup = HostSetup::read();
    check_device(&setup, args.device.as_deref())?;
    let measured = args.run.as_deref().map(|run| measured::read(run, args.subject.as_deref())).transpose()?;
    let ask = ask(args, measured.as_ref())?;
    let mut advice = advise(&setup, &Topology::read(), &ask);
    advice.notes.extend(measured.iter().flat_map(Measured::notes));
    if json {
        print::json(&print::Versioned::new(&Advised { ask, advice }))?;
    } else if args.plain {
        print!("{}", commands(&advice)?);
    } else {
        print!("{}", words::output(&setup, &advice));
    }
    Ok(ExitCode::SUCCESS)
}

fn check_device(setup: &HostSetup, device: Option<&str>) -> anyhow::Result<()> {
    let Some(device) = device.filter(|device| setup.device(device).is_none()) else { return Ok(()) };
    let names: Vec<&str> = setup.devices.iter().map(|device| device.name.as_str()).collect();
    let hint = did_you_mean(nearest(device, &names));
    Err(bad_input(format!("no device is called `{device}`{hint} (known: {})", names.join(", "))))
}

/// The request of the flags. The subject's settings say how many workers it has and whether they share a socket.
fn ask(args: &Args, measured: Option<&Measured>) -> anyhow::Result<Ask> {
    let mut ask = Ask {
        device: args.device.clone(),
        workers: args.workers,
        rate_qps: args.rate,
        softirq_s_per_packet: measured.map(|measured| measured.softirq_s_per_packet),
        server_s_per_answer: measured.map(|measured| measured.server_s_per_answer),
        one_socket: args.one_socket,
    };
    let Some(words) = &args.subject else { return Ok(ask) };
    let configured = match subjects::named(words) {
        Ok(configured) => configured,
        // The run knows it under a name of its own.
        Err(_) if measured.is_some() => return Ok(ask),
        Err(error) => return Err(error),
    };
    let (definition, factors) = (&configured.definition, &configured.factors);
    let settings = definition.settings_among(factors.words());
    ask.one_socket |= definition.takes_workers() && definition.echo_sockets(&settings) == Definition::SHARED;
    ask.workers = ask.workers.or_else(|| factors.word(WORKERS)?.parse().ok());
    Ok(ask)
}

/// The commands that set the first layout and the rest, each under its reason.
fn commands(advice: &Advice) -> anyhow::Result<String> {
    let host = Real::host();
    let mut text = String::new();
    for piece in &advice.pieces {
        let _ = writeln!(text, "# {}", piece.reason);
        for (setting, value) in &piece.changes {
            let change = Change::read(setting, value)?;
            // A queue that is not there yet has no parts.
            let parts = host.parts(&change).unwrap_or_else(|_| vec![change.clone()]);
            text.extend(parts.iter().map(|part| plain::command(part) + "\n"));
            if matches!(change.setting, Setting::Channels { .. }) {
                text += "# Queues and interrupts may have other numbers now: ask for the commands again.\n";
            }
        }
    }
    if advice.pieces.is_empty() {
        text += "# The host is set as the advice has it.\n";
    }
    text.extend(words::pinned(advice).map(|line| format!("# {line}\n")));
    Ok(text)
}
