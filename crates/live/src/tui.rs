//! The figures on a terminal, drawn several times a second, with a few keys. The terminal is that of standard error.

mod chart;
mod screen;
mod terminal;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kqps_kernel::priority;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::hub::Hub;
use terminal::Screen;

pub use screen::{Look, draw};
pub use terminal::restore;

/// Whether the terminal of standard error takes bytes at this moment.
pub fn takes_bytes() -> bool {
    // A byte that changes nothing: the carriage return comes before lines that begin at the left.
    terminal::Tty::open().is_ok_and(|mut tty| io::Write::write(&mut tty, b"\r").is_ok())
}

/// The time between two drawings.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// How long the thread waits for a key before it looks whether to end.
const LOOK: Duration = Duration::from_millis(50);

/// How long the end waits for the drawing thread.
const END_MOST: Duration = Duration::from_secs(2);

/// How often it looks.
const END_LOOK: Duration = Duration::from_millis(2);

/// A terminal that is drawn on. When it is dropped, the terminal is as it was before.
#[derive(Debug)]
pub struct Tui {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tui {
    /// Draws what `hub` has on the terminal from now on. `is_colored` is whether it may use colours. `end` is called
    /// when the user asks the command to end, and `on_panic` after a panic of any thread has restored the terminal.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be set up.
    pub fn start(
        hub: Arc<Hub>,
        is_colored: bool,
        end: impl Fn() + Send + 'static,
        on_panic: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let screen = Screen::enter(on_panic)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = {
            let is_over = is_over.clone();
            thread::Builder::new()
                .name("terminal".to_owned())
                .spawn(move || show(screen, &hub, &is_over, is_colored, &end))
        };
        match thread {
            Ok(thread) => Ok(Self { is_over, thread: Some(thread) }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }
}

impl Drop for Tui {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        let deadline = Instant::now() + END_MOST;
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() && Instant::now() < deadline {
                thread::sleep(END_LOOK);
            }
            // If it panicked, the hook has restored the terminal. If it has not ended, the terminal takes no bytes. It
            // then draws no more.
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
        restore();
    }
}

fn show(mut screen: Screen, hub: &Hub, is_over: &AtomicBool, is_colored: bool, end: &impl Fn()) {
    // The measurement comes first.
    let _ = priority::run_last();
    let mut look = Look { is_colored, ..Look::default() };
    let mut next_at = Instant::now();
    let redraw = |screen: &mut Screen, look| {
        // A terminal that is slow holds up nobody else.
        let snapshot = hub.read(Clone::clone);
        screen.draw(|frame| draw(frame, &snapshot, look));
    };
    while !is_over.load(SeqCst) {
        if Instant::now() >= next_at {
            if !look.is_paused || look.shows_help {
                redraw(&mut screen, look);
            }
            next_at = Instant::now() + DRAW_EVERY;
        }
        match key(next_at) {
            Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                press(key, &mut look, end);
                next_at = Instant::now();
                if look.is_paused {
                    // The user sees that it is paused.
                    redraw(&mut screen, look);
                }
            }
            // A new size shows at once, also while paused.
            Some(Event::Resize(..)) => redraw(&mut screen, look),
            _ => {}
        }
    }
}

/// An event of the user until `until`, or in the next moment. Without a keyboard this only waits.
fn key(until: Instant) -> Option<Event> {
    let patience = until.saturating_duration_since(Instant::now()).min(LOOK);
    match event::poll(patience) {
        Ok(true) => event::read().ok(),
        Ok(false) => None,
        Err(_) => {
            thread::sleep(LOOK);
            None
        }
    }
}

fn press(key: KeyEvent, look: &mut Look, end: &impl Fn()) {
    if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        // The terminal passes on Ctrl-C as a key. `script` writes a NUL at the end of its input, which arrives as
        // Ctrl-Space.
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            end();
        }
        return;
    }
    match key.code {
        KeyCode::Char('q') => end(),
        KeyCode::Char('?' | 'h') => look.shows_help = !look.shows_help,
        KeyCode::Esc => look.shows_help = false,
        KeyCode::Char('p' | ' ') => look.is_paused = !look.is_paused,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn keys_end_pause_and_help() {
        let (ended, mut look) = (Cell::new(0), Look::default());
        let mut type_key = |code, modifiers| {
            press(KeyEvent::new(code, modifiers), &mut look, &|| ended.set(ended.get() + 1));
            (ended.get(), look.is_paused, look.shows_help)
        };
        let (none, control) = (KeyModifiers::NONE, KeyModifiers::CONTROL);
        assert_eq!(type_key(KeyCode::Char('p'), none), (0, true, false));
        assert_eq!(type_key(KeyCode::Char('?'), none), (0, true, true));
        assert_eq!(type_key(KeyCode::Char('q'), none), (1, true, true), "as the help says");
        assert_eq!(type_key(KeyCode::Esc, none), (1, true, false));
        assert_eq!(type_key(KeyCode::Char('x'), none), (1, true, false));
        assert_eq!(type_key(KeyCode::Char('c'), none), (1, true, false));
        assert_eq!(type_key(KeyCode::Char('c'), control), (2, true, false));
        assert_eq!(type_key(KeyCode::Char('q'), none), (3, true, false));
    }

    /// At the end of its input, `script` writes a NUL or Ctrl-D.
    #[test]
    fn an_input_that_ends_is_no_key() {
        let mut look = Look::default();
        for code in [' ', '@', 'd', 'h', 'q'].map(KeyCode::Char) {
            press(KeyEvent::new(code, KeyModifiers::CONTROL), &mut look, &|| panic!("{code:?}"));
            assert!(!look.is_paused && !look.shows_help, "{code:?}");
        }
    }
}
