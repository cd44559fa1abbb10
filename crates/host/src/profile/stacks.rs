//! Call chains, each kept once and known by a number, and what the kernel's functions in it say of a thread. There is
//! room for a fixed number; a chain that comes later is known by the state of its thread alone.

use std::collections::HashMap;
use std::sync::Arc;

use kqps_kernel::perf::{Frame, Sample};
use strum::VariantArray as _;

use super::classify::{self, Name, State};
use super::symbols::Kernel;

/// The number of a call chain. 0 is the empty one. The numbers from [`ROOMLESS`] on are those of chains for which there
/// was no more room, one for each state.
pub(super) type StackId = u32;

/// Call chains, innermost frame first, with their process.
pub(super) type ByNumber = HashMap<StackId, (u32, Box<[Frame]>)>;

/// The number of chains without room whose thread was in the first state.
const ROOMLESS: StackId = u32::MAX - 15;

/// More call chains than these are not kept apart.
const STACKS_MOST: usize = 16_384;

/// More call chains of events than these are not kept apart. Events come in many more ways than samples of the clock,
/// which need room, too.
const OF_EVENTS_MOST: usize = STACKS_MOST / 2;

/// Frames of a chain beyond this number, the outermost ones, are left out.
const FRAMES_MOST: usize = 96;

/// The states of a thread that its call chain shows, by the names of the kernel's functions alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// The state of the thread on a core.
    pub(super) on_core: State,
    /// The states of the thread asleep; the second is for threads that wait on the value of a lock in futex(2).
    pub(super) asleep: [State; 2],
}

/// The source of a call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakenBy {
    /// A sample of the clock.
    Clock,
    /// An event of the kernel.
    Event,
}

/// Call chains with the processes that they belong to.
#[derive(Debug)]
pub(super) struct Stacks {
    kernel: Arc<Kernel>,
    /// Process → chain → number.
    numbers: HashMap<u32, HashMap<Box<[Frame]>, StackId>>,
    /// The states that each chain shows, from number 1 on.
    told: Vec<Told>,
    scratch: Vec<Frame>,
    /// The samples and events whose chain had no room.
    roomless: u64,
}

impl Stacks {
    pub(super) fn new(kernel: Arc<Kernel>) -> Self {
        Self { kernel, numbers: HashMap::new(), told: Vec::new(), scratch: Vec::new(), roomless: 0 }
    }

    /// The number of a sample's call chain. If there is no room for it, `state` chooses what stands for it.
    pub(super) fn number(
        &mut self,
        sample: &Sample<'_>,
        by: TakenBy,
        state: impl Fn(Told) -> State,
    ) -> StackId {
        let mut frames = std::mem::take(&mut self.scratch);
        frames.clear();
        frames.extend(sample.frames().take(FRAMES_MOST));
        let number = self.number_of(sample.pid, &frames, by, state);
        self.scratch = frames;
        number
    }

    /// The number of a call chain, innermost frame first.
    pub(super) fn number_of(
        &mut self,
        pid: u32,
        frames: &[Frame],
        by: TakenBy,
        state: impl Fn(Told) -> State,
    ) -> StackId {
        if frames.is_empty() {
            return 0;
        }
        // The process matters only for the program's own functions.
        let pid = if frames.iter().any(|frame| matches!(frame, Frame::User(_))) { pid } else { 0 };
        if let Some(&known) = self.numbers.get(&pid).and_then(|of_process| of_process.get(frames)) {
            return known;
        }
        let told = self.told_of(frames);
        let most = if by == TakenBy::Event { OF_EVENTS_MOST } else { STACKS_MOST };
        if self.told.len() >= most {
            self.roomless += 1;
            return roomless(state(told));
        }
        self.told.push(told);
        let next = self.told.len() as StackId;
        self.numbers.entry(pid).or_default().insert(Box::from(frames), next);
        next
    }

    /// Returns the stand-in for a chain where there is no room for its sum.
    pub(super) fn without_room(&mut self, stack: StackId, state: impl Fn(Told) -> State) -> StackId {
        if stack >= ROOMLESS {
            return stack;
        }
        self.roomless += 1;
        let known = stack.checked_sub(1).and_then(|at| self.told.get(at as usize)).copied();
        let told = known.unwrap_or_else(|| self.told_of(&[]));
        roomless(state(told))
    }

    fn told_of(&self, frames: &[Frame]) -> Told {
        let name = |frame: &Frame| match *frame {
            Frame::Kernel(address) => Name { text: self.kernel.name(address).to_owned(), kernel: true },
            Frame::User(_) => Name { text: String::new(), kernel: false },
        };
        let names: Vec<Name> = frames.iter().map(name).collect();
        Told {
            on_core: classify::on_core(&names),
            asleep: [false, true].map(|is_for_lock| classify::asleep(&names, is_for_lock)),
        }
    }

    /// All call chains by their numbers, and how many samples and events had no room.
    pub(super) fn all(self) -> (ByNumber, u64) {
        let of_process = |(pid, chains): (u32, HashMap<Box<[Frame]>, StackId>)| {
            chains.into_iter().map(move |(chain, number)| (number, (pid, chain)))
        };
        (self.numbers.into_iter().flat_map(of_process).collect(), self.roomless)
    }
}

fn roomless(state: State) -> StackId {
    ROOMLESS + state as StackId
}

/// The state of threads whose chain had no room; `None` for a chain that is kept.
pub(super) fn state_without_room(stack: StackId) -> Option<State> {
    State::VARIANTS.get(stack.checked_sub(ROOMLESS)? as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks() -> Stacks {
        let lines = ["1000 T udp_recvmsg", "2000 T handle_softirqs", "3000 T futex_wait_queue"];
        Stacks::new(Arc::new(Kernel::of_lines(lines.iter().map(ToString::to_string))))
    }

    /// Fills the room that events have, with chains of one function.
    fn filled() -> Stacks {
        let mut stacks = stacks();
        for address in 0..OF_EVENTS_MOST as u64 {
            stacks.number_of(7, &[Frame::User(address)], TakenBy::Event, |told| told.on_core);
        }
        stacks
    }

    #[test]
    fn a_chain_has_one_number_and_the_process_counts_for_its_own_functions() {
        let mut stacks = stacks();
        let mut of =
            |pid, frames: &[Frame]| stacks.number_of(pid, frames, TakenBy::Clock, |told| told.on_core);
        assert_eq!([of(7, &[Frame::User(1)]), of(8, &[Frame::User(1)]), of(7, &[Frame::User(1)])], [1, 2, 1]);
        assert_eq!([of(7, &[Frame::Kernel(0x1000)]), of(8, &[Frame::Kernel(0x1000)]), of(7, &[])], [3, 3, 0]);
        let (all, roomless) = stacks.all();
        assert_eq!((all.len(), all[&2].0, roomless), (3, 8, 0));
    }

    #[test]
    fn without_room_a_thread_keeps_its_state() {
        let mut stacks = filled();
        let softirq = [Frame::Kernel(0x1010), Frame::Kernel(0x2010), Frame::User(1)];
        let asleep = [Frame::Kernel(0x3010), Frame::User(1)];
        let of_event = stacks.number_of(7, &asleep, TakenBy::Event, |told| told.asleep[1]);
        assert_eq!(state_without_room(of_event), Some(State::Lock));
        let other = stacks.number_of(7, &asleep, TakenBy::Event, |told| told.asleep[0]);
        assert_eq!(state_without_room(other), Some(State::Sleep));
        // Samples of the clock still have room.
        let of_clock = stacks.number_of(7, &softirq, TakenBy::Clock, |told| told.on_core);
        assert_eq!(state_without_room(of_clock), None);
        let of_sum = stacks.without_room(of_clock, |told| told.on_core);
        assert_eq!(state_without_room(of_sum), Some(State::Softirq));
        assert_eq!(stacks.without_room(of_sum, |told| told.on_core), of_sum, "counted once");
        assert_eq!(stacks.all().1, 3);
    }
}
