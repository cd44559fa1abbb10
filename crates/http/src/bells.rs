//! Bells that streams ring when something arrived on them, so that a session looks at those alone and not at all that
//! are open.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The numbers of bells that rang since the last look. A number may stand there twice.
type Rung = Arc<Mutex<Vec<u32>>>;

struct Bell {
    number: u32,
    rung: Rung,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

/// The bells of a session, by the numbers of its slots. They are made once and used again.
#[derive(Default)]
pub(crate) struct Bells {
    rung: Rung,
    wakers: Vec<Waker>,
}

impl Bells {
    /// The waker that rings the bell of this number.
    pub(crate) fn waker(&mut self, number: u32) -> Waker {
        while self.wakers.len() <= number as usize {
            let next = u32::try_from(self.wakers.len()).expect("a bell's number has 32 bits");
            let bell = Bell { number: next, rung: Arc::clone(&self.rung) };
            self.wakers.push(Arc::new(bell).into());
        }
        self.wakers[number as usize].clone()
    }

    /// Moves the numbers of bells that rang to the end of `into`.
    pub(crate) fn take(&self, into: &mut Vec<u32>) {
        into.append(&mut self.rung.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
