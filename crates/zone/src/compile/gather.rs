//! The second step. It sorts the entries of one part by their hashes, brings the records of each name
//! together, and writes nodes and their index from front to back.

use crate::batch::Batch;
use crate::compile::fault::{Faults, What};
use crate::compile::rrsets;
use crate::compile::scatter::{Apex, Entry};
use crate::compile::sequenced_record::Held;
use crate::name::same;
use crate::zone::index::Index;
use crate::zone::node::{self, ALIGNMENT, CHAINED};
use crate::zone::part::{ZonePart, address};

/// Facts about the zone that this step needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground<'a> {
    pub apex: Apex<'a>,
    pub batches: &'a [Batch],
    pub part_bits: u32,
    /// Whether nodes need room for a place in an NSEC3 chain.
    pub chained: bool,
}

/// A part, and what the step found in it.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub part: ZonePart,
    /// For every node in order, the line that best shows its origin.
    pub lines: Vec<u32>,
    /// The position of the apex, if it is in this part.
    pub top: Option<u32>,
    /// The line of the apex's first record.
    pub top_line: u32,
    /// Names with NSEC records: their place in the file, and their position divided by [`ALIGNMENT`].
    pub nsec: Vec<(u64, u32)>,
    /// Whether the part has a cut or a DNAME record, below which nothing is data of the zone.
    pub has_occluders: bool,
    pub has_wildcards: bool,
    pub records: u64,
    pub faults: Faults,
}

/// Builds the part to which these entries belong.
pub(crate) fn gather(ground: Ground<'_>, mut entries: Vec<Entry>) -> Gathered {
    entries.sort_unstable();
    let mut gatherer = Gatherer { ground, memory: Vec::new(), keys: Vec::new(), out: Gathered::default() };
    let mut names = Vec::new();
    let mut held = Vec::new();
    for same_hash in entries.chunk_by(|one, other| one.hash == other.hash) {
        let key = address(same_hash[0].hash, ground.part_bits).1;
        names.clear();
        names.extend(same_hash.iter().filter_map(|entry| {
            let record = entry.record(ground.batches)?;
            Some((&record.owner[entry.start()..], *entry, record))
        }));
        // Nearly always all entries have one name. If not, sort by name, then by place in the file.
        if names.windows(2).any(|pair| !same(pair[0].0, pair[1].0)) {
            names.sort_by_cached_key(|(name, entry, _)| (name.to_ascii_lowercase(), entry.sequence()));
        }
        for one_name in names.chunk_by(|one, other| same(one.0, other.0)) {
            held.clear();
            held.extend(
                one_name
                    .iter()
                    .filter(|(_, entry, _)| entry.start() == 0)
                    .map(|&(_, entry, record)| Held { record, sequence: entry.sequence() }),
            );
            gatherer.node(key, one_name[0].0, one_name[0].2.line, &mut held);
        }
    }
    let mut out = gatherer.out;
    gatherer.memory.shrink_to_fit();
    out.part = ZonePart::new(gatherer.memory, Index::build(gatherer.keys.into_iter()));
    out
}

struct Gatherer<'a> {
    ground: Ground<'a>,
    memory: Vec<u8>,
    keys: Vec<(u32, u32)>,
    out: Gathered,
}

impl<'a> Gatherer<'a> {
    /// Writes the node of `name` with its `held` records.
    fn node(&mut self, key: u32, name: &'a [u8], line: u32, held: &mut [Held<'a>]) {
        let start = self.memory.len();
        let Ok(place) = u32::try_from(start / ALIGNMENT) else {
            self.out.faults.add(line, What::TooLarge);
            return;
        };
        self.keys.push((key, place));
        // The owner's own spelling takes precedence over that of an ancestor in a longer name.
        let name = held.first().map_or(name, |held| held.record.owner);
        let flags = if self.ground.chained { CHAINED } else { 0 };
        let name_bytes = u8::try_from(name.len()).expect("a name has 255 bytes at most");
        self.memory.extend_from_slice(&[name_bytes, flags, 0, 0]);
        if self.ground.chained {
            self.memory.extend_from_slice(&node::UNCHAINED.to_le_bytes());
        }
        self.memory.extend_from_slice(name);
        let is_apex = same(name, self.ground.apex.name);
        let summary = rrsets::write(&mut self.memory, held, is_apex, &mut self.out.faults);
        self.memory[start + node::FLAGS_AT] |= summary.flags;
        self.memory[start + node::RRSETS_AT..start + node::FIXED_BYTES]
            .copy_from_slice(&summary.rrsets.to_le_bytes());
        self.memory.resize(self.memory.len().next_multiple_of(ALIGNMENT), 0);

        let out = &mut self.out;
        out.lines.push(summary.line.unwrap_or(line));
        out.records += summary.records;
        out.has_occluders |= summary.flags & (node::CUT | node::DNAME) != 0;
        out.has_wildcards |= name.starts_with(b"\x01*");
        if is_apex {
            out.top = Some(place);
            out.top_line = summary.line.unwrap_or(line);
        }
        if let Some(sequence) = summary.nsec {
            out.nsec.push((sequence, place));
        }
    }
}
