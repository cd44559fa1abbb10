//! An error says everything once: what happened, where, and the system's message.

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use kqps_observation::{Run, SCHEMA, Store};
use kqps_skips::{Capability, skip};

/// The ID of a user without privileges.
const NOBODY: u32 = 65_534;

/// The status of a command that fails, and its one line of stderr.
fn one_line(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error.lines().count(), 1, "{command:?}: {error}");
    (output.status.code(), error.trim_end().to_owned())
}

fn refused(folder: &Path, arguments: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    one_line(command.args(arguments.split(' ')).current_dir(folder))
}

/// Writes a store that is cut off in the middle of its tables.
fn write_cut_store(folder: &Path) {
    fs::create_dir(folder).unwrap();
    let file = folder.join("run.sqlite");
    let run = Run { schema: SCHEMA, study: "default".into(), ..Run::default() };
    Store::create(&file, &run).unwrap().finish(1).unwrap();
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
}

#[test]
fn no_clause_comes_twice_and_the_status_shows_whose_fault_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("queries"), "a.example A\n").unwrap();
    fs::write(folder.join("file"), "").unwrap();
    fs::create_dir(folder.join("empty")).unwrap();
    write_cut_store(&folder.join("cut"));
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let load = |flags: &str| format!("load 127.0.0.1:{port} -d queries -Q 1 -c 1 {flags}");
    let cases = [
        (2, "run --resume --out nothere".to_owned(), "nothere cannot be read"),
        (2, "run --resume empty".to_owned(), "to go on: kqps run --resume --out empty"),
        (2, "compare --resume empty".to_owned(), "to go on: kqps compare --resume --out empty"),
        (2, "compare --resume nothere".to_owned(), "to go on: kqps compare --resume --out DIR"),
        (2, "report nothere".to_owned(), "nothere cannot be read"),
        (2, "run --resume --out empty".to_owned(), "empty holds no run: there is no run.sqlite in it"),
        (2, "report empty".to_owned(), "empty holds no run: there is no run.sqlite in it"),
        (2, "run --resume --out file".to_owned(), "file is no folder"),
        (2, "run --resume --out cut".to_owned(), "database disk image is malformed"),
        (2, "report cut".to_owned(), "database disk image is malformed"),
        (2, "compare cut cut".to_owned(), "database disk image is malformed"),
        (2, "run empty".to_owned(), "empty is a folder; expected the file of a study, or its name"),
        (
            2,
            "run cut".to_owned(),
            "cut is a folder; expected the file of a study, or its name; to see what it holds: kqps report cut",
        ),
        (2, "run models --resume".to_owned(), "--resume takes no study, since a run has its own; "),
        (2, "run nsd".to_owned(), "measure it by: kqps run --subject nsd"),
        (2, "compare nsd knot".to_owned(), "subjects are named by --a and --b"),
        (2, "compare nothere cut".to_owned(), "nothere cannot be read (No such file or directory"),
        (2, "report .".to_owned(), ". holds no run itself; name one of the folders in it, such as ./cut"),
        (2, load("-a 192.0.2.1"), "-a: this host has no address 192.0.2.1"),
        (
            1,
            load(&format!("-a 127.0.0.1 -x {port}")),
            "another program has this port; send from other ports (-x)",
        ),
        (2, "load 127.0.0.1 -Q 1 -d none".to_owned(), "cannot open none: No such file or directory"),
        (
            1,
            "gen queries -n 1 -o /nonexist/q".to_owned(),
            "cannot write /nonexist/q: No such file or directory",
        ),
        (1, "gen queries -n 1 -o empty".to_owned(), "it exists and is not a regular file"),
    ];
    for (status, arguments, wanted) in cases {
        let (code, error) = refused(folder, &arguments);
        assert_eq!(code, Some(status), "{arguments}: {error}");
        assert!(error.contains(wanted), "{arguments}: {error}");
        let clauses: Vec<&str> = error.split(": ").collect();
        let distinct: BTreeSet<&str> = clauses.iter().copied().collect();
        assert_eq!(clauses.len(), distinct.len(), "{arguments}: {error}");
        assert!(!error.contains(".unfinished-"), "{error}");
    }
}

#[test]
fn what_may_not_be_read_or_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let closed = folder.join("closed");
    fs::create_dir(&closed).unwrap();
    mode(folder, 0o755);
    mode(&closed, 0);
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
        // Root can read it in any case.
        if fs::read_dir(&closed).is_ok() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.current_dir(folder);
        command
    };
    if !command().arg("--version").output().is_ok_and(|output| output.status.success()) {
        let program = env!("CARGO_BIN_EXE_kqps");
        return skip(Capability::OtherUsers, format!("no other user may start {program}"));
    }
    for (status, arguments, wanted) in [
        (2, "load 127.0.0.1 -Q 1 -d closed/queries", "cannot open closed/queries: Permission denied"),
        (2, "run closed/study.toml", "cannot read closed/study.toml: Permission denied"),
        (2, "run --resume --out closed", "closed cannot be read (Permission denied"),
        (2, "report closed", "closed cannot be read (Permission denied"),
        (2, "compare closed closed", "closed cannot be read (Permission denied"),
        (1, "run --budget 1h --out closed/run", "cannot make closed/run: Permission denied"),
        (1, "gen queries -n 1 -o closed/queries", "cannot write closed/queries: permission denied"),
        (2, "serve auth --zones closed --listen 127.0.0.1:0", "cannot read closed: Permission denied"),
    ] {
        let (code, error) = one_line(command().args(arguments.split(' ')));
        assert!(code == Some(status) && error.contains(wanted), "{arguments}: {code:?}, {error}");
    }
    // Otherwise an unprivileged user could not remove it.
    mode(&closed, 0o755);
}
