//! The terminal itself: it is set up once, and restored whatever happens, by the end of the drawing, by a panic, or by
//! the end of the program.

use std::io::{self, BufWriter, Stderr, Write as _};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

/// Room for one drawing, so that the terminal gets it by few calls.
const ROOM_BYTES: usize = 1 << 16;

/// Whether the terminal is set up.
static IS_SET_UP: AtomicBool = AtomicBool::new(false);

/// The screen to draw on.
pub(super) struct Screen(Terminal<CrosstermBackend<BufWriter<Stderr>>>);

impl Screen {
    /// Sets the terminal up: keys come at once and are not echoed, and what it showed comes back later.
    pub(super) fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        IS_SET_UP.store(true, SeqCst);
        let entered = || {
            enable_raw_mode()?;
            execute!(io::stderr(), EnterAlternateScreen, Hide)?;
            Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(ROOM_BYTES, io::stderr())))
        };
        entered().map(Self).inspect_err(|_| restore())
    }

    /// Draws. A terminal that does not take it misses this drawing, and nothing else.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) {
        if IS_SET_UP.load(SeqCst) {
            let _ = self.0.draw(draw);
        }
    }
}

/// Restores the terminal, if it is set up. It may be called at any time and from any thread.
pub fn restore() {
    if IS_SET_UP.swap(false, SeqCst) {
        let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let _ = io::stderr().flush();
    }
}
