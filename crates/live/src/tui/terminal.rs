//! The terminal itself: it is set up once, and restored whatever happens, by the end of the drawing, by a panic, or by
//! the end of the program. None of that waits for long if the terminal takes no bytes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, Once, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};
use rustix::fs::OFlags;

/// Room for one drawing, so that the terminal gets it by few calls.
const ROOM_BYTES: usize = 1 << 16;

/// How long a drawing, and the restoring, wait for a terminal that takes no bytes.
const PATIENCE: Duration = Duration::from_millis(300);

/// The time between two attempts to write.
const PAUSE: Duration = Duration::from_millis(5);

/// Whether the terminal is set up.
static IS_SET_UP: AtomicBool = AtomicBool::new(false);

/// Held while something is written, so that no drawing comes after the restoring.
static WRITING: Mutex<()> = Mutex::new(());

/// The terminal of standard error, opened once more, so that a write to it waits neither for the terminal nor for what
/// else is written to standard error.
#[derive(Debug)]
pub(super) struct Tty(File);

impl Tty {
    pub(super) fn open() -> io::Result<Self> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let file = OpenOptions::new().write(true).custom_flags(flags).open("/proc/self/fd/2")?;
        Ok(Self(file))
    }
}

impl Write for Tty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                    thread::sleep(PAUSE);
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The screen to draw on.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Tty>>>,
    /// Whether the terminal missed a part of a drawing, so that all of it has to be drawn.
    is_spoiled: bool,
}

impl Screen {
    /// Sets the terminal up: keys come at once and are not echoed, and what it showed comes back later. If a thread panics,
    /// the terminal is restored, and `on_panic` is called before the panic is printed.
    pub(super) fn enter(on_panic: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        let (mut tty, drawn_on) = (Tty::open()?, Tty::open()?);
        HOOK.call_once(move || {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                restore();
                on_panic();
                before(panic);
            }));
        });
        IS_SET_UP.store(true, SeqCst);
        let mut entered = || {
            enable_raw_mode()?;
            execute!(tty, EnterAlternateScreen, Hide)
        };
        let terminal = entered()
            .and_then(|()| {
                Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(ROOM_BYTES, drawn_on)))
            })
            .inspect_err(|_| restore())?;
        Ok(Self { terminal, is_spoiled: false })
    }

    /// Draws. A terminal that does not take it misses this drawing, and nothing else.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) {
        let Ok(_writing) = WRITING.lock() else { return };
        if !IS_SET_UP.load(SeqCst) {
            return;
        }
        if self.is_spoiled && self.terminal.clear().is_err() {
            return;
        }
        self.is_spoiled = self.terminal.draw(draw).is_err();
    }
}

/// Restores the terminal, if it is set up. It may be called at any time and from any thread. A terminal that takes no bytes
/// holds it up for a moment only.
pub fn restore() {
    if IS_SET_UP.swap(false, SeqCst) {
        // A drawing that has begun comes first, unless this thread panicked in it.
        let deadline = Instant::now() + 2 * PATIENCE;
        let _writing = loop {
            match WRITING.try_lock() {
                Ok(writing) => break Some(writing),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(PAUSE),
                Err(_) => break None,
            }
        };
        if let Ok(mut tty) = Tty::open() {
            let _ = execute!(tty, LeaveAlternateScreen, Show);
        }
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_terminal_that_takes_no_bytes_is_an_error_and_no_hang() {
        let (_reader, writer) = io::pipe().unwrap();
        let flags = rustix::fs::fcntl_getfl(&writer).unwrap() | OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(&writer, flags).unwrap();
        let mut tty = Tty(File::from(writer.as_fd().try_clone_to_owned().unwrap()));
        let error = tty.write_all(&vec![b'x'; 1 << 22]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
