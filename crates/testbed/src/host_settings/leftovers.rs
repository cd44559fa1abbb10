//! Settings that could not be put back. Those that may go back later are tried again before each start. As long as one
//! stays, no subject starts, since the host is not as its cell has it.

use std::collections::BTreeSet;
use std::mem;

use kqps_tuning::undo::LeftSetting;
use kqps_tuning::{Held, JournalError, Undone};

/// Settings that can be put back, and once more if some of them stay.
pub(super) trait PutBack {
    fn put_back(&mut self) -> Result<Undone, JournalError>;
}

impl PutBack for Held {
    fn put_back(&mut self) -> Result<Undone, JournalError> {
        Self::put_back(self)
    }
}

/// Settings of earlier cells that are not put back.
pub(super) struct Leftovers<H> {
    stuck: Vec<Stuck<H>>,
    /// Sentences for which no start has failed yet.
    unreported: Vec<String>,
    /// Sentences about settings that stay for good, and about troubles.
    lasting: BTreeSet<String>,
}

/// Settings that may go back later.
struct Stuck<H> {
    held: H,
    /// Why they stay.
    why: Vec<String>,
    /// Sentences about settings that stay for good. Each further try finds them again.
    over: BTreeSet<String>,
}

impl<H> Default for Leftovers<H> {
    fn default() -> Self {
        Self { stuck: Vec::new(), unreported: Vec::new(), lasting: BTreeSet::new() }
    }
}

impl<H: PutBack> Leftovers<H> {
    /// Puts settings back, and keeps them if some stay.
    pub(super) fn put_back(&mut self, held: H) {
        self.try_one(Stuck { held, why: Vec::new(), over: BTreeSet::new() });
    }

    /// Why no subject can start now; `None` if one can. What stays for good fails one start only.
    pub(super) fn refusal(&mut self) -> Option<String> {
        self.try_again();
        let mut all = mem::take(&mut self.unreported);
        all.extend(self.stuck.iter().flat_map(|one| one.why.iter().cloned()));
        (!all.is_empty())
            .then(|| format!("the settings of the cell before could not be undone: {}", all.join("; ")))
    }

    /// All that is left, each a sentence without its full stop.
    pub(super) fn all(&mut self) -> Vec<String> {
        self.try_again();
        let stuck = self.stuck.iter().flat_map(|one| &one.why);
        self.lasting.iter().chain(stuck).cloned().collect()
    }

    /// Notes a sentence about something that no further try changes.
    pub(super) fn note(&mut self, sentence: String) {
        self.unreported.push(sentence.clone());
        self.lasting.insert(sentence);
    }

    fn try_again(&mut self) {
        for one in mem::take(&mut self.stuck) {
            self.try_one(one);
        }
    }

    fn try_one(&mut self, mut one: Stuck<H>) {
        one.why = match one.held.put_back() {
            Err(error) => vec![error.to_string()],
            Ok(Undone { left, troubles, .. }) => {
                let (over, stay): (Vec<LeftSetting>, Vec<LeftSetting>) =
                    left.into_iter().partition(|left| left.kind.is_over());
                for sentence in over.iter().map(ToString::to_string).chain(troubles) {
                    if one.over.insert(sentence.clone()) {
                        self.note(sentence);
                    }
                }
                stay.iter().map(ToString::to_string).collect()
            }
        };
        if !one.why.is_empty() {
            self.stuck.push(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io;
    use std::path::PathBuf;

    use kqps_tuning::undo::LeftKind;

    use super::*;

    /// Settings of which these come of one try after another.
    struct Tries(VecDeque<Result<Undone, JournalError>>);

    impl PutBack for Tries {
        fn put_back(&mut self) -> Result<Undone, JournalError> {
            self.0.pop_front().expect("one try too many")
        }
    }

    fn left(kinds: &[LeftKind]) -> Undone {
        let one = |kind: &LeftKind| LeftSetting {
            setting: "irq.eth0-TxRx-0".parse().unwrap(),
            found: Some("3".into()),
            reason: format!("{kind:?}"),
            old: "0-7".into(),
            kind: *kind,
        };
        Undone { left: kinds.iter().map(one).collect(), ..Undone::default() }
    }

    fn tried(tries: impl IntoIterator<Item = Result<Undone, JournalError>>) -> Leftovers<Tries> {
        let mut leftovers = Leftovers::default();
        leftovers.put_back(Tries(tries.into_iter().collect()));
        leftovers
    }

    #[test]
    fn a_setting_that_stays_fails_every_start_until_it_is_back() {
        for kind in [LeftKind::Refused, LeftKind::Absent, LeftKind::Above] {
            let mut leftovers =
                tried([Ok(left(&[kind])), Ok(left(&[kind])), Ok(left(&[kind])), Ok(Undone::default())]);
            let expected = format!(
                "the settings of the cell before could not be undone: irq.eth0-TxRx-0 stays 3, and was 0-7: {kind:?}"
            );
            assert_eq!(leftovers.refusal(), Some(expected.clone()));
            assert_eq!(leftovers.refusal(), Some(expected));
            assert_eq!(leftovers.refusal(), None, "it is back");
            assert_eq!((leftovers.refusal(), leftovers.all()), (None, vec![]), "and is not tried any more");
        }
    }

    #[test]
    fn what_somebody_else_changed_fails_one_start_and_stays_in_the_notes() {
        let mut leftovers = tried([Ok(left(&[LeftKind::Changed]))]);
        let sentence = "irq.eth0-TxRx-0 stays 3, and was 0-7: Changed".to_owned();
        assert!(leftovers.refusal().unwrap().ends_with(&sentence));
        assert_eq!((leftovers.refusal(), leftovers.all()), (None, vec![sentence]));
    }

    #[test]
    fn of_both_kinds_that_which_is_over_is_reported_once() {
        let both = || Ok(left(&[LeftKind::Changed, LeftKind::Refused]));
        let mut leftovers = tried([both(), both(), both(), both()]);
        let mut refusal = || leftovers.refusal().unwrap();
        let (first, second) = (refusal(), refusal());
        assert!(first.contains("Changed") && first.contains("Refused"), "{first}");
        assert!(!second.contains("Changed") && second.contains("Refused"), "{second}");
        assert_eq!(leftovers.all().len(), 2);
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_tried_again() {
        let error = || Err(JournalError { path: PathBuf::from("j"), error: io::Error::other("gone") });
        let mut leftovers = tried([error(), error(), Ok(Undone::default())]);
        assert!(leftovers.refusal().unwrap().ends_with("gone"));
        assert_eq!(leftovers.refusal(), None);
    }
}
