//! A recipe that was checked: the content of its zones, as functions of the seed and an entry's number.

use kqps_message::name::{self, NAME_BYTES_MAX, NameText};
use kqps_message::rtype;

use super::draw::{Draws, Stream};
use super::layout::{Kind, Layout};
use super::name::Name;
use super::recipe::{Recipe, RecipeFault};

/// These differ from the seeds of entries, so that zones do not look like entries.
const ZONE_NAMES: u64 = 0x7a6f_6e65_2d6e_616d;
const ZONE_SEEDS: u64 = 0x7a6f_6e65_2d73_6565;
const DEPTHS: u64 = 0x6465_7074_6873_0000;
const GLUE: u64 = 0x676c_7565_0000_0000;

/// Candidates for the parent of names that are in none of the zones.
const ELSEWHERE: [&str; 2] = ["elsewhere.test", "elsewhere.invalid"];

/// Entries that share their second label, as a power of 2. As many of these groups share the third label.
const GROUP_BITS: u32 = 4;

/// A checked recipe, and what follows from it.
pub(super) struct Plan<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) layout: Layout,
    /// The number of labels of names below their zone, minus one; `None` if all have one label.
    depths: Option<Draws>,
    origin: Name,
    /// A name in none of the zones.
    elsewhere: Name,
}

/// The number and the name of a zone.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    /// Zones that load come first, then zones that do not, then zones that are not configured.
    pub(super) number: u64,
    seed: u64,
    pub(super) origin: Name,
}

impl Zone {
    /// A stream of random numbers for one entry, used for nothing else.
    pub(super) fn stream_of(&self, number: u64) -> Stream {
        Stream::with_number(!self.seed, number)
    }
}

/// The target of a CNAME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The CNAME of this number.
    Alias(u64),
    /// The A record of this number.
    Address(u64),
    /// The zone's own name server, if the zone has no other A records.
    Server,
}

impl<'a> Plan<'a> {
    /// Checks a recipe, and makes a plan of it.
    pub(super) fn new(recipe: &'a Recipe) -> Result<Self, RecipeFault> {
        recipe.check()?;
        let origin = wire(&recipe.origin)?;
        let elsewhere = ELSEWHERE.iter().map(|text| wire(text)).find(|elsewhere| {
            elsewhere.as_ref().is_ok_and(|elsewhere| !elsewhere.wire.ends_with(&origin.wire))
        });
        let deep = recipe.names.depth.iter().skip(1).any(|weight| *weight > 0.0);
        let plan = Self {
            recipe,
            layout: Layout::from_recipe(recipe),
            depths: deep.then(|| Draws::weighted(&recipe.names.depth)),
            origin,
            elsewhere: elsewhere.transpose()?.unwrap_or_default(),
        };
        plan.check_lengths()?;
        Ok(plan)
    }

    fn check_lengths(&self) -> Result<(), RecipeFault> {
        let recipe = self.recipe;
        let mut found = self.origin.wire.len() + 1 + recipe.names.longest(recipe.records * 2)?;
        if !recipe.is_one_zone() {
            found += 1 + recipe.names.longest(recipe.zones + recipe.broken + UNKNOWN_ZONES)?;
        }
        let digits = (recipe.records * 2).ilog10() as usize + 1;
        found += recipe.names.depth.len().saturating_sub(1) * (5 + digits);
        // "_sip._tcp.", "ns-a." or "www." before an entry's own name.
        found += 10;
        let attack = &recipe.queries.attack;
        if attack.share > 0.0 {
            // A random label below an attacked zone.
            found = found.max(self.origin.wire.len() + 65 + usize::from(attack.label_bytes));
        }
        if found > NAME_BYTES_MAX { Err(RecipeFault::NameTooLong { found }) } else { Ok(()) }
    }

    /// The zone with this number.
    pub(super) fn zone(&self, number: u64) -> Zone {
        let mut zone = Zone { number: u64::MAX, seed: 0, origin: Name::default() };
        self.turn_to(&mut zone, number);
        zone
    }

    /// Turns a zone into the one with this number.
    #[inline]
    pub(super) fn turn_to(&self, zone: &mut Zone, number: u64) {
        if zone.number == number {
            return;
        }
        let seed = self.recipe.seed;
        zone.number = number;
        zone.seed = if number == 0 { seed } else { Stream::with_number(seed ^ ZONE_SEEDS, number).next() };
        zone.origin.clear();
        if !self.recipe.is_one_zone() {
            zone.origin.numbered(&self.recipe.names, seed ^ ZONE_NAMES, number);
        }
        zone.origin.append(&self.origin);
    }

    /// The number of a random zone that is not configured; `None` if the recipe has only one zone.
    pub(super) fn unknown_zone(&self, stream: &mut Stream) -> Option<u64> {
        let configured = self.recipe.zones + self.recipe.broken;
        (!self.recipe.is_one_zone()).then(|| configured + stream.below(UNKNOWN_ZONES))
    }

    /// The parent of names that are in none of the zones.
    pub(super) fn elsewhere(&self) -> &Name {
        &self.elsewhere
    }

    /// Appends the labels of an entry's name below its zone. Names of numbers beyond the last entry do not
    /// exist in the zone.
    #[inline]
    pub(super) fn append_owner(&self, zone: &Zone, kind: Kind, number: u64, name: &mut Name) {
        match kind {
            Kind::Data(rtype::SRV) => {
                name.label(b"_sip");
                name.label(b"_tcp");
            }
            Kind::Wildcard => name.label(b"*"),
            _ => {}
        }
        name.numbered(&self.recipe.names, zone.seed, number);
        if matches!(kind, Kind::Data(_) | Kind::Alias) {
            for level in 1..=self.depth(zone, number) {
                name.counted(b"sub", number >> (GROUP_BITS * level));
            }
        }
    }

    /// Appends the first label of an entry's name, which is the name of a delegation or the parent of a
    /// wildcard.
    #[inline]
    pub(super) fn append_label(&self, zone: &Zone, number: u64, name: &mut Name) {
        name.numbered(&self.recipe.names, zone.seed, number);
    }

    /// The number of labels that a name has below its zone, without its first. Only names of records have
    /// more than one.
    #[inline]
    pub(super) fn depth(&self, zone: &Zone, number: u64) -> u32 {
        let depth = |draws: &Draws| draws.draw(&mut Stream::with_number(zone.seed ^ DEPTHS, number));
        u32::try_from(self.depths.as_ref().map_or(0, depth)).expect("a recipe has eight depths at most")
    }

    /// The target of the CNAME with this number.
    #[inline]
    pub(super) fn target(&self, number: u64) -> Target {
        let aliases = self.layout.range(Kind::Alias);
        let place = number - aliases.start;
        if !(place + 1).is_multiple_of(self.recipe.chain) && number + 1 < aliases.end {
            return Target::Alias(number + 1);
        }
        self.address(place)
    }

    /// An A record of a zone as a target.
    #[inline]
    pub(super) fn address(&self, place: u64) -> Target {
        let addresses = self.layout.range(Kind::Data(rtype::A));
        match addresses.end - addresses.start {
            0 => Target::Server,
            count => Target::Address(addresses.start + place % count),
        }
    }

    /// Appends the labels of a target's name below its zone.
    #[inline]
    pub(super) fn append_target(&self, zone: &Zone, target: Target, name: &mut Name) {
        match target {
            Target::Alias(number) => self.append_owner(zone, Kind::Alias, number, name),
            Target::Address(number) => self.append_owner(zone, Kind::Data(rtype::A), number, name),
            Target::Server => name.label(b"ns-a"),
        }
    }

    /// Whether the name servers of a delegation are below it.
    pub(super) fn has_glue(&self, zone: &Zone, number: u64) -> bool {
        Stream::with_number(zone.seed ^ GLUE, number).unit() < self.recipe.delegations.glue
    }
}

/// The number of zones that are queried but not configured.
const UNKNOWN_ZONES: u64 = 1000;

/// Encodes a name from its presentation form.
fn wire(text: &str) -> Result<Name, RecipeFault> {
    let mut wire = Vec::new();
    name::encode(text.as_bytes(), &mut wire)
        .map_err(|error| RecipeFault::Origin { origin: text.to_owned(), error })?;
    let shown = NameText(&wire).to_string();
    let text = if shown == "." { Vec::new() } else { shown.into_bytes() };
    wire.make_ascii_lowercase();
    Ok(Name { text, wire })
}
