//! Brings a build of kqps to a host where there may be none, by the POSIX shell there. The file appears whole or not at
//! all, and only if it is not there yet.

mod checksum;
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
use checksum::Checksum;
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

/// What is known of the program that is brought.
struct Build {
    arch: &'static str,
    /// Its BLAKE3 hash, in hexadecimal digits.
    hash: String,
    checksum: Checksum,
}

impl Build {
    fn read(program: &Path) -> Result<Self, HostsError> {
        let read = || -> io::Result<(Self, bool)> {
            let arch = arch_of(program)?;
            let (hash, checksum) = (identity::hash(program)?, Checksum::of(program)?);
            Ok((Self { arch, hash, checksum }, is_dynamic(program)?))
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
    let started = command::script(host, &script(build))
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

/// The script. It makes the file under another name, compares it, and renames it. It writes nothing before it is asked
/// to, and removes what pushes left on this machine that were killed. A system without cksum(1) compares lengths, and
/// takes no older file for whole.
fn script(build: &Build) -> String {
    let Build { hash, checksum: Checksum { sum, bytes }, .. } = build;
    format!(
        r#"umask 077
m=$(uname -m)
n=$(uname -n)
d="${{XDG_CACHE_HOME:-$HOME/.cache}}/kqps/{hash}"
f="$d/kqps"
sum() {{ set -- $(cksum <"$1" 2>/dev/null || echo "- $(wc -c <"$1")"); echo "$1 $2"; }}
if [ -x "$f" ] && [ "$(sum "$f")" = "{sum} {bytes}" ]; then echo "{HEAD}have $m $f"; exit 0; fi
echo "{HEAD}want $m $f"
read -r go || exit 0
mkdir -p "$d" || {{ echo "{HEAD}failed $m the folder $d cannot be made"; exit 1; }}
for o in "$d/.part-$n-"*; do kill -0 "${{o##*-}}" 2>/dev/null || rm -f "$o"; done
p="$d/.part-$n-$$"
trap 'rm -f "$p"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$p" || {{ echo "{HEAD}failed $m $p cannot be written"; exit 1; }}
case "$(sum "$p")" in
"{sum} {bytes}" | "- {bytes}") ;;
*) echo "{HEAD}failed $m the file did not arrive whole"; exit 1 ;;
esac
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

    /// A file that begins as this test's program does, without its table of entries, and that is longer than what waits
    /// in memory.
    fn program(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("program");
        let mut bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
        bytes.truncate(3 * QUEUED_MOST + 12_345);
        let count = if bytes[4] == 2 { 56..58 } else { 44..46 };
        bytes[count].fill(0);
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
        // So is one of the same length with another content.
        let mut bytes = fs::read(&expected).unwrap();
        bytes[100] ^= 1;
        fs::write(&expected, bytes).unwrap();
        push(&host, &program).unwrap();
        assert_eq!(identity::hash(&expected).unwrap(), hash);
    }

    #[test]
    fn what_a_killed_push_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path());
        let hash = identity::hash(&program).unwrap();
        let made = folder.path().join(".cache/kqps").join(hash);
        fs::create_dir_all(&made).unwrap();
        let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let part = |machine: &str, pid: u32| made.join(format!(".part-{machine}-{pid}"));
        let (dead, living) = (part(&machine, ended.id()), part(&machine, std::process::id()));
        let elsewhere = part("another-machine", ended.id());
        for part in [&dead, &living, &elsewhere] {
            fs::write(part, "x").unwrap();
        }
        push(&host(folder.path(), ""), &program).unwrap();
        assert!(!dead.exists() && living.exists() && elsewhere.exists());
    }

    #[test]
    fn a_look_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path());
        let host = host(folder.path(), "");
        assert_eq!(find_pushed(&host, &program).unwrap(), None);
        assert!(!folder.path().join(".cache").exists());
        let there = push(&host, &program).unwrap();
        assert_eq!(find_pushed(&host, &program).unwrap(), Some(there));
    }

    #[test]
    fn a_host_does_not_choose_the_words_of_commands_here() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path());
        let hash = identity::hash(&program).unwrap();
        let arch = std::env::consts::ARCH;
        for path in ["-A", "-oProxyCommand=x", "kqps", "/tmp/kqps", &format!("-x/kqps/{hash}/kqps")] {
            let evil = host(folder.path(), &format!("echo 'kqps-push have {arch} {path}'; exit 0;"));
            let error = push(&evil, &program).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "cannot bring kqps to ns1: it named {} as the program's path",
                    message::shown(path.as_bytes())
                )
            );
        }
    }

    #[test]
    fn a_program_that_needs_libraries_is_refused_here() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        // One entry, which is an interpreter: for 64 bits, the lowest byte first.
        let mut bytes = vec![0; 64 + 56];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        bytes[18] = 0x3e;
        (bytes[32], bytes[54], bytes[56], bytes[64]) = (64, 56, 1, 3);
        fs::write(&path, bytes).unwrap();
        let error = push(&host(folder.path(), ""), &path).unwrap_err().to_string();
        assert!(error.contains(" is not a static program, "), "{error}");
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
        fs::write(&path, [&head[..], &[0; 64]].concat()).unwrap();
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
