//! What this process was started with, before Rust's runtime changes it: the runtime opens `/dev/null` in place of a
//! standard descriptor that is closed, and what is printed is lost without an error.

use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The loader calls what this section names before it starts the runtime (System V ABI, "Initialization and
/// Termination Functions").
#[used]
// SAFETY: the section holds pointers to functions of the C ABI, and this is one.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: F_GETFD takes any number, reads no memory, and fails if no descriptor has it.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    STDOUT_IS_CLOSED.store(flags < 0, Ordering::Relaxed);
}

/// Whether standard output was closed when this process started, as by `>&-` in a shell.
pub fn stdout_is_closed() -> bool {
    STDOUT_IS_CLOSED.load(Ordering::Relaxed)
}
