//! Output that cannot be written, for every command: a pipe without a reader ends it quietly, a full disk and
//! a closed descriptor are errors, and failures of stderr end nothing.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use kqps_kernel::process::{Signal, signal};
use kqps_observation::run::Role;
use kqps_observation::{Cell, Run, SCHEMA, Store};
use tempfile::TempDir;

use crate::load::bench::{Bench, kqps};

/// The status that a shell gives a program that SIGPIPE ended.
const SIGPIPE: i32 = 128 + 13;

/// Commands that print without a server.
const ALONE: [&str; 21] = [
    "--help",
    "-h",
    "--version",
    "help load",
    "load --help",
    "find -h",
    "serve front --help",
    "serve auth --version",
    "completions bash",
    "completions zsh",
    "man",
    "man load",
    "man serve echo",
    "host",
    "host --json",
    "probe",
    "probe --json",
    "gen recipe",
    "gen recipe windows-mix",
    "run --dry-run --echo mmsg --subject kqps-auth",
    "run --dry-run --json --echo mmsg --subject kqps-auth",
];

/// Kinds of stdout that cannot be written.
#[derive(Clone, Copy, Debug)]
enum Useless {
    Unread,
    Full,
    Closed,
}

impl Useless {
    const ALL: [Self; 3] = [Self::Unread, Self::Full, Self::Closed];

    /// Runs the command with such a stdout. Only a shell can close it.
    fn run(self, command: &Command) -> Output {
        let (program, arguments) = (command.get_program(), command.get_args());
        let mut made = match self {
            Self::Closed => {
                let mut shell = Command::new("sh");
                shell.args(["-c", r#"exec "$@" >&-"#, "sh"]).arg(program);
                shell
            }
            Self::Unread | Self::Full => Command::new(program),
        };
        made.args(arguments).stdin(Stdio::null()).stderr(Stdio::piped());
        for (name, value) in command.get_envs() {
            made.env(name, value.unwrap_or_default());
        }
        match self {
            // This drops the read end of the pipe.
            Self::Unread => made.stdout(io::pipe().unwrap().1),
            Self::Full => made.stdout(full()),
            Self::Closed => &mut made,
        };
        made.spawn().unwrap().wait_with_output().unwrap()
    }

    /// Asserts the status and the last line of stderr of a command.
    fn expect(self, command: &Command) {
        let output = self.run(command);
        let error = String::from_utf8(output.stderr).unwrap();
        let (status, reason) = match self {
            Self::Unread => (SIGPIPE, None),
            Self::Full => (1, Some("kqps: cannot write to stdout: No space left on device")),
            Self::Closed => (1, Some("kqps: cannot write to stdout: it is closed")),
        };
        let found = output.status.code().unwrap();
        assert_eq!(found, status, "{self:?} {command:?}: {error}");
        assert!(!error.contains("panicked"), "{self:?} {command:?}: {error}");
        let count = error.matches("cannot write to stdout").count();
        assert_eq!(count, usize::from(reason.is_some()), "{self:?} {command:?}: {error}");
        assert!(reason.is_none_or(|reason| error.contains(reason)), "{self:?} {command:?}: {error}");
    }
}

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// A folder with the store of a run of one cell.
fn stored() -> TempDir {
    let folder = TempDir::new().unwrap();
    let cell = Cell { name: "nsd".into(), subject: "nsd".into(), role: Role::Subject, ..Cell::default() };
    let run = Run { schema: SCHEMA, study: "default".into(), cells: vec![cell], ..Run::default() };
    Store::create(&folder.path().join("run.sqlite"), &run).unwrap();
    folder
}

#[test]
fn every_command_ends_as_it_must_when_its_output_is_lost() {
    let run = stored();
    let report = format!("report {}", run.path().display());
    for useless in Useless::ALL {
        for arguments in ALONE.into_iter().chain([report.as_str()]) {
            useless.expect(&kqps(&arguments.split(' ').collect::<Vec<_>>()));
        }
    }
}

#[test]
fn a_load_and_a_search_end_as_they_must_when_their_output_is_lost() {
    let bench = Bench::new();
    for useless in Useless::ALL {
        for more in [&[][..], &["--json"]] {
            useless.expect(bench.load(&["-Q", "200", "-l", "0.1s"]).args(more));
        }
        // It ends after the first trial that no process reads.
        let mut search =
            kqps(&["find", &bench.echo.address, "--goal", "quick", "--no-ceiling", "--json", "-d"]);
        useless.expect(search.arg(bench.queries()));
    }
}

#[test]
fn a_server_goes_on_and_has_its_end_in_its_status() {
    for useless in Useless::ALL {
        for more in [&[][..], &["--json"]] {
            useless.expect(kqps(&["serve", "echo", "--listen", "127.0.0.1:0", "--for", "0s"]).args(more));
        }
    }
    // A script that reads only the first line has the server's address, and the server goes on until it is
    // stopped.
    let mut server = kqps(&["serve", "echo", "--listen", "127.0.0.1:0", "--for", "5m", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    let bench = Bench::new();
    let mut load =
        bench.load_of(ready["addresses"][0].as_str().unwrap(), &["-Q", "100", "-n", "1", "-l", "0.1s"]);
    assert_eq!(load.output().unwrap().status.code(), Some(0));
    signal(server.id(), Signal::Terminate).unwrap();
    let output = server.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr).contains("stdout")),
        (Some(SIGPIPE), false)
    );
}

#[test]
fn what_cannot_be_written_to_stderr_ends_nothing() {
    let bench = Bench::new();
    let unread = || Stdio::from(io::pipe().unwrap().1);
    for stderr in [unread(), Stdio::from(full())] {
        let output = bench.load(&["-Q", "200", "-l", "0.2s", "-S", "0.02s"]).stderr(stderr).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains("Queries sent:         40\n"), "{text}");
    }
    let folder = TempDir::new().unwrap();
    for stderr in [unread(), Stdio::from(full())] {
        let zone = folder.path().join("zone");
        let mut command = kqps(&["gen", "zone", "--records", "10", "-o"]);
        assert!(command.arg(&zone).stderr(stderr).status().unwrap().success());
        fs::remove_file(zone).unwrap();
    }
}

/// Runs kqps with a limit of some kilobytes on files, as on a disk that is nearly full.
fn confined(folder: &Path, arguments: &[&OsStr]) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"trap '' XFSZ; ulimit -f 8; exec "$@""#, "sh", env!("CARGO_BIN_EXE_kqps")]);
    shell.args(arguments).current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache"));
    shell.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_file_that_finds_no_room_is_named_and_leaves_nothing() {
    let run = stored();
    let run = run.path().as_os_str();
    let words = |text: &'static str| text.split(' ').map(OsStr::new).collect::<Vec<_>>();
    for arguments in [
        words("gen zone --records 10k -o made"),
        words("gen zone --recipe windows-mix --set zones=3 --set records=1k -o made"),
        words("gen queries -n 10k -o made"),
        [&words("report")[..], &[run], &words("-o made")].concat(),
    ] {
        let folder = TempDir::new().unwrap();
        let output = confined(folder.path(), &arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.starts_with("kqps: cannot write made: "), "{arguments:?}: {error}");
        assert!(error.to_lowercase().contains("file too large"), "{arguments:?}: {error}");
        assert!(!error.contains(".unfinished-"), "{arguments:?}: {error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{arguments:?} leaves something");
    }
}

#[test]
fn a_device_is_no_place_for_a_file_and_stays_one() {
    let run = stored();
    let folder = TempDir::new().unwrap();
    let device = folder.path().join("device");
    std::os::unix::fs::symlink("/dev/full", &device).unwrap();
    let device = device.to_str().unwrap();
    for mut command in [
        kqps(&["gen", "zone", "--records", "10", "-o", device]),
        kqps(&["gen", "queries", "-n", "10", "-o", device]),
        kqps(&["report", run.path().to_str().unwrap(), "-o", device]),
    ] {
        let output = command.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {error}");
        assert!(error.contains(device) && error.contains("it exists and is not a regular file"), "{error}");
        assert!(fs::metadata(device).unwrap().file_type().is_char_device());
    }
    // A link to a file stays, and the file that it leads to is replaced.
    let (link, file) = (folder.path().join("link"), folder.path().join("file"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert!(kqps(&["gen", "queries", "-n", "1", "-o"]).arg(&link).status().unwrap().success());
    assert!(link.is_symlink() && fs::read_to_string(&file).unwrap().contains(".example.test"));
}
