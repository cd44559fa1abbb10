//! kqps in a pseudo-terminal, whose screen is read as a terminal would show it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use kqps_kernel::process::{Signal, signal};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::PATIENCE;

/// Gives the whole screen back: what is shown then is on the screen of before.
const LEAVES: &str = "\x1b[?1049l";

/// A terminal with a program in it.
pub(super) struct Terminal {
    child: Child,
    ours: File,
    /// Kept, so that the terminal can be read after the program has ended.
    theirs: OwnedFd,
    bytes: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// All that the program wrote.
    written: Vec<u8>,
    /// Whether anything was ever shown in colour.
    pub(super) was_colored: bool,
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// A number of rows or columns, which is not 0.
fn some(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap()
}

impl Terminal {
    /// Starts a command in a terminal of this size, with the terminal as its standard streams; `prepare` may change that.
    pub(super) fn start(
        (rows, columns): (u16, u16),
        command: &Command,
        prepare: impl FnOnce(&mut Command),
    ) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        tcsetwinsize(&ours, size(rows, columns)).unwrap();
        let stream = || Stdio::from(theirs.try_clone().unwrap());
        // The terminal is that of a session of its own, so that keys and sizes reach the program.
        let mut inside = Command::new("setsid");
        inside.arg("--ctty").arg(command.get_program()).args(command.get_args());
        for (variable, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(variable, value),
                None => inside.env_remove(variable),
            };
        }
        inside.stdin(stream()).stdout(stream()).stderr(stream());
        prepare(&mut inside);
        let child = inside.spawn().unwrap();
        let ours = File::from(ours);
        let (sender, bytes) = channel();
        let mut reader = ours.try_clone().unwrap();
        thread::spawn(move || {
            let mut room = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut room) {
                if sender.send(room[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        let screen = vt100::Parser::new(some(rows), some(columns), 1000);
        Self { child, ours, theirs, bytes, screen, written: Vec::new(), was_colored: false }
    }

    /// Presses keys.
    pub(super) fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    /// Changes the size. The kernel tells the program.
    pub(super) fn resize(&mut self, rows: u16, columns: u16) {
        self.screen.screen_mut().set_size(some(rows), some(columns));
        tcsetwinsize(&self.ours, size(rows, columns)).unwrap();
    }

    /// Signals the program.
    pub(super) fn signal(&self, number: Signal) {
        signal(self.child.id(), number).unwrap();
    }

    /// The text on the screen.
    pub(super) fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Whether the program has the whole screen.
    pub(super) fn is_drawn(&self) -> bool {
        self.screen.screen().alternate_screen()
    }

    /// Waits until the screen is as wanted. `what` names that.
    pub(super) fn wait(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            let bytes = self.bytes.recv_timeout(left);
            let bytes = bytes.unwrap_or_else(|_| panic!("no {what}, but this:\n{}", self.text()));
            self.take(&bytes);
        }
    }

    /// Waits until the screen has this text.
    pub(super) fn wait_for(&mut self, text: &str) {
        self.wait(text, |terminal| terminal.text().contains(text));
    }

    fn take(&mut self, bytes: &[u8]) {
        self.screen.process(bytes);
        self.written.extend_from_slice(bytes);
        let screen = self.screen.screen();
        let (rows, columns) = screen.size();
        let (rows, columns) = (u16::from(rows), u16::from(columns));
        let mut cells =
            (0..rows).flat_map(|row| (0..columns).filter_map(move |column| screen.cell(row, column)));
        self.was_colored |= cells
            .any(|cell| (cell.fgcolor(), cell.bgcolor()) != (vt100::Color::Default, vt100::Color::Default));
    }

    /// Waits until the program has ended. Returns its status, and what it wrote after it gave the whole screen back; all
    /// that it wrote if it never had it.
    pub(super) fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        let local = tcgetattr(&self.theirs).unwrap().local_modes;
        // A byte of our own comes after all that the program wrote.
        rustix::io::write(&self.theirs, b"\x1b[999;1H~~~").unwrap();
        self.wait("end", |terminal| terminal.text().contains("~~~"));
        assert!(local.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG), "{local:?}");
        assert!(!self.is_drawn() && !self.screen.screen().hide_cursor(), "it is as it was before");
        let written = String::from_utf8_lossy(&self.written).into_owned();
        (status, written.split_once(LEAVES).map_or(written.clone(), |(_, left)| left.to_owned()))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a failed test the program still runs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
