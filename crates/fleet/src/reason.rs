//! Why the program that reaches a host ended before the agent answered, from its exit status and its last lines. The
//! lines are those of OpenSSH, of shells, and of the tools that start a program elsewhere.

use std::io::{self, ErrorKind};
use std::process::ExitStatus;

use crate::command;
use crate::error::HostsError;
use crate::host::Host;

/// A shell's exit status for a program that cannot be executed, and for one that is not there (POSIX, "Exit Status for
/// Commands").
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// The exit status of a kqps that does not know the command.
const USAGE: i32 = 2;

/// Why the program that reaches a host could not be started here.
pub(crate) fn not_started(host: &Host, error: io::Error) -> HostsError {
    let (name, program) = (host.name.clone(), command::program(host).to_owned());
    if !host.reach.is_empty() {
        return HostsError::NotStarted { host: name, program, error };
    }
    let said = error.to_string();
    match error.kind() {
        ErrorKind::NotFound => HostsError::NoProgram { host: name, program, said },
        ErrorKind::PermissionDenied => HostsError::NotExecutable { host: name, program, said },
        _ => HostsError::NotStarted { host: name, program, error },
    }
}

/// Why the program that reaches a host ended. `said` are its last lines.
pub(crate) fn of_end(host: &Host, exit: Option<ExitStatus>, said: &[String]) -> HostsError {
    let line =
        |parts: &[&str]| said.iter().find(|line| parts.iter().all(|part| line.contains(part))).cloned();
    let (name, program) = (host.name.clone(), host.kqps.clone());
    if line(&["REMOTE HOST IDENTIFICATION HAS CHANGED"]).is_some() {
        return HostsError::WrongKey { host: name };
    }
    let unknown_key = line(&["host key is known for"]).or_else(|| line(&["Host key verification failed"]));
    if let Some(said) = unknown_key {
        return HostsError::UnknownKey { host: name, said };
    }
    if let Some(said) = line(&["Could not resolve hostname"]) {
        return HostsError::UnknownHost { host: name, said };
    }
    if let Some(said) = line(&["Permission denied ("]).or_else(|| line(&["Too many authentication failures"]))
    {
        return HostsError::Denied { host: name, said };
    }
    let unreachable = [
        ["ssh: connect to host", ""],
        ["Connection closed by", ""],
        ["Connection reset by", ""],
        ["Connection timed out", "banner"],
        ["kex_exchange_identification", ""],
        ["Timeout, server", "not responding"],
    ];
    if let Some(said) = unreachable.iter().find_map(|parts| line(parts)) {
        return HostsError::Unreachable { host: name, said };
    }
    let code = exit.and_then(|exit| exit.code());
    of_program(name, program, code, &line).unwrap_or_else(|name| {
        let ended = exit.map_or_else(|| "what reaches it is gone".to_owned(), |exit| exit.to_string());
        let last = said.last().map_or("it printed nothing", String::as_str);
        HostsError::NoAnswer { host: name, reason: format!("{ended}: {last}") }
    })
}

/// Why the program on the host did not work; the host's name if that is not known.
fn of_program(
    host: String,
    program: String,
    code: Option<i32>,
    line: &impl Fn(&[&str]) -> Option<String>,
) -> Result<HostsError, String> {
    // A program with its libraries missing also ends with the status of one that is not there.
    let libraries = [
        ["error while loading shared libraries", ""],
        ["version `", "not found"],
        ["required file not found", ""],
        ["cannot execute: ", "ld-"],
    ];
    if let Some(said) = libraries.iter().find_map(|parts| line(parts)) {
        return Ok(HostsError::NotExecutable { host, program, said });
    }
    if let Some(said) = line(&["xec format error"]).or_else(|| line(&["cannot execute binary file"])) {
        return Ok(HostsError::ForeignProgram { host, program, said });
    }
    let missing = [
        // kubectl and the container runtimes.
        ["executable file not found", ""],
        // ip(8) and srun(1).
        ["exec of", "No such file"],
        ["execve", "No such file"],
    ];
    let said = || line(&[&program]).or_else(|| line(&[])).unwrap_or_else(|| "it printed nothing".into());
    if let Some(said) = missing.iter().find_map(|parts| line(parts)) {
        return Ok(HostsError::NoProgram { host, program, said });
    }
    if let Some(said) = line(&["exec", "ermission denied"]) {
        return Ok(HostsError::NotExecutable { host, program, said });
    }
    match code {
        Some(NOT_FOUND) => Ok(HostsError::NoProgram { said: said(), host, program }),
        Some(NOT_EXECUTABLE) => Ok(HostsError::NotExecutable { said: said(), host, program }),
        Some(USAGE) => {
            match line(&["subcommand"]).or_else(|| line(&["`agent`"])).or_else(|| line(&["'agent'"])) {
                Some(said) => Ok(HostsError::NoAgent { host, program, said }),
                None => Err(host),
            }
        }
        _ => Err(host),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;
    use crate::host::Words;

    fn host(reach: &str) -> Host {
        let reach = shlex::split(reach).unwrap();
        Host::from_words(Words { name: "ns1", reach, data: "192.0.2.1", ..Words::default() }).unwrap()
    }

    fn reason(code: i32, said: &str) -> String {
        let said: Vec<String> = said.lines().map(str::to_owned).collect();
        of_end(&host("ssh ns1"), Some(ExitStatus::from_raw(code << 8)), &said).to_string()
    }

    #[test]
    fn what_ssh_says_becomes_one_sentence() {
        for (said, expected) in [
            (
                "ssh: Could not resolve hostname ns1: Name or service not known",
                "ns1: no host has the name that `reach` gives (ssh: Could not resolve hostname ns1: Name or service \
                 not known); check the hosts' file and ~/.ssh/config",
            ),
            (
                "ssh: connect to host ns1 port 22: Connection refused",
                "ns1 cannot be reached: ssh: connect to host ns1 port 22: Connection refused",
            ),
            (
                "kex_exchange_identification: read: Connection reset by peer\nConnection reset by 192.0.2.1 port 22",
                "ns1 cannot be reached: kex_exchange_identification: read: Connection reset by peer",
            ),
            (
                "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.",
                "ns1 has another host key than the one in known_hosts; if it was installed anew, remove the old key \
                 by `ssh-keygen -R`, otherwise another machine answers in its place",
            ),
            (
                "No ED25519 host key is known for ns1 and you have requested strict checking.\n\
                 Host key verification failed.",
                "ns1: its host key is not in known_hosts; connect once by `ssh` and check the key (No ED25519 host \
                 key is known for ns1 and you have requested strict checking.)",
            ),
            (
                "root@ns1: Permission denied (publickey).",
                "ns1 refuses the login, which must work without a password: root@ns1: Permission denied (publickey).",
            ),
        ] {
            assert_eq!(reason(255, said), expected);
        }
        assert_eq!(reason(255, "odd\nlast words"), "ns1 did not answer: exit status: 255: last words");
        assert_eq!(reason(1, ""), "ns1 did not answer: exit status: 1: it printed nothing");
    }

    #[test]
    fn a_program_that_does_not_work_is_named() {
        for (code, said, expected) in [
            (127, "bash: line 1: kqps: command not found", "ns1 has no program `kqps` (bash: line 1: kqps: "),
            (127, "Willkommen\nsh: 1: kqps: nicht gefunden", "ns1 has no program `kqps` (sh: 1: kqps: nicht"),
            (127, "", "ns1 has no program `kqps` (it printed nothing); install kqps there, set `kqps`"),
            (
                126,
                "sh: 1: kqps: Permission denied",
                "ns1 cannot execute `kqps`: sh: 1: kqps: Permission denied",
            ),
            (
                126,
                "bash: line 1: /opt/kqps: cannot execute binary file: Exec format error",
                "`kqps` on ns1 is built for another processor than that host's: bash: line 1: /opt/kqps:",
            ),
            (
                127,
                "kqps: error while loading shared libraries: libz.so.1: cannot open shared object file",
                "ns1 cannot execute `kqps`: kqps: error while loading shared libraries",
            ),
            (
                1,
                "kqps: /lib/libc.so.6: version `GLIBC_2.39' not found",
                "ns1 cannot execute `kqps`: kqps: /lib",
            ),
            (
                126,
                "OCI runtime exec failed: exec: \"kqps\": executable file not found in $PATH",
                "ns1 has no program `kqps` (OCI runtime",
            ),
            (255, "exec of \"kqps\" failed: No such file or directory", "ns1 has no program `kqps` (exec of"),
            (
                2,
                "slurmstepd: error: execve(): kqps: No such file or directory",
                "ns1 has no program `kqps` (slurmstepd",
            ),
            (
                13,
                "slurmstepd: error: execve(): kqps: Permission denied",
                "ns1 cannot execute `kqps`: slurmstepd: error",
            ),
            (
                2,
                "error: unrecognized subcommand 'agent'",
                "`kqps` on ns1 has no command `agent`: it is another program or an older kqps (error: unrecognized",
            ),
            (2, "error: no default pool", "ns1 did not answer: exit status: 2: error: no default pool"),
        ] {
            let found = reason(code, said);
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn a_program_that_cannot_be_started_here_is_named() {
        let failed = |reach: &str, kind: ErrorKind| not_started(&host(reach), kind.into()).to_string();
        assert!(failed("ssh ns1", ErrorKind::NotFound).starts_with("ns1: cannot start `ssh` here: "));
        assert!(failed("", ErrorKind::NotFound).starts_with("ns1 has no program `kqps` ("));
        assert!(failed("", ErrorKind::PermissionDenied).starts_with("ns1 cannot execute `kqps`: "));
        assert!(failed("", ErrorKind::OutOfMemory).starts_with("ns1: cannot start `kqps` here: "));
    }
}
