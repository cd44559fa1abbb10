//! From files to zones: many zones side by side, one on each thread, and big ones one after another on all
//! threads. A zone whose file is not right is not served in part: a server that has an older one keeps it, and
//! otherwise answers SERVFAIL.

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

/// How zones are loaded.
#[derive(Clone, Copy)]
pub struct LoadOptions<'a> {
    /// Threads that work on it.
    pub threads: usize,
    /// Is told now and then how far it has come, from any of the threads.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// How far loading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Zones that are done, be it for better or worse.
    pub zones_done: usize,
    /// All zones.
    pub zones: usize,
    /// Bytes of master files that were read, included ones not counted.
    pub bytes_done: u64,
    /// The bytes of all master files. None where there are so many of them that to ask would take long.
    pub bytes: Option<u64>,
}

/// What came of loading.
#[derive(Debug)]
pub struct Loaded {
    /// The zones to be served from now on.
    pub zones: Zones,
    /// What is to be said of zones, in the order of their sources; nothing of those in which all is well.
    pub reports: Vec<Report>,
    /// How the zones differ from those that were served before.
    pub changes: Changes,
}

/// How many zones of which the file was right differ from those that were served before, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Zones that were not served before.
    pub added: usize,
    /// Zones whose records are others now.
    pub changed: usize,
    /// Zones whose records are the same.
    pub unchanged: usize,
    /// Zones that were served before, or answered with SERVFAIL, and are named no longer.
    pub removed: usize,
}

/// What is to be said of one zone.
#[derive(Debug)]
pub struct Report {
    /// Its master file.
    pub path: PathBuf,
    /// Its name in wire form, where that is known.
    pub apex: Option<Box<[u8]>>,
    /// What is served of it.
    pub served: Served,
    /// What is wrong, at most 20 of it.
    pub errors: Vec<LoadRemark>,
    /// How many more errors there are.
    pub more_errors: u64,
    /// Whether reading the file ended before its end, since there were so many errors.
    pub gave_up: bool,
    /// What does not keep it from being served, at most 20 of either kind.
    pub warnings: Vec<LoadRemark>,
    /// How many more warnings there are.
    pub more_warnings: u64,
}

/// What is served of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// What its file says now.
    New,
    /// What was served before, since its file is not right.
    Old,
    /// Nothing: queries for it get SERVFAIL.
    Nothing,
    /// What another file says, which was named before.
    Other,
}

/// A file of this size is read on all threads.
const BIG_BYTES: u64 = 8 << 20;
/// The sizes of so many files are looked up for the progress.
const SIZED_MAX: usize = 10_000;

/// Loads zones. `old` are those that were served before.
pub fn load(sources: &[Source], old: Option<&Zones>, options: &LoadOptions<'_>) -> Loaded {
    let work = Work::new(sources, old, options);
    let mut outcomes = work.small();
    work.big(&mut outcomes);
    let outcomes = sources.iter().zip(outcomes).filter_map(|(source, outcome)| Some((source, outcome?)));
    Assembly::new(old, outcomes.collect()).finish()
}

/// The content of a file; none where it has this size or more.
fn read(path: &Path, bytes_max: Option<u64>) -> io::Result<Option<Vec<u8>>> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    if bytes_max.is_some_and(|max| bytes >= max) {
        return Ok(None);
    }
    let mut text = Vec::with_capacity(bytes as usize + 1);
    // Through `take`, since a file itself would ask for its size again, and for its position.
    file.take(u64::MAX).read_to_end(&mut text)?;
    Ok(Some(text))
}

/// What came of one source.
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

    /// Loads the small zones, one on each thread at a time. What is left are big ones.
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

    /// Loads the zones that are left, each on all threads.
    fn big(&self, outcomes: &mut [Option<Outcome>]) {
        for (source, outcome) in self.sources.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_none()) {
            *outcome = self.load(source, None, self.options.threads);
        }
    }

    /// Loads a zone, unless its file has this size or more.
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
        self.tell(0);
        Some(outcome)
    }

    /// The zone of a file that does not tell it: the one that it told before, or the one that it is named for.
    fn supposed(&self, source: &Source) -> Option<Box<[u8]>> {
        let before = self.old.and_then(|old| old.told_by(&source.path));
        before.map(Box::from).or_else(|| source.file_name())
    }

    fn tell(&self, bytes: u64) {
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
            advance: &|bytes| self.tell(bytes),
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
