//! Master files (RFC 1035, section 5): text to records.
//!
//! The reader knows `$ORIGIN`, `$TTL` (RFC 2308), `$INCLUDE` and BIND's `$GENERATE`; TTLs with units; the data of every
//! type that has a text form in `fields.rs` and beside it, and of any type in the form of RFC 3597. Those are the types
//! that BIND 9.18 reads, except KEYDATA and UNSPEC. Records of signed zones are read as they are. The only class is IN.
//!
//! Nothing here opens a file; the caller passes a function for it. Whether the records make a zone is decided where
//! they are compiled.

mod a6;
mod binary;
mod directive;
mod error;
mod fields;
mod gateway;
mod generate;
mod harvest;
mod heading;
mod historic;
mod include;
mod lexer;
mod location;
mod mnemonic;
mod name;
mod number;
mod parallel;
mod rdata;
mod reader;
mod splitter;
mod svcb;
mod text;
mod types;
mod wire;

use std::io;
use std::path::Path;
use std::sync::Arc;

use kqps_message::rtype;
use kqps_message::text::without_mark;

pub use error::{ERRORS_MAX, Remark, Wrong};
pub(crate) use wire::{canonical, same_data};

use crate::batch::Batch;
use harvest::{File, LastTtl, Start, State};
use parallel::Expander;
use reader::Reader;

/// How to read a master file.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The number of threads that read pieces of one file.
    pub threads: usize,
    /// The approximate size of a piece, in bytes.
    pub piece_bytes: usize,
    /// The most records that one `$GENERATE` may make.
    pub generated_max: u32,
    /// The most files that may be included one within another.
    pub depth_max: usize,
    /// Returns the content of an included file. Its path is relative to the same folder as the zone's own path.
    pub open: &'a (dyn Fn(&Path) -> io::Result<Vec<u8>> + Sync),
    /// Called with the bytes of the zone's own file that have been read since the last call.
    pub advance: &'a (dyn Fn(u64) + Sync),
}

/// The usual size of a piece: small compared with a big zone, and long enough that cutting costs nothing.
pub const PIECE_BYTES: usize = 1 << 20;
/// The usual limit of records of one `$GENERATE`: an IPv4 `/8`.
pub const GENERATED_MAX: u32 = 1 << 24;
/// The usual limit of files included one within another.
pub const DEPTH_MAX: usize = 16;

/// The content of a master file.
#[derive(Debug, Default)]
pub struct Reading {
    /// The records in their order.
    pub batches: Vec<Batch>,
    /// The errors, in the order of the file, at most [`ERRORS_MAX`]. If there are any, records are missing.
    pub errors: Vec<Remark>,
    /// Whether there may be more errors, because reading stopped.
    pub more_errors: bool,
    /// The warnings, at most [`ERRORS_MAX`].
    pub warnings: Vec<Remark>,
    /// The number of further warnings.
    pub more_warnings: u64,
}

/// Reads the text of a master file. `origin`, in wire form, completes relative names before the first `$ORIGIN`. `path`
/// is the file's name in errors, and `$INCLUDE` is relative to it.
pub fn read(text: &[u8], path: &Path, origin: &[u8], options: &Options<'_>) -> Reading {
    let text = match without_mark(text) {
        Ok(text) => text,
        Err(encoding) => {
            let wrong = Wrong::Encoding(encoding);
            let error = Remark { path: Arc::from(path), line: 1, column: 1, wrong };
            return Reading { errors: vec![error], ..Reading::default() };
        }
    };
    let (harvest, _) = parallel::read(&file(path, options), text, start(origin));
    Reading {
        batches: harvest.batches,
        errors: harvest.errors,
        more_errors: harvest.gave_up,
        warnings: harvest.warnings,
        more_warnings: harvest.more_warnings,
    }
}

/// The zone of a master file: the owner of its first record, if that is a SOA record. `origin` completes relative names
/// before the first `$ORIGIN`.
pub fn apex(text: &[u8], path: &Path, origin: &[u8], options: &Options<'_>) -> Option<Box<[u8]>> {
    let text = without_mark(text).ok()?;
    let batch = Reader::new(&file(path, options), text, 1, start(origin), &Expander).first_record()?;
    let (_, record) = batch.records().next()?;
    (record.rtype == rtype::SOA).then(|| record.owner.into())
}

fn file<'a>(path: &Path, options: &'a Options<'a>) -> File<'a> {
    File { path: Arc::from(path), options, includer: None }
}

fn start(origin: &[u8]) -> Start {
    Start {
        state: State { origin: origin.to_vec(), default_ttl_s: None },
        last_ttl: LastTtl::None,
        owner: Vec::new(),
    }
}
