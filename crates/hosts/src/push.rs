//! Brings a build of kqps to a host where there may be none, by the POSIX shell there. The file appears whole or not at
//! all, and only if it is not there yet.

mod elf;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::HostsError;
use crate::host::Host;
use crate::remote::{Collects, Remote, Taken};
use crate::{command, identity, message, reason};
use elf::{ARCHES, arch_of};

/// The beginning of the lines by which the script answers.
const HEAD: &str = "kqps-push ";

/// The time within which the script must answer, and within which some bytes must pass while the program is sent.
const WITHIN: Duration = Duration::from_secs(20);

/// The time that the script may take to remove what it wrote.
const CLEAN_WITHIN: Duration = Duration::from_secs(2);

/// The bytes that are read at once, and the bytes that may wait to be written.
const PIECE: usize = 256 << 10;
const QUEUED_MOST: usize = 4 * PIECE;

/// The interval at which the queue is checked.
const LOOK: Duration = Duration::from_millis(5);

/// The most bytes of a line of the script.
const ANSWER_BYTES: usize = 64 << 10;

/// Brings `program`, a static build of kqps, to `~/.cache/kqps/HASH/kqps` on a host (below `$XDG_CACHE_HOME` if that is
/// set there), and returns the path there. Nothing is sent if it is there already. Refuses a host of another
/// architecture.
pub fn push(host: &Host, program: &Path) -> Result<String, HostsError> {
    let unreadable = |error| HostsError::Program { file: program.display().to_string(), error };
    let arch = arch_of(program).map_err(unreadable)?;
    let hash = identity::hash(program).map_err(unreadable)?;
    let mut file = File::open(program).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let remote = Remote::start(command::script(host, &script(&hash, bytes)), Answers::default(), None)
        .map_err(|error| reason::not_started(host, error))?;
    let answer = answer(host, &remote, Instant::now() + WITHIN)?;
    let machine = answer.machine.clone();
    if !ARCHES.iter().any(|(_, name, machines)| *name == arch && machines.contains(&machine.as_str())) {
        return Err(HostsError::OtherArch { host: host.name.clone(), theirs: machine, ours: arch.into() });
    }
    if answer.kind == Kind::Have {
        return Ok(answer.text);
    }
    send(host, &remote, &mut file).map_err(|failed| match failed {
        Failed::Here(error) => unreadable(error),
        Failed::There(error) => error,
    })?;
    remote.outbox().close();
    await_room(host, &remote, 1)?;
    self::answer(host, &remote, Instant::now() + WITHIN).map(|done| done.text)
}

/// The script. It makes the file under another name, checks its length, and renames it.
fn script(hash: &str, bytes: u64) -> String {
    format!(
        r#"umask 077
m=$(uname -m)
d="${{XDG_CACHE_HOME:-$HOME/.cache}}/kqps/{hash}"
f="$d/kqps"
if [ -x "$f" ] && [ "$(wc -c <"$f")" -eq {bytes} ]; then echo "{HEAD}have $m $f"; exit 0; fi
mkdir -p "$d" || {{ echo "{HEAD}failed $m the folder $d cannot be made"; exit 1; }}
p="$d/.part-$$"
trap 'rm -f "$p"' EXIT
trap 'exit 1' HUP INT TERM
echo "{HEAD}want $m $f"
cat >"$p" || {{ echo "{HEAD}failed $m $p cannot be written"; exit 1; }}
[ "$(wc -c <"$p")" -eq {bytes} ] || {{ echo "{HEAD}failed $m the file did not arrive whole"; exit 1; }}
chmod 700 "$p" && mv -f "$p" "$f" && echo "{HEAD}done $m $f"
"#
    )
}

/// What the script says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Have,
    Want,
    Done,
    Failed,
}

/// A line of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    kind: Kind,
    /// The architecture, as `uname -m` names it.
    machine: String,
    /// The path there, or what failed.
    text: String,
}

impl Answer {
    fn of(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix(HEAD)?.splitn(3, ' ');
        let kind = match words.next()? {
            "have" => Kind::Have,
            "want" => Kind::Want,
            "done" => Kind::Done,
            "failed" => Kind::Failed,
            _ => return None,
        };
        Some(Self { kind, machine: words.next()?.into(), text: words.next()?.into() })
    }
}

/// The lines of the script that came.
#[derive(Debug, Default)]
struct Answers(Vec<Answer>);

impl Collects for Answers {
    fn take(&mut self, line: &[u8], _: u64) -> Result<Taken, String> {
        match std::str::from_utf8(line).ok().and_then(Answer::of) {
            Some(answer) => self.0.push(answer),
            None if line.starts_with(message::HELLO) => {
                return Err("an agent's hello, so authorized_keys forces that command".into());
            }
            None => return Ok(Taken::Noise),
        }
        Ok(Taken::Message)
    }

    fn line_most(&self) -> usize {
        ANSWER_BYTES
    }
}

/// The next line of the script.
fn answer(host: &Host, remote: &Remote<Answers>, until: Instant) -> Result<Answer, HostsError> {
    let next = remote.wait_for(until, |known| {
        let answers = &mut known.collected.0;
        if answers.is_empty() { known.is_over.then_some(None) } else { Some(Some(answers.remove(0))) }
    });
    let failed = |reason| HostsError::NotPushed { host: host.name.clone(), reason };
    match next {
        Some(Some(Answer { kind: Kind::Failed, text, .. })) => {
            // It still removes what it wrote.
            remote.wait_for(Instant::now() + CLEAN_WITHIN, |known| known.is_over.then_some(()));
            let said = remote.last_words();
            Err(failed(said.last().map_or(text.clone(), |last| format!("{text}: {last}"))))
        }
        Some(Some(answer)) => Ok(answer),
        None => Err(failed(format!("its shell did not answer within {} s", WITHIN.as_secs()))),
        Some(None) => {
            let said = remote.last_words();
            let (exit, fault) = remote.look(|known| (known.exit, known.fault.take()));
            if let Some(fault) = fault {
                return Err(failed(format!("it sent {fault}")));
            }
            // Here the program is the shell, and its status is that of the script.
            Err(match reason::of_end(host, exit, &said) {
                HostsError::NoAnswer { reason, .. }
                | HostsError::NoProgram { said: reason, .. }
                | HostsError::NotExecutable { said: reason, .. }
                | HostsError::NoAgent { said: reason, .. } => failed(reason),
                other => other,
            })
        }
    }
}

/// Why the program is not sent: because of its file here, or of the host.
enum Failed {
    Here(io::Error),
    There(HostsError),
}

/// Sends the file, of which little waits in memory.
fn send(host: &Host, remote: &Remote<Answers>, file: &mut File) -> Result<(), Failed> {
    loop {
        let mut piece = Vec::new();
        let count = file.by_ref().take(PIECE as u64).read_to_end(&mut piece).map_err(Failed::Here)?;
        if count == 0 {
            return Ok(());
        }
        if remote.send(piece).is_err() {
            // The script ended, and its last line says why.
            return match answer(host, remote, Instant::now() + WITHIN) {
                Err(error) => Err(Failed::There(error)),
                Ok(_) => Ok(()),
            };
        }
        await_room(host, remote, QUEUED_MOST).map_err(Failed::There)?;
    }
}

/// Waits until fewer than `most` bytes wait to be written, or the script takes no more. Fails if no byte is written for
/// too long.
fn await_room(host: &Host, remote: &Remote<Answers>, most: usize) -> Result<(), HostsError> {
    let mut least = usize::MAX;
    let mut until = Instant::now() + WITHIN;
    loop {
        let queued = remote.outbox().queued();
        if queued < most || remote.outbox().is_broken() {
            return Ok(());
        }
        if queued < least {
            least = queued;
            until = Instant::now() + WITHIN;
        }
        if Instant::now() >= until {
            let reason = format!("it took nothing for {} s", WITHIN.as_secs());
            return Err(HostsError::NotPushed { host: host.name.clone(), reason });
        }
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::host::Words;

    /// A host that is this one, with a home of its own, reached by a shell.
    fn host(home: &Path, more: &str) -> Host {
        let script = format!("unset XDG_CACHE_HOME; export HOME='{}'; {more} exec \"$@\"", home.display());
        let reach = ["sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
        Host::of(Words { name: "ns1", reach, data: "192.0.2.1", ..Words::default() }).unwrap()
    }

    /// A file that begins as this test's program does, and is longer than what waits in memory.
    fn program(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("program");
        let mut bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
        bytes.truncate(3 * QUEUED_MOST + 12_345);
        fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn a_program_is_brought_once_and_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path());
        let host = host(folder.path(), "");
        let there = push(&host, &program).unwrap();
        let hash = identity::hash(&program).unwrap();
        let expected = folder.path().join(".cache/kqps").join(&hash).join("kqps");
        assert_eq!(Path::new(&there), expected);
        assert_eq!(fs::read(&expected).unwrap(), fs::read(&program).unwrap());
        let facts = fs::metadata(&expected).unwrap();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&facts.permissions()) & 0o777, 0o700);
        assert_eq!(push(&host, &program).unwrap(), there);
        let again = fs::metadata(&expected).unwrap();
        assert_eq!(facts.modified().unwrap(), again.modified().unwrap());
        // One that was cut short is brought anew, and nothing else is left.
        File::options().write(true).open(&expected).unwrap().set_len(10).unwrap();
        push(&host, &program).unwrap();
        assert_eq!(identity::hash(&expected).unwrap(), hash);
        assert_eq!(fs::read_dir(expected.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn what_hinders_it_is_named_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path());
        fs::write(folder.path().join(".cache"), "in the way").unwrap();
        let error = push(&host(folder.path(), ""), &program).unwrap_err().to_string();
        assert!(error.starts_with("cannot bring kqps to ns1: the folder "), "{error}");
        fs::remove_file(folder.path().join(".cache")).unwrap();

        let error = push(&host(folder.path(), "ulimit -f 1;"), &program).unwrap_err().to_string();
        assert!(error.starts_with("cannot bring kqps to ns1: "), "{error}");
        let made = folder.path().join(".cache/kqps").join(identity::hash(&program).unwrap());
        assert_eq!(fs::read_dir(made).unwrap().count(), 0);

        let error = push(&host(folder.path(), "echo away >&2; exit 5;"), &program).unwrap_err().to_string();
        assert_eq!(error, "cannot bring kqps to ns1: exit status: 5: away");

        let forced = r#"echo '{"hello":{}}'; exec sleep 60;"#;
        let error = push(&host(folder.path(), forced), &program).unwrap_err().to_string();
        assert!(
            error.ends_with("it sent an agent's hello, so authorized_keys forces that command"),
            "{error}"
        );
    }

    #[test]
    fn another_architecture_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let mut head = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x02\x01";
        fs::write(&path, head).unwrap();
        assert_eq!(arch_of(&path).unwrap(), "loongarch64");
        let error = push(&host(folder.path(), ""), &path).unwrap_err().to_string();
        assert!(
            error.ends_with(" and this kqps loongarch64; all hosts of a run need the same build"),
            "{error}"
        );
        head[18] = 0xff;
        fs::write(&path, head).unwrap();
        assert!(arch_of(&path).unwrap_err().to_string().ends_with("that kqps does not know"));
        fs::write(&path, "#!/bin/sh\nexit 0 # long enough").unwrap();
        assert_eq!(arch_of(&path).unwrap_err().to_string(), "it is no program (ELF)");
        fs::write(&path, "short").unwrap();
        assert_eq!(arch_of(&path).unwrap_err().to_string(), "it is no program");
        let error = push(&host(folder.path(), ""), &folder.path().join("none")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the program "), "{error}");
    }

    #[test]
    fn answers_are_found_among_noise() {
        let answer = Answer::of("kqps-push want x86_64 /home/a b/kqps").unwrap();
        assert_eq!((answer.kind, answer.machine.as_str()), (Kind::Want, "x86_64"));
        assert_eq!(answer.text, "/home/a b/kqps");
        for line in ["", "Welcome", "kqps-push", "kqps-push other x y", "kqps-push want x86_64"] {
            assert_eq!(Answer::of(line), None);
        }
    }
}
