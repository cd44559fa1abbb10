//! Events: each begins and is done when the record says so, as the answers themselves show. A reload is done when another
//! serial is answered, a server that is stopped is silent for that time, and a command that fails ends no load.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kqps_observation::{EventFacts, Trial};

use super::queries;
use super::serials::{Answered, ask_on, changed_ns, longest_silence, write_zone};
use crate::prove::Bench;
use crate::prove::patience::{ATTEMPTS, until_proved};

/// The greatest difference of a time in the record from the time that the answers show. Other programs may disturb the small
/// form.
const WITHIN: Duration = Duration::from_millis(20);
const SMALL_WITHIN: Duration = Duration::from_millis(100);

/// How long the server stands still.
const STILL: Duration = Duration::from_millis(300);

/// The serials of the zone before and after its reload.
const SERIALS: (u32, u32) = (1, 2);

/// The command that fails.
const FAILS: &str = "sh -c 'echo broken >&2; exit 7'";

/// Moments of the record and of the asker, which differ.
#[derive(Debug, Default)]
struct Off {
    /// From the first answer with the new serial to `done` of the reload, seconds.
    done_s: f64,
    /// From `begun` of the standstill to the asker's last answer before it, seconds.
    silent_at_s: f64,
    /// The standstill as the asker and the record saw it, less its time, seconds.
    silent_s: [f64; 2],
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let (mut done_most_s, mut reload_most_s) = (0.0_f64, 0.0_f64);
    for _ in 0..bench.choose(1, 20) {
        let (off, reload_s) = until_proved(ATTEMPTS, |_| {
            let (trial, answered) = played(bench)?;
            compare(bench, &trial, &answered)
        })?;
        eprintln!("a reload took {reload_s:.3} s; off by {off:?}");
        (done_most_s, reload_most_s) = (done_most_s.max(off.done_s.abs()), reload_most_s.max(reload_s));
    }
    eprintln!("reloads of up to {reload_most_s:.3} s are done within {:.1} ms", 1000.0 * done_most_s);
    Ok(())
}

/// The rate of the good clients, how long they ask, and when the server is stopped, milliseconds.
fn load(bench: &Bench) -> (u64, u64, u64) {
    bench.choose((500, 2_500, 1_500), (2_000, 8_000, 6_000))
}

/// Plays a load with all events at a server, and asks it meanwhile.
fn played(bench: &Bench) -> Result<(Trial, Vec<Answered>)> {
    let (rate, lasts_ms, still_at_ms) = load(bench);
    let names = bench.choose(1_000, 50_000);
    let path = |name: &str| bench.folder.path().join(name);
    let (zone, next, scenario) = (path("example.zone"), path("next.zone"), path("events.toml"));
    write_zone(&zone, SERIALS.0, names)?;
    write_zone(&next, SERIALS.1, names)?;
    let (server, address) = bench.kqps.auth(&zone, "mmsg")?;
    let text = format!(
        "[[event]]\nat = \"200ms\"\ncommand = [\"mv\", \"{}\", \"{}\"]\n\
         [[event]]\nat = \"400ms\"\ndo = \"reload\"\nsignal = \"HUP\"\n\
         [[event]]\nat = \"600ms\"\ncommand = [\"sh\", \"-c\", \"echo broken >&2; exit 7\"]\n\
         [[event]]\nat = \"{still_at_ms}ms\"\ndo = \"stop\"\nfor = \"{}ms\"\n",
        next.display(),
        zone.display(),
        STILL.as_millis()
    );
    fs::write(&scenario, text)?;
    let (pid, rate, lasts) = (server.pid().to_string(), rate.to_string(), format!("{lasts_ms}ms"));
    let scenario = scenario.to_str().context("a path in UTF-8")?;
    let flags = ["-Q", &rate, "-l", &lasts, "-T", "1", "-t", "2s", "--lag", "1m"];
    let flags = [&flags[..], &["--subject-pid", &pid, "--scenario", scenario]].concat();
    let asker = ask_on(address)?;
    let trial = bench.kqps.trial(address, &queries(bench)?, &flags)?;
    Ok((trial, asker.stop()?))
}

/// Compares the record with the answers. Times that differ may be the host's.
fn compare(bench: &Bench, trial: &Trial, answered: &[Answered]) -> Result<Result<(Off, f64), String>> {
    let [moved, reload, failed, still] = &trial.events[..] else { bail!("{:?}", trial.events) };
    let (rate, lasts_ms, _) = load(bench);
    let accounts = &trial.accounts;
    ensure!(accounts.intended == rate * lasts_ms / 1000, "the load did not go on: {accounts:?}");
    ensure!(failed.name == FAILS && failed.done_s.is_none(), "{failed:?}");
    ensure!(failed.failure.as_deref() == Some("it ended with status 7: broken"), "{failed:?}");
    for event in [moved, reload, still] {
        ensure!(event.failure.is_none(), "{event:?}");
    }
    let since = |at_ns: u64| (at_ns as f64 - trial.started_monotonic_ns as f64) / 1e9;
    let changed_s = since(changed_ns(answered, SERIALS)?);
    let Some(reload_s) = times(reload)? else { return Ok(Err("the load ended before the reload".into())) };
    let Some([still_s, goes_on_s]) = times(still)? else { bail!("the standstill had no end: {still:?}") };
    let Some([_, moved_s]) = times(moved)? else { bail!("the file was not moved: {moved:?}") };
    let [reload_s, done_s] = reload_s;
    // No new serial can be answered before the event began.
    ensure!(moved_s <= reload_s && reload_s <= changed_s, "new at {changed_s} s: {moved:?}, {reload:?}");
    let (silent_at_ns, silent_ns) = longest_silence(answered).context("the server answered nothing")?;
    let Some(silence) = trial.silences.first() else { return Ok(Err("the record has no silence".into())) };
    let off = Off {
        done_s: done_s - changed_s,
        silent_at_s: since(silent_at_ns) - still_s,
        silent_s: [silent_ns as f64 / 1e9, silence.seconds].map(|silent_s| silent_s - STILL.as_secs_f64()),
    };
    let within_s = bench.choose(SMALL_WITHIN, WITHIN).as_secs_f64();
    let most = |times: &[f64]| times.iter().all(|time| time.abs() <= within_s);
    let begun = [reload, failed, still].map(|event| event.begun_s.unwrap_or(f64::NAN) - event.due_s);
    let stood = goes_on_s - still_s - STILL.as_secs_f64();
    let silent_at = silence.at_s - still_s;
    let all = [off.done_s, off.silent_at_s, off.silent_s[0], off.silent_s[1], stood, silent_at];
    if !most(&all) || !most(&begun) || accounts.correct != accounts.intended {
        return Ok(Err(format!("{off:?}; begun {begun:?} s late; {still:?}; {silence:?}; {accounts:?}")));
    }
    Ok(Ok((off, done_s - reload_s)))
}

/// When an event began and was done; `None` if its end was not seen.
fn times(event: &EventFacts) -> Result<Option<[f64; 2]>> {
    let begun_s = event.begun_s.with_context(|| format!("it did not begin: {event:?}"))?;
    ensure!(event.due_s <= begun_s && event.done_s.is_none_or(|done_s| done_s >= begun_s), "{event:?}");
    Ok(event.done_s.map(|done_s| [begun_s, done_s]))
}
