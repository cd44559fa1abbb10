//! Processes that kqps starts as itself end with it, even if the kernel forgot the tie between the two. It forgets when
//! a user other than root executes a file with capabilities; here setpriv(1) makes it forget.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Output, Stdio};

use kqps_kernel::process::{Signal, tie_kqps};

use crate::serve::running::Running;

#[test]
fn a_server_ties_itself_again() {
    let start = || {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "clear", env!("CARGO_BIN_EXE_kqps"), "serve", "echo", "--json"]);
        command.args(["--listen", "127.0.0.1:0", "--for", "20s"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // It has tied itself before it is ready, and this thread lives until then.
        Running::from_child(tie_kqps(&mut command).spawn().unwrap())
    };
    let mut server = std::thread::spawn(start).join().unwrap();
    assert_eq!(server.child.wait().unwrap().signal(), Some(Signal::Kill.number()));
}

/// Runs kqps with a parent by its variable, as the leader of a group or as another process.
fn run(parent: u32, leads: bool) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.args(["completions", "bash"]).env("KQPS_TIED_TO", parent.to_string()).stdin(Stdio::null());
    if leads {
        command.process_group(0);
    }
    command.output().unwrap()
}

#[test]
fn a_child_whose_parent_has_ended_does_not_begin() {
    let mut parent = Command::new("true").spawn().unwrap();
    let ended = parent.id();
    parent.wait().unwrap();
    let orphan = run(ended, true);
    assert_eq!((orphan.status.code(), orphan.stdout.len()), (Some(1), 0));
    let said = String::from_utf8(orphan.stderr).unwrap();
    assert!(said.contains("the process that started this one has ended"), "{said}");
    // The variable is in the environment of all that a tied program starts, and means none of that.
    assert!(run(ended, false).status.success());
    assert!(run(1, true).status.success());
}
