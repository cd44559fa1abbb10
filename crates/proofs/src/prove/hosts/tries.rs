//! `kqps host try` finds a planted improvement and refuses a planted placebo. The planted server reads a sysctl at its
//! start, and works for longer on every query unless that has the better value; another sysctl does nothing.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use super::super::Bench;
use super::host::LabHost;

/// How many tries: half of them of each kind.
const TRIES: u32 = 20;

/// How long one may take.
const BUDGET: &str = "1m";

/// What `try` returns if a setting is better, and if not.
const BETTER: i32 = 0;
const NOT_BETTER: i32 = 3;

const IMPROVEMENT: &str = "sysctl.net.ipv4.udp_rmem_min=16384";
const PLACEBO: &str = "sysctl.net.ipv4.udp_wmem_min=16384";

/// `$0` is this file, `$1` the program, `$2` where to listen and `$3` the cores.
const SERVER: &str = r#"#!/bin/sh
work=3us
[ "$(cat /proc/sys/net/ipv4/udp_rmem_min)" -ge 16384 ] && work=0s
exec "$1" serve echo --listen "$2" --io mmsg --cpus "$3" --work "$work"
"#;

pub(super) fn prove(bench: &Bench, host: &LabHost) -> Result<()> {
    let server = bench.folder.path().canonicalize()?.join("planted.sh");
    fs::write(&server, SERVER)?;
    let words = format!("sh {} {} {{endpoint}} {{cpus}}", server.display(), bench.kqps.program.display());
    let before = host.settings()?;
    for number in 1..=TRIES {
        let (setting, wanted) = if number % 2 == 1 { (IMPROVEMENT, BETTER) } else { (PLACEBO, NOT_BETTER) };
        let mut command = host.command(&bench.kqps.program);
        command.args(["host", "try", setting, "--command", &words, "--budget", BUDGET]);
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
    eprintln!("{TRIES} of {TRIES} tries: an improvement is found, and a placebo refused");
    Ok(())
}
