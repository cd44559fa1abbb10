//! Streams by small numbers, which are used again.

/// Values by number.
pub(crate) struct Slots<T> {
    all: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    held: Option<T>,
    /// The number of values that were here before, modulo 2³².
    turn: u32,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps a value. Returns its number, and how many values had that number before.
    pub(crate) fn enter(&mut self, value: T) -> (u32, u32) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Slot { held: None, turn: 0 });
            u32::try_from(self.all.len() - 1).expect("a session has fewer than 2³² streams")
        });
        let slot = &mut self.all[number as usize];
        slot.held = Some(value);
        (number, slot.turn)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.all.get_mut(number as usize)?.held.as_mut()
    }

    /// Whether the value that entered with this number and turn is still here.
    pub(crate) fn has(&self, (number, turn): (u32, u32)) -> bool {
        self.all.get(number as usize).is_some_and(|slot| slot.turn == turn && slot.held.is_some())
    }

    /// Takes out the value with this number.
    pub(crate) fn leave(&mut self, number: u32) -> Option<T> {
        let slot = self.all.get_mut(number as usize)?;
        let value = slot.held.take()?;
        slot.turn = slot.turn.wrapping_add(1);
        self.free.push(number);
        Some(value)
    }

    /// Drops all values.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.free.clear();
    }
}
