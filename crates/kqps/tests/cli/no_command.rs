//! `kqps` without a command, and the folder of runs without `--out`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

use kqps_skips::{Capability, skip};
use tempfile::TempDir;

/// A program that is killed when the test has read enough of its output.
struct Begun {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Begun {
    /// Starts it in this folder, which also holds its home.
    fn start(folder: &TempDir, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
        command.args(arguments).current_dir(folder.path()).env("HOME", folder.path().join("home"));
        command.env_remove("XDG_DATA_HOME").env_remove("KQPS_INSTALL_SUBJECTS");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        Self { child, said }
    }

    /// The next line with these words.
    fn line_with(&mut self, words: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "`{words}` was not said: {all}");
            if line.contains(words) {
                return line;
            }
            all += &line;
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A small run that the test does not wait for.
const RUN: [&str; 7] = ["run", "--subject", "echo", "--echo", "mmsg", "--records", "200"];

#[test]
fn it_says_first_what_it_does_where_it_writes_how_it_is_stopped_and_what_else_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut begun = Begun::start(&folder, &[]);
    let mut first = String::new();
    begun.said.read_line(&mut first).unwrap();
    let runs = folder.path().join("home/.local/share/kqps/runs");
    for words in ["2 min", "16 MB", &runs.display().to_string(), "Ctrl-C", "kqps --help"] {
        assert!(first.contains(words), "{words}: {first}");
    }
    let place = begun.line_with("Everything of this run lies in");
    let name =
        first.split_whitespace().find(|word| word.contains("-default")).unwrap().trim_end_matches([';', ',']);
    assert!(place.contains(name), "it lies where the first line says: {first}{place}");
    assert!(!folder.path().join("kqps-runs").exists());
}

#[test]
fn a_run_lies_among_the_users_data_or_where_there_is_a_folder_for_runs_and_goes_on_from_there() {
    for (is_here, place) in [(false, "home/.local/share/kqps/runs"), (true, "kqps-runs")] {
        let folder = tempfile::tempdir().unwrap();
        if is_here {
            std::fs::create_dir(folder.path().join(place)).unwrap();
        }
        let said = Begun::start(&folder, &RUN).line_with("Everything of this run lies in");
        assert!(
            said.contains(&folder.path().canonicalize().unwrap().join(place).display().to_string()),
            "{said}"
        );
        let on = Begun::start(&folder, &["run", "--resume"]).line_with("Going on with the run in");
        assert!(on.contains(place), "{on}");
        assert_eq!(folder.path().join("kqps-runs").exists(), is_here);
    }
}

#[test]
fn no_package_is_installed_where_that_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let definition = r#"
name = "absent"
title = "Absent"
package = "no-such-package-of-kqps"
programs = ["no-such-program-of-kqps"]
io = "mmsg"
[start]
command = ["no-such-program-of-kqps", "{port}"]
[ready]
kind = "reply"
within_s = 1
[stop]
signal = "TERM"
within_s = 1
"#;
    std::fs::write(folder.path().join("absent.toml"), definition).unwrap();
    let called = folder.path().join("called");
    let apt_get = folder.path().join("apt-get");
    std::fs::write(&apt_get, format!("#!/bin/sh\ntouch {}\n", called.display())).unwrap();
    std::fs::set_permissions(&apt_get, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let kqps = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
        command.args(["run", "--subject", "./absent.toml", "--echo", "mmsg", "--records", "200"]).args(more);
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.env("KQPS_INSTALL_SUBJECTS", "debian").env("PATH", &path);
        command
    };
    // Reads the words of a run up to `last`, before it measures anything.
    let first_words = |more: &[&str], last: &str| {
        let mut child = kqps(more).spawn().unwrap();
        let (mut said, mut lines) = (String::new(), BufReader::new(child.stderr.take().unwrap()));
        while !said.contains(last) {
            assert!(lines.read_line(&mut said).unwrap() > 0, "it ended by itself: {said}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        said
    };
    let said = first_words(&["--budget", "20s", "--out", "out", "--no-install"], "lies in");
    assert!(said.contains("Not measured, since not installed: no-such-package-of-kqps"), "{said}");
    assert!(said.contains("apt install no-such-package-of-kqps"), "{said}");
    assert!(!called.exists(), "apt-get was started: {said}");
    // kqps installs nothing for a run that cannot begin.
    for (budget, folder) in [("1s", "other"), ("20s", "out")] {
        let output = kqps(&["--budget", budget, "--out", folder]).output().unwrap();
        let (status, said) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
        assert!(status == Some(2) && !called.exists(), "{budget} {folder}: {status:?} {said}");
    }
    let said = first_words(&["--budget", "20s", "--out", "third"], "lies in");
    if std::path::Path::new("/etc/debian_version").exists() && crate::load::trouble::is_root() {
        assert!(called.exists(), "{said}");
        assert!(said.contains("These packages are missing: no-such-package-of-kqps"), "{said}");
        assert!(said.contains("--no-install leaves them out"), "{said}");
    } else {
        let what = "what is announced before packages are installed, which only root on Debian may do";
        skip(Capability::Root, what);
    }
}
