//! From files to zones. Small zones are loaded side by side, one on each thread; big ones one after another on
//! all threads. A zone with an error in its file is not served in part. If the server has an older version, it
//! keeps that one; otherwise it answers SERVFAIL.

mod assembly;
mod remark;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::compile::{Builder, Severity};
use crate::master::{self, DEPTH_MAX, GENERATED_MAX, PIECE_BYTES};
use crate::source::Source;
use crate::zone::Zone;
use crate::zones::Zones;
use assembly::Assembly;

pub use remark::LoadRemark;

/// How to load zones.
#[derive(Clone, Copy)]
pub struct LoadOptions<'a> {
    /// The number of threads that load.
    pub threads: usize,
    /// Called from time to time with the progress, from any of the threads.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// The progress of loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Zones that are done, whether they loaded or not.
    pub zones_done: usize,
    /// The number of all zones.
    pub zones: usize,
    /// Bytes of master files read so far, without included files.
    pub bytes_done: u64,
    /// The bytes of all master files; `None` for more than 10,000 files, whose sizes would take long to read.
    pub bytes: Option<u64>,
}

/// The result of loading.
#[derive(Debug)]
pub struct Loaded {
    /// The zones to serve from now on.
    pub zones: Zones,
    /// Reports on zones, in the order of their sources. Zones without errors and warnings have none.
    pub reports: Vec<Report>,
    /// How the zones differ from the previous ones.
    pub changes: Changes,
}

/// How the zones with good files differ from the zones that were served before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Zones that were not served before.
    pub added: usize,
    /// Zones with changed records.
    pub changed: usize,
    /// Zones with the same records.
    pub unchanged: usize,
    /// Zones that were served before, or answered with SERVFAIL, and are no longer among the sources.
    pub removed: usize,
}

/// The report on one zone.
#[derive(Debug)]
pub struct Report {
    /// Its master file.
    pub path: PathBuf,
    /// Its name in wire form, if that is known.
    pub apex: Option<Box<[u8]>>,
    /// The version of it that is served.
    pub served: Served,
    /// The errors, at most 20.
    pub errors: Vec<LoadRemark>,
    /// The number of further errors.
    pub more_errors: u64,
    /// Whether reading stopped before the end of the file because of too many errors.
    pub gave_up: bool,
    /// The warnings, which do not prevent serving the zone; at most 20 of the file's text and 20 of the zone's
    /// records.
    pub warnings: Vec<LoadRemark>,
    /// The number of further warnings.
    pub more_warnings: u64,
}

/// The version of a zone that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The present content of its file.
    New,
    /// The version that was served before, since its file now has an error.
    Old,
    /// None: queries for it get SERVFAIL.
    Nothing,
    /// The content of another file, which came before it in the sources.
    Other,
}

/// A file of this size is read on all threads.
const BIG_BYTES: u64 = 8 << 20;
/// The most files whose sizes are looked up for the progress.
const SIZED_MAX: usize = 10_000;

/// Loads zones. `old` are the zones that were served before.
pub fn load(sources: &[Source], old: Option<&Zones>, options: &LoadOptions<'_>) -> Loaded {
    let work = Work::new(sources, old, options);
    let mut outcomes = work.small();
    work.big(&mut outcomes);
    let outcomes = sources.iter().zip(outcomes).filter_map(|(source, outcome)| Some((source, outcome?)));
    Assembly::new(old, outcomes.collect()).finish()
}

/// The content of a file; `None` if it has `bytes_max` bytes or more.
fn read(path: &Path, bytes_max: Option<u64>) -> io::Result<Option<Vec<u8>>> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    if bytes_max.is_some_and(|max| bytes >= max) {
        return Ok(None);
    }
    let mut text = Vec::with_capacity(bytes as usize + 1);
    // Through `take`, since reading a file directly would ask for its size again, and for its position.
    file.take(u64::MAX).read_to_end(&mut text)?;
    Ok(Some(text))
}

/// The result for one source.
struct Outcome {
    apex: Option<Box<[u8]>>,
    zone: Option<Zone>,
    errors: Vec<LoadRemark>,
    more_errors: u64,
    gave_up: bool,
    warnings: Vec<LoadRemark>,
    more_warnings: u64,
}

struct Work<'a> {
    sources: &'a [Source],
    old: Option<&'a Zones>,
    options: &'a LoadOptions<'a>,
    zones_done: AtomicUsize,
    bytes_done: AtomicU64,
    bytes: Option<u64>,
}

impl<'a> Work<'a> {
    fn new(sources: &'a [Source], old: Option<&'a Zones>, options: &'a LoadOptions<'a>) -> Self {
        let bytes = (sources.len() <= SIZED_MAX).then(|| {
            sources.iter().filter_map(|source| fs::metadata(&source.path).ok()).map(|file| file.len()).sum()
        });
        let (zones_done, bytes_done) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { sources, old, options, zones_done, bytes_done, bytes }
    }

    /// Loads the small zones, one on each thread at a time. The remaining ones are big.
    fn small(&self) -> Vec<Option<Outcome>> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        let work = || {
            let mut mine = Vec::new();
            while let Some(number) =
                Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&n| n < self.sources.len())
            {
                if let Some(outcome) = self.load(&self.sources[number], Some(BIG_BYTES), 1) {
                    mine.push((number, outcome));
                }
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).append(&mut mine);
        };
        std::thread::scope(|scope| {
            for _ in 1..self.options.threads.min(self.sources.len()) {
                scope.spawn(work);
            }
            work();
        });
        let mut outcomes: Vec<Option<Outcome>> = self.sources.iter().map(|_| None).collect();
        for (number, outcome) in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
            outcomes[number] = Some(outcome);
        }
        outcomes
    }

    /// Loads the remaining zones, each on all threads.
    fn big(&self, outcomes: &mut [Option<Outcome>]) {
        for (source, outcome) in self.sources.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_none()) {
            *outcome = self.load(source, None, self.options.threads);
        }
    }

    /// Loads a zone, unless its file has `bytes_max` bytes or more.
    fn load(&self, source: &Source, bytes_max: Option<u64>, threads: usize) -> Option<Outcome> {
        let mut outcome = Outcome {
            apex: source.apex.clone(),
            zone: None,
            errors: Vec::new(),
            more_errors: 0,
            gave_up: false,
            warnings: Vec::new(),
            more_warnings: 0,
        };
        match read(&source.path, bytes_max) {
            Ok(Some(text)) => self.compile(source, text, threads, &mut outcome),
            Ok(None) => return None,
            Err(error) => {
                outcome.apex = outcome.apex.or_else(|| self.supposed(source));
                outcome.errors.push(LoadRemark::Read { path: source.path.clone(), error });
            }
        }
        self.zones_done.fetch_add(1, Ordering::Relaxed);
        self.report_progress(0);
        Some(outcome)
    }

    /// The zone of a file that does not name it: the zone that it named before, or the one for which the file
    /// is named.
    fn supposed(&self, source: &Source) -> Option<Box<[u8]>> {
        let before = self.old.and_then(|old| old.named_by(&source.path));
        before.map(Box::from).or_else(|| source.file_name())
    }

    fn report_progress(&self, bytes: u64) {
        let bytes_done = self.bytes_done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (self.options.progress)(Progress {
            zones_done: self.zones_done.load(Ordering::Relaxed),
            zones: self.sources.len(),
            bytes_done,
            bytes: self.bytes,
        });
    }

    fn compile(&self, source: &Source, text: Vec<u8>, threads: usize, outcome: &mut Outcome) {
        let master = master::Options {
            threads,
            piece_bytes: PIECE_BYTES,
            generated_max: GENERATED_MAX,
            depth_max: DEPTH_MAX,
            open: &|path| fs::read(path),
            advance: &|bytes| self.report_progress(bytes),
        };
        let apex = outcome.apex.take().or_else(|| {
            let file_name = source.file_name();
            master::apex(&text, &source.path, file_name.as_deref().unwrap_or(b"\0"), &master)
                .or_else(|| self.supposed(source))
        });
        let Some(apex) = apex else { return };
        let reading = master::read(&text, &source.path, &apex, &master);
        drop(text);
        let mut builder = Builder::new(&apex);
        outcome.apex = Some(apex);
        outcome.gave_up = reading.more_errors;
        outcome.errors = reading.errors.into_iter().map(LoadRemark::Master).collect();
        outcome.more_warnings = reading.more_warnings;
        outcome.warnings = reading.warnings.into_iter().map(LoadRemark::Master).collect();
        if !outcome.errors.is_empty() {
            return;
        }
        for batch in reading.batches {
            builder.add(batch);
        }
        let compiled = builder.finish(threads);
        for fault in compiled.faults {
            let remarks = match fault.severity() {
                Severity::Error => &mut outcome.errors,
                Severity::Warning => &mut outcome.warnings,
            };
            let path = fault.file.as_deref().unwrap_or(&source.path).to_owned();
            remarks.push(LoadRemark::Zone { path, fault });
        }
        outcome.more_errors += compiled.more_errors;
        outcome.more_warnings += compiled.more_warnings;
        outcome.zone = compiled.zone;
    }
}
