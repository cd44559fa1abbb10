//! Something that several holders hold together, if they ask for the same: the settings of cells that run side by side.

use std::collections::BTreeMap;

/// A held value with its holders; `None` if nothing is held.
#[derive(Debug)]
pub(super) struct Holders<H>(Option<Together<H>>);

#[derive(Debug)]
struct Together<H> {
    /// Setting → value, as every holder asked for them.
    asked: BTreeMap<String, String>,
    /// How many hold it: at least one.
    count: usize,
    held: H,
}

impl<H> Default for Holders<H> {
    fn default() -> Self {
        Self(None)
    }
}

impl<H> Holders<H> {
    /// Whether something is held.
    pub(super) fn are_some(&self) -> bool {
        self.0.is_some()
    }

    /// Adds a holder to what is held; `None` if nothing is. Fails if others hold something else.
    pub(super) fn join(&mut self, asked: &BTreeMap<String, String>) -> Result<Option<&H>, String> {
        let Some(together) = &mut self.0 else { return Ok(None) };
        if together.asked != *asked {
            return Err("other settings are held here, and must be put back first".into());
        }
        together.count += 1;
        Ok(Some(&together.held))
    }

    /// The first holder of something. Nothing may be held.
    pub(super) fn begin(&mut self, asked: BTreeMap<String, String>, held: H) -> &H {
        debug_assert!(self.0.is_none());
        &self.0.insert(Together { asked, count: 1, held }).held
    }

    /// Takes a holder away. Returns what was held if it was the last holder.
    pub(super) fn leave(&mut self) -> Option<H> {
        let together = self.0.as_mut()?;
        together.count -= 1;
        if together.count == 0 { self.end() } else { None }
    }

    /// Takes all holders away. Returns what was held.
    pub(super) fn end(&mut self) -> Option<H> {
        self.0.take().map(|together| together.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(value: &str) -> BTreeMap<String, String> {
        [("rps.eth0".to_owned(), value.to_owned())].into()
    }

    #[test]
    fn the_last_holder_of_the_same_takes_it_back() {
        let mut holders = Holders::default();
        assert_eq!(holders.join(&asked("0")), Ok(None));
        assert_eq!(holders.begin(asked("0"), "held"), &"held");
        assert_eq!(holders.join(&asked("0")), Ok(Some(&"held")));
        // The first to end leaves what the other still holds.
        assert_eq!(holders.leave(), None);
        assert!(holders.are_some());
        assert_eq!(holders.leave(), Some("held"));
        assert_eq!(holders.leave(), None);
    }

    #[test]
    fn others_must_ask_for_the_same() {
        let mut holders = Holders::default();
        holders.begin(asked("0"), ());
        let refused = holders.join(&asked("1")).unwrap_err();
        assert!(refused.contains("other settings are held"), "{refused}");
        assert_eq!(holders.leave(), Some(()), "a refused one is no holder");
        assert_eq!(holders.join(&asked("1")), Ok(None));
    }

    #[test]
    fn the_end_of_an_agent_waits_for_no_holder() {
        let mut holders = Holders::default();
        holders.begin(asked("0"), "held");
        holders.join(&asked("0")).unwrap();
        assert_eq!(holders.end(), Some("held"));
        assert_eq!(holders.end(), None);
    }
}
