//! The zones and queries of a run's cells. Zones, and random queries over their names, are generated from a
//! recipe and the run's seed. Servers that already run have zones of their own, so the user's query file is
//! played at them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kqps_catalogue::choice::{InternetAttack, InternetSize};
use kqps_files::unfinished::Unfinished;
use kqps_files::whole;
use kqps_internet::Internet;
use kqps_observation::Cell;
use kqps_observation::factors::DatasetFactors;
use kqps_recipe::{Expect, GenerateError, Labels, Outcomes, Recipe, RecipeError, RecipeQueries};
use serde::{Deserialize, Serialize};

use crate::folder::{Folder, FolderError};
use crate::internet;
use crate::signing::{self, SigningError};
use crate::subject::Zone;
use crate::subject::definition::Definition;

/// The name of a query file without its folder, as a cell's factors have it.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The name of the copy of that file in the folder of a run.
const KEPT: &str = "queries-of-the-user";

/// The share of names that are not in the zone, without a recipe.
const NXDOMAIN_SHARE: f64 = 0.05;

/// All names have one length, so that queries can leave in one segmented send. This keeps the player far from
/// its limit, and makes no difference to a server.
const LABEL_BYTES: u8 = 12;

/// The number of records in the zone without a recipe, by default.
const USUAL_RECORDS: u64 = 100_000;

/// Queries in a file for every record, so that a short file is not played from the cache alone.
const QUERIES_PER_RECORD: u64 = 2;

/// The most queries in a file.
const QUERIES_MOST: u64 = 2_000_000;

/// The zones and queries that a cell asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaterialsSpec {
    recipe: Option<String>,
    zones: Option<u64>,
    records: Option<u64>,
    /// Whether the user's query file is played, and no zone is served.
    is_file: bool,
    /// The Internet whose clients ask, without zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    internet: Option<InternetSize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hits_percent: Option<u32>,
    /// An attack that changes the right answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attack: Option<InternetAttack>,
    /// Whether the clients of the Internet ask for the AD bit.
    #[serde(default, skip_serializing_if = "is_false")]
    wants_ad: bool,
}

/// The generated files of one recipe.
#[derive(Clone, Debug)]
pub struct Materials {
    /// The zones, including those that fail to load; the first one loads.
    pub zones: Vec<Zone>,
    /// The path of the queries with the expected rcode of each.
    pub queries: PathBuf,
    /// The path of the same queries without expectation: for an echo, which answers NOERROR to every query.
    pub plain: PathBuf,
    /// The path of one query for one name, which a cache holds after the first time.
    pub one: PathBuf,
    /// Whether the queries are a file of the user's, which always states what is expected.
    pub is_file: bool,
}

/// The kind of a query file of [`Materials`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueriesKind {
    /// Queries with the expected rcode of each.
    Expecting,
    /// Queries without expectation, otherwise the same.
    Plain,
    /// A single query, for one name.
    One,
}

/// Why there are no queries or zones to use.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum MaterialsError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    #[error(transparent)]
    Generate(#[from] GenerateError),
    #[error(transparent)]
    Signing(#[from] SigningError),
    #[error("the Internet in a box: {0}")]
    Internet(#[from] kqps_internet::RecipeError),
    #[error("no query of {} expects NOERROR, so none can be asked again and again", .0.display())]
    NoAnswer(PathBuf),
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
fn is_false(value: &bool) -> bool {
    !value
}

impl MaterialsSpec {
    /// The materials of a cell, whose subject is among these by name unless it already runs.
    pub fn of_cell(cell: &Cell, definitions: &BTreeMap<String, Definition>) -> Self {
        let dataset = cell.factors.dataset();
        let resolver = definitions.get(&cell.subject).filter(|_| dataset.internet.is_some());
        let wants_ad = resolver.is_some_and(|resolver| resolver.validates(cell.factors.words()));
        Self { wants_ad, ..Self::new(dataset) }
    }

    /// The materials that the factors of a cell name.
    pub fn new(dataset: &DatasetFactors) -> Self {
        Self {
            recipe: dataset.recipe.clone(),
            zones: dataset.zones,
            records: dataset.records,
            is_file: dataset.file.is_some(),
            internet: dataset.internet,
            hits_percent: dataset.hits_percent,
            attack: dataset.attack.filter(|attack| *attack == InternetAttack::Aliases),
            wants_ad: false,
        }
    }

    /// The recipe with the run's seed. The cell's numbers of zones and records override those of the recipe.
    pub fn recipe(&self, seed: u64) -> Result<Recipe, RecipeError> {
        let mut recipe = match &self.recipe {
            Some(name) => Recipe::named(name, &[])?,
            None => one_zone(USUAL_RECORDS),
        };
        recipe.zones = self.zones.unwrap_or(recipe.zones);
        if let Some(records) = self.records {
            recipe.records = (records / recipe.zones.max(1)).max(1);
        }
        (recipe.seed, recipe.queries.seed) = (seed, seed);
        Ok(recipe)
    }

    /// Whether the user's query file is played, and no zone is served.
    pub fn is_file(&self) -> bool {
        self.is_file
    }

    /// The name of the folder for its files. The name contains everything that they depend on, since existing
    /// files are used as they are: they may be left from a run that could not begin, with another seed.
    fn folder(&self, seed: u64) -> String {
        if let Some(size) = self.internet {
            let hits = self.hits_percent.map_or("popular".to_owned(), |percent| percent.to_string());
            let attack = self.attack.map_or("", InternetAttack::word);
            let ad = if self.wants_ad { "ad-" } else { "" };
            return format!("internet-{}-{attack}{hits}-{ad}{seed:x}", size.word());
        }
        let number = |number: Option<u64>| number.map_or("usual".to_owned(), |number| number.to_string());
        let recipe = self.recipe.as_deref().unwrap_or("one-zone");
        format!("{recipe}-{}-{}-{seed:x}", number(self.zones), number(self.records))
    }
}

/// The number of records in all zones that the cells of a run use.
pub fn records_of(cells: &[Cell]) -> u64 {
    let wanted: BTreeSet<MaterialsSpec> =
        cells.iter().map(|cell| MaterialsSpec::new(cell.factors.dataset())).collect();
    let generated = wanted.iter().filter(|wanted| !wanted.is_file && wanted.internet.is_none());
    let recipes = generated.filter_map(|wanted| wanted.recipe(0).ok());
    recipes.map(|recipe| recipe.records.saturating_mul(recipe.zones)).fold(0, u64::saturating_add)
}

/// The recipe of one zone with this many address records, at least 1, and of queries for its names. A few of the names
/// do not exist.
pub fn one_zone(records: u64) -> Recipe {
    let outcomes =
        Outcomes { noerror: 1.0 - NXDOMAIN_SHARE, nxdomain: NXDOMAIN_SHARE, ..Outcomes::default() };
    Recipe {
        origin: "bench.test.".into(),
        records,
        names: Labels { label_bytes: Some(LABEL_BYTES), ..Labels::default() },
        queries: RecipeQueries { outcomes, ..RecipeQueries::default() },
        ..Recipe::default()
    }
}

impl Materials {
    /// The files of a recipe; missing ones are generated. Programs that sign zones must end by `deadline`.
    pub fn make(
        folder: &Folder,
        wanted: &MaterialsSpec,
        seed: u64,
        deadline: Option<Instant>,
    ) -> Result<Self, MaterialsError> {
        if wanted.is_file {
            return Self::of_file(folder);
        }
        if wanted.internet.is_some() {
            return Self::queries_alone(folder, wanted, seed);
        }
        let recipe = wanted.recipe(seed)?;
        let place = folder.dataset().join(wanted.folder(seed));
        folder.make_folder(&place)?;
        let zones = place.join("zones");
        // A file appears whole or not at all, so an existing one is complete.
        if !zones.exists() {
            signing::zones_by(&recipe, &zones, deadline)?;
        }
        let list = zones.join(kqps_recipe::LIST);
        let zones = Zone::listed(&list).map_err(unread(&list))?;
        Ok(Self { zones, ..Self::queries_alone(folder, wanted, seed)? })
    }

    /// The query files of a recipe, without zones; missing ones are generated.
    pub fn queries_alone(folder: &Folder, wanted: &MaterialsSpec, seed: u64) -> Result<Self, MaterialsError> {
        if wanted.is_file {
            return Self::of_file(folder);
        }
        let place = folder.dataset().join(wanted.folder(seed));
        folder.make_folder(&place)?;
        if let Some(size) = wanted.internet {
            return Self::of_internet(&place, (size, wanted), seed);
        }
        let recipe = wanted.recipe(seed)?;
        let (queries, plain) = (place.join("queries.txt"), place.join("queries-without-rcodes.txt"));
        let all = recipe.records.saturating_mul(recipe.zones);
        let count = all.saturating_mul(QUERIES_PER_RECORD).min(QUERIES_MOST);
        if !queries.exists() {
            kqps_recipe::queries(&recipe, count, &queries)?;
        }
        if !plain.exists() {
            let asked = RecipeQueries { expect: Expect::Nothing, ..recipe.queries.clone() };
            kqps_recipe::queries(&Recipe { queries: asked, ..recipe.clone() }, count, &plain)?;
        }
        let one = place.join("one-query.txt");
        if !one.exists() {
            let first = first_answered(&queries)?;
            folder.write(&one, format!("{first}\n").as_bytes())?;
        }
        Ok(Self { zones: Vec::new(), queries, plain, one, is_file: false })
    }

    /// The queries of an Internet's clients. A resolver is ready when it knows the root.
    fn of_internet(
        place: &Path,
        (size, wanted): (InternetSize, &MaterialsSpec),
        seed: u64,
    ) -> Result<Self, MaterialsError> {
        let queries = place.join("queries.txt");
        if !queries.exists() {
            let internet = Internet::new(&internet::recipe(size, wanted.attack, seed)?)?;
            let clients = internet::Clients { hits_percent: wanted.hits_percent, want_ad: wanted.wants_ad };
            let mut lines = clients.queries(&internet, internet::QUERIES);
            whole::whole(&queries, |out| lines.try_for_each(|line| out.write_all(line.as_bytes())))
                .map_err(|error| FolderError { act: "write", path: queries.clone(), error })?;
        }
        let zones = vec![Zone::new(".", "")];
        Ok(Self { zones, plain: queries.clone(), one: queries.clone(), queries, is_file: false })
    }

    /// The user's query file, of which the run stores a copy. The readiness probe asks for the root, which any
    /// server answers in some way.
    fn of_file(folder: &Folder) -> Result<Self, MaterialsError> {
        let kept = folder.dataset().join(KEPT);
        File::open(&kept).map_err(unread(&kept))?;
        let zones = vec![Zone::new(".", "")];
        Ok(Self { zones, queries: kept.clone(), plain: kept.clone(), one: kept, is_file: true })
    }

    /// Copies the user's query file into the folder of a run, whole or not at all, so that the run can be
    /// resumed without the original.
    pub fn keep(folder: &Folder, queries: &Path) -> Result<(), MaterialsError> {
        folder.make_folder(&folder.dataset())?;
        let kept = folder.dataset().join(KEPT);
        let beside = kept.with_extension("part");
        let unfinished = Unfinished::at(&beside);
        let copied = copy(queries, &beside).and_then(|()| whole::rename(&beside, &kept));
        if copied.is_err() {
            // The file may not exist.
            let _ = std::fs::remove_file(&beside);
        }
        drop(unfinished);
        copied.map_err(|error| FolderError { act: "write", path: kept, error }.into())
    }

    /// Makes the user's query file of a folder a link to a file that stays where it is.
    pub fn link(folder: &Folder, queries: &Path) -> Result<(), MaterialsError> {
        folder.make_folder(&folder.dataset())?;
        let kept = folder.dataset().join(KEPT);
        // A link to another file may be there.
        let _ = std::fs::remove_file(&kept);
        symlink(queries, &kept).map_err(|error| FolderError { act: "make", path: kept, error }.into())
    }

    /// The path of one kind of query file.
    pub fn path_of(&self, kind: QueriesKind) -> &Path {
        match kind {
            QueriesKind::Expecting => &self.queries,
            QueriesKind::Plain => &self.plain,
            QueriesKind::One => &self.one,
        }
    }

    /// The files for the cells of a run.
    pub fn of_all(
        folder: &Folder,
        (cells, definitions): (&[Cell], &BTreeMap<String, Definition>),
        seed: u64,
        deadline: Option<Instant>,
    ) -> Result<BTreeMap<MaterialsSpec, Self>, MaterialsError> {
        let wanted: BTreeSet<MaterialsSpec> =
            cells.iter().map(|cell| MaterialsSpec::of_cell(cell, definitions)).collect();
        let made = |wanted: MaterialsSpec| Ok((wanted.clone(), Self::make(folder, &wanted, seed, deadline)?));
        wanted.into_iter().map(made).collect()
    }
}

/// The first query that has an answer.
fn first_answered(queries: &Path) -> Result<String, MaterialsError> {
    let file = File::open(queries).map_err(unread(queries))?;
    for line in BufReader::new(file).lines() {
        let line = line.map_err(unread(queries))?;
        if line.split(' ').any(|word| word == "NOERROR") {
            return Ok(line);
        }
    }
    Err(MaterialsError::NoAnswer(queries.to_owned()))
}

fn unread(path: &Path) -> impl FnOnce(io::Error) -> MaterialsError {
    move |error| FolderError { act: "read", path: path.to_owned(), error }.into()
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let (mut from, mut to) = (File::open(from)?, File::create(to)?);
    io::copy(&mut from, &mut to).map(drop)
}

#[cfg(test)]
mod tests {
    use kqps_files::unfinished;
    use kqps_observation::Factors;
    use kqps_observation::factors::name;

    use super::*;
    use crate::subject::builtin;

    fn dataset(records: u64) -> DatasetFactors {
        DatasetFactors { records: Some(records), ..DatasetFactors::default() }
    }

    #[test]
    fn what_is_missing_is_generated_as_it_was() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::make(temporary.path()).unwrap();
        let mut cell = Cell::default();
        cell.factors.set_records(50);
        let (wanted, cells) = (MaterialsSpec::new(cell.factors.dataset()), [cell]);
        let made = Materials::make(&folder, &wanted, 9, None).unwrap();
        assert_eq!(made.zones.len(), 1);
        assert_eq!(made.zones[0].origin, "bench.test.");
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        let (zone, queries) = (read(&made.zones[0].file), read(&made.queries));
        assert_eq!(queries.lines().count(), 100);
        assert_eq!(queries.matches(" NXDOMAIN\n").count(), 5, "5 % exactly");
        assert!(!read(&made.plain).contains("NXDOMAIN"));

        std::fs::remove_dir_all(made.zones[0].file.parent().unwrap().parent().unwrap()).unwrap();
        std::fs::remove_file(&made.queries).unwrap();
        let again = &Materials::of_all(&folder, (&cells, &BTreeMap::new()), 9, None).unwrap()[&wanted];
        assert_eq!(read(&again.one).lines().count(), 1);
        assert_eq!((read(&again.zones[0].file), read(&again.queries)), (zone, queries));
    }

    #[test]
    fn what_another_seed_left_behind_is_not_taken() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::make(temporary.path()).unwrap();
        let wanted = MaterialsSpec::new(&dataset(50));
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        // A run that ended when its zone was made.
        let left = Materials::make(&folder, &wanted, 1, None).unwrap();
        std::fs::remove_file(&left.queries).unwrap();
        let made = Materials::make(&folder, &wanted, 2, None).unwrap();
        let (zone, one) = (read(&made.zones[0].file), read(&made.one));
        let name = one.split('.').next().unwrap();
        assert!(zone.contains(name), "{name} is asked for and is in the zone");
        assert!(!read(&left.zones[0].file).contains(name));
    }

    #[test]
    fn records_are_those_of_all_zones_together() {
        let recipe = Some("windows-mix".to_owned());
        let wanted = MaterialsSpec::new(&DatasetFactors { recipe, zones: Some(10), ..dataset(10_000) });
        let recipe = wanted.recipe(3).unwrap();
        assert_eq!((recipe.zones, recipe.records, recipe.seed), (10, 1000, 3));
        let usual = MaterialsSpec::new(&DatasetFactors::default()).recipe(3).unwrap();
        assert_eq!((usual.zones, usual.records), (1, USUAL_RECORDS));
    }

    #[test]
    fn clients_of_a_resolver_that_validates_ask_for_ad() {
        let resolvers = builtin::servers().into_iter().filter(Definition::resolves);
        let definitions: BTreeMap<String, Definition> =
            resolvers.map(|definition| (definition.name.clone(), definition)).collect();
        assert_eq!(definitions.len(), 4);
        let spec = |subject: &str, validation: Option<&str>| {
            let words = [(name::INTERNET, Some("small")), ("validation", validation)];
            let words =
                words.into_iter().filter_map(|(name, word)| Some((name.to_owned(), word?.to_owned())));
            let factors = Factors::read(words).unwrap();
            MaterialsSpec::of_cell(
                &Cell { subject: subject.into(), factors, ..Cell::default() },
                &definitions,
            )
        };
        for subject in definitions.keys() {
            let [usual, on, off] = [None, Some("on"), Some("off")].map(|word| spec(subject, word));
            assert_eq!([usual.wants_ad, on.wants_ad, off.wants_ad], [true, true, false], "{subject}");
            assert_eq!(usual.folder(7), on.folder(7));
            assert_ne!(usual.folder(7), off.folder(7));
        }
        assert!(!spec("a server that already runs", None).wants_ad);
    }

    #[test]
    fn an_unknown_recipe_is_refused() {
        let wanted = MaterialsSpec { recipe: Some("windows-mxi".into()), ..MaterialsSpec::default() };
        let error = wanted.recipe(1).unwrap_err();
        assert!(error.to_string().contains("windows-mix"), "{error}");
    }

    /// Names the folder in which this test program copies an endless query file when it is started again.
    const FOLDER: &str = "KQPS_KEEP_IN";

    /// A test only if a folder is named: it then ends as after a signal, in the middle of the copy.
    #[test]
    fn keeps_in_a_child() {
        let Some(path) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
        let folder = Folder::make(&path).unwrap();
        let part = folder.dataset().join(KEPT).with_extension("part");
        let source = path.join("endless");
        std::thread::spawn(move || Materials::keep(&folder, &source));
        // The copy waits for a writer.
        let _writer = File::options().write(true).open(path.join("endless")).unwrap();
        while !part.exists() {
            std::thread::yield_now();
        }
        unfinished::remove_all();
        std::process::exit(0);
    }

    #[test]
    fn a_copy_that_a_signal_ends_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("endless")).status().unwrap();
        assert!(made.success());
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "materials::tests::keeps_in_a_child"])
            .env(FOLDER, folder.path())
            .status()
            .unwrap();
        assert!(child.success());
        let dataset = folder.path().join("dataset");
        let left: Vec<_> = std::fs::read_dir(dataset).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
