//! `kqps report` as a user runs it: the page of a stored run, or one clear error.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use kqps_observation::run::{Outcome, Purpose, Role};
use kqps_observation::{Cell, Run, RunTrial, SCHEMA, Store};
use tempfile::TempDir;

/// A folder with the store of a run whose only subject did not start.
fn stored() -> TempDir {
    let folder = TempDir::new().unwrap();
    let cell = Cell { name: "nsd".into(), subject: "nsd".into(), role: Role::Subject, ..Cell::default() };
    let run = Run { schema: SCHEMA, study: "default".into(), cells: vec![cell], ..Run::default() };
    let store = Store::create(&folder.path().join("run.sqlite"), &run).unwrap();
    let outcome = Outcome::Failed { reason: "the server <died>".into(), output: vec!["no zone".into()] };
    let trial = RunTrial { number: 1, cell: 0, block: 0, start: 1, purpose: Purpose::Search, outcome };
    store.commit(&trial).unwrap();
    folder
}

fn report(folder: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kqps")).arg("report").arg(folder).args(more).output().unwrap()
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_page_lies_beside_the_store_and_can_be_made_again() {
    let folder = stored();
    for _ in 0..2 {
        let output = report(folder.path(), &[]);
        assert!(output.status.success(), "{}", stderr_of(&output));
        let page = folder.path().join("report.html");
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), page.to_str().unwrap());
        let html = fs::read_to_string(page).unwrap();
        assert!(html.contains("nsd") && html.contains("the server &#60;died&#62;"), "{html}");
    }
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().filter(|entry| is_page(entry.as_ref().unwrap())).count(),
        1
    );
}

/// Whether a file of a folder is a page or a part of one.
fn is_page(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().contains("report.html")
}

#[test]
fn the_page_goes_to_the_given_path() {
    let folder = stored();
    let elsewhere = TempDir::new().unwrap();
    let page = elsewhere.path().join("page.html");
    assert!(report(folder.path(), &["-o", page.to_str().unwrap()]).status.success());
    assert!(fs::read_to_string(page).unwrap().ends_with("</html>"));
    assert!(!folder.path().join("report.html").exists());
}

#[test]
fn what_is_no_run_is_refused_with_status_2() {
    let empty = TempDir::new().unwrap();
    let damaged = TempDir::new().unwrap();
    fs::write(
        damaged.path().join("run.sqlite"),
        "not a database, by far, but longer than its header is, by a few bytes so",
    )
    .unwrap();
    for (folder, reason) in [
        (empty.path().join("nowhere"), "cannot be read (No such file"),
        (empty.path().to_owned(), "there is no run.sqlite in it"),
        (damaged.path().to_owned(), "is not the store of a run"),
    ] {
        let output = report(&folder, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr_of(&output));
        assert!(stderr_of(&output).contains(reason), "{}", stderr_of(&output));
        assert!(!folder.join("report.html").exists());
    }
}

#[test]
fn a_page_that_cannot_be_written_leaves_nothing() {
    let folder = stored();
    let nowhere = folder.path().join("no such folder").join("page.html");
    let output = report(folder.path(), &["-o", nowhere.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr_of(&output).contains("cannot write"), "{}", stderr_of(&output));
}

/// As when the disk is full by then.
#[test]
fn a_page_that_cannot_be_written_hides_no_verdict() {
    let folder = TempDir::new().unwrap();
    let run = Run { schema: SCHEMA, study: "default".into(), goal: "quick".into(), ..Run::default() };
    Store::create(&folder.path().join("run.sqlite"), &run).unwrap().finish(1).unwrap();
    fs::create_dir(folder.path().join("report.html")).unwrap();
    for (more, expected) in [(&[][..], "No name server was measured"), (&["--json"], "\"report\":null")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
        let output =
            command.args(["run", "--resume", "--out"]).arg(folder.path()).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr_of(&output));
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains(expected) && !printed.contains("report.html"), "{printed}");
        let error = stderr_of(&output);
        assert!(error.contains("what was measured is stored; to make its page: kqps report"), "{error}");
    }
}

/// The stores of users, as every earlier version wrote them.
#[test]
fn runs_of_every_older_schema_have_a_page() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../observation/tests/fixtures");
    let mut names = Vec::new();
    for schema in 1..SCHEMA {
        let folder = TempDir::new().unwrap();
        let dump = fs::read_to_string(fixtures.join(format!("schema{schema}.sql"))).unwrap();
        let store = rusqlite::Connection::open(folder.path().join("run.sqlite")).unwrap();
        store.execute_batch(&dump).unwrap();
        drop(store);
        let output = report(folder.path(), &["--why"]);
        assert_eq!(output.status.code(), Some(0), "schema {schema}: {}", stderr_of(&output));
        let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
        names.push(["nsd", "rates: io=blocking"].map(|name| page.contains(name)));
    }
    assert_eq!(names, [[true, false], [false, true], [false, true]]);
}
