//! The layout of a zone. Its entries are numbered, and each kind of entry has a range of numbers. So shares are
//! exact, and an entry's number determines its kind.

use std::ops::Range;

use kqps_message::rtype;

use super::apportion::apportion;
use super::recipe::Recipe;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A record of this type.
    Data(u16),
    Alias,
    /// An A record at a wildcard.
    Wildcard,
    Delegation,
}

/// The ranges of a zone's entries. All zones of a recipe have the same.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Every kind that has entries, with its range of numbers, in ascending order.
    pub(super) parts: Vec<(Kind, Range<u64>)>,
    /// Delegations with a DS record. They come first among the delegations.
    pub(super) secure: Range<u64>,
}

impl Layout {
    pub(super) fn from_recipe(recipe: &Recipe) -> Self {
        let mut weights = recipe.contents.weights();
        if weights.iter().all(|(_, weight)| *weight == 0.0) {
            weights[0].1 = 1.0;
        }
        let mut start = 0;
        let counts = apportion(recipe.records, &weights.map(|(_, weight)| weight));
        let mut parts = Vec::new();
        for ((name, _), count) in weights.iter().zip(counts).filter(|(_, count)| *count > 0) {
            let kind = match *name {
                "CNAME" => Kind::Alias,
                "wildcard" => Kind::Wildcard,
                "delegation" => Kind::Delegation,
                mnemonic => Kind::Data(rtype::parse(mnemonic.as_bytes()).unwrap_or(rtype::A)),
            };
            parts.push((kind, start..start + count));
            start += count;
        }
        let mut layout = Self { parts, secure: 0..0 };
        let delegations = layout.range(Kind::Delegation);
        let secure = ((delegations.end - delegations.start) as f64 * recipe.delegations.ds).round() as u64;
        layout.secure = delegations.start..delegations.start + secure;
        layout
    }

    /// The entries of one kind; an empty range if there are none.
    pub(super) fn range(&self, kind: Kind) -> Range<u64> {
        self.parts.iter().find(|(known, _)| *known == kind).map_or(0..0, |(_, range)| range.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{Contents, Delegations};

    #[test]
    fn each_kind_has_its_numbers() {
        let contents = Contents { a: 5.0, cname: 1.0, delegation: 4.0, ..Contents::default() };
        let delegations = Delegations { glue: 1.0, ds: 0.25 };
        let layout =
            Layout::from_recipe(&Recipe { records: 100, contents, delegations, ..Recipe::default() });
        let wanted = [(Kind::Data(1), 0..50), (Kind::Alias, 50..60), (Kind::Delegation, 60..100)];
        assert_eq!(layout.parts, wanted);
        assert_eq!((layout.secure.clone(), layout.range(Kind::Wildcard)), (60..70, 0..0));
        let plain = Layout::from_recipe(&Recipe { records: 7, ..Recipe::default() });
        assert_eq!(plain.parts, [(Kind::Data(1), 0..7)]);
    }
}
