//! Loads the zones of `kqps serve auth`, with a progress bar, and prints their errors.

use std::io::{self, IsTerminal as _};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use kqps_message::name;
use kqps_server::services::auth::{AuthSettings, Changes, Faulty, ZoneRequest, ZoneSource, ZonesLoaded};
use kqps_testbed::words::counted;
use kqps_zone::load::{self, LoadOptions, Loaded, Progress, Report, Served, load};
use kqps_zone::source::{Source, SourceError, Sources};
use kqps_zone::{Entry, Zones};

/// The most files whose errors are printed.
const FILES_SHOWN: usize = 20;

/// The zone files that the settings of a server name.
pub(super) struct ZoneFiles;

impl ZoneSource for ZoneFiles {
    fn load(&self, request: ZoneRequest<'_>) -> Result<(Zones, ZonesLoaded), String> {
        let (speaks, is_again) = (request.speaks, request.old.is_some());
        let loaded = load_all(&request);
        // An error at the first load ends the program, which prints it then.
        if let Err(why) = &loaded
            && speaks
            && is_again
        {
            // The text may name several files, each in a line.
            eprint!("kqps: {why}; all zones stay as they were\n");
        }
        loaded
    }
}

fn load_all(request: &ZoneRequest<'_>) -> Result<(Zones, ZonesLoaded), String> {
    let begin = Instant::now();
    let (sources, left_out) = sources(request.settings).map_err(|error| error.to_string())?;
    if left_out > 0 && request.speaks && request.old.is_none() {
        let are = if left_out == 1 { "is" } else { "are" };
        let zones = counted(left_out as u64, "zone");
        eprintln!("kqps: {zones} {are} left out: not primary, or not of class IN");
    }
    let bar = (request.speaks && io::stderr().is_terminal()).then(bar);
    let progress = |progress| show(bar.as_ref(), progress);
    let options = LoadOptions { threads: request.threads, progress: &progress };
    let Loaded { zones, reports, changes } = load(&sources, request.old, &options);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let mut result = ZonesLoaded { load_s: begin.elapsed().as_secs_f64(), ..ZonesLoaded::default() };
    result.kept = reports.iter().filter(|report| report.served == Served::Old).count() as u64;
    result.changes = request.old.map(|_| of_load(changes));
    result.faulty = reports.iter().filter_map(faulty).take(FILES_SHOWN).collect();
    if request.speaks {
        show_remarks(reports);
    }
    result.memory_bytes = zones.memory_bytes() as u64;
    for entry in zones.iter() {
        match entry {
            Entry::Loaded(zone) => {
                result.zones += 1;
                result.records += zone.records();
            }
            Entry::Broken(_) => result.broken += 1,
        }
    }
    if result.zones == 0 {
        return Err("there is no zone to answer from: none of the files could be loaded".to_owned());
    }
    Ok((zones, result))
}

/// The sources of all zones, and the number of zones in configurations that are not primary or not of class
/// IN.
fn sources(settings: &AuthSettings) -> Result<(Vec<Source>, usize), SourceError> {
    let mut sources = Vec::new();
    let mut left_out = 0;
    for argument in &settings.zones {
        sources.push(Source::of_argument(argument)?);
    }
    for list in &settings.lists {
        let found = Sources::read(list)?;
        sources.extend(found.zones);
        left_out += found.left_out;
    }
    Ok((sources, left_out))
}

fn of_load(changes: load::Changes) -> Changes {
    Changes {
        added: changes.added as u64,
        changed: changes.changed as u64,
        unchanged: changes.unchanged as u64,
        removed: changes.removed as u64,
    }
}

/// A report of a zone whose file could not be loaded; `None` if its data were loaded, from this file or from
/// another one.
fn faulty(report: &Report) -> Option<Faulty> {
    let kept = match report.served {
        Served::Old => true,
        Served::Nothing => false,
        Served::New | Served::Other => return None,
    };
    let zone = name::NameText(report.apex.as_deref()?).to_string();
    Some(Faulty { zone, kept, error: report.errors.first()?.to_string() })
}

/// Prints errors and warnings, files with errors first.
fn show_remarks(mut reports: Vec<Report>) {
    reports.sort_by_key(|report| report.errors.is_empty());
    for report in reports.iter().take(FILES_SHOWN) {
        let more = |count: u64, what: &str| {
            if count > 0 {
                let (path, count) = (report.path.display(), counted(count, &format!("more {what}")));
                eprintln!("kqps: {path}: {count} not shown");
            }
        };
        report.errors.iter().for_each(|error| eprintln!("kqps: {error}"));
        if report.gave_up {
            let (path, count) = (report.path.display(), report.errors.len());
            eprintln!("kqps: {path}: there are more errors; reading stopped after {count}");
        }
        more(report.more_errors, "error");
        report.warnings.iter().for_each(|warning| eprintln!("kqps: warning: {warning}"));
        more(report.more_warnings, "warning");
    }
    let more = reports.len().saturating_sub(FILES_SHOWN) as u64;
    if more > 0 {
        let have = if more == 1 { "has" } else { "have" };
        eprintln!("kqps: {} {have} errors or warnings", counted(more, "more file"));
    }
}

fn bar() -> ProgressBar {
    let style = "{elapsed_precise} {wide_bar:.cyan/blue} {msg}";
    ProgressBar::new(0).with_style(ProgressStyle::with_template(style).expect("the template is valid"))
}

/// Updates the bar: by bytes, or by zones if there are too many files to read their sizes first.
fn show(bar: Option<&ProgressBar>, progress: Progress) {
    let Some(bar) = bar else { return };
    let (done, all) = match progress.bytes {
        Some(bytes) => (progress.bytes_done, bytes),
        None => (progress.zones_done as u64, progress.zones as u64),
    };
    bar.set_length(all);
    bar.set_position(done);
    bar.set_message(format!("{} of {} zones", progress.zones_done, progress.zones));
}
