//! `kqps gen` as a user runs it: name servers load its files, and its errors say what to do.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use kqps_kernel::process::{Signal, signal};

fn generate(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kqps")).arg("gen").args(args).current_dir(directory).output().unwrap()
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The path of a name server's program, if it is installed.
fn installed(program: &str) -> Option<&'static Path> {
    let paths: &[&'static str] = match program {
        "nsd-checkzone" => &["/usr/sbin/nsd-checkzone"],
        "named-checkzone" => &["/usr/bin/named-checkzone", "/usr/sbin/named-checkzone"],
        _ => &["/usr/bin/kzonecheck", "/usr/sbin/kzonecheck"],
    };
    paths.iter().map(Path::new).find(|path| path.exists())
}

#[test]
fn name_servers_load_a_generated_zone() {
    let directory = tempfile::tempdir().unwrap();
    let zone = directory.path().join("zone");
    let output =
        generate(directory.path(), &["zone", "--origin", "example.test", "--records", "100k", "-o", "zone"]);
    assert!(output.status.success(), "{}", stderr_of(&output));
    assert_eq!(stderr_of(&output), "zone: 100000 address records under example.test\n");
    assert_eq!(output.stdout, b"");
    for program in ["nsd-checkzone", "named-checkzone", "kzonecheck"] {
        let Some(path) = installed(program) else { continue };
        let mut check = Command::new(path);
        if program == "kzonecheck" {
            check.args(["-o", "example.test"])
        } else {
            check.arg("example.test")
        };
        let checked = check.arg(&zone).output().unwrap();
        let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
        assert!(checked.status.success(), "{program}: {said}");
    }
}

#[test]
fn queries_ask_for_names_of_the_zone() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let names = ["--origin", "bench.test", "--records", "50", "--label-length", "8", "--seed", "9"];
    assert!(generate(at, &[&["zone"], &names[..], &["-o", "zone"]].concat()).status.success());
    let wanted = ["-n", "2k", "--nxdomain", "10%", "--types", "A:60,AAAA:40", "--popularity", "zipf:1.0"];
    let output = generate(at, &[&["queries"], &names[..], &wanted, &["-o", "queries"]].concat());
    assert!(output.status.success(), "{}", stderr_of(&output));
    let zone = fs::read_to_string(at.join("zone")).unwrap();
    let queries = fs::read_to_string(at.join("queries")).unwrap();
    assert_eq!(queries.lines().count(), 2000);
    for line in queries.lines() {
        let (label, rest) = line.split_once('.').unwrap();
        assert_eq!(label.len(), 8);
        assert_eq!(zone.contains(&format!("\n{label} IN A ")), rest.ends_with(" NOERROR"), "{line}");
    }
    let plain = [&["queries"], &names[..], &["-n", "10", "--no-expected", "-o", "queries"]].concat();
    assert!(generate(at, &plain).status.success());
    assert!(
        fs::read_to_string(at.join("queries")).unwrap().lines().all(|line| line.ends_with(".bench.test. A"))
    );
}

#[test]
fn bad_usage_is_reported_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for (args, status, expected) in [
        (
            &["zone", "--origin", "a..b", "-o", "out"][..],
            2,
            "bad origin \"a..b\", column 3: a label is empty",
        ),
        (&["zone", "--records", "0", "-o", "out"], 2, "0 records; expected 1 to 100000000"),
        (&["zone", "--label-length", "3", "-o", "out"], 2, "labels of 3 bytes; expected 7 to 63"),
        (&["zone"], 2, "--output <FILE|DIR>"),
        (&["zone", "--recipe", "tinny", "-o", "out"], 2, "did you mean `tiny`?"),
        (&["zone", "--recipe", "tiny", "--set", "zonse=2", "-o", "out"], 2, "did you mean `zones`?"),
        (&["zone", "--set", "zones=2", "-o", "out"], 2, "--recipe <NAME|FILE>"),
        (&["queries", "--recipe", "tiny", "--nxdomain", "5%", "-o", "out"], 2, "cannot be used with"),
        (&["queries", "--popularity", "ranks:missing", "-o", "out"], 2, "cannot read missing: No such file"),
        (&["queries", "--expect", "much", "-o", "out"], 2, "expected nothing, rcode or answers"),
        (&["recipe", "tinny"], 2, "did you mean `tiny`?"),
        (&["queries", "--types", "AAAAA", "-o", "out"], 2, "unknown type \"AAAAA\""),
        (&["queries", "--types", "A:0", "-o", "out"], 2, "expected a weight above 0"),
        (&["queries", "--popularity", "zipf", "-o", "out"], 2, "expected uniform, zipf:S"),
        (&["queries", "--popularity", "zipf:11", "-o", "out"], 2, "a Zipf exponent of 11; expected 0 to 10"),
        (&["queries", "-n", "0", "-o", "out"], 2, "the number of queries is 0"),
        (&["zone", "-o", "missing/out"], 1, "cannot write missing/out: No such file or directory"),
        (&["zone", "-o", "/dev/null"], 1, "cannot write /dev/null: it exists and is not a regular file"),
    ] {
        let output = generate(directory.path(), args);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", stderr_of(&output));
        assert!(stderr_of(&output).contains(expected), "{args:?}: {}", stderr_of(&output));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn recipes_are_listed_and_printed_to_start_from() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let list = String::from_utf8(generate(at, &["recipe"]).stdout).unwrap();
    assert_eq!(list.lines().count(), 8, "{list}");
    assert!(list.starts_with("tiny              One small zone"), "{list}");
    let text = generate(at, &["recipe", "windows-mix"]).stdout;
    fs::write(at.join("mine.toml"), text).unwrap();
    for (recipe, out) in [("mine.toml", "a"), ("windows-mix", "b")] {
        let output =
            generate(at, &["zone", "--recipe", recipe, "--set", "records=1k", "--seed", "5", "-o", out]);
        assert!(output.status.success(), "{}", stderr_of(&output));
        let expected = format!("{out}: 1 zones of 1000 entries under windows.test, and 1 that do not load\n");
        assert_eq!(stderr_of(&output), expected);
        let queries = ["queries", "--recipe", recipe, "-n", "100", "--expect", "answers", "-o"];
        let output = generate(at, &[&queries[..], &[&format!("{out}.queries")]].concat());
        assert!(output.status.success(), "{}", stderr_of(&output));
    }
    let list = |folder: &str| fs::read_to_string(at.join(folder).join("zones.list")).unwrap();
    assert_eq!((list("a").lines().count(), list("a")), (2, list("b")));
    let queries = |name: &str| fs::read_to_string(at.join(name)).unwrap();
    assert_eq!(queries("a.queries"), queries("b.queries"));
    assert!(queries("a.queries").lines().all(|line| line.contains(" =")));
    // kqps does not overwrite existing files, which may be somebody's work.
    let output = generate(at, &["zone", "--recipe", "mine.toml", "-o", "a"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr_of(&output).contains("cannot write a: it exists and is not empty"));
}

/// The names of a folder's entries.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_signal_leaves_nothing_unfinished() {
    for (arguments, how, status) in [
        (&["zone", "--records", "50M", "-o", "zone"][..], Signal::Interrupt, 130),
        (&["zone", "--records", "50M", "-o", "zone"], Signal::HangUp, 129),
        (&["zone", "--recipe", "windows-mix", "--records", "5M", "-o", "zones"], Signal::Terminate, 143),
        (&["queries", "--records", "1k", "-n", "500M", "-o", "queries"], Signal::Interrupt, 130),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
        command.arg("gen").args(arguments).current_dir(at).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !names(at).iter().any(|name| name.starts_with(".unfinished-")) {
            assert!(child.try_wait().unwrap().is_none(), "{arguments:?} ended by itself");
            std::thread::yield_now();
        }
        // Even if the signal comes twice.
        signal(child.id(), how).unwrap();
        let _ = signal(child.id(), how);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", stderr_of(&output));
        assert!(stderr_of(&output).starts_with("kqps: ended by SIG"), "{}", stderr_of(&output));
        assert_eq!(names(at), [""; 0], "{arguments:?}");
    }
}
