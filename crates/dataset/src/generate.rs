//! Zones and query files from a seed: the same bytes for the same arguments, on every machine.
//!
//! A [`Zone`] is described, not stored: the name of its record *i* is a function of the seed and *i*. So
//! [`queries`] asks for names of a zone without reading its file, and knows which names are not in it.

mod draw;
mod label;
mod output;

use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kqps_message::name::{self, NAME_BYTES_MAX, Shown};
use kqps_message::{NameError, rcode, rtype};

pub use draw::Popularity;
use draw::{Draws, Stream};
pub use label::LabelBytes;

/// Records that a zone can have at most.
pub const RECORDS_MAX: u64 = 100_000_000;

/// The TTL of every record, in seconds.
const TTL_S: u32 = 3600;
/// Addresses are taken in turn from 198.18.0.0/15, which is set apart for benchmarks (RFC 2544).
const ADDRESSES: u64 = 1 << 17;

/// A zone of address records.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Its origin in presentation form; a final dot may be missing.
    pub origin: String,
    /// Its A records, 1 to 100 million, each with a name of its own; SOA, NS and glue come on top.
    pub records: u64,
    /// How long the names' first labels are.
    pub label_bytes: LabelBytes,
    /// What the names are made from.
    pub seed: u64,
}

/// Queries for the names of a zone.
#[derive(Clone, Debug)]
pub struct Queries {
    /// The zone.
    pub zone: Zone,
    /// How many queries, at least 1.
    pub count: u64,
    /// The share of names that are not in the zone, 0 to 1.
    pub nxdomain_share: f64,
    /// Types to ask for, each with its weight. The zone answers A; for others it has no data.
    pub types: Vec<(u16, f64)>,
    /// Which names are asked how often.
    pub popularity: Popularity,
    /// Whether the expected rcode stands in a third column. An echo, which answers NOERROR to everything, can
    /// meet no expectation of NXDOMAIN.
    pub expected: bool,
    /// What the queries are drawn from.
    pub seed: u64,
}

/// Why nothing was generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The origin is no name.
    #[error("bad origin \"{origin}\", column {}: {error}", error.column)]
    Origin {
        /// What was given.
        origin: String,
        /// What is wrong with it.
        error: NameError,
    },
    /// Some names would be longer than a name can be.
    #[error("the names would be up to {found} bytes long; a name has {NAME_BYTES_MAX} at most")]
    NameTooLong {
        /// The length of the longest.
        found: usize,
    },
    /// A zone without records, or with too many.
    #[error("{0} records; expected 1 to {RECORDS_MAX}")]
    Records(u64),
    /// Labels of a fixed length cannot hold the record's number.
    #[error("labels of {found} bytes; expected {least} to 63, so that there are enough different ones")]
    LabelBytes {
        /// What was asked for.
        found: u8,
        /// The shortest that will do.
        least: u8,
    },
    /// No query is asked for.
    #[error("no queries are asked for; expected 1 at least")]
    NoQueries,
    /// No share.
    #[error("a share of {0} for NXDOMAIN; expected 0 to 1")]
    Share(f64),
    /// No type has a weight.
    #[error("expected one type at least, each with a weight above 0")]
    Types,
    /// No Zipf exponent.
    #[error("a Zipf exponent of {0}; expected 0 to 10")]
    Exponent(f64),
    /// The file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// Writes the zone's master file (RFC 1035, section 5). The file appears whole or not at all.
pub fn zone(zone: &Zone, path: &Path) -> Result<(), GenerateError> {
    let origin = zone.check()?;
    output::whole(path, |out| write_zone(zone, &Shown(&origin), out))
        .map_err(|error| GenerateError::Io { path: path.to_owned(), error })
}

fn write_zone(zone: &Zone, origin: &dyn Display, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "$ORIGIN {origin}\n$TTL {TTL_S}")?;
    writeln!(out, "@ IN SOA ns-a hostmaster 1 7200 3600 1209600 {TTL_S}")?;
    // No generated label is without digits, so these stand alone.
    writeln!(out, "@ IN NS ns-a\n@ IN NS ns-b\nns-a IN A 198.18.0.1\nns-b IN A 198.18.0.2")?;
    let mut label = Vec::new();
    for index in 0..zone.records {
        zone.write_label(index, &mut label);
        let address = index % ADDRESSES;
        out.write_all(&label)?;
        writeln!(out, " IN A 198.{}.{}.{}", 18 + (address >> 16), (address >> 8) & 0xff, address & 0xff)?;
    }
    Ok(())
}

/// Writes a query file: `name type` a line, and the expected rcode. It appears whole or not at all.
pub fn queries(queries: &Queries, path: &Path) -> Result<(), GenerateError> {
    let origin = queries.zone.check()?;
    if queries.count == 0 {
        return Err(GenerateError::NoQueries);
    }
    if !(0.0..=1.0).contains(&queries.nxdomain_share) {
        return Err(GenerateError::Share(queries.nxdomain_share));
    }
    if queries.types.is_empty()
        || queries.types.iter().any(|(_, weight)| !weight.is_finite() || *weight <= 0.0)
    {
        return Err(GenerateError::Types);
    }
    let names = queries.popularity.draws(queries.zone.records)?;
    let types = Draws::weighted(&queries.types.iter().map(|&(_, weight)| weight).collect::<Vec<_>>());
    let origin = Shown(&origin).to_string();
    output::whole(path, |out| write_queries(queries, &origin, &names, &types, out))
        .map_err(|error| GenerateError::Io { path: path.to_owned(), error })
}

fn write_queries(
    queries: &Queries,
    origin: &str,
    names: &Draws,
    types: &Draws,
    out: &mut dyn Write,
) -> io::Result<()> {
    let records = queries.zone.records;
    let column = |rcode| if queries.expected { format!(" {}", rcode::Shown(rcode)) } else { String::new() };
    let (found, absent) = (column(rcode::NOERROR), column(rcode::NXDOMAIN));
    let suffix = if origin == "." { ".".to_owned() } else { format!(".{origin}") };
    let ends: Vec<[String; 2]> = queries
        .types
        .iter()
        .map(|&(qtype, _)| {
            [&found, &absent].map(|column| format!("{suffix} {}{column}\n", rtype::Shown(qtype)))
        })
        .collect();
    let mut stream = Stream::new(queries.seed);
    let mut label = Vec::new();
    for _ in 0..queries.count {
        let is_absent = stream.unit() < queries.nxdomain_share;
        // The records' numbers end where those of absent names begin.
        let index = if is_absent { records + stream.below(records) } else { names.draw(&mut stream) };
        queries.zone.write_label(index, &mut label);
        out.write_all(&label)?;
        out.write_all(ends[types.draw(&mut stream) as usize][usize::from(is_absent)].as_bytes())?;
    }
    Ok(())
}

impl Zone {
    /// The origin in wire form, where everything is as it must be.
    fn check(&self) -> Result<Vec<u8>, GenerateError> {
        if !(1..=RECORDS_MAX).contains(&self.records) {
            return Err(GenerateError::Records(self.records));
        }
        let mut origin = Vec::new();
        let origin_bytes = name::encode(self.origin.as_bytes(), &mut origin)
            .map_err(|error| GenerateError::Origin { origin: self.origin.clone(), error })?;
        let label_bytes = self.label_bytes.longest(self.number_end())?;
        let found = 1 + label_bytes + origin_bytes;
        if found > NAME_BYTES_MAX {
            return Err(GenerateError::NameTooLong { found });
        }
        Ok(origin)
    }

    fn write_label(&self, index: u64, label: &mut Vec<u8>) {
        label::write(self.seed, index, self.label_bytes, label);
    }

    /// Above the numbers of records and of absent names.
    fn number_end(&self) -> u64 {
        self.records * 2
    }
}
