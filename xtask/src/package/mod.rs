//! `cargo xtask package`: the Debian package, the static archive and the container image, in `target/package` or another
//! folder, with their checksums.

mod archive;
mod copyright;
mod deb;
mod documents;
mod image;
mod libraries;
mod licences;
mod pages;
mod program;
mod third_party;
mod tools;
mod version;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;

use kqps_programs::shell;

use crate::workspace;

/// The options of `cargo xtask package`.
#[derive(clap::Args)]
pub struct Options {
    /// The packages to make (default: all)
    kinds: Vec<Kind>,
    /// The folder for what is made (default: target/package)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Package this program and build none; a static one for the archive and the image
    #[arg(long, value_name = "FILE", requires = "kinds")]
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
    /// The version, the same in all kinds.
    version: String,
    /// The time of all files that are made, seconds since 1970.
    epoch_s: u64,
    /// The folder for files that are made on the way.
    work: PathBuf,
    /// The folder for what is made.
    out: PathBuf,
}

impl Kind {
    /// How the names of its files end.
    fn ends(self) -> &'static [&'static str] {
        match self {
            Self::Deb => &[".deb"],
            Self::Archive => &[".tar.gz", ".cdx.json"],
            Self::Image => &[".oci.tar"],
        }
    }
}

/// The time of all files, by the convention of reproducible builds.
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// Makes what the options ask for, and their checksums.
pub fn run(options: &Options) -> Result<()> {
    let asked = options.program.as_deref().map(|path| workspace::program(Some(path))).transpose()?;
    let kinds = if options.kinds.is_empty() { Kind::value_variants() } else { &options.kinds };
    if asked.is_some() {
        one_program_suffices(kinds)?;
    }
    make(kinds, options.out.as_deref(), asked.as_deref()).map(drop)
}

/// An error if no single program can be in all of these kinds: lintian refuses a static one in a Debian package.
fn one_program_suffices(kinds: &[Kind]) -> Result<()> {
    let has_static = kinds.iter().any(|kind| *kind != Kind::Deb);
    ensure!(
        !(has_static && kinds.contains(&Kind::Deb)),
        "--program: the archive and the image need a static program, and the Debian package another; ask for them in two \
         commands"
    );
    Ok(())
}

/// Installs what the proof needs beside packages that exist. An error if the user is not root.
pub fn ready_for_proof() -> Result<()> {
    let user = shell::read(Command::new("id").arg("-u"))?;
    ensure!(user.trim() == "0", "the proof of the packages makes namespaces and needs root");
    tools::install_for_proof()
}

/// The program in the Debian package, before its symbols are removed; built if it is not there.
pub fn packaged_program() -> Result<PathBuf> {
    program::dynamic(None)
}

/// Makes all kinds, and installs what their proof needs. Returns their folder.
pub fn for_proof() -> Result<PathBuf> {
    ready_for_proof()?;
    make(Kind::value_variants(), None, None)
}

fn make(kinds: &[Kind], out: Option<&Path>, asked: Option<&Path>) -> Result<PathBuf> {
    tools::install(kinds)?;
    let release = Release::new(out)?;
    let mut made = Vec::new();
    for kind in kinds {
        let files = match kind {
            Kind::Deb => vec![deb::make(&release, asked)?],
            Kind::Archive => archive::make(&release, asked)?.to_vec(),
            Kind::Image => vec![image::make(&release, asked)?],
        };
        if out.is_none() {
            remove_older(&release.out, *kind, &files)?;
        }
        for file in files {
            eprintln!("made {}", file.display());
            made.extend(file.file_name().map(OsStr::to_owned));
        }
    }
    checksums(&release.out, &made)?;
    Ok(release.out)
}

impl Release {
    fn new(out: Option<&Path>) -> Result<Self> {
        let metadata = workspace::metadata()?;
        let work = metadata.target_directory.join("release/package");
        let out = out.map_or_else(|| metadata.target_directory.join("package"), Path::to_owned);
        fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        let out = out.canonicalize().with_context(|| format!("cannot use {}", out.display()))?;
        Ok(Self { version: version::now()?, epoch_s: epoch_s()?, work, out })
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

/// Removes kqps's files of a kind in a folder, except these.
fn remove_older(folder: &Path, kind: Kind, made: &[PathBuf]) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_of_kind = name.starts_with("kqps") && kind.ends().iter().any(|end| name.ends_with(end));
        if is_of_kind && !made.contains(&path) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Writes the sums of these files to `SHA256SUMS` of their folder, as `sha256sum --check` reads it. Lines about other files
/// that still exist stay.
fn checksums(folder: &Path, names: &[OsString]) -> Result<()> {
    let list = folder.join("SHA256SUMS");
    let earlier = if list.exists() { fs::read_to_string(&list)? } else { String::new() };
    let now = shell::read(Command::new("sha256sum").current_dir(folder).arg("--").args(names))?;
    let of = |text: &str| -> BTreeMap<String, String> {
        let pairs = text.lines().filter_map(|line| line.split_once("  "));
        pairs.map(|(sum, name)| (name.to_owned(), sum.to_owned())).collect()
    };
    let mut sums = of(&earlier);
    sums.retain(|name, _| folder.join(name).is_file());
    sums.extend(of(&now));
    let lines: Vec<String> = sums.iter().map(|(name, sum)| format!("{sum}  {name}")).collect();
    fs::write(&list, lines.join("\n") + "\n").with_context(|| format!("cannot write {}", list.display()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_what_was_made_and_of_what_is_still_there() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["kqps_2.deb", "kqps-1.tar.gz", "README.md"] {
            fs::write(at(name), name).unwrap();
        }
        fs::write(at("SHA256SUMS"), "aa  kqps-1.tar.gz\nbb  kqps_1.deb\ncc  kqps_2.deb\n").unwrap();
        checksums(folder.path(), &["kqps_2.deb".into()]).unwrap();
        let text = fs::read_to_string(at("SHA256SUMS")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (2, "aa  kqps-1.tar.gz"));
        assert!(lines[1].ends_with("  kqps_2.deb") && lines[1].len() == 64 + "  kqps_2.deb".len(), "{text}");
    }

    #[test]
    fn only_older_files_of_the_kind_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["kqps_2.deb", "kqps_1.deb", "other_1.deb", "kqps-1.tar.gz"] {
            fs::write(at(name), "").unwrap();
        }
        remove_older(folder.path(), Kind::Deb, &[at("kqps_2.deb")]).unwrap();
        assert!(!at("kqps_1.deb").exists());
        for name in ["kqps_2.deb", "other_1.deb", "kqps-1.tar.gz"] {
            assert!(at(name).exists(), "{name}");
        }
    }

    #[test]
    fn no_program_is_both_static_and_not() {
        assert!(one_program_suffices(&[Kind::Deb]).is_ok());
        assert!(one_program_suffices(&[Kind::Archive, Kind::Image]).is_ok());
        assert!(one_program_suffices(Kind::value_variants()).is_err());
    }
}
