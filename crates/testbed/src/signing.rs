//! Signs generated zones. This is part of the lab and not of the generator, because it starts another program:
//! BIND's `dnssec-signzone` or the `ldns-signzone` of ldns, whichever is installed.
//!
//! Keys are random, so that signing a zone twice gives different results. A signed zone is therefore stored in
//! `kqps/signed/` of the user's cache folder, under the hash of its recipe, and signed only once.

mod program;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kqps_files::replaced_by;
use kqps_files::unfinished::Unfinished;
use kqps_files::whole::{persist, rename};
use kqps_recipe::{GenerateError, Recipe, Signing};
use tempfile::{NamedTempFile, TempDir};

use program::Program;
pub use program::ProgramError;

/// Why no signed zone was written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum SigningError {
    #[error(transparent)]
    Generate(#[from] GenerateError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("cannot write {path}: {error}", path = .path.display())]
    Io { path: PathBuf, error: io::Error },
}

impl SigningError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { path: path.to_owned(), error }
    }
}

/// Writes the master file of a recipe that has one zone, signed if the recipe says so. The file appears whole
/// or not at all.
pub fn zone(recipe: &Recipe, path: &Path) -> Result<(), SigningError> {
    let Some(signing) = &recipe.signing else { return Ok(kqps_recipe::zone(recipe, path)?) };
    let shelf = Shelf::new(recipe)?;
    let kept = shelf.folder.join("zone");
    if !kept.exists() {
        let (scratch, _unfinished) = shelf.scratch()?;
        let plain = scratch.path().join("plain");
        kqps_recipe::zone(recipe, &plain)?;
        shelf.sign(signing, &absolute(&recipe.origin), &plain, &kept, None)?;
    }
    place(&kept, path).map_err(SigningError::io(path))
}

/// Writes the master files of all zones of a recipe, as [`kqps_recipe::zones`] does, signed if the recipe says so.
pub fn zones(recipe: &Recipe, folder: &Path) -> Result<(), SigningError> {
    zones_by(recipe, folder, None)
}

/// As [`zones`], with a deadline.
///
/// # Errors
///
/// Also if a program still signs at the deadline; it is then killed.
pub fn zones_by(recipe: &Recipe, folder: &Path, deadline: Option<Instant>) -> Result<(), SigningError> {
    let Some(signing) = &recipe.signing else { return Ok(kqps_recipe::zones(recipe, folder)?) };
    let shelf = Shelf::new(recipe)?;
    let finish = &mut |origin: &str, file: &Path| {
        let kept = shelf.folder.join(file.file_name().unwrap_or_default());
        if !kept.exists() {
            shelf.sign(signing, origin, file, &kept, deadline).map_err(io::Error::other)?;
        }
        fs::copy(&kept, file).map(drop)
    };
    Ok(kqps_recipe::zones_with(recipe, folder, finish)?)
}

fn absolute(origin: &str) -> String {
    format!("{}.", origin.trim_end_matches('.'))
}

/// Copies a file to the user's path.
fn place(kept: &Path, path: &Path) -> io::Result<()> {
    let target = replaced_by(path)?;
    let path = target.as_path();
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::metadata(folder)?;
    let made = Unfinished::made(|| NamedTempFile::new_in(folder));
    let (copy, _unfinished) = made.map_err(|error| io::Error::from(error.kind()))?;
    fs::copy(kept, copy.path())?;
    persist(copy, path)
}

/// The folder of the signed zones of one recipe.
struct Shelf {
    folder: PathBuf,
    /// Set if there is no cache folder: a temporary folder, which is removed when the zones are written.
    _passing: Option<(TempDir, Unfinished)>,
}

impl Shelf {
    fn new(recipe: &Recipe) -> Result<Self, SigningError> {
        let (folder, passing) = if let Some(cache) = kqps_files::cache_folder() {
            (cache.join("signed").join(recipe.zones_hash()), None)
        } else {
            let passing = Unfinished::made(tempfile::tempdir);
            let passing = passing.map_err(SigningError::io(&std::env::temp_dir()))?;
            (passing.0.path().to_owned(), Some(passing))
        };
        fs::create_dir_all(&folder).map_err(SigningError::io(&folder))?;
        Ok(Self { folder, _passing: passing })
    }

    /// A folder for temporary files of signing, above all keys.
    fn scratch(&self) -> Result<(TempDir, Unfinished), SigningError> {
        let scratch =
            Unfinished::made(|| tempfile::Builder::new().prefix(".signing-").tempdir_in(&self.folder));
        scratch.map_err(SigningError::io(&self.folder))
    }

    /// Signs a zone and stores it in the cache.
    fn sign(
        &self,
        signing: &Signing,
        origin: &str,
        plain: &Path,
        kept: &Path,
        deadline: Option<Instant>,
    ) -> Result<(), SigningError> {
        let (scratch, _unfinished) = self.scratch()?;
        let signed = scratch.path().join("signed");
        Program::installed()?.by(deadline).sign(signing, origin, plain, scratch.path(), &signed)?;
        rename(&signed, kept).map_err(SigningError::io(kept))
    }
}
