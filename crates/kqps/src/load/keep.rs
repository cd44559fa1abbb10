//! A load in a folder: its record with the result as printed, and its page.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kqps_observation::Trial;
use kqps_report::{LoadInput, loads_page};
use serde::{Deserialize, Serialize};

use crate::exit::bad_input;
use crate::other_run::PAGE;
use crate::run::{named, repeat};
use crate::stored;

/// The file of a load in its folder.
const NAME: &str = "load.json";

/// A load as its folder keeps it.
#[derive(Serialize, Deserialize)]
struct StoredLoad {
    kqps_version: String,
    /// The command that played it, without secrets.
    command: Vec<String>,
    /// The result as it was printed.
    printed: String,
    trial: Trial,
}

/// The folder of `--out`, which is checked before anything is played.
pub(super) struct LoadFolder(PathBuf);

impl LoadFolder {
    /// Makes the folder. It must hold no other load and no run.
    pub(super) fn claim(folder: &Path) -> anyhow::Result<Self> {
        let folder = named(folder)?;
        let mut taken = [NAME, PAGE, "run.sqlite"].into_iter().map(|name| folder.join(name));
        if let Some(file) = taken.find(|file| file.exists()) {
            return Err(bad_input(format!("{} already exists; name another folder", file.display())));
        }
        stored::make_folder(&folder)?;
        Ok(Self(folder))
    }

    /// Writes the load and its page, and prints the page's path.
    pub(super) fn keep(&self, trial: &Trial, printed: &str) -> anyhow::Result<()> {
        let load = StoredLoad {
            kqps_version: env!("CARGO_PKG_VERSION").into(),
            command: repeat::typed().collect(),
            printed: printed.into(),
            trial: trial.clone(),
        };
        let text = serde_json::to_string_pretty(&load).context("writing the load as JSON")?;
        stored::write(&self.0.join(NAME), &(text + "\n"))?;
        let page = self.0.join(PAGE);
        stored::write(&page, &page_of(&[input(&self.0, load)]))?;
        eprintln!("The load as a page: {}", page.display());
        Ok(())
    }
}

/// The load that a folder holds; `None` if it holds none.
pub(crate) fn read(folder: &Path) -> anyhow::Result<Option<LoadInput>> {
    let path = folder.join(NAME);
    if !path.exists() {
        return Ok(None);
    }
    let wrong = |why: &dyn std::fmt::Display| bad_input(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(&path).map_err(|error| wrong(&error))?;
    let load: StoredLoad = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    Ok(Some(input(folder, load)))
}

/// The page of loads.
pub(crate) fn page_of(loads: &[LoadInput]) -> String {
    loads_page(loads, env!("CARGO_PKG_VERSION"))
}

fn input(folder: &Path, load: StoredLoad) -> LoadInput {
    let name = folder
        .canonicalize()
        .ok()
        .and_then(|folder| Some(folder.file_name()?.to_string_lossy().into_owned()));
    let StoredLoad { command, printed, trial, .. } = load;
    LoadInput { name: name.unwrap_or_else(|| folder.display().to_string()), command, printed, trial }
}
