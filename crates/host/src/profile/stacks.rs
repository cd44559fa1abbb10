//! Call chains, each kept once and known by a number.

use std::collections::HashMap;

use kqps_kernel::perf::{Frame, Sample};

/// The number of a call chain. 0 is the empty one, which also stands for those that came when there was no more room.
pub(super) type StackId = u32;

/// More call chains than these are not kept apart.
const STACKS_MOST: usize = 16_384;

/// Frames of a chain beyond this number, the outermost ones, are left out.
const FRAMES_MOST: usize = 96;

/// Call chains with the processes that they belong to.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    numbers: HashMap<(u32, Box<[Frame]>), StackId>,
    scratch: Vec<Frame>,
}

impl Stacks {
    /// The number of a sample's call chain.
    pub(super) fn number(&mut self, sample: &Sample<'_>) -> StackId {
        let mut frames = std::mem::take(&mut self.scratch);
        frames.clear();
        frames.extend(sample.frames().take(FRAMES_MOST));
        let number = self.number_of(sample.pid, &frames);
        self.scratch = frames;
        number
    }

    /// The number of a call chain, innermost frame first.
    pub(super) fn number_of(&mut self, pid: u32, frames: &[Frame]) -> StackId {
        // The process matters only for the program's own functions.
        let pid = if frames.iter().any(|frame| matches!(frame, Frame::User(_))) { pid } else { 0 };
        if frames.is_empty() {
            return 0;
        }
        let key = (pid, Box::from(frames));
        if let Some(&known) = self.numbers.get(&key) {
            return known;
        }
        if self.numbers.len() >= STACKS_MOST {
            return 0;
        }
        let next = self.numbers.len() as StackId + 1;
        self.numbers.insert(key, next);
        next
    }

    /// All call chains by their numbers.
    pub(super) fn all(self) -> HashMap<StackId, (u32, Box<[Frame]>)> {
        self.numbers.into_iter().map(|(chain, number)| (number, chain)).collect()
    }
}
