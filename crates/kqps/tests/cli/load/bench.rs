//! Parts that the tests of `kqps load` share: a running echo, a query file, and the program started as a user
//! would.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use kqps_kernel::port;
use kqps_kernel::process::{Signal, signal};
use kqps_observation::Trial;
use tempfile::TempDir;

pub(crate) struct Echo {
    child: Child,
    pub(crate) address: String,
}

impl Echo {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(options: &[&str]) -> Self {
        Self::listening("127.0.0.1:0", options)
    }

    pub(crate) fn listening(address: &str, options: &[&str]) -> Self {
        Self::from_command(
            kqps(&["serve", "echo", "--listen", address, "--for", "5m", "--json"]).args(options),
        )
    }

    /// A server of another kind, by its command with `--json`.
    pub(crate) fn from_command(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
        Self { child, address: ready["addresses"][0].as_str().unwrap().into() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it. Returns the number of queries that it answered.
    pub(crate) fn answered(mut self) -> u64 {
        signal(self.child.id(), Signal::Terminate).unwrap();
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let counts: serde_json::Value = serde_json::from_str(&text).unwrap();
        counts["answered"].as_u64().unwrap()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Bench {
    pub(crate) echo: Echo,
    pub(crate) folder: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::before(Echo::new())
    }

    pub(crate) fn before(echo: Echo) -> Self {
        let bench = Self { echo, folder: tempfile::tempdir().unwrap() };
        let names: Vec<String> = (0..1000).map(|number| format!("n{number:04}.example.test A")).collect();
        std::fs::write(bench.queries(), names.join("\n")).unwrap();
        bench
    }

    pub(crate) fn queries(&self) -> PathBuf {
        self.folder.path().join("queries")
    }

    /// A load of the echo with these additional flags.
    pub(crate) fn load(&self, flags: &[&str]) -> Command {
        self.load_of(&self.echo.address, flags)
    }

    pub(crate) fn load_of(&self, target: &str, flags: &[&str]) -> Command {
        let mut command = kqps(&["load", target, "-d"]);
        command.arg(self.queries()).args(patient(flags));
        command.env("XDG_CACHE_HOME", self.folder.path());
        command
    }

    pub(crate) fn trial(&self, flags: &[&str]) -> Trial {
        let output = self.load(flags).arg("--json").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1, "one object and nothing else: {text}");
        serde_json::from_str(&text).unwrap()
    }
}

/// These flags of a load, of which every query is sent and every reply counts in the end, if other programs keep the cores
/// for less than 3 s at a time. The drain is over when all queries are answered, so the timeout costs no time there. A test of losses has a
/// timeout of its own, as `-t` and a further word: `--timeout`, `-t5s` and flags that are added to the command later are not
/// seen.
pub(crate) fn patient<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    let timeout: &[&str] = if flags.contains(&"-t") { &[] } else { &["-t", "3s"] };
    [&["--lag", "1m"], timeout, flags].concat()
}

/// An address of this host at which nothing listens. No other test uses it, and the kernel chooses neither this address
/// nor a port like this one by itself.
pub(crate) fn unused_address() -> String {
    port::free(IpAddr::from([127, 0, 53, 3]), 1).unwrap().to_string()
}

pub(crate) fn kqps(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Whether nothing came in time, or the process was stopped meanwhile.
pub(crate) fn is_nothing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

pub(crate) fn words(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}
