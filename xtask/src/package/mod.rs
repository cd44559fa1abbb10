//! `cargo xtask package`: the Debian package, the static archive and the container image, in `target/package` or another
//! folder, with their checksums.

mod archive;
mod deb;
mod image;
mod licences;
mod pages;
mod program;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::ValueEnum;

use kqps_proofs::shell;

use crate::workspace;

/// The options of `cargo xtask package`.
#[derive(clap::Args)]
pub struct Options {
    /// What to make (default: all)
    kinds: Vec<Kind>,
    /// The folder for what is made (default: target/package)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Package this program and build none; a static one for the archive and the image
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// A way to hand kqps on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The Debian package, checked by lintian
    Deb,
    /// An archive of files around a static program, and the list of what is in the program (SBOM)
    Archive,
    /// A container image of the static program alone, as an OCI archive
    Image,
}

/// The facts of this release that every kind needs.
struct Release {
    /// The version in `Cargo.toml`.
    version: String,
    /// The time of all files that are made, seconds since 1970.
    epoch_s: u64,
    /// The folder for files that are made on the way.
    work: PathBuf,
    /// The folder for what is made.
    out: PathBuf,
}

/// The time of all files, by the convention of reproducible builds.
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// Makes what the options ask for, and the checksums of all that lies in the folder.
pub fn run(options: &Options) -> Result<()> {
    let asked = options.program.as_deref().map(|path| workspace::program(Some(path))).transpose()?;
    let kinds = if options.kinds.is_empty() { Kind::value_variants() } else { &options.kinds };
    make(kinds, options.out.as_deref(), asked.as_deref()).map(drop)
}

/// Makes all kinds, and installs what their proof needs. Returns their folder.
pub fn for_proof() -> Result<PathBuf> {
    tools::install_for_proof()?;
    make(Kind::value_variants(), None, None)
}

fn make(kinds: &[Kind], out: Option<&Path>, asked: Option<&Path>) -> Result<PathBuf> {
    tools::install(kinds)?;
    let release = Release::new(out)?;
    for kind in kinds {
        let made = match kind {
            Kind::Deb => deb::make(&release, asked)?,
            Kind::Archive => archive::make(&release, asked)?,
            Kind::Image => image::make(&release, asked)?,
        };
        eprintln!("made {}", made.display());
    }
    checksums(&release.out)?;
    Ok(release.out)
}

impl Release {
    fn new(out: Option<&Path>) -> Result<Self> {
        let metadata = workspace::metadata()?;
        let kqps =
            metadata.packages.iter().find(|package| package.name == "kqps").context("there is no kqps")?;
        let work = metadata.target_directory.join("release/package");
        let out = out.map_or_else(|| metadata.target_directory.join("package"), Path::to_owned);
        fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        let out = out.canonicalize().with_context(|| format!("cannot use {}", out.display()))?;
        Ok(Self { version: kqps.version.clone(), epoch_s: epoch_s()?, work, out })
    }

    /// An empty folder with this name for files that are made on the way.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.work.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// The name of the static kinds: `kqps-VERSION-x86_64-linux-musl`.
    fn static_name(&self) -> String {
        format!("kqps-{}-{}-linux-musl", self.version, std::env::consts::ARCH)
    }
}

/// The time of all files: the variable's, or that of the commit.
fn epoch_s() -> Result<u64> {
    let text = if let Ok(text) = std::env::var(EPOCH) {
        text
    } else {
        let mut git = Command::new("git");
        git.current_dir(workspace::root()).args(["log", "-1", "--format=%ct"]);
        shell::read(&mut git).with_context(|| format!("the commit has no time; set {EPOCH}"))?
    };
    text.trim().parse().with_context(|| format!("{EPOCH} must be seconds since 1970, not {text:?}"))
}

/// Writes `SHA256SUMS` of all other files in a folder, as `sha256sum --check` reads it.
fn checksums(folder: &Path) -> Result<()> {
    let list = folder.join("SHA256SUMS");
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && entry.path() != list {
            names.push(entry.file_name());
        }
    }
    names.sort();
    let text = shell::read(Command::new("sha256sum").current_dir(folder).arg("--").args(&names))?;
    fs::write(&list, text).with_context(|| format!("cannot write {}", list.display()))
}

/// Copies a file, and makes the folder that it goes to.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Writes a file, and makes its folder.
fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Replaces a file by a compressed one, without name and time in it. Its name ends with `.gz`.
fn gzip(path: &Path) -> Result<()> {
    shell::run(Command::new("gzip").args(["-9", "-n", "-f"]).arg(path))
}
