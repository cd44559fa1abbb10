//! `kqps host try` finds a planted improvement and refuses a planted placebo. The planted server reads a sysctl at its
//! start, and works for longer on every query unless that has the better value; another sysctl does nothing.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use super::super::Bench;
use super::lab::Lab;
use super::subject::planted;

/// Room for the run's folders in a home.
const DISK: &str = "64m";

/// How many tries of each kind in the small and in the whole form, and the extent of one.
const TRIES: (u32, u32) = (1, 20);
const EXTENT: [&str; 4] = ["--blocks", "6", "--duration", "600ms"];

/// The status of `try` if a setting is better, and if not.
const BETTER: i32 = 0;
const NOT_BETTER: i32 = 3;

const IMPROVEMENT: &str = "sysctl.net.ipv4.udp_rmem_min=16384";
const PLACEBO: &str = "sysctl.net.ipv4.udp_wmem_min=16384";

/// The server. `$1` is the program, `$2` where to listen and `$3` the cores.
const SERVER: &str = r#"#!/bin/sh
work=3us
[ "$(cat /proc/sys/net/ipv4/udp_rmem_min)" -ge 16384 ] && work=0s
exec "$1" serve echo --listen "$2" --io mmsg --cpus "$3" --work "$work"
"#;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let lab = Lab::new(bench, DISK)?;
    let host = lab.server();
    let folder = bench.folder.path().canonicalize()?;
    let (server, subject) = (folder.join("planted.sh"), folder.join("planted.toml"));
    fs::write(&server, SERVER)?;
    let command = ["sh", &server.display().to_string(), "{kqps}", "{endpoint}", "{cpus}"];
    fs::write(&subject, planted("planted", "mmsg", &command))?;
    // The server is at the end of a veth pair, in a network of its own with settings of its own.
    let subject = format!("{} path=veth", subject.display());
    let before = host.settings()?;
    let tries = 2 * bench.choose(TRIES.0, TRIES.1);
    for number in 1..=tries {
        let (setting, wanted) = if number % 2 == 1 { (IMPROVEMENT, BETTER) } else { (PLACEBO, NOT_BETTER) };
        let mut command = host.command(&bench.kqps.program);
        command.args(["host", "try", setting, "--subject", &subject, "--seed", &number.to_string()]);
        command.args(EXTENT).arg("--out").arg(folder.join(format!("try-{number}")));
        let output = command.output().context("cannot start kqps")?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.code() == Some(wanted),
            "try {number} of {setting} ended with {} instead of {wanted}: {said}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        ensure!(host.settings()? == before, "try {number} left a setting behind");
        eprintln!("try {number}: {setting}: {}", said.lines().next().unwrap_or_default());
    }
    eprintln!("{tries} of {tries} tries over veth: an improvement is found, and a placebo refused");
    Ok(())
}
