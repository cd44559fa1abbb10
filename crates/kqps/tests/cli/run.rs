//! `kqps run` as a user runs it: small, but with real sockets, child processes and deaths.

mod early_end;
mod interrupted;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use kqps_observation::run::{Outcome, Role};
use kqps_observation::{Cell, GoalFacts, Run, Store, Target};
use kqps_skips::{Capability, skip};
use tempfile::TempDir;

/// The echo as if it were a name server: it starts fast and is always installed.
const ECHO_AS_SUBJECT: &str = r#"
name = "mirror"
title = "The mirror"
programs = []
io = "mmsg"
[start]
command = ["{kqps}", "serve", "echo", "--listen", "127.0.0.1:{port}", "--io", "mmsg", "--threads", "{workers}"]
[ready]
kind = "reply"
within_s = 20
[stop]
signal = "TERM"
within_s = 5
"#;

struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new(subject: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("subject.toml"), subject).unwrap();
        Self { folder }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// A small run: one echo, one subject, a tiny zone.
    fn command(&self) -> Command {
        let mut command = kqps();
        // Enough for one block, even on a busy host.
        command.args(["run", "--budget", "25s", "--records", "200", "--seed", "5", "--echo", "mmsg"]);
        command.arg("--subject").arg(self.folder.path().join("subject.toml"));
        command.arg("--out").arg(self.out());
        command
    }

    fn resume(&self) -> Command {
        let mut command = kqps();
        command.args(["run", "--resume", "--out"]).arg(self.out());
        command
    }

    fn stored(&self) -> Option<Run> {
        Store::read(&self.out().join("run.sqlite")).ok()
    }

    /// Gives the run, which no process conducts now, a goal that is reached sooner than that of any preset.
    fn lower_the_goal(&self) -> GoalFacts {
        let mut run = self.stored().unwrap();
        let goal = GoalFacts { final_s: 0.1, sum_s: 0.3, limit_s: 3.0, ..run.goal_facts.take().unwrap() };
        run.goal_facts = Some(goal.clone());
        for file in std::fs::read_dir(self.out()).unwrap().flatten() {
            if file.file_name().to_string_lossy().starts_with("run.sqlite") {
                std::fs::remove_file(file.path()).unwrap();
            }
        }
        let store = Store::create(&self.out().join("run.sqlite"), &run).unwrap();
        run.trials.iter().for_each(|trial| store.commit(trial).unwrap());
        goal
    }

    fn trials(&self) -> usize {
        self.stored().map_or(0, |run| run.trials.len())
    }

    /// Processes of this lab that are still alive.
    fn left_behind(&self) -> Vec<String> {
        let ours = self.out().display().to_string();
        let commands = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let folder = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            let words = std::fs::read(entry.path().join("cmdline")).ok()?;
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            (words.contains(&ours) || folder.starts_with(&ours)).then_some(words)
        });
        commands.collect()
    }
}

fn kqps() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.env_remove("KQPS_INSTALL_SUBJECTS").stdin(Stdio::null());
    command
}

/// A run that goes on while a test reads its store.
struct Conducted {
    child: Child,
    printed: tempfile::NamedTempFile,
}

impl Conducted {
    fn start(mut command: Command) -> Self {
        let printed = tempfile::NamedTempFile::new().unwrap();
        let both = printed.reopen().unwrap();
        command.stdout(both.try_clone().unwrap()).stderr(both);
        Self { child: command.spawn().unwrap(), printed }
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for an event of the run. Fails with the run's output if it ends without the event or takes too
    /// long.
    fn until(&mut self, what: &str, mut happened: impl FnMut() -> bool) {
        // Longer than any wait of the run itself (60 s), so that the run can report what it waited for.
        let deadline = Instant::now() + Duration::from_mins(2);
        loop {
            // Checked before the event: all that the run did, it did before it ended.
            let may_yet = !self.has_ended() && Instant::now() < deadline;
            if happened() {
                return;
            }
            assert!(may_yet, "{what} did not happen: {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.printed.path()).unwrap()
    }

    /// Ends it by SIGKILL, which it cannot handle.
    fn kill(self) {
        drop(self);
    }
}

impl Drop for Conducted {
    fn drop(&mut self) {
        // The test fails in any case if this does.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for an event that must come soon. Fails after a minute.
fn soon(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !happened() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn check_numbers(run: &Run) {
    let numbers: Vec<u64> = run.trials.iter().map(|trial| trial.number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    for trial in &run.trials {
        if let Some(measured) = trial.measured() {
            measured.accounts.check().unwrap();
        }
    }
}

#[test]
fn killed_again_and_again_it_ends_with_every_trial_once() {
    let lab = Lab::new(ECHO_AS_SUBJECT);
    let mut command = lab.command();
    let mut stored_before: Vec<kqps_observation::RunTrial> = Vec::new();
    let mut goal = None;
    for more in [1, 3, 4, 2] {
        let mut conducted = Conducted::start(command);
        let wanted = stored_before.len() + more;
        soon("a trial", || lab.trials() >= wanted || conducted.has_ended());
        conducted.kill();
        soon("the death of its children", || lab.left_behind().is_empty());
        let run = lab.stored().unwrap();
        check_numbers(&run);
        assert_eq!(run.trials[..stored_before.len()], stored_before, "a committed trial was lost or changed");
        if stored_before.is_empty() {
            // A lower goal is enough, since this test does not depend on how exactly the rate is known.
            goal = Some(lab.lower_the_goal());
        }
        stored_before = run.trials;
        command = lab.resume();
    }
    let output = command.output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
    let run = lab.stored().unwrap();
    check_numbers(&run);
    assert!(run.finished_unix_ms.is_some());
    assert_eq!(run.trials[..stored_before.len()], stored_before);
    assert_eq!(run.goal_facts, goal, "it went on with the goal that it had");
    let measured: BTreeSet<u32> = run.trials.iter().map(|trial| trial.cell).collect();
    assert_eq!(measured.len(), run.cells.len());
    // The interrupted cell went on in another start.
    let all: BTreeSet<u64> = run.trials.iter().map(|trial| trial.start).collect();
    assert!(all.len() > run.cells.len(), "{all:?}");

    assert!(lab.left_behind().is_empty());
    let page = std::fs::read_to_string(lab.out().join("report.html")).unwrap();
    assert!(page.contains("mirror"));
    assert!(lab.out().join("study.toml").exists() && lab.out().join("subjects/mirror.toml").exists());

    let again = lab.resume().output().unwrap();
    assert_eq!(again.status.code(), output.status.code());
    assert_eq!(lab.stored().unwrap(), run, "a finished run is not changed by resuming it");
}

#[test]
fn a_subject_that_dies_is_a_result_with_its_last_words() {
    let mortal = ECHO_AS_SUBJECT.replace("\"--io\"", "\"--for\", \"1500ms\", \"--io\"");
    let lab = Lab::new(&mortal);
    let output = lab.command().arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let run = lab.stored().unwrap();
    let failed: Vec<_> = run.trials.iter().filter(|trial| trial.measured().is_none()).collect();
    assert_eq!(failed.len(), 1);
    let Outcome::Failed { reason, .. } = &failed[0].outcome else { unreachable!() };
    assert!(reason.contains("The mirror ended with status") && reason.contains("during a trial"), "{reason}");
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["kind"], "run");
}

#[test]
fn a_subject_that_does_not_start_leaves_the_rest_measured() {
    let broken = ECHO_AS_SUBJECT.replace("\"--io\"", "\"--no-such-flag\", \"--io\"");
    let lab = Lab::new(&broken);
    let output = lab.command().output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    // The first lines name the cells and the duration.
    let printed = stderr(&output);
    let [measuring, plan, ..] = &*printed.lines().collect::<Vec<_>>() else { panic!("{printed}") };
    assert_eq!(*measuring, "Measuring player ceiling, echo mmsg, mirror.");
    assert!(
        plan.starts_with("1 block in random order, goal `quick`")
            && plan.ends_with(" s of the budget of 25 s."),
        "{plan}"
    );
    let run = lab.stored().unwrap();
    assert!(run.finished_unix_ms.is_some());
    let reasons = run.trials.iter().filter_map(|trial| match &trial.outcome {
        Outcome::Failed { reason, output } => Some((reason.clone(), output.join("\n"))),
        Outcome::Measured(_) => None,
    });
    let reasons: Vec<_> = reasons.collect();
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].0.contains("before it was ready"), "{reasons:?}");
    assert!(reasons[0].1.contains("--no-such-flag"), "{reasons:?}");
    let measured: BTreeSet<u32> =
        run.trials.iter().filter(|trial| trial.measured().is_some()).map(|trial| trial.cell).collect();
    assert_eq!(measured.len(), run.cells.len() - 1);
}

/// The run has a small disk of its own, which is full after some trials. Its contents are copied out then.
#[test]
fn a_full_disk_ends_it_with_one_error_and_keeps_what_was_stored() {
    let lab = Lab::new(ECHO_AS_SUBJECT);
    std::fs::create_dir(lab.out()).unwrap();
    let kept = lab.folder.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    let run = lab.command();
    let script = "mount -t tmpfs -o size=250k kqps-test \"$1\" || exit 77
        shift; kept=\"$1\"; out=\"$2\"; shift 2; \"$@\"; status=$?
        cp \"$out\"/run.sqlite* \"$kept\"; exit $status";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(lab.out()).arg(&kept).arg(lab.out());
    command.arg(run.get_program()).args(run.get_args()).env_remove("KQPS_INSTALL_SUBJECTS");
    let output = command.output().unwrap();
    if output.status.code() == Some(77) || stderr(&output).starts_with("unshare:") {
        return skip(Capability::Mounts, stderr(&output));
    }
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("no space is left"), "{}", stderr(&output));
    assert!(stderr(&output).contains("--resume"), "{}", stderr(&output));
    let run = Store::read(&kept.join("run.sqlite")).unwrap();
    assert!(!run.trials.is_empty());
    check_numbers(&run);
}

#[test]
fn bad_usage_is_one_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let said = |arguments: &[&str]| {
        let output = kqps().arg("run").args(arguments).arg("--out").arg(&out).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    let cases: [(&[&str], &str); 17] = [
        (&["--budget", "5s"], "a budget of 5 s is too short: one block of this plan takes about "),
        (&["isc-echo", "--budget", "1s"], "a budget of 1 s is too short"),
        (&["--dry-run", "--budget", "5s"], "or more, or measure less"),
        (&["--subject", "knot worker=2"], "did you mean `workers`?"),
        (&["--target", "udp://127.0.0.1:1"], "--queries <FILE>"),
        (&["--target", "udp://192.0.2.1", "-d", "/dev/null"], "allow it with --allow-target 192.0.2.1"),
        (&["--target", "127.0.0.1", "-d", "/dev/null"], "expected a file, of which the run keeps a copy"),
        (&["--subject", "kqps-auth", "-d", "/etc/passwd"], "kqps-auth would serve a generated zone"),
        (
            &[
                "--target",
                "192.0.2.1",
                "--allow-target",
                "192.0.2.1",
                "--subject",
                "echo",
                "-d",
                "/etc/passwd",
            ],
            "192.0.2.1:53 is on another host, and echo on this one",
        ),
        (&["study.toml"], "cannot read study.toml"),
        (&["--subject", "nds"], "did you mean `nsd`?"),
        (&["--subject", "./none.toml"], "cannot read ./none.toml"),
        (&["--command", "sh -p 53"], "{port} or {endpoint} is missing"),
        (&["--command", "no-such-server {port}"], "there is no program `no-such-server`"),
        (&["--echo", "mmsgs"], "did you mean `mmsg`?"),
        (&["--budget", "0s"], "nothing could be measured"),
        (&["--resume", "--seed", "1"], "cannot be used with"),
    ];
    for (arguments, expected) in cases {
        let (status, error) = said(arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    assert!(!out.exists(), "nothing is half-made");
    let (status, error) = said(&["--resume"]);
    assert_eq!(status, Some(2), "{error}");
}

#[test]
fn a_store_that_cannot_be_read_is_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("run.sqlite"), "no database, though long enough to be one").unwrap();
    for arguments in [&["run", "--resume", "--out"] as &[&str], &["report"]] {
        let output = kqps().args(arguments).arg(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("is not the store of a run"), "{}", stderr(&output));
    }
}

#[test]
fn two_commands_are_two_subjects_that_can_be_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let echo = "{kqps} serve echo --listen {endpoint} --threads {workers}";
    let mut command = kqps();
    command.args(["run", "--budget", "1m", "--records", "200", "--echo", "mmsg"]);
    command.args(["--command", echo, "--command", &format!("{echo} --work 1us")]);
    command.arg("--out").arg(&out);
    let mut begun = Conducted::start(command);
    let stored = || Store::read(&out.join("run.sqlite")).ok();
    let measured = |run: &Run| {
        let is_subjects = |trial: &&kqps_observation::RunTrial| {
            run.cells[trial.cell as usize].role == Role::Subject && trial.measured().is_some()
        };
        run.trials.iter().filter(is_subjects).count()
    };
    begun.until("a trial", || stored().is_some_and(|run| !run.trials.is_empty()));
    begun.kill();
    let before = measured(&stored().unwrap());
    let mut resume = kqps();
    resume.args(["run", "--resume", "--out"]).arg(&out);
    let mut resumed = Conducted::start(resume);
    resumed.until("a trial of a command", || stored().is_some_and(|run| measured(&run) > before));
    resumed.kill();
    let run = stored().unwrap();
    let names: Vec<&str> = run.cells.iter().map(|cell| cell.subject.as_str()).collect();
    assert!(names.ends_with(&["kqps", "kqps-2"]), "{names:?}");
}

#[test]
fn what_the_user_has_in_a_folder_is_not_written_over() {
    for (name, is_folder) in
        [("study.toml", false), ("report.html", false), ("subjects", true), ("dataset", true)]
    {
        let folder = tempfile::tempdir().unwrap();
        let mine = folder.path().join(name);
        if is_folder { std::fs::create_dir(&mine) } else { std::fs::write(&mine, "mine") }.unwrap();
        for arguments in
            [&["run", "--budget", "1h"] as &[&str], &["compare", "--a", "sh {port}", "--b", "sh {port}"]]
        {
            let output = kqps().args(arguments).arg("--out").arg(folder.path()).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
            let message = format!("{name} already exists, and no run wrote it");
            assert!(stderr(&output).contains(&message), "{arguments:?}: {}", stderr(&output));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(is_folder || std::fs::read(&mine).unwrap() == b"mine");
    }
}

#[test]
fn a_comparison_is_gone_on_with_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("kqps-runs/20990101T000000Z-compare");
    std::fs::create_dir_all(&out).unwrap();
    let target = Some(Target { address: "127.0.0.1:9".parse().unwrap(), on_this_host: true });
    let cells = vec![Cell { target, ..Cell::default() }];
    let comparison = Run { study: "compare".into(), goal: "quick".into(), cells, ..Run::default() };
    drop(Store::create(&out.join("run.sqlite"), &comparison).unwrap());
    let resume = |more: &[&str]| {
        let output = kqps().args(["run", "--resume"]).args(more).current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        stderr(&output)
    };
    let printed = resume(&["--out", out.to_str().unwrap()]);
    assert!(printed.contains("kqps compare --resume --out"), "{printed}");
    let printed = resume(&[]);
    assert!(printed.contains("no unfinished run in kqps-runs to resume"), "{printed}");
    let output = kqps().args(["compare", "--resume"]).current_dir(folder.path()).output().unwrap();
    let found = "20990101T000000Z-compare was begun by an earlier version";
    assert!(stderr(&output).contains(found), "{}", stderr(&output));
}

#[test]
fn a_folder_that_holds_a_run_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sqlite");
    drop(Store::create(&path, &Run::default()).unwrap());
    let before = std::fs::read(&path).unwrap();
    let output = kqps().args(["run", "--out"]).arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("there is a file already"), "{}", stderr(&output));
    assert_eq!(std::fs::read(Path::new(&path)).unwrap(), before);
}
