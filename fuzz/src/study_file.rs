//! The target for study files: any bytes as a study, which is then laid out for a machine of four cores.

use kqps_host::Topology;
use kqps_lab::study_file::cells::lay_out;
use kqps_lab::study_file::offer::HostOffer;
use kqps_lab::study_file::values::span;
use kqps_lab::study_file::{StudyFile, Word};
use kqps_observation::fingerprint::CoreFacts;

use crate::text::{FILE, is_placed, text};

/// Cores of the machine.
const CORES: u32 = 4;

/// A study with more combinations takes long to lay out, which is not a fault of its reader.
const COMBINATIONS_MOST: usize = 1_000;

/// Takes any bytes as a study file. A study must be read, laid out, or refused with a place in the file.
pub fn study_file(bytes: &[u8]) {
    let text = text(bytes);
    let study = match StudyFile::read(FILE, &text) {
        Ok(study) => study,
        Err(error) => return is_placed(&error, &text),
    };
    assert_eq!((study.text.as_str(), study.file.as_str()), (&*text, FILE));
    let mut subjects = study.experiments.iter().flat_map(|experiment| &experiment.subjects);
    // A definition in another file does not follow from these bytes.
    if subjects.any(|word| word.contains(['.', '/'])) || combinations(&study) > COMBINATIONS_MOST {
        return;
    }
    let definitions = match study.subjects() {
        Ok(subjects) => subjects.into_iter().collect(),
        Err(error) => return is_placed(&error, &text),
    };
    let given = HostOffer { topology: machine(), definitions, ..HostOffer::default() };
    match lay_out(&study, &given) {
        Ok(layout) => {
            for cell in &layout.cells {
                let mut cpus = cell.player_cpus.iter().chain(&cell.subject_cpus);
                assert!(cpus.all(|cpu| *cpu < CORES), "{cell:?}");
            }
        }
        Err(error) => is_placed(&error, &text),
    }
}

fn machine() -> Topology {
    let core = |cpu| CoreFacts { cpu, core: cpu, smt: vec![cpu], ..CoreFacts::default() };
    Topology { cores: (0..CORES).map(core).collect(), ..Topology::default() }
}

/// The number of combinations of all experiments, subjects and excluded values included; `usize::MAX` if it is too
/// large for the type.
fn combinations(study: &StudyFile) -> usize {
    let of_words = |words: &[Word]| words.iter().map(values).fold(0, usize::saturating_add);
    let of_experiments = study.experiments.iter().map(|experiment| {
        let excluded =
            experiment.exclude.iter().flat_map(|words| words.values()).map(values).max().unwrap_or(1);
        let factors = experiment.factors.values().map(|words| of_words(words));
        factors.chain([experiment.subjects.len(), excluded]).fold(1, usize::saturating_mul)
    });
    of_experiments.fold(0, usize::saturating_add)
}

/// The number of values that a word stands for.
fn values(word: &Word) -> usize {
    let cores = CORES as usize;
    let numbers = |(first, last): (usize, usize)| {
        let last = if last == usize::MAX { cores } else { last };
        last.saturating_sub(first).saturating_add(1)
    };
    span(&word.0).map_or(1, numbers)
}
