//! Judges a history: puts the figures of all runs into series, divides these by host, finds their changes, and decides
//! which of them are strong, over all series together.

use std::collections::BTreeMap;

use kqps_verdict::change::change;
use kqps_verdict::compare::ERROR_RATE;
use kqps_verdict::holm;

use crate::ceiling;
use crate::changes::{ChangePoint, LEAST, Sample, find};
use crate::creep::creep;
use crate::entry::Reading;
use crate::judged::{Change, History, Level, Move, Point, Series, Shape, Strength, Stretch};
use crate::key::Key;
use crate::level::Spread;
use crate::outlier;
use crate::store::Records;

/// The least number of permutations for each test.
const PERMUTATIONS: u32 = 9_999;

/// A test of this many must still be able to reach its error rate, with twice as many permutations as needed.
const PERMUTATIONS_PER_TEST: u32 = 40;

/// The most permutations for each test.
const PERMUTATIONS_MOST: u32 = 199_999;

/// Differences between hosts that are listed; further ones are counted.
const DIFFERENCES_MOST: usize = 6;

/// Judges all series. The result depends on the records alone.
pub fn judge(records: &Records) -> History {
    let mut series = collected(records);
    let tests = narrow(series.iter().flat_map(Laid::lengths).filter(|length| *length >= LEAST).count());
    let permutations = (tests * PERMUTATIONS_PER_TEST).clamp(PERMUTATIONS, PERMUTATIONS_MOST);
    for one in &mut series {
        one.divide_by_ceiling(permutations);
        one.mark_outliers();
    }
    let found: Vec<Vec<Vec<ChangePoint>>> = series.iter().map(|one| one.found(permutations)).collect();
    let creeps = Creeps::new(&series, &found, permutations);
    let chances: Vec<f64> = found.iter().flatten().flatten().map(|one| one.chance_over_time).collect();
    // A stretch without a change was tested too.
    let lengths = series.iter().flat_map(Laid::lengths);
    let without =
        lengths.zip(found.iter().flatten()).filter(|(length, found)| *length >= LEAST && found.is_empty());
    let without = without.count();
    let all = [chances.clone(), vec![1.0; without]].concat();
    let rates = holm::error_rates(&all, ERROR_RATE);
    let mut strengths = chances
        .iter()
        .zip(&rates)
        .map(|(chance, rate)| if chance <= rate { Strength::Strong } else { Strength::Weak });
    let mut judged: Vec<Series> = series
        .into_iter()
        .zip(&found)
        .zip(&creeps.found)
        .map(|((one, found), creep)| {
            one.judged(found, *creep, || strengths.next().unwrap_or(Strength::Weak), records)
        })
        .collect();
    name_apart(&mut judged);
    History { series: judged, tests: narrow(all.len()) + creeps.tests }
}

/// A number of tests or runs as a judgement holds it.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The creeps of all series. They are corrected apart from the steps: the chances of each kind at all looks add up to less
/// than a half of the error rate.
struct Creeps {
    /// The creep of each series, if it has one.
    found: Vec<Option<(ChangePoint, Strength)>>,
    /// The number of series with enough runs.
    tests: u32,
}

impl Creeps {
    fn new(series: &[Laid], steps: &[Vec<Vec<ChangePoint>>], permutations: u32) -> Self {
        let tested: Vec<Option<Option<ChangePoint>>> =
            series.iter().zip(steps).map(|(one, steps)| one.creep(steps, permutations)).collect();
        let chance = |found: &Option<ChangePoint>| found.map_or(1.0, |found| found.chance_over_time);
        let chances: Vec<f64> = tested.iter().flatten().map(chance).collect();
        let mut rates = holm::error_rates(&chances, ERROR_RATE).into_iter();
        let strong = |one: &Option<Option<ChangePoint>>| {
            let (found, rate) = ((*one)?, rates.next()?);
            let found = found?;
            let is_strong = found.chance_over_time <= rate;
            Some((found, if is_strong { Strength::Strong } else { Strength::Weak }))
        };
        Self { found: tested.iter().map(strong).collect(), tests: narrow(chances.len()) }
    }
}

/// A series whose points are laid out by host.
struct Laid {
    key: Key,
    points: Vec<Point>,
    absences: Vec<(usize, String)>,
    /// The points of each stretch, as indices.
    stretches: Vec<Vec<usize>>,
}

/// Host and cores → the index of the stretch.
type StretchOfHost<'a> = BTreeMap<(&'a str, &'a str), usize>;

/// The series of all readings, with a stretch for every host.
fn collected(records: &Records) -> Vec<Laid> {
    let mut series: BTreeMap<&Key, (Laid, StretchOfHost<'_>)> = BTreeMap::new();
    for (entry, of_run) in records.entries.iter().enumerate() {
        for reading in &of_run.readings {
            let Reading { key, figure, absence, ceiling_qps, cores, .. } = reading;
            let (laid, hosts) = series.entry(key).or_insert_with(|| {
                let laid = Laid {
                    key: key.clone(),
                    points: Vec::new(),
                    absences: Vec::new(),
                    stretches: Vec::new(),
                };
                (laid, StretchOfHost::new())
            });
            let Some(figure) = figure.filter(|figure| figure.value.is_finite() && figure.value > 0.0) else {
                laid.absences.push((entry, absence.clone()));
                continue;
            };
            let stretch = *hosts.entry((&of_run.host, cores)).or_insert_with(|| {
                laid.stretches.push(Vec::new());
                laid.stretches.len() - 1
            });
            laid.stretches[stretch].push(laid.points.len());
            let ceiling_qps = *ceiling_qps;
            laid.points.push(Point { entry, figure, ceiling_qps, is_outlier: false, stretch });
        }
    }
    series.into_values().map(|(laid, _)| laid).collect()
}

impl Laid {
    fn lengths(&self) -> impl Iterator<Item = usize> {
        self.stretches.iter().map(Vec::len)
    }

    fn logs(&self, places: &[usize]) -> Vec<f64> {
        places.iter().map(|place| self.points[*place].figure.value.ln()).collect()
    }

    fn ceilings(&self, places: &[usize]) -> Vec<Option<f64>> {
        places.iter().map(|place| self.points[*place].ceiling_qps).collect()
    }

    /// Divides every stretch where the rate of the echo changed: from there on the host is another one.
    fn divide_by_ceiling(&mut self, permutations: u32) {
        let seed = self.key.seed();
        let mut divided: Vec<Vec<usize>> = Vec::new();
        for places in &self.stretches {
            let mut rest = places.as_slice();
            let mut begun = 0;
            for cut in ceiling::cuts(&self.ceilings(places), permutations, seed) {
                let (one, after) = rest.split_at(cut - begun);
                divided.push(one.to_vec());
                (rest, begun) = (after, cut);
            }
            divided.push(rest.to_vec());
        }
        divided.sort_by_key(|places| places.first().copied());
        for (stretch, places) in divided.iter().enumerate() {
            for place in places {
                self.points[*place].stretch = stretch;
            }
        }
        self.stretches = divided;
    }

    fn mark_outliers(&mut self) {
        for places in &self.stretches {
            for at in outlier::single(&self.logs(places)) {
                self.points[places[at]].is_outlier = true;
            }
        }
    }

    /// The points of a stretch that count.
    fn counted(&self, places: &[usize]) -> Vec<usize> {
        places.iter().copied().filter(|place| !self.points[*place].is_outlier).collect()
    }

    fn samples(&self, places: &[usize]) -> Vec<Sample> {
        let sample = |place: &usize| {
            let figure = self.points[*place].figure;
            Sample { log: figure.value.ln(), mde: figure.mde.filter(|mde| mde.is_finite()) }
        };
        places.iter().map(sample).collect()
    }

    /// The steps of every stretch, as indices into its points.
    fn found(&self, permutations: u32) -> Vec<Vec<ChangePoint>> {
        let of_stretch = |places: &Vec<usize>| find(&self.samples(places), permutations, self.key.seed());
        self.stretches.iter().map(of_stretch).collect()
    }

    /// The stretch of the newest point, as an index.
    fn newest(&self) -> Option<usize> {
        Some(self.points.last()?.stretch)
    }

    /// The creep of the newest stretch, as an index into its points, if it has one; `None` if it has too few points.
    #[allow(clippy::option_option)] // a series without a test is not one without a creep: Holm's correction counts tests
    fn creep(&self, steps: &[Vec<ChangePoint>], permutations: u32) -> Option<Option<ChangePoint>> {
        let newest = self.newest()?;
        let places = &self.stretches[newest];
        let is_tested = self.counted(places).len() >= LEAST;
        is_tested.then(|| creep(&self.samples(places), &steps[newest], permutations, self.key.seed()))
    }

    fn judged(
        self,
        found: &[Vec<ChangePoint>],
        creep: Option<(ChangePoint, Strength)>,
        mut strength: impl FnMut() -> Strength,
        records: &Records,
    ) -> Series {
        let creep = creep.and_then(|(found, strength)| self.crept(&found, strength));
        let mut stretches = Vec::new();
        for (places, found) in self.stretches.iter().zip(found) {
            let counted = self.counted(places);
            let begins = found.iter().map(|one| counted.partition_point(|point| *point < places[one.at]));
            let ends: Vec<usize> = [0].into_iter().chain(begins).chain([counted.len()]).collect();
            let parts: Vec<&[usize]> = ends.windows(2).map(|ends| &counted[ends[0]..ends[1]]).collect();
            let levels = parts.iter().filter_map(|part| self.level(part)).collect();
            let changes = found
                .iter()
                .zip(parts.windows(2))
                .map(|(one, sides)| self.change(one, sides[0], sides[1], strength()))
                .collect();
            stretches.push(Stretch {
                points: places.clone(),
                changes,
                levels,
                is_short: counted.len() < LEAST,
            });
        }
        let moves = self.moves(records);
        let Self { key, points, absences, .. } = self;
        let name = key.name();
        Series { key, name, points, absences, stretches, creep, moves }
    }

    fn level(&self, part: &[usize]) -> Option<Level> {
        let spread = Spread::from_logs(self.logs(part).into_iter());
        let (low, high) = spread.interval();
        let [mean, low, high] = [spread.mean, low, high].map(f64::exp);
        Some(Level { from: *part.first()?, to: *part.last()?, mean, low, high, count: narrow(part.len()) })
    }

    fn change(&self, found: &ChangePoint, before: &[usize], after: &[usize], strength: Strength) -> Change {
        let ChangePoint { by, reach, chance, mde, .. } = *found;
        let (last, first) = (before[before.len() - 1], after[0]);
        let [before, after] = [before, after].map(|side| self.ceilings(side));
        Change {
            shape: Shape::Step,
            before: last,
            after: first,
            ratio: ((by - reach).exp(), by.exp(), (by + reach).exp()),
            chance,
            strength,
            mde,
            is_hosts: ceiling::explains(&before, &after, by),
            age: narrow(self.points.len() - first),
        }
    }

    /// The creep from a point of the newest stretch to the newest point.
    fn crept(&self, found: &ChangePoint, strength: Strength) -> Option<Change> {
        let ChangePoint { at, by, reach, chance, mde, .. } = *found;
        let places = self.counted(&self.stretches[self.newest()?][at..]);
        let third = places.len() / 3;
        let [begin, end] =
            [&places[..third], &places[places.len() - third..]].map(|part| self.ceilings(part));
        Some(Change {
            shape: Shape::Creep,
            before: *places.first()?,
            after: *places.last()?,
            ratio: ((by - reach).exp(), by.exp(), (by + reach).exp()),
            chance,
            strength,
            mde,
            is_hosts: ceiling::explains(&begin, &end, by),
            age: narrow(places.len()),
        })
    }

    /// Where two neighbouring points are of different stretches, and why.
    fn moves(&self, records: &Records) -> Vec<Move> {
        let pairs = (1..).zip(self.points.windows(2));
        let changed = pairs.filter(|(_, pair)| pair[0].stretch != pair[1].stretch);
        changed
            .map(|(at, pair)| Move { at, differences: self.differences(&pair[0], &pair[1], records) })
            .collect()
    }

    fn differences(&self, before: &Point, after: &Point, records: &Records) -> Vec<String> {
        let [one, other] = [before, after].map(|point| &records.entries[point.entry]);
        let host = |id: &str| records.hosts.get(id).cloned().unwrap_or_default();
        let mut found = host(&one.host).differences(&host(&other.host));
        let cores = |entry: usize| {
            let readings = &records.entries[entry].readings;
            readings.iter().find(|reading| reading.key == self.key).map(|reading| reading.cores.as_str())
        };
        if let (Some(one), Some(other)) = (cores(before.entry), cores(after.entry))
            && one != other
        {
            found.insert(0, format!("cores: {one}, now {other}"));
        }
        if found.is_empty() {
            found.push(self.ceiling_moved(before.stretch, after.stretch));
        }
        let further = found.len().saturating_sub(DIFFERENCES_MOST);
        found.truncate(DIFFERENCES_MOST);
        if further > 0 {
            found.push(format!("and {further} more"));
        }
        found
    }

    fn ceiling_moved(&self, before: usize, after: usize) -> String {
        let mean = |stretch: usize| {
            let known = self.ceilings(&self.stretches[stretch]);
            Spread::from_logs(known.into_iter().flatten().map(f64::ln).collect::<Vec<_>>().into_iter()).mean
        };
        format!("the rate of the echo: {}", change((mean(after) - mean(before)).exp()))
    }
}

/// Adds to equal names the conditions in which their series differ.
fn name_apart(series: &mut [Series]) {
    let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, one) in series.iter().enumerate() {
        by_name.entry(one.name.clone()).or_default().push(index);
    }
    for alike in by_name.into_values().filter(|alike| alike.len() > 1) {
        let value = |index: usize, name: &String| series[index].key.conditions.get(name);
        let mut names: Vec<&String> =
            alike.iter().flat_map(|index| series[*index].key.conditions.keys()).collect();
        names.sort();
        names.dedup();
        names.retain(|name| alike.iter().any(|index| value(*index, name) != value(alike[0], name)));
        let told: Vec<String> = alike
            .iter()
            .map(|index| {
                let words = names
                    .iter()
                    .map(|name| format!("{name} {}", value(*index, name).map_or("unset", |word| word)));
                format!(" ({})", words.collect::<Vec<_>>().join(", "))
            })
            .collect();
        for (index, words) in alike.into_iter().zip(told) {
            series[index].name += &words;
        }
    }
}
