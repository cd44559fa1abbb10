//! Confirms new changes: `kqps compare` of the builds before and after them on today's host decides.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kqps_history::{Build, Entry, Kind, Reading, Records};
use kqps_lab::configured::Configured;
use kqps_observation::{Store, secret};
use kqps_testbed::folder::{Folder, store_in};
use kqps_testbed::subject::Definition;
use kqps_verdict::change::difference;
use kqps_verdict::compare::{Comparison, Figure, Outcome};

use super::checked::{Checked, Confirmation};
use crate::compare::{self, AskedExtent, Pair};
use crate::exit::bad_input;
use crate::run::subjects;
use crate::signals;

/// The confirmation that the user asks for.
pub(super) struct Request {
    /// The builds that the user names, before and after.
    pub(super) sides: Option<[Configured; 2]>,
    /// The folder in which builds are kept.
    pub(super) builds: Option<PathBuf>,
    /// How much is measured.
    pub(super) extent: AskedExtent,
}

/// The figure that a comparison has for a kind; `None` if it has none.
fn figure_for(kind: Kind) -> Option<Figure> {
    match kind {
        Kind::Share | Kind::Ratio(Figure::AnsweredRate | Figure::ReliableRate) => Some(Figure::AnsweredRate),
        Kind::CpuPerMillion | Kind::Ratio(Figure::CpuPerAnswer) => Some(Figure::CpuPerAnswer),
        Kind::P99AtHalf | Kind::Ratio(Figure::P99Latency) => Some(Figure::P99Latency),
        Kind::Memory => None,
    }
}

/// Compares the builds of every new change. Changes with the same builds and the same load share a comparison.
pub(super) fn all(records: &Records, checked: &mut [Checked<'_>], asked: &Request) {
    let mut made: BTreeMap<String, Result<Vec<Comparison>, String>> = BTreeMap::new();
    for one in checked.iter_mut().filter(|one| one.is_new) {
        if signals::in_order().is_asked() {
            one.confirmation =
                Some(Confirmation::Undecided { reason: "the user interrupted the check".into() });
            continue;
        }
        one.confirmation = Some(of_change(records, one, asked, &mut made));
    }
}

fn of_change(
    records: &Records,
    one: &Checked<'_>,
    asked: &Request,
    made: &mut BTreeMap<String, Result<Vec<Comparison>, String>>,
) -> Confirmation {
    let undecided = |reason: String| Confirmation::Undecided { reason };
    let Some(figure) = figure_for(one.series.key.kind) else {
        return undecided(format!("kqps compare does not compare {}", one.series.key.kind));
    };
    let at = |point: usize| {
        let entry = &records.entries[one.series.points[point].entry];
        let reading = entry.readings.iter().find(|reading| reading.key == one.series.key);
        reading.map(|reading| (entry, reading))
    };
    let (Some(before), Some(after)) = (at(one.change.before), at(one.change.after)) else {
        return undecided("the history does not have its runs".into());
    };
    let sides = match &asked.sides {
        Some(sides) => sides.clone(),
        None if is_same(&before.1.builds, &after.1.builds) => return Confirmation::SameBuild,
        None => match built(before, asked).and_then(|a| Ok([a, built(after, asked)?])) {
            Ok(sides) => sides,
            Err(reason) => {
                return undecided(format!("{reason:#}; keep builds and name their folder by --builds"));
            }
        },
    };
    let rate_qps = match figure {
        Figure::AnsweredRate | Figure::ReliableRate => None,
        Figure::CpuPerAnswer | Figure::P99Latency => match after.1.compared_at_qps {
            Some(qps) => Some(qps.round().max(1.0)),
            None => return undecided("the rate at which to compare is not known".into()),
        },
    };
    let [a, b] = &sides;
    let builds = |side: &Configured, reading: &Reading| {
        let hashes: Vec<&str> = reading.builds.iter().map(|build| build.blake3.as_str()).collect();
        format!("{} {}", side.definition.text, hashes.join(" "))
    };
    let name = format!("{}\n{}\n{rate_qps:?}", builds(a, before.1), builds(b, after.1));
    let compared = made.entry(name).or_insert_with(|| {
        eprintln!("To confirm: {}.", one.series.name);
        let extent = AskedExtent { rate_qps, ..asked.extent };
        measured(sides, extent).map_err(|error| format!("{error:#}"))
    });
    match compared {
        Err(reason) => undecided(reason.clone()),
        Ok(comparisons) => {
            judged(one, comparisons.iter().find(|comparison| comparison.case.figure == figure))
        }
    }
}

fn measured(sides: [Configured; 2], extent: AskedExtent) -> anyhow::Result<Vec<Comparison>> {
    let compared = compare::measure(Pair { sides, extent, seed: None, out: None })?;
    if let Some(Ok(page)) = &compared.report {
        eprintln!("The full report of this comparison: {}.", page.display());
    }
    Ok(compared.comparisons)
}

fn judged(one: &Checked<'_>, comparison: Option<&Comparison>) -> Confirmation {
    let Some(comparison) = comparison else {
        return Confirmation::Undecided { reason: "the comparison does not have this figure".into() };
    };
    let wanted = if one.series.is_better(one.change) { Outcome::Faster } else { Outcome::Slower };
    decided(wanted, one.change.ratio.1, comparison)
}

/// The verdict of a comparison on a change to this ratio, which is confirmed by the outcome `wanted`. Equality refutes
/// a change only if the comparison would have seen one so large.
fn decided(wanted: Outcome, change: f64, comparison: &Comparison) -> Confirmation {
    let boxed = || Box::new(comparison.clone());
    match comparison.seeing(change.ln().abs().exp_m1()).outcome {
        Outcome::Inconclusive => Confirmation::Undecided {
            reason: match (comparison.case.refusal(), comparison.mde) {
                (Some(refusal), _) => refusal.to_owned(),
                (None, Some(mde)) if comparison.outcome == Outcome::Equivalent => {
                    format!("the comparison cannot see a change as small: its MDE is {}", difference(mde, 1))
                }
                _ => comparison.to_string().trim_end_matches('.').to_owned(),
            },
        },
        outcome if outcome == wanted => Confirmation::Confirmed { comparison: boxed() },
        _ => Confirmation::Refuted { comparison: boxed() },
    }
}

/// Whether both runs are known to have measured the same programs.
fn is_same(before: &[Build], after: &[Build]) -> bool {
    let hashes = |builds: &[Build]| builds.iter().map(|build| build.blake3.clone()).collect::<Vec<_>>();
    !before.is_empty() && hashes(before) == hashes(after)
}

/// The builds that the user names.
pub(super) fn named(a: &str, b: &str) -> anyhow::Result<[Configured; 2]> {
    if a.contains('{') && b.contains('{') {
        let both = subjects::of_commands(&[a.to_owned(), b.to_owned()])?;
        return both.try_into().map_err(|_| bad_input("--a and --b: expected two commands"));
    }
    let one = |text: &str| {
        if text.contains('{') {
            let commands = subjects::of_commands(&[text.to_owned()])?;
            return commands.into_iter().next().ok_or_else(|| bad_input("expected a command"));
        }
        subjects::named(text)
    };
    Ok([one(a)?, one(b)?])
}

/// The subject of a run as it was set up there, if its programs are still those that were measured, or are kept.
fn built((entry, reading): (&Entry, &Reading), asked: &Request) -> anyhow::Result<Configured> {
    let folder = Path::new(&entry.folder);
    let run = Store::read(&store_in(folder)?)?;
    let cell =
        run.cells.iter().find(|cell| cell.name == reading.key.cell).context("its run has no such cell")?;
    let path = Folder::open(folder)?.definition(&cell.subject);
    let mut definition =
        Definition::open(&path).with_context(|| format!("{} did not keep its subject", entry.name()))?;
    if secret::is_masked(&definition.text) {
        anyhow::bail!("{} kept its subject without a secret of its command line", entry.name());
    }
    if reading.builds.is_empty() {
        anyhow::bail!("{} did not record the build of {}", entry.name(), cell.name);
    }
    for build in &reading.builds {
        let path = definition.start.folder.as_deref().unwrap_or(Path::new("/")).join(&build.path);
        if is_build(&path, build) {
            continue;
        }
        let kept = asked.builds.as_deref().and_then(|folder| kept(folder, build));
        let Some(kept) = kept.filter(|_| Path::new(&build.path).is_absolute()) else {
            let not_kept = match &asked.builds {
                Some(folder) => format!(", and {} does not have it", folder.display()),
                None => String::new(),
            };
            let (path, name) = (path.display(), entry.name());
            anyhow::bail!("{path} is no longer the build that {name} measured{not_kept}");
        };
        definition = moved(&definition, &build.path, &kept)?;
    }
    let factors = cell.factors.filtered(|name| definition.settings.contains_key(name));
    Ok(Configured { name: cell.name.clone(), definition, factors })
}

/// Whether a file is a build that was measured.
fn is_build(path: &Path, build: &Build) -> bool {
    fs::read(path).is_ok_and(|content| blake3::hash(&content).to_hex().as_str() == build.blake3)
}

/// The kept copy of a build, by its file name and its content: in the folder itself or in one of its folders.
fn kept(folder: &Path, build: &Build) -> Option<PathBuf> {
    let name = Path::new(&build.path).file_name()?;
    let inner = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let found = [folder.to_owned()].into_iter().chain(inner).map(|folder| folder.join(name));
    let found = found.into_iter().find(|path| path.is_file() && is_build(path, build))?;
    std::path::absolute(found).ok()
}

/// The definition with a program in another place.
fn moved(definition: &Definition, from: &str, to: &Path) -> anyhow::Result<Definition> {
    let to = to.to_str().context("the path of the kept build is not UTF-8")?;
    let [from, to] = [from, to].map(|path| toml::Value::from(path).to_string());
    let text = definition.text.replace(&from, &to);
    if text == definition.text {
        anyhow::bail!("the definition of {} does not name {from}", definition.name);
    }
    Ok(Definition::read("subject", &text)?)
}

#[cfg(test)]
mod tests {
    use kqps_verdict::compare::{Case, compare};

    use super::*;

    /// B has this share of A's rate, and starts scatter by this share.
    fn comparison(share: f64, by: f64) -> Comparison {
        let around =
            |middle: f64| (0..6).map(|block| middle * (1.0 + by * f64::from(block % 2 * 2 - 1))).collect();
        compare(&[Case { blocks: around(share), same: around(1.0), ..Case::default() }]).remove(0)
    }

    #[test]
    fn equality_refutes_only_a_change_that_would_have_been_seen() {
        let slower = |change, share, by| decided(Outcome::Slower, change, &comparison(share, by));
        // The MDE of equals that scatter by 1 % is 2.7 %.
        assert!(matches!(slower(0.5, 1.0, 0.01), Confirmation::Refuted { .. }));
        assert!(matches!(slower(0.5, 0.5, 0.01), Confirmation::Confirmed { .. }));
        assert!(matches!(slower(0.5, 1.5, 0.01), Confirmation::Refuted { .. }));
        let Confirmation::Undecided { reason } = slower(0.98, 1.0, 0.01) else { panic!("it is refuted") };
        assert!(reason.starts_with("the comparison cannot see a change as small: its MDE is 2."), "{reason}");
        // Equal within 30 % says nothing, however large the change was.
        let Confirmation::Undecided { reason } = slower(0.5, 1.0, 0.1) else { panic!("it is refuted") };
        assert!(reason.contains("cannot see a difference of less than"), "{reason}");
    }
}
