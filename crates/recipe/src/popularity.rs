//! How often each name is asked for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use kqps_message::text::without_mark;
use serde::Deserialize;

use super::GenerateError;
use super::draw::Draws;
use super::recipe::{RANKS_MAX, RecipeFault};

/// How often each name is asked for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Popularity {
    /// All names equally often.
    #[default]
    Uniform,
    /// The *n*-th name 1 / *n*^*s* as often as the first. *s* is 0 to 10, about 1 for real traffic.
    Zipf(f64),
    /// The *n*-th name in proportion to the number at the beginning of line *n* of this file, as written by `sort
    /// | uniq -c | sort -rn`. Names after the last line are not asked for. Lines after the last name are ignored.
    Ranks(PathBuf),
}

impl Popularity {
    /// Draws among `names` names, at least 1, the most popular first. Fails if a file of ranks cannot be read, if an exponent
    /// is out of its range, or if there are too many names.
    pub fn draws(&self, names: u64) -> Result<Draws, GenerateError> {
        let draws = Popularities::new(self)?.among(names)?;
        Ok(Rc::unwrap_or_clone(draws))
    }
}

/// Draws by popularity among any number of names.
pub(super) struct Popularities<'a> {
    popularity: &'a Popularity,
    /// The numbers in the file of ranks.
    weights: Vec<f64>,
    made: BTreeMap<u64, Rc<Draws>>,
}

impl<'a> Popularities<'a> {
    pub(super) fn new(popularity: &'a Popularity) -> Result<Self, GenerateError> {
        let weights = match popularity {
            Popularity::Uniform => Vec::new(),
            Popularity::Zipf(exponent) if (0.0..=10.0).contains(exponent) => Vec::new(),
            Popularity::Zipf(exponent) => return Err(RecipeFault::Exponent(*exponent).into()),
            Popularity::Ranks(file) => read_ranks(file)?,
        };
        Ok(Self { popularity, weights, made: BTreeMap::new() })
    }

    /// Draws among `names` names, at least 1, the most popular first.
    pub(super) fn among(&mut self, names: u64) -> Result<Rc<Draws>, GenerateError> {
        if let Some(made) = self.made.get(&names) {
            return Ok(Rc::clone(made));
        }
        if names > RANKS_MAX && matches!(self.popularity, Popularity::Zipf(_)) {
            return Err(RecipeFault::Ranks(names).into());
        }
        let draws = Rc::new(match self.popularity {
            Popularity::Uniform => Draws::Uniform(names),
            Popularity::Zipf(exponent) => {
                let weights: Vec<f64> = (1..=names).map(|rank| (rank as f64).powf(-exponent)).collect();
                Draws::weighted(&weights)
            }
            Popularity::Ranks(_) => Draws::weighted(&self.weights[..self.weights.len().min(names as usize)]),
        });
        self.made.insert(names, Rc::clone(&draws));
        Ok(draws)
    }
}

/// The number at the beginning of each line of a file.
fn read_ranks(path: &Path) -> Result<Vec<f64>, GenerateError> {
    let unread = |error| GenerateError::Unreadable { path: path.to_owned(), error };
    let mut weights = Vec::new();
    let mut reader = BufReader::new(File::open(path).map_err(unread)?);
    let head = reader.fill_buf().map_err(unread)?;
    let text = without_mark(head).map_err(|encoding| unread(io::Error::other(encoding)))?;
    let mark = head.len() - text.len();
    reader.consume(mark);
    for (number, line) in (1..).zip(reader.lines()) {
        let line = line.map_err(unread)?;
        let first = line.split_whitespace().next().unwrap_or_default();
        let weight = first.parse().ok().filter(|weight: &f64| weight.is_finite() && *weight > 0.0);
        weights.push(weight.ok_or_else(|| GenerateError::Rank {
            path: path.to_owned(),
            line: number,
            column: line.len() - line.trim_start().len() + 1,
            found: first.to_owned(),
        })?);
    }
    if weights.is_empty() {
        return Err(GenerateError::NoRanks { path: path.to_owned() });
    }
    if weights.len() as u64 > RANKS_MAX {
        return Err(RecipeFault::Ranks(weights.len() as u64).into());
    }
    Ok(weights)
}
