//! The errors and warnings of a zone's records, with their place.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use kqps_message::{name, rtype};

use crate::compile::lines::{LinePlace, Lines};

/// The severity of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The zone cannot be served.
    Error,
    /// The zone is served, but probably not as intended.
    Warning,
}

/// Something wrong with a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The line on which the record with the fault begins, counted from 1; the first line if a record is missing.
    pub line: u32,
    /// The byte of that line at which the record begins, counted from 1.
    pub column: u32,
    /// The error or warning.
    pub what: What,
    /// The file of the line, if the zone's own file includes it; `None` for the zone's own file.
    pub file: Option<Arc<Path>>,
}

impl Fault {
    /// Whether it is an error or a warning.
    pub fn severity(&self) -> Severity {
        self.what.severity()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(out)
    }
}

/// A name of the zone, printed in presentation form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(Box<[u8]>);

impl Owner {
    pub(crate) fn new(wire: &[u8]) -> Self {
        Self(wire.into())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        name::NameText(&self.0).fmt(out)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// An error or a warning about a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The zone has no SOA record at its apex (RFC 1035, section 5.2).
    NoSoa,
    /// The zone has several SOA records at its apex (RFC 1035, section 5.2).
    SeveralSoa,
    /// A SOA record stands below the apex.
    SoaBelowApex(Owner),
    /// The zone has no NS record at its apex (RFC 1035, section 5.2).
    NoNs,
    /// A record's owner is not in this zone.
    OutOfZone(Owner),
    /// A CNAME record is not alone at its name (RFC 2181, section 10.1).
    CnameNotAlone(Owner),
    /// A name has several CNAME records (RFC 2181, section 10.1).
    SeveralCname(Owner),
    /// A name has several DNAME records (RFC 6672, section 2.4).
    SeveralDname(Owner),
    /// The zone is larger than the format of its memory allows.
    TooLarge,
    /// Records of one RRset have different TTLs. The RRset gets this one, the lowest (RFC 2181, section 5.2).
    TtlsDiffer(Owner, u16, u32),
    /// The signatures of an RRset have a greater TTL than the RRset. They get this TTL of the RRset (RFC 4034, section
    /// 3).
    SignatureTtl(Owner, u16, u32),
    /// A name server below a cut has no address there, so the delegation leads nowhere.
    NoGlue(Owner),
    /// A name server within the zone has no address.
    NoAddress(Owner),
    /// A name is below a cut or a DNAME record and is not glue, so it is never in an answer.
    Occluded(Owner),
}

impl What {
    /// Whether it is an error or a warning.
    pub fn severity(&self) -> Severity {
        match self {
            Self::TtlsDiffer(..)
            | Self::SignatureTtl(..)
            | Self::NoGlue(_)
            | Self::NoAddress(_)
            | Self::Occluded(_) => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSoa => write!(out, "the zone has no SOA record at its apex"),
            Self::SeveralSoa => write!(out, "the zone has more than one SOA record"),
            Self::SoaBelowApex(name) => write!(out, "a SOA record stands at {name}, which is not the apex"),
            Self::NoNs => write!(out, "the zone has no NS record at its apex"),
            Self::OutOfZone(name) => write!(out, "{name} is not in this zone"),
            Self::CnameNotAlone(name) => write!(out, "{name} has a CNAME record and others beside it"),
            Self::SeveralCname(name) => write!(out, "{name} has more than one CNAME record"),
            Self::SeveralDname(name) => write!(out, "{name} has more than one DNAME record"),
            Self::TooLarge => write!(out, "the zone is too large"),
            Self::TtlsDiffer(name, rtype, least_s) => {
                let rtype = rtype::RtypeName(*rtype);
                write!(out, "the TTLs of {name} {rtype} differ; the least, {least_s}, is used for all")
            }
            Self::SignatureTtl(name, rtype, ttl_s) => {
                let rtype = rtype::RtypeName(*rtype);
                write!(
                    out,
                    "the signatures of {name} {rtype} have a greater TTL than the records; {ttl_s} is used"
                )
            }
            Self::NoGlue(name) => write!(out, "the name server {name} is below a cut and has no glue"),
            Self::NoAddress(name) => write!(out, "the name server {name} has no address in this zone"),
            Self::Occluded(name) => {
                write!(out, "{name} is hidden by a delegation or DNAME record above it")
            }
        }
    }
}

/// The most faults of a severity that are reported. A zone in which everything is wrong has millions.
const REPORTED_MAX: usize = 20;

/// Collects faults, and keeps those with the lowest lines of each severity.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<FaultAtLine>,
    /// The number of further faults of each severity.
    more: [u64; 2],
}

/// A fault, and its line in the row of all lines. Line 0 stands for no line.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FaultAtLine {
    line: u32,
    what: What,
}

impl Faults {
    pub(crate) fn add(&mut self, line: u32, what: What) {
        self.found.push(FaultAtLine { line, what });
        if self.found.len() >= 16 * REPORTED_MAX {
            self.sift();
        }
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.found.extend(other.found);
        for (mine, theirs) in self.more.iter_mut().zip(other.more) {
            *mine += theirs;
        }
        self.sift();
    }

    /// Keeps the first faults of each severity, by line.
    fn sift(&mut self) {
        self.found.sort_unstable();
        self.found.dedup();
        let mut kept = [0; 2];
        let more = &mut self.more;
        self.found.retain(|found| {
            let severity = found.what.severity() as usize;
            let is_kept = kept[severity] < REPORTED_MAX;
            kept[severity] += usize::from(is_kept);
            more[severity] += u64::from(!is_kept);
            is_kept
        });
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.found.iter().any(|found| found.what.severity() == Severity::Error)
    }

    /// The faults to report, with their place, and the number of further faults of each severity.
    pub(crate) fn reported(mut self, lines: &Lines) -> (Vec<Fault>, [u64; 2]) {
        self.sift();
        let placed = |FaultAtLine { line, what }| {
            let LinePlace { file, line, column } = lines.find(line);
            Fault { line, column, what, file }
        };
        (self.found.into_iter().map(placed).collect(), self.more)
    }
}
