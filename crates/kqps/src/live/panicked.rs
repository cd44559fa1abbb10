//! A thread that panics while the terminal is drawn on. The test runs itself again in a pseudo-terminal.

#[expect(dead_code, reason = "the tests of the program use the rest of it")]
#[path = "../../tests/cli/live/pty.rs"]
mod pty;

use std::process::Command;
use std::thread;
use std::time::Duration;

use super::{LOOK, LiveArgs, Views};
use crate::signals;
use pty::Terminal;

/// The longest wait for anything. It is far above the need, so that only a hang ends the test.
const PATIENCE: Duration = Duration::from_mins(2);

/// Set for the program inside of the terminal.
const INSIDE: &str = "KQPS_TEST_INSIDE_A_TERMINAL";

#[test]
fn a_panic_leaves_a_usable_terminal_and_what_was_printed() {
    if std::env::var_os(INSIDE).is_some() {
        draw_and_panic();
        return;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "live::panicked::a_panic_leaves_a_usable_terminal_and_what_was_printed"]);
    again.arg("--nocapture").env(INSIDE, "1").env("TERM", "xterm");
    let mut terminal = Terminal::start((40, 120), &again, |_| ());
    terminal.wait_for("q end early");
    terminal.press("q");
    let (status, left) = terminal.end();
    let places =
        ["printed while drawn", "a fault of a thread", "printed afterwards"].map(|said| left.find(said));
    assert!(status.success() && places[0].is_some() && places.is_sorted(), "{places:?} in\n{left}");
}

/// Draws until a key, and then has a thread panic.
fn draw_and_panic() {
    let interrupts = signals::in_order();
    let mut views =
        Views::open(&LiveArgs { tui: true, ..LiveArgs::default() }, "kqps load 127.0.0.1:5300").unwrap();
    views.begin().unwrap();
    eprintln!("printed while drawn");
    while interrupts.count() == 0 {
        thread::sleep(LOOK);
    }
    thread::spawn(|| panic!("a fault of a thread")).join().unwrap_err();
    eprintln!("printed afterwards");
}
