//! The last step for zones that are signed with NSEC3 (RFC 5155). It puts the NSEC3 records in the order of
//! their hashes, and gives every name of the zone the place of its record. So a negative answer need not hash
//! names that exist.

use kqps_message::rtype;

use crate::batch::{Batch, Record};
use crate::compile::fault::{Faults, What};
use crate::compile::scatter::Entry;
use crate::compile::sequenced_record::Held;
use crate::compile::{parallel, rrsets};
use crate::name::same;
use crate::nsec3;
use crate::zone::denial::{Chain, LABEL_BYTES};
use crate::zone::node::{ALIGNMENT, OCCLUDED, Rrset, UNCHAINED};
use crate::zone::part::ZonePart;

/// The only defined hash algorithm.
const SHA1: u8 = 1;

/// The parameters of a chain: the fields of an NSEC3PARAM record and the first fields of an NSEC3 record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parameters<'a> {
    algorithm: u8,
    iterations: u16,
    salt: &'a [u8],
}

impl<'a> Parameters<'a> {
    fn read(data: &'a [u8]) -> Option<Self> {
        let (&[algorithm, _, i0, i1, salt_bytes], rest) = data.split_first_chunk()?;
        let salt = rest.get(..usize::from(salt_bytes))?;
        Some(Self { algorithm, iterations: u16::from_be_bytes([i0, i1]), salt })
    }
}

/// The chain that the apex's NSEC3PARAM records announce, and the number of records in `entries`. A signer may
/// be building or removing other chains. Their records are only transferred.
pub(crate) fn build(
    batches: &[Batch],
    mut entries: Vec<Entry>,
    announced: Option<Rrset<'_>>,
    faults: &mut Faults,
) -> (Chain, u64) {
    let announced: Vec<Parameters<'_>> = announced
        .iter()
        .flat_map(|rrset| rrset.data())
        // NSEC3PARAM with flags announces a chain that is not complete (RFC 5155, section 4.1.2).
        .filter(|data| data.get(1) == Some(&0))
        .filter_map(Parameters::read)
        .filter(|parameters| parameters.algorithm == SHA1)
        .collect();
    entries.sort_unstable();
    let mut groups: Vec<Vec<Held<'_>>> = Vec::new();
    for same_hash in entries.chunk_by(|one, other| one.hash == other.hash) {
        let mut left: Vec<Held<'_>> = same_hash.iter().filter_map(|entry| held(*entry, batches)).collect();
        while let Some(first) = left.first().copied() {
            let (group, others) =
                left.into_iter().partition(|held| same(held.record.owner, first.record.owner));
            groups.push(group);
            left = others;
        }
    }
    // Chooses the announced parameters that most of the records have.
    let chosen = announced.into_iter().max_by_key(|parameters| {
        groups.iter().filter(|group| group.iter().any(|held| is_of(&held.record, parameters))).count()
    });
    let (mut memory, mut order, mut records) = (Vec::new(), Vec::new(), 0);
    for group in &mut groups {
        let first = group[0].record;
        let label = &first.owner[..first.owner.len().min(LABEL_BYTES)];
        let Ok(at) = u32::try_from(memory.len() / ALIGNMENT) else {
            faults.add(first.line, What::TooLarge);
            break;
        };
        let Some(hash) = nsec3::parse(&label[1..]) else { continue };
        if chosen.is_some_and(|chosen| group.iter().any(|held| is_of(&held.record, &chosen))) {
            let [h0, h1, h2, h3, ..] = hash;
            order.push((hash, (u32::from_be_bytes([h0, h1, h2, h3]), at)));
        }
        memory.extend_from_slice(label);
        records += rrsets::write(&mut memory, group, false, faults).records;
        memory.resize(memory.len().next_multiple_of(ALIGNMENT), 0);
    }
    order.sort_unstable();
    let order = order.into_iter().map(|(_, place)| place).collect();
    memory.shrink_to_fit();
    let (salt, iterations) = chosen.map_or((&[][..], 0), |chosen| (chosen.salt, chosen.iterations));
    (Chain::new(memory, order, salt, iterations), records)
}

fn held(entry: Entry, batches: &[Batch]) -> Option<Held<'_>> {
    Some(Held { record: entry.record(batches)?, sequence: entry.sequence() })
}

fn is_of(record: &Record<'_>, parameters: &Parameters<'_>) -> bool {
    record.rtype == rtype::NSEC3 && Parameters::read(record.data) == Some(*parameters)
}

/// Gives every node of a part its place in the chain.
pub(crate) fn connect(parts: &mut [ZonePart], chain: &Chain, threads: usize) {
    parallel::map(parts.iter_mut().collect(), threads, |part| {
        let places: Vec<(usize, u32)> = part
            .nodes(0)
            .filter(|(_, node)| !node.is(OCCLUDED))
            .map(|(at, node)| (at, chain.matching(&chain.hash(node.name())).unwrap_or(UNCHAINED)))
            .collect();
        for (at, place) in places {
            part.chain(at, place);
        }
    });
}
