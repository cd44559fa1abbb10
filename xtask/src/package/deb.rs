//! The Debian package, by cargo-deb from the lists in `crates/kqps/Cargo.toml`. lintian must find no error in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use kqps_programs::shell;

use super::copyright::copyright;
use super::documents::{self, Place};
use super::libraries::libraries;
use super::{Release, copy, gzip, licences, pages, program, third_party, tools, write};
use crate::workspace;

/// The maintainer, as in `crates/kqps/Cargo.toml`.
const MAINTAINER: &str = "kqps developers <developers@kqps.invalid>";

/// The files of the package, below cargo's `release/package`. Manual pages are in `man`, documents and examples in `doc`.
#[cfg(test)]
const MADE: [&str; 10] = [
    "bin/kqps",
    "man/*.1.gz",
    "completions/kqps",
    "completions/_kqps",
    "completions/kqps.fish",
    "copyright",
    "third-party.txt.gz",
    "changelog.gz",
    "changelog.Debian.gz",
    "doc/**/*",
];

/// Files and folders of the repository that are in the folder of documents.
const FROM_HERE: [Place; 9] = [
    ("deploy/debian/README.Debian", "README.Debian"),
    ("README.md", "README.md"),
    ("docs", "docs"),
    ("studies", "examples/studies"),
    ("subjects", "examples/subjects"),
    ("recipes", "examples/recipes"),
    ("deploy/ansible", "examples/ansible"),
    ("deploy/grafana", "examples/grafana"),
    ("deploy/kubernetes", "examples/kubernetes"),
];

/// Where a package has its documents.
const DOCUMENTS: &str = "usr/share/doc/kqps";

/// Makes the package and returns its path.
pub(super) fn make(release: &Release, asked: Option<&Path>) -> Result<PathBuf> {
    let built = program::dynamic(asked)?;
    let folder = prepare(release, &built, asked)?;
    let version = version(release);
    let out = release.out.join(format!("kqps_{version}_{}.deb", architecture()?));
    let mut deb = tools::CARGO_DEB.command()?;
    deb.args(["--package", "kqps", "--no-build", "--no-strip", "--compress-system", "--quiet"]);
    deb.args(["--deb-version", &version, "--output"]).arg(&out);
    shell::run(deb.env(super::EPOCH, release.epoch_s.to_string()))?;
    ensure!(out.is_file(), "cargo-deb did not write {}", out.display());
    compare(&out, &folder)?;
    check(&out)?;
    Ok(out)
}

/// The version of the package: the first one with this version of kqps (Debian policy, section 5.6.12).
fn version(release: &Release) -> String {
    format!("{}-1", release.version)
}

/// Debian's name of this machine's architecture.
fn architecture() -> Result<String> {
    Ok(shell::read(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned())
}

/// Makes the files of the package, and returns their folder.
fn prepare(release: &Release, built: &Path, asked: Option<&Path>) -> Result<PathBuf> {
    let folder = release.folder("")?;
    program::strip(built, &folder.join("bin/kqps"), asked)?;
    for page in pages::manual(built, &folder.join("man"))? {
        gzip(&page)?;
    }
    for (shell, name) in pages::SHELLS {
        write(&folder.join("completions").join(name), pages::completions(built, shell)?)?;
    }
    let crates = licences::crates(&tools::gnu())?;
    let libraries = libraries(&crates, false)?;
    write(&folder.join("copyright"), copyright(&crates, &libraries)?)?;
    write(&folder.join("third-party.txt"), third_party::texts(&crates, &libraries))?;
    gzip(&folder.join("third-party.txt"))?;
    copy(&workspace::root().join("CHANGELOG.md"), &folder.join("changelog"))?;
    gzip(&folder.join("changelog"))?;
    write(&folder.join("changelog.Debian"), changelog(release)?)?;
    gzip(&folder.join("changelog.Debian"))?;
    documents::copy_all(&FROM_HERE, &folder.join("doc"))?;
    Ok(folder)
}

/// The changelog of the package itself (Debian policy, section 4.4).
fn changelog(release: &Release) -> Result<String> {
    let time = format!("@{}", release.epoch_s);
    let date =
        shell::read(Command::new("date").env("LC_ALL", "C").args(["--utc", "--rfc-email", "--date", &time]))?;
    let (whole, date, kqps) = (version(release), date.trim(), &release.version);
    Ok(format!(
        "kqps ({whole}) unstable; urgency=medium\n\n  * kqps {kqps}.\n  * Its own changes are in changelog.gz.\n\n \
         -- {MAINTAINER}  {date}\n"
    ))
}

/// An error unless the package has the copyright file, the program and all documents that were made for it, byte for byte.
fn compare(deb: &Path, folder: &Path) -> Result<()> {
    let unpacked = tempfile::tempdir().context("no folder to unpack the package in")?;
    shell::run(Command::new("dpkg-deb").arg("--extract").arg(deb).arg(unpacked.path()))?;
    let documents = unpacked.path().join(DOCUMENTS);
    let mut same = Command::new("diff");
    same.args(["--recursive", "--brief"]).arg(folder.join("doc")).arg(&documents);
    for made in ["copyright", "third-party.txt.gz", "changelog.gz", "changelog.Debian.gz"] {
        same.args(["--exclude", made]);
        let is_same = fs::read(folder.join(made))? == fs::read(documents.join(made)).unwrap_or_default();
        ensure!(is_same, "the package has another file {made} than the one that was made");
    }
    shell::read(&mut same).context("the package has other documents than those that were made")?;
    let is_same = fs::read(folder.join("bin/kqps"))? == fs::read(unpacked.path().join("usr/bin/kqps"))?;
    ensure!(is_same, "the package has another program than the one that was made");
    Ok(())
}

/// Has lintian look at the package. Its remarks are printed; an error fails.
fn check(deb: &Path) -> Result<()> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error", "--display-info"]).arg(deb);
    shell::run(&mut lintian).context("the package breaks rules of Debian")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// The table `package.metadata.deb` of kqps.
    fn table() -> Value {
        let text =
            shell::read(workspace::cargo().args(["metadata", "--format-version", "1", "--no-deps"])).unwrap();
        let metadata: Value = serde_json::from_str(&text).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        packages.iter().find(|package| package["name"] == "kqps").unwrap()["metadata"]["deb"].clone()
    }

    #[test]
    fn every_file_of_the_package_is_made() {
        let table = table();
        let assets = table["assets"].as_array().unwrap().iter();
        let sources: BTreeSet<&str> = assets.map(|asset| asset[0].as_str().unwrap()).collect();
        let made: Vec<String> = MADE.iter().map(|made| format!("target/release/package/{made}")).collect();
        assert_eq!(sources, made.iter().map(String::as_str).collect());
        let folder = tempfile::tempdir().unwrap();
        documents::copy_all(&FROM_HERE, folder.path()).unwrap();
        for file in ["README.Debian", "docs/schema/run.json", "examples/ansible/play.yml"] {
            assert!(folder.path().join(file).is_file(), "{file}");
        }
        let tuning = fs::read_to_string(folder.path().join("docs/TUNING.md")).unwrap();
        assert!(tuning.contains("](../examples/studies/isc-echo.toml)"), "{tuning}");
    }

    #[test]
    fn the_package_has_one_maintainer_no_scripts_and_no_service() {
        let table = table();
        assert_eq!(table["maintainer"], MAINTAINER);
        for key in ["maintainer-scripts", "systemd-units", "triggers-file"] {
            assert!(table.get(key).is_none(), "{key}");
        }
        let description = table["extended-description"].as_str().unwrap();
        assert!(description.contains("setcap") && description.contains("README.Debian"));
    }

    #[test]
    fn each_shell_looks_where_its_completions_go() {
        let table = table();
        let targets: Vec<(&str, &str)> = table["assets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|asset| (asset[0].as_str().unwrap(), asset[1].as_str().unwrap()))
            .filter(|(source, _)| source.contains("/completions/"))
            .collect();
        let folder = "target/release/package/completions";
        let wanted = [
            (format!("{folder}/kqps"), "usr/share/bash-completion/completions/"),
            (format!("{folder}/_kqps"), "usr/share/zsh/vendor-completions/"),
            (format!("{folder}/kqps.fish"), "usr/share/fish/vendor_completions.d/"),
        ];
        assert!(
            targets.iter().eq(wanted
                .iter()
                .map(|(source, target)| (source.as_str(), *target))
                .collect::<Vec<_>>()
                .iter())
        );
    }
}
