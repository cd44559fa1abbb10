//! Reloads of real servers under load: kqps counts as lost what a relay between player and server saw without a reply, to
//! the last query.

use std::fs;

use anyhow::{Context as _, Result, bail, ensure};
use kqps_faults::relay::{Counts, Relay, RelaySettings};
use kqps_observation::Trial;
use kqps_skips::Capability;
use kqps_testbed::event::Control;
use kqps_testbed::subject::{Definition, StartError, Subject, Zone, builtin};

use super::queries;
use super::serials::{ORIGIN, serial_now, write_zone};
use crate::prove::Bench;
use crate::prove::patience::{ATTEMPTS, Patience, until_proved};

/// The servers, by the names of their files under `subjects`.
const SERVERS: [&str; 5] = ["nsd", "knot", "bind", "pdns", "kqps-auth"];

/// Sockets of the player. So many do not use up their IDs, by which the relay knows queries apart.
const SOCKETS: &str = "8";

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let known = builtin::servers();
    let mut tried = 0;
    for name in SERVERS {
        let definition = known.iter().find(|definition| definition.name == name);
        let definition = definition.with_context(|| format!("there is no subject {name}"))?;
        tried += u64::from(of_server(bench, definition).with_context(|| definition.title.clone())?);
    }
    ensure!(tried > 0, "no server was reloaded");
    Ok(())
}

/// Reloads a server under load. Returns whether it is installed.
fn of_server(bench: &Bench, definition: &Definition) -> Result<bool> {
    let mut attempt = 0;
    until_proved(ATTEMPTS, |patience| {
        attempt += 1;
        let folder = format!("{}-{attempt}", definition.name);
        let zone = bench.folder.path().join(format!("{folder}.zone"));
        write_zone(&zone, 1, names(bench))?;
        let zones = [Zone::new(ORIGIN, &zone)];
        match bench.subject(definition, &folder, &zones, "mmsg", &[bench.kqps.subject_cpu]) {
            Ok(subject) => {
                let outcome = reloaded(bench, (definition, &subject, &folder), patience);
                subject.stop();
                Ok(outcome?.map(|()| true))
            }
            Err(missing @ StartError::Missing { .. }) => {
                let what = format!("a reload of {}: {missing}", definition.title);
                bench.leave_out(Capability::Programs, what)?;
                Ok(Ok(false))
            }
            Err(error) => {
                let output = error.output().join("\n");
                Err(error).with_context(|| format!("it does not start\n{output}"))
            }
        }
    })
}

/// The names of the zone.
fn names(bench: &Bench) -> u32 {
    bench.choose(1_000, 200_000)
}

/// Plays a load through a relay, and reloads the server meanwhile.
fn reloaded(
    bench: &Bench,
    (definition, subject, folder): (&Definition, &Subject, &str),
    patience: Patience,
) -> Result<Result<(), String>> {
    let path = |end: &str| bench.folder.path().join(format!("{folder}.{end}"));
    let (zone, next, scenario) = (path("zone"), path("next"), path("toml"));
    write_zone(&next, 2, names(bench))?;
    let how = way(bench, definition, subject, folder)?;
    // Servers look at the time of the file: it must be newer than their start.
    let script = format!("touch '{0}' && mv '{0}' '{1}' && {how}", next.display(), zone.display());
    let at = bench.choose("500ms", "2s");
    fs::write(&scenario, format!("[[event]]\nat = \"{at}\"\ncommand = [\"sh\", \"-c\", {script:?}]\n"))?;
    let settings = RelaySettings {
        subject: Some(subject.address()),
        cpu: Some(bench.kqps.player_cpu),
        ..RelaySettings::default()
    };
    let relay = Relay::start(settings)?;
    let (rate, lasts) = bench.choose(("2k", "2s"), ("20k", "12s"));
    let waits = patience.flags();
    let scenario = scenario.to_str().context("a path in UTF-8")?;
    let mut flags = vec!["-Q", rate, "-l", lasts, "-T", "1", "-c", SOCKETS];
    flags.extend(["--subject", "none", "--scenario", scenario]);
    flags.extend(waits.iter().map(String::as_str));
    let trial = bench.kqps.trial(relay.address(), &queries(bench)?, &flags)?;
    // This query does not pass the relay, which must count the player's queries alone.
    let serial = serial_now(subject.address())?;
    let counts = relay.stop()?;
    let [event] = &trial.events[..] else { bail!("{:?}", trial.events) };
    ensure!(event.failure.is_none() && event.done_s.is_some(), "{event:?}");
    if serial != 2 {
        return Ok(Err(format!("the load ended before the reload: serial {serial}")));
    }
    if let Some(doubt) = doubt(&trial, &counts) {
        return Ok(Err(doubt));
    }
    let (accounts, relayed) = (&trial.accounts, counts.expected());
    let (lost, sent) = (accounts.lost, accounts.sent);
    ensure!(
        (sent, lost, lost) == (counts.queries, relayed.lost, counts.unanswered),
        "kqps sent {sent} queries and lost {lost}; {} passed the relay, and {} had no reply: {counts:?}",
        counts.queries,
        relayed.lost
    );
    eprintln!(
        "{}: of {sent} queries {lost} were lost, and the relay saw no reply to as many",
        definition.title
    );
    Ok(Ok(()))
}

/// The words of a shell that ask the server to read its zone again.
fn way(bench: &Bench, definition: &Definition, subject: &Subject, folder: &str) -> Result<String> {
    let reload = definition.control.get(&Control::Reload).context("it cannot reload")?;
    if reload.signal.is_some() {
        return Ok(format!("kill -HUP {}", subject.pid()));
    }
    let dir = bench.folder.path().join(folder).display().to_string();
    let fill = |word: &String| word.replace("{dir}", &dir).replace("{origin}", ORIGIN);
    let words: Vec<String> = reload.command.iter().map(|word| format!("'{}'", fill(word))).collect();
    Ok(format!("cd '{dir}' && {}", words.join(" ")))
}

/// Why the host may have moved the counts: packets were lost beside the server, or a reply came late.
fn doubt(trial: &Trial, counts: &Counts) -> Option<String> {
    let (accounts, drops) = (&trial.accounts, trial.players.first.socket_drops);
    let held_up = accounts.late + accounts.unsent + accounts.send_failed;
    if let Some(doubt) = counts.doubt() {
        Some(doubt)
    } else if drops > 0 || counts.repeated_ids > 0 {
        Some(format!(
            "{drops} replies were dropped by the player's sockets, {} IDs repeated",
            counts.repeated_ids
        ))
    } else {
        (held_up > 0).then(|| format!("late, unsent or not sent: {accounts:?}"))
    }
}
