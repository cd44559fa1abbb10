//! Hosts that cannot be used, and settings that they cannot have: each is one clear sentence with the host's name and
//! the cause, in bounded time, and no host is left half-prepared.

use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kqps_observation::RunTrial;
use kqps_observation::run::Role;

use super::super::{Bench, kept_trials};
use super::host::LabHost;
use super::lab::Lab;
use super::leftovers::{self, Settings};
use super::study;

/// The longest time until a refusal: a host may take 20 s to answer.
const REFUSED_WITHIN: Duration = Duration::from_mins(1);

/// An address on the control network that nobody has.
const NOBODY: &str = "192.0.2.99";

/// The host that cannot be used.
const BAD: &str = "player-2";

/// A reason for which a host cannot be used, and the words that the message must have.
struct Case {
    what: &'static str,
    hosts: PathBuf,
    says: &'static [&'static str],
}

/// Tries every case.
pub(super) fn prove(bench: &Bench, lab: &Lab, file: &Path, before: &Settings) -> Result<()> {
    // Each is a run of its own, and most of its time is a wait.
    let cases = cases(bench, lab)?;
    let tried: Vec<Result<()>> = thread::scope(|scope| {
        let of = |case| scope.spawn(move || is_refused(bench, lab, file, case).with_context(|| case.what));
        let trying: Vec<_> = cases.iter().map(of).collect();
        trying.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    tried.into_iter().collect::<Result<()>>()?;
    leftovers::nowhere(lab, before, leftovers::AFTER_END)?;
    for case in &SETTINGS {
        is_not_set(bench, lab, case).with_context(|| case.what)?;
        leftovers::nowhere(lab, before, leftovers::AFTER_END)?;
    }
    Ok(())
}

fn is_refused(bench: &Bench, lab: &Lab, file: &Path, case: &Case) -> Result<()> {
    let out = lab.home.join(format!("refused-{}", case.what.replace(' ', "-")));
    let began = Instant::now();
    let (status, said) = study::ended(&mut study::command(bench, lab, file, &case.hosts, &out)?)?;
    let took = began.elapsed();
    ensure!(status.code().is_some_and(|code| !matches!(code, 0 | 3 | 101)), "it ended with {status}: {said}");
    ensure!(took < REFUSED_WITHIN, "it took {took:?}");
    let sentence = only_error(&said)?;
    for word in case.says {
        ensure!(sentence.contains(word), "the sentence does not say {word:?}: {sentence}");
    }
    eprintln!("{}: {:.1} s: {sentence}", case.what, took.as_secs_f64());
    Ok(())
}

/// The sentence of the one error that was printed.
fn only_error(said: &str) -> Result<&str> {
    let mut errors = said.lines().filter_map(|line| line.strip_prefix("kqps: "));
    let sentence = errors.next().with_context(|| format!("no error is printed: {said}"))?;
    ensure!(errors.next().is_none(), "more than one error is printed: {said}");
    Ok(sentence)
}

/// A setting that the server's host does not get, and why.
struct Unset {
    what: &'static str,
    setting: &'static str,
    /// Words before the agent's, which run there.
    by: &'static str,
    says: &'static [&'static str],
}

const SETTINGS: [Unset; 2] = [
    Unset {
        what: "a setting that the device does not have",
        setting: "\"host.rings.data0\" = \"512\"",
        by: "",
        says: &["server", "rings.data0"],
    },
    Unset {
        what: "not enough rights",
        setting: "\"host.rps.data0\" = \"0\"",
        // Root has no capability then. It may still write sysctls, and not which cores receive.
        by: " setpriv --inh-caps=-all --bounding-set=-all",
        says: &["server", "rps.data0", "permission denied"],
    },
];

/// A study of one start, with a setting that can be made and one that cannot.
const STUDY: &str = r#"
name = "settings"
title = "A setting that cannot be made"
question = "Is the other one taken back?"
repetitions = 1
load = { rates_qps = [1000], seconds = 0.3 }
fixed = { "host.sysctl.net.ipv4.udp_rmem_min" = "8192", SETTING }

[[experiment]]
name = "players"
title = "Players"
subjects = ["./counted.toml"]
[experiment.factors]
"hosts.players" = [1]
"#;

fn is_not_set(bench: &Bench, lab: &Lab, case: &Unset) -> Result<()> {
    let file = lab.home.join("settings.toml");
    fs::write(&file, STUDY.replace("SETTING", case.setting))?;
    let hosts = study::write_hosts(bench, lab, "settings-hosts.toml", &bench.kqps.program, |host| {
        let by = if host.name == lab.server().name { case.by } else { "" };
        format!("{}{by}", lab.ssh(&host.name))
    })?;
    let out = lab.home.join(format!("unset-{}", case.what.replace(' ', "-")));
    let (status, said) = study::ended(&mut study::command(bench, lab, &file, &hosts, &out)?)?;
    ensure!(status.code().is_some_and(|code| code != 101), "it ended with {status}: {said}");
    let run = kept_trials::survived(&out, None).with_context(|| said.clone())?;
    let of_subject = |one: &&RunTrial| run.cells[one.cell as usize].role == Role::Subject;
    let trials = || run.trials.iter().filter(of_subject);
    ensure!(trials().all(|one| one.measured().is_none()), "a trial was measured without the setting");
    let why =
        trials().find_map(RunTrial::failure).or_else(|| run.skipped.values().next().map(String::as_str));
    let why = why.with_context(|| format!("nothing says why: {said}"))?;
    ensure!(!why.contains('\n'), "the reason is not one sentence: {why}");
    for word in case.says {
        ensure!(why.contains(word), "the reason does not say {word:?}: {why}");
    }
    eprintln!("{}: {why}", case.what);
    Ok(())
}

fn cases(bench: &Bench, lab: &Lab) -> Result<Vec<Case>> {
    let kqps = bench.kqps.program.as_path();
    let by = |name: &str, kqps: &Path, reach: &dyn Fn(&LabHost) -> String| {
        study::write_hosts(bench, lab, name, kqps, reach)
    };
    let bad = |words: String| {
        move |host: &LabHost| if host.name == BAD { words.clone() } else { lab.ssh(&host.name) }
    };
    let config = lab.config.display();
    let wrong = lab.keys.client_of_wrong_keys(&lab.addresses())?;
    let stranger = lab.keys.client_of_stranger(&lab.addresses())?;
    let unreachable = format!("ssh -F {config} -oConnectTimeout=2 {NOBODY}");
    Ok(vec![
        Case {
            what: "a name that nobody knows",
            hosts: by("unknown.toml", kqps, &bad(format!("ssh -F {config} no-such-host.invalid")))?,
            says: &[BAD, "no host has the name"],
        },
        Case {
            what: "an address without a host",
            hosts: by("nobody.toml", kqps, &bad(unreachable))?,
            says: &[BAD, "cannot be reached", NOBODY],
        },
        Case {
            what: "a host key that is not the known one",
            hosts: by("wrong-key.toml", kqps, &bad(format!("ssh -F {} {BAD}", wrong.display())))?,
            says: &[BAD, "has another host key"],
        },
        Case {
            what: "a user's key that the host does not accept",
            hosts: by("stranger.toml", kqps, &bad(format!("ssh -F {} {BAD}", stranger.display())))?,
            says: &[BAD, "refuses the login"],
        },
        Case {
            what: "a program that is not there",
            hosts: by("no-kqps.toml", Path::new("/no/such/kqps"), &|host| lab.ssh(&host.name))?,
            says: &[BAD, "has no program `/no/such/kqps`"],
        },
        Case {
            what: "a program that is not kqps",
            hosts: by("not-kqps.toml", Path::new("/bin/false"), &|host| lab.ssh(&host.name))?,
            says: &[BAD, "did not answer"],
        },
        Case {
            what: "a way that does not exist",
            hosts: by("no-way.toml", kqps, &bad("no-such-program-anywhere".to_owned()))?,
            says: &[BAD, "cannot start `no-such-program-anywhere` here"],
        },
    ])
}
