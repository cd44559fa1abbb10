//! How answers differ from the expected ones, over all players.

use crate::Difference;

use super::Part;

/// Examples of one kind that are kept.
const EXAMPLES_MOST: usize = 20;

/// The differences of all players by kind, the most frequent first.
pub(super) fn by_kind(parts: &[Part]) -> Vec<Difference> {
    let mut all: Vec<Difference> = Vec::new();
    for difference in parts.iter().flat_map(|part| &part.trial.differences) {
        match all.iter_mut().find(|known| known.kind == difference.kind) {
            Some(known) => {
                known.count = known.count.saturating_add(difference.count);
                known.examples.extend(difference.examples.iter().cloned());
            }
            None => all.push(difference.clone()),
        }
    }
    for difference in &mut all {
        difference.examples.truncate(EXAMPLES_MOST);
    }
    all.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.kind.cmp(&other.kind)));
    all
}
