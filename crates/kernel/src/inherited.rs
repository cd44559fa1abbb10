//! The state in which this process was started, before Rust's runtime changes it. If a standard descriptor is
//! closed, the runtime opens `/dev/null` in its place, and output is lost without an error.

use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The loader calls the functions in this section before it starts the runtime (System V ABI, "Initialization and
/// Termination Functions").
#[used]
// SAFETY: the section holds pointers to functions of the C ABI, and `look` is one.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: F_GETFD accepts any number, reads no memory, and fails if the number is not an open descriptor.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    STDOUT_IS_CLOSED.store(flags < 0, Ordering::Relaxed);
}

/// Whether standard output was closed when this process started, for instance by `>&-` in a shell.
pub fn stdout_is_closed() -> bool {
    STDOUT_IS_CLOSED.load(Ordering::Relaxed)
}
