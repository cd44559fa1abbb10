//! Brings a build of kqps to a host where there may be none, by the POSIX shell there. The file appears whole or not at
//! all, and only if it is not there yet. A file that is there runs only if its SHA-256 is that of the build, and if it
//! lies in folders that no other user of the host may write.

mod elf;
mod script;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;

use crate::error::HostsError;
use crate::host::Host;
use crate::remote::{Collects, LineKind, Remote};
use crate::{command, identity, message, reason};
use elf::{ARCHES, arch_of, is_dynamic};

/// The beginning of the lines by which the script answers.
const HEAD: &str = "kqps-push ";

/// The line after which the script writes, and after which the program follows.
const GO: &[u8] = b"go\n";

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

/// The most answers that may wait to be read. The script gives one before the program is sent, and one after.
const ANSWERS_MOST: usize = 2;

/// Brings `program`, a static build of kqps, to `~/.cache/kqps/HASH/kqps` on a host (below `$XDG_CACHE_HOME` if that
/// is set there), and returns the path there. Nothing is sent if it is there already. Refuses a program that is not
/// static, and a host of another architecture.
pub fn push(host: &Host, program: &Path) -> Result<String, HostsError> {
    let build = Build::read(program)?;
    let (remote, found) = begin(host, &build)?;
    if found.kind == Kind::Have {
        return Ok(found.text);
    }
    let mut file = File::open(program).map_err(|error| unreadable(program, error))?;
    // If the script has ended, its last line says why.
    let _ = remote.send(GO.to_vec());
    send(host, &remote, &mut file).map_err(|failed| match failed {
        Failed::Here(error) => unreadable(program, error),
        Failed::There(error) => error,
    })?;
    remote.outbox().close();
    await_room(host, &remote, 1)?;
    let done = answer(host, &remote, Instant::now() + WITHIN)?;
    checked(host, &build, done.text)
}

/// The path to which [`push`] brought `program` before; `None` if the host does not have it. Writes nothing there.
pub fn find_pushed(host: &Host, program: &Path) -> Result<Option<String>, HostsError> {
    let (_, found) = begin(host, &Build::read(program)?)?;
    Ok((found.kind == Kind::Have).then_some(found.text))
}

/// Facts about the program that is brought.
struct Build {
    arch: &'static str,
    /// Its BLAKE3 hash, in hexadecimal digits.
    hash: String,
    /// Its SHA-256 hash (FIPS 180-4), in hexadecimal digits, which the programs of a bare host can compute.
    sha256: String,
    /// Its length.
    bytes: u64,
}

impl Build {
    fn read(program: &Path) -> Result<Self, HostsError> {
        let read = || -> io::Result<(Self, bool)> {
            let arch = arch_of(program)?;
            let (sha256, bytes) = sha256_of(program)?;
            Ok((Self { arch, hash: identity::hash(program)?, sha256, bytes }, is_dynamic(program)?))
        };
        match read() {
            Ok((build, false)) => Ok(build),
            Ok((_, true)) => Err(HostsError::NotStatic { file: program.display().to_string() }),
            Err(error) => Err(unreadable(program, error)),
        }
    }
}

fn unreadable(program: &Path, error: io::Error) -> HostsError {
    HostsError::Program { file: program.display().to_string(), error }
}

/// Starts the script on a host. Returns it with its first answer, of which the architecture and the path are right.
fn begin(host: &Host, build: &Build) -> Result<(Remote<Answers>, Answer), HostsError> {
    let started = command::script(host, &script::text(build))
        .and_then(|command| Remote::start(command, Answers::default(), None));
    let remote = started.map_err(|error| reason::not_started(host, error))?;
    let Answer { kind, machine, text } = answer(host, &remote, Instant::now() + WITHIN)?;
    if !ARCHES.iter().any(|(_, name, machines)| *name == build.arch && machines.contains(&machine.as_str())) {
        let ours = build.arch.into();
        return Err(HostsError::OtherArch { host: host.name.clone(), theirs: machine, ours });
    }
    let text = checked(host, build, text)?;
    Ok((remote, Answer { kind, machine, text }))
}

/// The path that a host named, if it is one of the script's. It becomes a word of a command here, and must be no
/// option.
fn checked(host: &Host, build: &Build, path: String) -> Result<String, HostsError> {
    let ends_well = path.ends_with(&format!("/kqps/{}/kqps", build.hash));
    if path.starts_with('/') && ends_well && !path.contains(char::is_control) {
        return Ok(path);
    }
    let reason = format!("it named {} as the program's path", message::shown(path.as_bytes()));
    Err(HostsError::NotPushed { host: host.name.clone(), reason })
}

/// The SHA-256 hash of a file, in hexadecimal digits, and its length in bytes.
fn sha256_of(program: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(program)?;
    let mut context = digest::Context::new(&digest::SHA256);
    let (mut piece, mut bytes) = (vec![0; PIECE], 0);
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            break;
        }
        context.update(&piece[..count]);
        bytes += count as u64;
    }
    let mut digits = String::new();
    for byte in context.finish().as_ref() {
        let _ = write!(digits, "{byte:02x}");
    }
    Ok((digits, bytes))
}

/// The kind of an answer of the script.
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
    fn parse(line: &str) -> Option<Self> {
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
    fn take(&mut self, line: &[u8], _: u64) -> Result<LineKind, String> {
        match std::str::from_utf8(line).ok().and_then(Answer::parse) {
            Some(_) if self.0.len() == ANSWERS_MOST => return Err("more answers than the script has".into()),
            Some(answer) => self.0.push(answer),
            None if line.starts_with(message::HELLO) => {
                return Err("an agent's hello, so authorized_keys forces that command".into());
            }
            None => return Ok(LineKind::Noise),
        }
        Ok(LineKind::Message)
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
mod tests;
