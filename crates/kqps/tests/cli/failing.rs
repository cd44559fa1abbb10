//! Subjects that fail or hang: each is reported with its reason and last output, and the others are measured
//! all the same.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use kqps_observation::run::Outcome;
use kqps_observation::{Run, Store};
use tempfile::TempDir;

/// The definition file of a subject that `sh` starts.
fn definition(name: &str, script: &str, more: &str) -> String {
    format!(
        r#"
name = "{name}"
title = "{name}"
programs = []
io = "mmsg"
[start]
command = ["sh", "-c", '''{script}''', "{name}", "{{port}}"]
[ready]
kind = "reply"
within_s = 600
[stop]
signal = "TERM"
within_s = 600
{more}
"#
    )
}

const ANSWERS: &str = "exec {kqps} serve echo --listen {endpoint} --io mmsg";

/// It answers, ignores SIGTERM, and never prints its version.
const CLINGS: &str = "trap '' TERM; {kqps} serve echo --listen {endpoint} --io mmsg; sleep 600";
const NO_VERSION: &str = "[version]\ncommand = [\"sh\", \"-c\", \"sleep 600\"]\nafter = \"version \"";

/// It stays alive and listens to nothing.
const MUTE: &str = "exec sleep 600";

/// It prints something and exits.
const ENDS: &str = "echo 'opening <the> zone & its file' >&2; exit 7";

const STUDY: &str = r#"
name = "failing"
title = "Failing subjects"
question = "What becomes of the others?"
repetitions = 1
load = { closed_s = 0.2 }
[[experiment]]
name = "all"
title = "All"
subjects = ["./mute.toml", "./ends.toml", "./clings.toml", "./answers.toml"]
"#;

struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("mute.toml", &definition("mute", MUTE, ""));
        write("ends.toml", &definition("ends", ENDS, ""));
        write("clings.toml", &definition("clings", CLINGS, NO_VERSION));
        write("answers.toml", &definition("answers", ANSWERS, ""));
        write("study.toml", STUDY);
        Self { folder }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn kqps(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
        command.env_remove("KQPS_INSTALL_SUBJECTS").stdin(Stdio::null()).current_dir(self.folder.path());
        command.args(arguments).args(["--records", "200", "--out"]).arg(self.out()).output().unwrap()
    }

    fn stored(&self) -> Run {
        Store::read(&self.out().join("run.sqlite")).unwrap()
    }

    /// Processes of this lab that are still alive.
    fn left_behind(&self) -> Vec<String> {
        let ours = self.out().canonicalize().unwrap_or_else(|_| self.out()).display().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let of_ours = processes.filter_map(|entry| {
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            let is_ours = String::from_utf8_lossy(&environment).contains(&format!("KQPS_SUBJECT={ours}"));
            is_ours.then(|| entry.file_name().display().to_string())
        });
        of_ours.collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The failure of a subject's only start, with the last lines of its output.
fn failure<'a>(run: &'a Run, subject: &str) -> (&'a str, String) {
    let is_its = |cell: u32| run.cells[cell as usize].subject == subject;
    let found = run.trials.iter().filter(|one| is_its(one.cell)).find_map(|one| match &one.outcome {
        Outcome::Failed { reason, output } => Some((reason.as_str(), output.join("\n"))),
        Outcome::Measured(_) => None,
    });
    found.unwrap_or_else(|| panic!("{subject} did not fail"))
}

#[test]
fn what_hangs_or_ends_is_reported_and_all_others_are_measured_within_the_budget() {
    let lab = Lab::new();
    let began = Instant::now();
    let output = lab.kqps(&["run", "study.toml", "--budget", "60s", "--seed", "2"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    // The definitions allow ten minutes each, so three are early enough even on a busy host.
    assert!(began.elapsed() < Duration::from_mins(3), "{said}");
    let run = lab.stored();
    // A host that takes every CPU away for a minute leaves no time for a start.
    assert!(!run.skipped.values().any(|why| why.contains("budget")), "{:?}\n{said}", run.skipped);
    let (mute, _) = failure(&run, "mute");
    assert!(
        mute.starts_with("mute was not ready after ") && mute.contains("its share of the budget"),
        "{mute}"
    );
    let (ends, words) = failure(&run, "ends");
    assert_eq!(
        (ends, words.as_str()),
        ("ends ended with status 7 before it was ready", "opening <the> zone & its file")
    );
    for subject in ["clings", "answers"] {
        let is_its = |one: &&kqps_observation::RunTrial| run.cells[one.cell as usize].subject == subject;
        assert!(run.trials.iter().filter(is_its).any(|one| one.measured().is_some()), "{subject}: {said}");
        assert!(run.trials.iter().filter(is_its).all(|one| one.failure().is_none()), "{subject}: {said}");
    }
    let why = &run.skipped["the version of clings"];
    assert!(why.contains("did not end within 5s and was killed"), "{why}");
    assert!(lab.left_behind().is_empty(), "{:?}", lab.left_behind());
    let words = text(&output.stdout);
    assert!(words.contains("opening <the> zone & its file"), "{words}");
    let page = std::fs::read_to_string(lab.out().join("report.html")).unwrap();
    assert!(page.contains("opening &#60;the&#62; zone &#38; its file") && !page.contains("<the>"));
}

#[test]
fn the_words_at_the_end_have_the_last_words_of_what_failed() {
    let lab = Lab::new();
    let output = lab.kqps(&["run", "--subject", "./ends.toml", "--echo", "mmsg", "--budget", "25s"]);
    let words = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let expected =
        "Its only start failed, so there is no figure: ends ended with status 7 before it was ready";
    // The words are wrapped at a terminal's width.
    let on_one_line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        on_one_line.contains(expected) && words.contains("Its last words:\n      opening <the> zone"),
        "{words}"
    );
}

#[test]
fn a_comparison_says_which_side_failed_before_it_measures_anything() {
    let lab = Lab::new();
    std::fs::write(lab.folder.path().join("late.sh"), "echo \"cannot bind port $1\" >&2\nexit 7\n").unwrap();
    let good = "{kqps} serve echo --listen {endpoint}";
    let began = Instant::now();
    let output = lab.kqps(&["compare", "--a", good, "--b", "sh ./late.sh {port}"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let expected =
        "B, sh, could not be measured: sh ended with status 7 before it was ready; its last words:";
    assert!(said.contains(expected) && said.contains("cannot bind port "), "{said}");
    assert!(!said.contains("faster") && !said.contains("equivalent") && output.stdout.is_empty(), "{said}");
    assert_eq!(lab.stored().trials.len(), 1);
    assert!(began.elapsed() < Duration::from_mins(1), "{said}");
    assert!(lab.left_behind().is_empty(), "{:?}", lab.left_behind());
}

/// This is a dry run, so only the words can be wrong.
#[test]
fn an_echo_with_settings_is_a_subject_as_others_are() {
    let lab = Lab::new();
    let output = lab.kqps(&[
        "run",
        "--subject",
        "echo io=epoll workers=2",
        "--echo",
        "mmsg",
        "--budget",
        "25s",
        "--dry-run",
    ]);
    let words = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(words.contains("\n  echo io=epoll workers=2: search for the highest rate"), "{words}");
    assert!(!Path::new(&lab.out()).exists());
}
