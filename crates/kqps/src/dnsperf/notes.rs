//! Notes on the flags of dnsperf: what they measure otherwise than they seem to, what they do not do here, and what a
//! reader of the figures should know.

use kqps_observation::Trial;

use super::command::Command;

/// The notes on a run, each a sentence or two. `missed` is how many lines about single queries were not printed.
pub(super) fn notes(command: &Command, trial: &Trial, missed: u64) -> Vec<String> {
    let mut notes = vec![pace(command)];
    if command.mode.is_encrypted() {
        notes.push("certificates were not checked, as by dnsperf (`kqps load --insecure`).".into());
    }
    let refused = trial.response_rcodes.get("NOTAUTH");
    if let Some(refused) = refused.filter(|_| command.tsig.is_some()) {
        notes.push(format!(
            "{refused} replies were NOTAUTH: the server does not know the key of -y, or has another secret or clock."
        ));
    }
    if missed > 0 {
        notes.push(format!(
            "{missed} lines about single queries are left out above: standard output was slower than the queries."
        ));
    }
    notes
}

/// The note on what sets the rate, and on what no latency includes.
fn pace(command: &Command) -> String {
    if command.rate_qps.is_some() {
        return format!(
            "-Q with -q: while {} queries were outstanding, the next ones waited, and no latency includes that wait. \
             `kqps load -Q` sends on time whatever the server does.",
            command.outstanding_used()
        );
    }
    "without -Q the server sets the rate: a query waits for the reply to an earlier one, and no latency includes that \
     wait. `kqps find` searches for the highest rate that a server answers in time."
        .into()
}
