//! Hosts that cannot be used: each is one clear sentence with the host's name, in bounded time, and no host is left
//! half-prepared.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::super::Bench;
use super::host::LabHost;
use super::lab::Lab;
use super::left::{self, Settings};
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
    let cases = cases(bench, lab)?;
    for case in &cases {
        let out = lab.home.join(format!("refused-{}", case.what.replace(' ', "-")));
        let mut command = study::bounded(lab, &bench.kqps.program, &study::words(file, &case.hosts, &out))?;
        let began = Instant::now();
        let output = command.stdin(std::process::Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        ensure!(
            code.is_some_and(|code| !matches!(code, 0 | 3 | 101 | 124 | 137)),
            "{}: it ended with {}: {}",
            case.what,
            output.status,
            said.trim()
        );
        ensure!(!said.contains("panicked"), "{}: {said}", case.what);
        for word in case.says {
            ensure!(said.contains(word), "{}: the message does not say {word:?}: {}", case.what, said.trim());
        }
        ensure!(began.elapsed() < REFUSED_WITHIN, "{}: it took {:?}", case.what, began.elapsed());
        left::nowhere(lab, before, left::AFTER_END)?;
        let sentence = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        eprintln!("{}: {:.1} s: {}", case.what, began.elapsed().as_secs_f64(), sentence.trim());
    }
    Ok(())
}

fn cases(bench: &Bench, lab: &Lab) -> Result<Vec<Case>> {
    let kqps = bench.kqps.program.display().to_string();
    let by = |name: &str, kqps: &str, reach: &dyn Fn(&LabHost) -> String| {
        study::write_hosts(bench, lab, name, kqps, reach)
    };
    let bad = |words: String| {
        move |host: &LabHost| if host.name == BAD { words.clone() } else { lab.ssh(&host.name) }
    };
    let config = lab.config.display();
    let wrong = lab.keys.client_of_wrong_keys(&lab.addresses())?;
    let unreachable = format!("ssh -F {config} -oConnectTimeout=3 {NOBODY}");
    Ok(vec![
        Case {
            what: "a name that nobody knows",
            hosts: by("unknown.toml", &kqps, &bad(format!("ssh -F {config} no-such-host.invalid")))?,
            says: &[BAD],
        },
        Case {
            what: "an address without a host",
            hosts: by("nobody.toml", &kqps, &bad(unreachable))?,
            says: &[BAD],
        },
        Case {
            what: "a host key that is not the known one",
            hosts: by("wrong-key.toml", &kqps, &bad(format!("ssh -F {} {BAD}", wrong.display())))?,
            says: &[BAD],
        },
        Case {
            what: "a program that is not there",
            hosts: by("no-kqps.toml", "/no/such/kqps", &|host| lab.ssh(&host.name))?,
            says: &["/no/such/kqps"],
        },
        Case {
            what: "a program that is not kqps",
            hosts: by("not-kqps.toml", "/bin/false", &|host| lab.ssh(&host.name))?,
            says: &[],
        },
        Case {
            what: "a way that does not exist",
            hosts: by("no-way.toml", &kqps, &bad("no-such-program-anywhere".to_owned()))?,
            says: &[BAD, "no-such-program-anywhere"],
        },
    ])
}
