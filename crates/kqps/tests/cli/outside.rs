//! Text from outside, wherever it comes from and wherever kqps shows it: no control character and no
//! bidirectional one reaches a terminal, a page, JSON or Prometheus, and bytes that are no UTF-8 cause no
//! failure.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::question::Experiment;
use kqps_observation::run::{Outcome, Purpose, Role};
use kqps_observation::{Cell, CellLoad, Factors, Fingerprint, Question, Run, RunTrial, SCHEMA, Store};
use tempfile::TempDir;

use crate::load::bench::kqps;
use crate::serve::running::Running;

/// Characters that a terminal obeys, markup for a page, and characters that reverse the direction of reading.
const HOSTILE: &str =
    "\x1b[31m\x1b]0;title\x07\r\x7f\u{9b}2J\u{202e}evil\u{2066}<b>\"'&</script><script>x()</script>";

/// How the beginning of `HOSTILE` is shown.
const SHOWN: &str = r"\x1b[31m\x1b]0;title\x07\x0d\x7f\u{9b}2J\u{202e}evil\u{2066}";

/// Whether text is safe to show: its only control characters are line feeds and tabs.
fn is_plain(text: &str) -> bool {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !text.chars().any(|c| turns(c) || c.is_control() && !matches!(c, '\n' | '\t'))
}

/// Both streams of a command, which must be safe to show.
fn plain(output: &Output) -> (String, String) {
    [&output.stdout, &output.stderr]
        .map(|bytes| {
            let text = String::from_utf8(bytes.clone()).expect("what is printed is UTF-8");
            assert!(is_plain(&text), "{text:?}");
            text
        })
        .into()
}

/// A run as it may come from another host: each of its texts is hostile.
fn foreign(folder: &Path) {
    let text = || HOSTILE.to_owned();
    let cell = Cell {
        name: text(),
        subject: text(),
        version: Some(text()),
        io: text(),
        role: Role::Subject,
        load: CellLoad::Closed(1.0),
        factors: Factors::read([(text(), text())]).unwrap(),
        experiment: text(),
        ..Cell::default()
    };
    let experiment = Experiment { name: text(), title: text(), about: text(), ..Experiment::default() };
    let fingerprint = Fingerprint {
        cpu_model: text(),
        kernel: text(),
        os: Some(text()),
        hypervisor: Some(text()),
        sysctls: [(text(), text())].into(),
        binaries: [(text(), BinaryFacts { path: text(), version: Some(text()), blake3: None })].into(),
        unreadable: [(text(), text())].into(),
        ..Fingerprint::default()
    };
    let run = Run {
        schema: SCHEMA,
        study: text(),
        kqps_version: text(),
        command: vec![text()],
        cells: vec![cell],
        fingerprint,
        skipped: [(text(), text())].into(),
        question: Some(Question {
            title: text(),
            question: text(),
            experiments: vec![experiment],
            ..Question::default()
        }),
        ..Run::default()
    };
    fs::create_dir(folder).unwrap();
    let store = Store::create(&folder.join("run.sqlite"), &run).unwrap();
    let outcome = Outcome::Failed { reason: text(), output: vec![text(), "\0".into()] };
    let trial = RunTrial { number: 1, cell: 0, block: 0, start: 1, purpose: Purpose::Closed, outcome };
    store.commit(&trial).unwrap();
}

#[test]
fn a_foreign_run_is_shown_as_text() {
    let folder = TempDir::new().unwrap();
    // The name of its folder is no UTF-8.
    let run = folder.path().join(OsStr::from_bytes(b"run \x1b[31m\xff?#%41"));
    foreign(&run);
    let output = kqps(&["report"]).arg(&run).output().unwrap();
    let (_, error) = plain(&output);
    assert!(output.status.success(), "{error}");
    let html = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(is_plain(&html));
    assert!(html.matches(SHOWN).count() > 10, "the page shows what is there");
    assert!(!html.contains("<script") && !html.contains("<b>\"") && !html.contains("evil\u{2066}"), "{html}");
    for other in [&run, &folder.path().join("nothing\x1b[31m")] {
        let output = kqps(&["compare"]).args([&run, other]).output().unwrap();
        let (_, error) = plain(&output);
        assert!(error.starts_with("kqps: "), "{error}");
    }
}

#[test]
fn what_a_user_types_is_quoted_as_text() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, format!("{HOSTILE} A\n[[{HOSTILE}]]\n")).unwrap();
    let file = file.to_str().unwrap();
    let backend = format!("{HOSTILE}://127.0.0.1");
    for (arguments, is_quoted) in [
        (&[HOSTILE][..], false),
        (&["load", HOSTILE], false),
        (&["load", HOSTILE, "-d", file, "-Q", "1"], true),
        (&["load", "127.0.0.1", "-d", HOSTILE, "-Q", "1"], true),
        (&["load", "127.0.0.1", "-d", file, "-Q", "1"], false),
        (&["load", "127.0.0.1", "-d", file, "-Q", HOSTILE], false),
        (&["load", "127.0.0.1", "-d", file, "-Q", "1", "--allow-target", HOSTILE], false),
        (&["run", HOSTILE], true),
        (&["run", file], false),
        (&["run", "--subject", HOSTILE], true),
        (&["run", "--subject", file], false),
        (&["run", "--command", HOSTILE], true),
        (&["run", "--echo", HOSTILE], true),
        (&["run", "--resume", "--out", HOSTILE], true),
        (&["report", HOSTILE], true),
        (&["compare", HOSTILE, HOSTILE], true),
        (&["compare", "--a", HOSTILE, "--b", HOSTILE], true),
        (&["man", HOSTILE], true),
        (&["gen", "recipe", HOSTILE], true),
        (&["gen", "zone", "--origin", HOSTILE, "-o", "/nonexistent/zone"], false),
        (&["gen", "zone", "--recipe", HOSTILE, "-o", "zone"], true),
        (&["gen", "zone", "--recipe", "root", "--set", HOSTILE, "-o", "zone"], true),
        (&["serve", "auth", "--zone", HOSTILE], true),
        (&["serve", "auth", "--zone", file], false),
        (&["serve", "auth", "--zones", HOSTILE], true),
        (&["serve", "front", "--backend", &backend], false),
        (&["serve", "front", "--config", file], false),
        (&["serve", "status", HOSTILE], true),
    ] {
        let output = kqps(arguments).current_dir(folder.path()).output().unwrap();
        let (printed, error) = plain(&output);
        assert!(matches!(output.status.code(), Some(1 | 2)) && printed.is_empty(), "{arguments:?}: {error}");
        assert!(!is_quoted || error.contains("evil"), "{arguments:?}: {error}");
    }
}

#[test]
fn a_front_shows_the_names_of_back_ends_as_text() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("status");
    let back_end = format!("{}=udp://127.0.0.1:9", HOSTILE.replace(':', ""));
    let arguments =
        ["--listen", "127.0.0.1:0", "--backend", &back_end, "--metrics", "127.0.0.1:0", "--status"];
    let arguments = [&arguments[..], &[socket.to_str().unwrap()]].concat();
    let server = Running::start_as("front", &arguments);
    let name = HOSTILE.replace(':', "");
    assert_eq!(server.ready["back_ends"][&name], "udp://127.0.0.1:9", "JSON means the name as it is");

    let status =
        |more: &[&str]| plain(&kqps(&["serve", "status"]).arg(&socket).args(more).output().unwrap()).0;
    assert!(status(&[]).contains(SHOWN), "{}", status(&[]));
    let json: serde_json::Value = serde_json::from_str(&status(&["--json"])).unwrap();
    assert!(json["back_ends"][&name].is_object(), "{json}");
    let mut raw = String::new();
    UnixStream::connect(&socket).unwrap().read_to_string(&mut raw).unwrap();
    assert!(is_plain(&raw) && serde_json::from_str::<serde_json::Value>(&raw).is_ok(), "{raw}");

    let mut stream = TcpStream::connect(server.ready["metrics"].as_str().unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    let (_, metrics) = metrics.split_once("\r\n\r\n").unwrap();
    let label = SHOWN.replace('\\', r"\\");
    assert!(metrics.contains(&format!("kqps_front_back_end_up{{back_end=\"{label}<b>\\\"'&")), "{metrics}");
    assert!(is_plain(&metrics.replace('\r', "")), "{metrics}");
    drop(server);

    let words =
        kqps(&["serve", "front", "--for", "0s"]).args(arguments).stdin(Stdio::null()).output().unwrap();
    let (printed, _) = plain(&words);
    assert!(printed.contains(&format!("Back end {SHOWN}")), "{printed}");
}

/// A subject whose name, output and version are hostile.
const LOUD: &str = r#"
name = "loud"
title = "\u001b[31m<b>Loud</b> & \u202e\"co\""
about = "</script><script>document.title='taken'</script>\u001b[0m"
programs = []
io = "mmsg"
[start]
command = ["sh", "-c", '''printf '\033[31mred\033[0m \033]0;title\007 \000 \377 <script>x()</script>\n' >&2; END''', "kqps"]
[ready]
kind = "reply"
within_s = 20
[stop]
signal = "TERM"
within_s = 5
[version]
command = ["sh", "-c", '''printf 'loud version <i>9</i>\033[31m\377\342\200\256\n' ''']
after = "version "
"#;

/// A study of it, whose trials are short.
const OF_LOUD: &str = r#"
name = "of-loud"
title = "Loud"
question = "Is it text?"
source = "a test"
repetitions = 1
load = { closed_s = 0.1 }
[[experiment]]
name = "one"
title = "One"
subjects = ["./loud.toml"]
"#;

/// Runs `LOUD`, with `end` at the end of its start command, as these words say. Returns the run's folder and the output.
fn loud(end: &str, words: &[&str]) -> (TempDir, Output) {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("loud.toml"), LOUD.replace("END", end)).unwrap();
    fs::write(folder.path().join("study.toml"), OF_LOUD).unwrap();
    let mut command: Command = kqps(&["run", "--records", "200", "--seed", "5", "--out", "out"]);
    let output = command.args(words).current_dir(folder.path()).output().unwrap();
    (folder, output)
}

#[test]
fn a_subject_that_prints_anything_is_measured_and_shown_as_text() {
    let program = env!("CARGO_BIN_EXE_kqps");
    let serve = format!("exec {program} serve echo --listen 127.0.0.1:{{port}} --threads {{workers}}");
    let last_words = r"\x1b[31mred\x1b[0m \x1b]0;title\x07 \x00";
    let search = ["--subject", "./loud.toml", "--echo", "mmsg", "--budget", "25s"];
    for (words, end, printed, on_page) in [
        (&search[..], serve.as_str(), r"<i>9</i>\x1b[31m", r"\x1b[31m"),
        (
            &["study.toml"],
            "exit 9; : {port}",
            "\\x1b[31m<b>Loud</b> & \\u{202e}\"co\" ended with status 9",
            last_words,
        ),
    ] {
        let (folder, output) = loud(end, words);
        let (words, error) = plain(&output);
        let on_one_line = words.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(on_one_line.contains(printed), "{words}{error}");
        let html = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
        assert!(is_plain(&html) && !html.contains("<script") && !html.contains("<i>9"), "{end}");
        assert!(html.contains(on_page), "{html}");
        Store::read(&folder.path().join("out/run.sqlite")).unwrap();
    }
}

#[test]
fn a_name_makes_no_file_elsewhere() {
    let folder = TempDir::new().unwrap();
    let [inner, subject, study] = ["a/b", "subject.toml", "study.toml"].map(|name| folder.path().join(name));
    fs::create_dir_all(&inner).unwrap();
    for name in ["../../taken", "..", "a/b", "/tmp/taken", "a\\u001bb", ""] {
        fs::write(&subject, LOUD.replace("\"loud\"", &format!("\"{name}\""))).unwrap();
        let question = "question = \"q\"\nsource = \"s\"\nload = { closed_s = 0.1 }\n";
        let experiment =
            "[[experiment]]\nname = \"one\"\ntitle = \"One\"\n[experiment.factors]\nio = [\"mmsg\"]\n";
        fs::write(
            &study,
            format!("title = \"t\"\nname = \"{name}\"\nrepetitions = 1\n{question}{experiment}"),
        )
        .unwrap();
        for (file, place, wanted) in [(&subject, ":2:", "--subject"), (&study, ":2:", "")] {
            let words = ["run", wanted, file.to_str().unwrap(), "--out", "out"];
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            let output = kqps(&words).current_dir(&inner).output().unwrap();
            let (_, error) = plain(&output);
            let place = format!("{}{place}", file.display());
            assert!(output.status.code() == Some(2) && error.contains(&place), "{name}: {error}");
        }
    }
    assert_eq!(fs::read_dir(&inner).unwrap().count(), 0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}
