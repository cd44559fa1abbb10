//! The names that queries ask for: for each type, the entries that have it, and those that do not.

use std::ops::Range;
use std::rc::Rc;

use kqps_message::rtype;

use super::GenerateError;
use super::draw::{Draws, Stream};
use super::layout::Kind;
use super::plan::{Plan, Zone};
use super::popularity::Popularities;

/// Entries of one kind, of all zones, by popularity. The most popular are the first entries of every zone.
#[derive(Clone)]
pub(super) struct Entries {
    pub(super) kind: Kind,
    first: u64,
    zones: u64,
    draws: Rc<Draws>,
}

impl Entries {
    /// The entries of a kind, if there are any.
    fn source(
        plan: &Plan<'_>,
        kind: Kind,
        range: &Range<u64>,
        popularities: &mut Popularities<'_>,
    ) -> Result<Source, GenerateError> {
        let zones = plan.recipe.zones;
        if range.is_empty() {
            return Ok(Source::Nothing);
        }
        let draws = popularities.among((range.end - range.start) * zones)?;
        Ok(Source::At(Self { kind, first: range.start, zones, draws }))
    }

    /// Turns to a zone, and returns the number of one of its entries.
    #[inline]
    pub(super) fn draw(&self, plan: &Plan<'_>, zone: &mut Zone, stream: &mut Stream) -> u64 {
        let place = self.draws.draw(stream);
        let (zone_number, place) =
            if self.zones == 1 { (0, place) } else { (place % self.zones, place / self.zones) };
        plan.turn_to(zone, zone_number);
        self.first + place
    }
}

/// Where a type is found.
#[derive(Clone)]
pub(super) enum Source {
    Nothing,
    /// At the apex of every zone.
    Apex,
    At(Entries),
}

/// Entries that lack a type, by kind, and their weights.
struct Others {
    kinds: Vec<Entries>,
    draws: Option<Draws>,
}

impl Others {
    fn from_kinds(kinds: impl Iterator<Item = (Entries, u64)>) -> Self {
        let (kinds, weights): (Vec<_>, Vec<_>) =
            kinds.map(|(entries, count)| (entries, count as f64)).unzip();
        let draws = (!weights.is_empty()).then(|| Draws::weighted(&weights));
        Self { kinds, draws }
    }

    fn draw(&self, stream: &mut Stream) -> Option<&Entries> {
        let draws = self.draws.as_ref()?;
        self.kinds.get(draws.draw(stream) as usize)
    }
}

/// Where the queries of a plan find their names.
pub(super) struct Sources {
    /// By the index of the type.
    positive: Vec<Source>,
    without: Vec<Others>,
    any: Others,
    pub(super) aliases: Source,
    pub(super) wildcards: Source,
    pub(super) delegations: Source,
}

impl Sources {
    pub(super) fn new(
        plan: &Plan<'_>,
        types: &[u16],
        popularities: &mut Popularities<'_>,
    ) -> Result<Self, GenerateError> {
        let layout = &plan.layout;
        let mut of = |kind, range: &Range<u64>| Entries::source(plan, kind, range, popularities);
        let mut data = Vec::new();
        for (kind, range) in layout.parts.iter().filter(|(kind, _)| matches!(kind, Kind::Data(_))) {
            if let Source::At(entries) = of(*kind, range)? {
                data.push((entries, range.end - range.start));
            }
        }
        let aliases = of(Kind::Alias, &layout.range(Kind::Alias))?;
        let secure = of(Kind::Delegation, &layout.secure)?;
        let find = |qtype: &u16| match *qtype {
            rtype::NS | rtype::SOA => Source::Apex,
            rtype::DNSKEY if plan.recipe.signing.is_some() => Source::Apex,
            rtype::CNAME => aliases.clone(),
            rtype::DS => secure.clone(),
            qtype => {
                let with = data.iter().find(|(entries, _)| entries.kind == Kind::Data(qtype));
                with.map_or(Source::Nothing, |(entries, _)| Source::At(entries.clone()))
            }
        };
        let lacking = |qtype: &u16| {
            Others::from_kinds(data.iter().filter(|(entries, _)| entries.kind != Kind::Data(*qtype)).cloned())
        };
        Ok(Self {
            positive: types.iter().map(find).collect(),
            without: types.iter().map(lacking).collect(),
            wildcards: of(Kind::Wildcard, &layout.range(Kind::Wildcard))?,
            delegations: of(Kind::Delegation, &layout.range(Kind::Delegation))?,
            any: Others::from_kinds(data.into_iter()),
            aliases,
        })
    }

    /// Where the type with this index is found.
    #[inline]
    pub(super) fn source(&self, place: usize) -> &Source {
        &self.positive[place]
    }

    /// Entries that have a record, but not of the type with this index; `None` if there are none.
    pub(super) fn without(&self, place: usize, stream: &mut Stream) -> Option<&Entries> {
        self.without[place].draw(stream)
    }

    /// Entries that have a record.
    pub(super) fn any(&self, stream: &mut Stream) -> Option<&Entries> {
        self.any.draw(stream)
    }
}
