//! Compiles records to a zone. Every step runs on all threads. First, records are distributed over parts by the
//! hash of their owner ([`scatter`]). Then each part is built as nodes ([`gather`]). If there are delegations or
//! signatures, the nodes are marked accordingly ([`occlusion`], [`chain`]).

mod chain;
mod fault;
mod gather;
mod lines;
mod occlusion;
mod parallel;
mod rrsets;
mod scatter;
mod sequenced_record;

use kqps_message::rtype;

use crate::batch::Batch;
use crate::name::{self, Name};
use crate::zone::denial::Denial;
use crate::zone::node::OCCLUDED;
use crate::zone::{NodeRef, Zone};
use fault::Faults;
pub use fault::{Fault, Owner, Severity, What};
use gather::{Gathered, Ground};
use lines::Lines;
use scatter::{Apex, Entry, Scattered};

/// The approximate number of records in a part, so that their entries fit into a core's own cache.
const PART_RECORDS: usize = 32_768;
/// The most bits of a hash that select the part.
const PART_BITS_MAX: u32 = 12;

/// Collects the records of one zone, and compiles them to a [`Zone`].
#[derive(Debug)]
pub struct Builder {
    origin: Box<[u8]>,
    batches: Vec<Batch>,
    lines: Lines,
}

/// The result of compiling a zone.
#[derive(Debug)]
pub struct Compiled {
    /// The zone; `None` if an error prevents serving it.
    pub zone: Option<Zone>,
    /// The errors and warnings, by line; at most the first 20 of each.
    pub faults: Vec<Fault>,
    /// The number of further errors.
    pub more_errors: u64,
    /// The number of further warnings.
    pub more_warnings: u64,
}

impl Builder {
    /// A builder without records, for a zone whose apex is `origin`, in wire form.
    pub fn new(origin: &[u8]) -> Self {
        Self { origin: origin.into(), batches: Vec::new(), lines: Lines::default() }
    }

    /// Adds records, which come after those that were added before.
    pub fn add(&mut self, mut batch: Batch) {
        if !batch.is_empty() {
            self.lines.place(&mut batch);
            self.batches.push(batch);
        }
    }

    /// The number of records added.
    pub fn records(&self) -> usize {
        self.batches.iter().map(Batch::len).sum()
    }

    /// Compiles the zone on up to `threads` threads.
    pub fn finish(mut self, threads: usize) -> Compiled {
        let lines = std::mem::take(&mut self.lines);
        let mut name = Name::root();
        let mut faults = Faults::default();
        let zone = if name.set(&self.origin) && name.wire().len() == self.origin.len() {
            self.compile(name.labels(), threads, &mut faults)
        } else {
            faults.add(0, What::NoSoa);
            None
        };
        let zone = zone.filter(|_| !faults.has_errors());
        let (faults, [more_errors, more_warnings]) = faults.reported(&lines);
        Compiled { zone, faults, more_errors, more_warnings }
    }

    fn compile(self, apex_labels: usize, threads: usize, faults: &mut Faults) -> Option<Zone> {
        let part_bits = (self.records() / PART_RECORDS).next_power_of_two().ilog2().min(PART_BITS_MAX);
        let apex = Apex { name: &self.origin, labels: apex_labels };
        let numbered = self.batches.iter().enumerate().collect();
        let scattered = parallel::map(numbered, threads, |(number, batch)| {
            scatter::scatter(apex, batch, number, part_bits)
        });
        let (parts, nsec3) = joined(scattered, part_bits, faults);
        let ground = Ground { apex, batches: &self.batches, part_bits, chained: !nsec3.is_empty() };
        let mut gathered = parallel::map(parts, threads, |lists| gather::gather(ground, lists.concat()));

        let top = (0_u32..)
            .zip(&gathered)
            .find_map(|(part, gathered)| Some(NodeRef { part, place: gathered.top? }));
        let mut zone = Zone {
            apex: self.origin.clone(),
            apex_labels: u8::try_from(apex_labels).expect("a name has 127 labels at most"),
            part_bits,
            parts: gathered.iter_mut().map(|gathered| std::mem::take(&mut gathered.part)).collect(),
            top: top.unwrap_or_default(),
            denial: Denial::None,
            idle_nsec3: None,
            has_wildcards: gathered.iter().any(|gathered| gathered.has_wildcards),
            records: gathered.iter().map(|gathered| gathered.records).sum(),
        };
        for gathered in &mut gathered {
            faults.join(std::mem::take(&mut gathered.faults));
        }
        if top.is_none() {
            faults.add(0, What::NoSoa);
            return None;
        }
        let has_occluders = gathered.iter().any(|gathered| gathered.has_occluders);
        if has_occluders {
            let hidden = occlusion::occluded(&zone, threads);
            for (part, places) in zone.parts.iter_mut().zip(hidden) {
                for at in places {
                    part.flag(at, OCCLUDED);
                }
            }
        }
        faults.join(occlusion::check(&zone, &gathered, has_occluders, threads));
        let (chain, records) =
            chain::build(&self.batches, nsec3, zone.top().rrset(rtype::NSEC3PARAM), faults);
        drop(self);
        zone.records += records;
        if chain.is_empty() {
            zone.denial = nsec(&zone, &gathered);
        }
        if records > 0 && matches!(zone.denial, Denial::None) {
            chain::connect(&mut zone.parts, &chain, threads);
            zone.denial = Denial::Nsec3(chain);
        } else if records > 0 {
            zone.idle_nsec3 = Some(Box::new(chain));
        }
        Some(zone)
    }
}

/// The entries of every part, by batch, and the entries of NSEC3 records.
fn joined(
    scattered: Vec<Scattered>,
    part_bits: u32,
    faults: &mut Faults,
) -> (Vec<Vec<Vec<Entry>>>, Vec<Entry>) {
    let mut parts: Vec<Vec<Vec<Entry>>> = (0..1 << part_bits).map(|_| Vec::new()).collect();
    let mut nsec3 = Vec::new();
    for batch in scattered {
        faults.join(batch.faults);
        nsec3.extend(batch.nsec3);
        for (part, entries) in parts.iter_mut().zip(batch.parts) {
            part.push(entries);
        }
    }
    (parts, nsec3)
}

/// The names with NSEC records in canonical order. Files of signed zones mostly have that order, and sorting
/// from it is nearly free.
fn nsec(zone: &Zone, gathered: &[Gathered]) -> Denial {
    let mut names: Vec<(u64, NodeRef)> = Vec::new();
    for (part, gathered) in (0_u32..).zip(gathered) {
        let placed = gathered.nsec.iter();
        names.extend(placed.map(|&(sequence, place)| (sequence, NodeRef { part, place })));
    }
    if names.is_empty() || zone.top().rrset(rtype::NSEC).is_none() {
        return Denial::None;
    }
    names.sort_unstable();
    let mut order: Vec<NodeRef> = names.into_iter().map(|(_, place)| place).collect();
    order.retain(|&place| !zone.node(place).is(OCCLUDED));
    order.sort_by(|&one, &other| name::canonical(zone.node(one).name(), zone.node(other).name()));
    Denial::Nsec(order.into())
}
