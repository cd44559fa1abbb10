//! The state in which this process was started, before Rust's runtime changes it. If a standard descriptor is
//! closed, the runtime opens `/dev/null` in its place, and output is lost without an error.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::fcntl_getfd;
use rustix::stdio::stdout;

static STDOUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The loader calls the functions in this section before it starts the runtime (System V ABI, "Initialization and
/// Termination Functions").
#[used]
// SAFETY: the section holds pointers to functions of the C ABI, and `look` is one.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // Reading the flags fails if there is no such descriptor.
    STDOUT_IS_CLOSED.store(fcntl_getfd(stdout()).is_err(), Ordering::Relaxed);
}

/// Whether standard output was closed when this process started, for instance by `>&-` in a shell.
pub fn stdout_is_closed() -> bool {
    STDOUT_IS_CLOSED.load(Ordering::Relaxed)
}
