//! The subject's process: named by the user, or found by the socket that receives the queries.

use std::net::SocketAddr;
use std::str::FromStr;

use kqps_host::watch::{SUBJECT_PROCESS, SubjectWatched};
use kqps_observation::{SubjectFacts, Trial, cpu_list};

use crate::exit::bad_input;
use kqps_observation::trial::Transport;

/// A value of `--subject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The process that owns the target's socket, if kqps can find it.
    Auto,
    None,
    Pid(u32),
}

impl FromStr for Choice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            _ => match text.parse() {
                Ok(pid @ 1..) => Ok(Self::Pid(pid)),
                _ => Err("expected auto, none, or the number of a process, such as that of `pgrep -o nsd`"),
            },
        }
    }
}

/// The subject of the user's choice, for a player that sends to `targets` over `transport`. A given process that does
/// not exist is bad usage. If kqps finds no process by itself, the reason is in `unknown`.
pub(super) fn chosen(
    choice: Choice,
    targets: &[SocketAddr],
    transport: Transport,
) -> anyhow::Result<SubjectWatched> {
    match choice {
        Choice::None => Ok(SubjectWatched::of_processes(Vec::new(), targets[0].ip())),
        Choice::Pid(pid) => {
            check(pid)?;
            Ok(SubjectWatched::of_processes(vec![pid], targets[0].ip()))
        }
        Choice::Auto => Ok(SubjectWatched::found(targets, transport)),
    }
}

/// An error if the given process does not exist. Prints a note if it is one worker of a larger server, with
/// the process that has all workers.
fn check(pid: u32) -> anyhow::Result<()> {
    if !kqps_host::lives(pid) {
        return Err(bad_input(format!("--subject {pid}: there is no process {pid}")));
    }
    if let Some(parent) = kqps_host::parent_of_same_program(pid) {
        eprintln!(
            "kqps: process {pid} is a child of process {parent}, which runs the same program: to watch the \
             whole server, use --subject {parent}"
        );
    }
    Ok(())
}

/// The watched process, or why kqps watched none; `None` if the user asked for none.
pub(crate) fn watched(trial: &Trial) -> Option<String> {
    match &trial.subject {
        Some(subject) => Some(shown(subject)),
        None => trial.hosts.first.unreadable.get(SUBJECT_PROCESS).map(|why| format!("not watched: {why}")),
    }
}

/// `nsd (pid 123 and 2 children), on cores 2,3`
fn shown(subject: &SubjectFacts) -> String {
    let name = if subject.program.is_empty() { "process" } else { &subject.program };
    let pids: Vec<String> =
        std::iter::once(&subject.pid).chain(&subject.other_pids).map(u32::to_string).collect();
    let word = if pids.len() == 1 { "pid" } else { "pids" };
    let children = (subject.processes as usize).saturating_sub(pids.len());
    let children = match children {
        0 => String::new(),
        1 => " and 1 child".into(),
        many => format!(" and {many} children"),
    };
    let cores = match &subject.cpus[..] {
        [] => String::new(),
        [one] => format!(", on core {one}"),
        many => format!(", on cores {}", cpu_list::write(many)),
    };
    format!("{name} ({word} {}{children}){cores}", pids.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_a_word_or_a_number() {
        assert_eq!("auto".parse(), Ok(Choice::Auto));
        assert_eq!("none".parse(), Ok(Choice::None));
        assert_eq!("123".parse(), Ok(Choice::Pid(123)));
        for bad in ["", "0", "-1", "nsd", "4294967296", "1,2"] {
            assert!(bad.parse::<Choice>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_subject_is_named_with_its_processes_and_cores() {
        let subject =
            SubjectFacts { pid: 123, program: "nsd".into(), processes: 3, ..SubjectFacts::default() };
        assert_eq!(shown(&subject), "nsd (pid 123 and 2 children)");
        let subject = SubjectFacts { processes: 1, cpus: vec![2, 3], ..subject };
        assert_eq!(shown(&subject), "nsd (pid 123), on cores 2,3");
        let subject = SubjectFacts { processes: 3, cpus: vec![1], other_pids: vec![130], ..subject };
        assert_eq!(shown(&subject), "nsd (pids 123, 130 and 1 child), on core 1");
        // A process that has ended has no processes left.
        let subject = SubjectFacts { pid: 7, ..SubjectFacts::default() };
        assert_eq!(shown(&subject), "process (pid 7)");
    }
}
