//! What can be wrong with the records of a zone, and on which line.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use kqps_message::{name, rtype};

use crate::compile::lines::Lines;

/// How bad a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The zone cannot be served.
    Error,
    /// The zone is served, but hardly as it was meant.
    Warning,
}

/// Something wrong with a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The line of the record at fault, from 1; 0 where something is missing that could stand on any line.
    pub line: u32,
    /// What is wrong.
    pub what: What,
    /// The file of the line, where it is included by the zone's own one.
    pub file: Option<Arc<Path>>,
}

impl Fault {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.what.severity()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(out)
    }
}

/// A name of the zone, shown in presentation form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(Box<[u8]>);

impl Owner {
    pub(crate) fn new(wire: &[u8]) -> Self {
        Self(wire.into())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        name::Shown(&self.0).fmt(out)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The zone has no SOA record at its apex (RFC 1035, section 5.2).
    NoSoa,
    /// It has several (RFC 1035, section 5.2).
    SeveralSoa,
    /// A SOA record stands below the apex.
    SoaBelowApex(Owner),
    /// The zone has no NS record at its apex (RFC 1035, section 5.2).
    NoNs,
    /// A record is not of this zone.
    OutOfZone(Owner),
    /// A CNAME record is not alone at its name (RFC 2181, section 10.1).
    CnameNotAlone(Owner),
    /// A name has several CNAME records (RFC 2181, section 10.1).
    SeveralCname(Owner),
    /// A name has several DNAME records (RFC 6672, section 2.4).
    SeveralDname(Owner),
    /// The zone is larger than the format of its memory allows.
    TooLarge,
    /// Records of one RRset have different TTLs; the lowest is taken (RFC 2181, section 5.2).
    TtlsDiffer(Owner, u16),
    /// A name server below a cut has no address there, so the delegation leads nowhere.
    NoGlue(Owner),
    /// A name server within the zone has no address.
    NoAddress(Owner),
    /// A name is below a cut or a DNAME record and is no glue, so it is never answered with.
    Occluded(Owner),
}

impl What {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        match self {
            Self::TtlsDiffer(..) | Self::NoGlue(_) | Self::NoAddress(_) | Self::Occluded(_) => {
                Severity::Warning
            }
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
            Self::TtlsDiffer(name, rtype) => {
                write!(out, "the TTLs of {name} {} differ; the lowest is used", rtype::Shown(*rtype))
            }
            Self::NoGlue(name) => write!(out, "the name server {name} is below a cut and has no glue"),
            Self::NoAddress(name) => write!(out, "the name server {name} has no address in this zone"),
            Self::Occluded(name) => {
                write!(out, "{name} is hidden by a delegation or DNAME record above it")
            }
        }
    }
}

/// A zone's faults are told as far as so many of a severity; a zone in which all is wrong has millions.
const TOLD_MAX: usize = 20;

/// Collects faults, keeping of each severity those with the lowest lines.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<Fault>,
    /// Whether there were more of each severity.
    more: [bool; 2],
}

impl Faults {
    pub(crate) fn add(&mut self, line: u32, what: What) {
        self.found.push(Fault { line, what, file: None });
        if self.found.len() >= 16 * TOLD_MAX {
            self.sift();
        }
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.found.extend(other.found);
        for (mine, theirs) in self.more.iter_mut().zip(other.more) {
            *mine |= theirs;
        }
        self.sift();
    }

    /// Keeps the first of each severity, by line.
    fn sift(&mut self) {
        self.found.sort_unstable();
        self.found.dedup();
        let mut told = [0; 2];
        let more = &mut self.more;
        self.found.retain(|fault| {
            let severity = fault.severity() as usize;
            told[severity] += 1;
            more[severity] |= told[severity] > TOLD_MAX;
            told[severity] <= TOLD_MAX
        });
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.found.iter().any(|fault| fault.severity() == Severity::Error)
    }

    /// What is to be told, with files and their lines; and whether there was more of each severity.
    pub(crate) fn told(mut self, lines: &Lines) -> (Vec<Fault>, [bool; 2]) {
        self.sift();
        for fault in &mut self.found {
            (fault.file, fault.line) = lines.find(fault.line);
        }
        (self.found, self.more)
    }
}
