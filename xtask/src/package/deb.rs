//! The Debian package, by cargo-deb from the lists in `crates/kqps/Cargo.toml`. lintian must find no error in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use kqps_proofs::shell;

use super::{Release, copy, gzip, licences, pages, program, tools, write};
use crate::workspace;

/// The maintainer, as in `crates/kqps/Cargo.toml`.
const MAINTAINER: &str = "kqps developers <developers@kqps.invalid>";

/// The files that are made for the package, below cargo's `release/package`. Manual pages are in `man`.
#[cfg(test)]
const MADE: [&str; 9] = [
    "bin/kqps",
    "man/*.1.gz",
    "completions/kqps",
    "completions/_kqps",
    "completions/kqps.fish",
    "copyright",
    "third-party.txt.gz",
    "changelog.gz",
    "changelog.Debian.gz",
];

/// Makes the package and returns its path.
pub(super) fn make(release: &Release, asked: Option<&Path>) -> Result<PathBuf> {
    let built = program::dynamic(asked)?;
    prepare(release, &built)?;
    let out = release.out.join(format!("kqps_{}-1_{}.deb", release.version, architecture()?));
    let mut deb = tools::CARGO_DEB.command()?;
    deb.args(["--package", "kqps", "--no-build", "--no-strip", "--compress-system", "--quiet", "--output"])
        .arg(&out);
    shell::run(deb.env(super::EPOCH, release.epoch_s.to_string()))?;
    ensure!(out.is_file(), "cargo-deb did not write {}", out.display());
    check(&out)?;
    Ok(out)
}

/// Debian's name of this machine's architecture.
fn architecture() -> Result<String> {
    Ok(shell::read(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned())
}

/// Makes the files of the package that do not lie in the repository.
fn prepare(release: &Release, built: &Path) -> Result<()> {
    let folder = release.folder("")?;
    program::strip(built, &folder.join("bin/kqps"))?;
    for page in pages::manual(built, &folder.join("man"))? {
        gzip(&page)?;
    }
    for (shell, name) in pages::SHELLS {
        write(&folder.join("completions").join(name), pages::completions(built, shell)?)?;
    }
    let crates = licences::crates(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))?;
    write(&folder.join("copyright"), licences::copyright(&crates)?)?;
    write(&folder.join("third-party.txt"), licences::texts(&crates, &licences::libraries(false)?))?;
    gzip(&folder.join("third-party.txt"))?;
    copy(&workspace::root().join("CHANGELOG.md"), &folder.join("changelog"))?;
    gzip(&folder.join("changelog"))?;
    write(&folder.join("changelog.Debian"), changelog(release)?)?;
    gzip(&folder.join("changelog.Debian"))
}

/// The changelog of the package itself (Debian policy, section 4.4).
fn changelog(release: &Release) -> Result<String> {
    let time = format!("@{}", release.epoch_s);
    let date =
        shell::read(Command::new("date").env("LC_ALL", "C").args(["--utc", "--rfc-email", "--date", &time]))?;
    let Release { version, .. } = release;
    let date = date.trim();
    Ok(format!(
        "kqps ({version}-1) unstable; urgency=medium\n\n  * Version {version} of kqps. Its own changes are in changelog.gz.\n\n \
         -- {MAINTAINER}  {date}\n"
    ))
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
    use std::fs;

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

    /// Whether a path of the repository, whose last parts may be `*`, `*.END` or `**/*`, names a file.
    fn names_a_file(pattern: &str) -> bool {
        let path = workspace::root().join("crates/kqps").join(pattern.trim_end_matches("/**/*"));
        if pattern.ends_with("/**/*") {
            let files = workspace::known_files().unwrap();
            let folder = pattern.trim_start_matches("../").trim_end_matches("/**/*");
            return files.iter().any(|file| file.starts_with(folder));
        }
        let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
        match name.strip_prefix('*') {
            None => path.is_file(),
            Some(end) => fs::read_dir(folder).is_ok_and(|entries| {
                entries.flatten().any(|entry| entry.file_name().to_string_lossy().ends_with(end))
            }),
        }
    }

    #[test]
    fn every_file_of_the_package_is_made_or_is_in_the_repository() {
        let table = table();
        let sources: Vec<&str> =
            table["assets"].as_array().unwrap().iter().map(|asset| asset[0].as_str().unwrap()).collect();
        let made: BTreeSet<&str> =
            sources.iter().filter_map(|source| source.strip_prefix("target/release/package/")).collect();
        assert_eq!(made, BTreeSet::from(MADE));
        let missing: Vec<_> = sources
            .iter()
            .filter(|source| !source.starts_with("target/release/package/") && !names_a_file(source))
            .collect();
        assert_eq!(missing, [&""; 0]);
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
