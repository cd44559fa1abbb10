//! The process of a subject, which an event may start again while others look at it.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kqps_kernel::process::Signal;

use super::process::Process;

/// The error of a signal while there is no process.
pub(super) const NONE: &str = "it is not running";

/// The present process of a subject.
#[derive(Debug)]
pub(super) struct Current {
    process: Mutex<Option<Process>>,
    pid: AtomicU32,
    /// Why the process that ran was not followed by another, and the last lines of its output.
    failure: Mutex<Option<(String, Vec<String>)>>,
}

impl Current {
    pub(super) fn new(process: Process) -> Self {
        let pid = AtomicU32::new(process.pid());
        Self { process: Mutex::new(Some(process)), pid, failure: Mutex::new(None) }
    }

    /// The ID of the present process, or of the last one.
    pub(super) fn pid(&self) -> u32 {
        self.pid.load(Relaxed)
    }

    /// Looks at the process; `None` while it is started again, and after it was stopped.
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut Process) -> T) -> Option<T> {
        self.lock().as_mut().map(look)
    }

    /// Sends a signal to the process. An error if there is none or if it has ended.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        self.look(|process| process.signal(signal)).unwrap_or_else(|| Err(io::Error::other(NONE)))
    }

    /// Why there is no process any more, with the last lines of output, if the attempt to start it again failed.
    pub(super) fn failure(&self) -> Option<(String, Vec<String>)> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that the process could not be started again.
    pub(super) fn fail(&self, why: &str, output: Vec<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some((why.to_owned(), output));
    }

    /// Takes the process out.
    pub(super) fn take(&self) -> Option<Process> {
        self.lock().take()
    }

    /// Puts another process in its place.
    pub(super) fn put(&self, process: Process) {
        self.pid.store(process.pid(), Relaxed);
        *self.lock() = Some(process);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
