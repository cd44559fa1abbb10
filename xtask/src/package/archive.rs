//! The archive: a static program with its documents, manual pages, completions, studies, subjects and recipes; and beside
//! it the list of the crates in the program (SBOM, `CycloneDX` 1.5).
//!
//! The same program gives the same bytes: entries are in order, belong to user 0, and have the time of the release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use kqps_proofs::shell;

use super::{Release, copy, licences, pages, program, tools, write};
use crate::workspace;

/// What of the repository is in the archive: a file, or a folder with all files that git knows in it.
const FROM_HERE: [&str; 9] = [
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "deploy",
    "docs",
    "recipes",
    "studies",
    "subjects",
];

/// Where each shell finds its completions below a prefix such as `/usr/local`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/kqps"),
    ("zsh", "share/zsh/site-functions/_kqps"),
    ("fish", "share/fish/vendor_completions.d/kqps.fish"),
];

/// Makes the archive and its SBOM. Returns their paths.
pub(super) fn make(release: &Release, asked: Option<&Path>) -> Result<[PathBuf; 2]> {
    let built = program::fixed(asked)?;
    let name = release.static_name();
    let parent = release.folder("archive")?;
    prepare(&built, &parent.join(&name))?;
    let out = release.out.join(format!("{name}.tar.gz"));
    pack(&parent, &name, release.epoch_s, &out)?;
    let list = release.out.join(format!("{name}.cdx.json"));
    write(&list, sbom(release)?)?;
    Ok([out, list])
}

/// Fills the folder of the archive.
fn prepare(built: &Path, folder: &Path) -> Result<()> {
    program::strip(built, &folder.join("bin/kqps"))?;
    pages::manual(built, &folder.join("share/man/man1"))?;
    for (shell, path) in COMPLETIONS {
        write(&folder.join(path), pages::completions(built, shell)?)?;
    }
    let crates = licences::crates(&tools::musl())?;
    write(&folder.join("third-party.txt"), licences::texts(&crates, &licences::libraries(true)?))?;
    let files = workspace::known_files()?;
    for place in FROM_HERE {
        let inside: Vec<&PathBuf> = files.iter().filter(|file| file.starts_with(place)).collect();
        ensure!(!inside.is_empty(), "there is no {place} in the repository");
        for file in inside {
            copy(&workspace::root().join(file), &folder.join(file))?;
        }
    }
    Ok(())
}

/// Packs the folder `name` of `parent`.
fn pack(parent: &Path, name: &str, epoch_s: u64, out: &Path) -> Result<()> {
    let plain = out.with_extension("");
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mode=u=rwX,go=rX", &format!("--mtime=@{epoch_s}")]).arg("--file").arg(&plain);
    shell::run(tar.arg("--directory").arg(parent).arg(name))?;
    super::gzip(&plain)
}

/// The list of the crates in the program. cargo-cyclonedx writes one beside each crate's manifest; only that of kqps stays.
fn sbom(release: &Release) -> Result<String> {
    const NAME: &str = "kqps-sbom";
    let mut list = tools::CYCLONEDX.command()?;
    list.args(["cyclonedx", "--manifest-path", "crates/kqps/Cargo.toml", "--quiet", "--format", "json"]);
    list.args([
        "--spec-version",
        "1.5",
        "--no-build-deps",
        "--target",
        &tools::musl(),
        "--override-filename",
        NAME,
    ]);
    let packages = workspace::metadata()?.packages;
    let remove_all = || {
        for package in &packages {
            // A crate that had none needs no removal.
            let _ = fs::remove_file(package.manifest_path.with_file_name(format!("{NAME}.json")));
        }
    };
    // A list from before, which was interrupted, must not pass for this one.
    remove_all();
    let listed = shell::run(list.env(super::EPOCH, release.epoch_s.to_string()));
    let text = fs::read_to_string(workspace::root().join(format!("crates/kqps/{NAME}.json")));
    remove_all();
    listed?;
    let text = text.context("cargo-cyclonedx wrote no list")?;
    // The list must not depend on where the repository lies.
    let text = text.replace(&format!("file://{}", workspace::root().display()), "file://.");
    check(&text)?;
    Ok(text)
}

/// Checks that a list is one of `CycloneDX`, of kqps, with a version and a licence for every crate.
fn check(text: &str) -> Result<()> {
    let list: Value = serde_json::from_str(text).context("the list of crates is not JSON")?;
    ensure!(list["bomFormat"] == "CycloneDX", "the list of crates is not of CycloneDX");
    ensure!(list["metadata"]["component"]["name"] == "kqps", "the list of crates is not that of kqps");
    let components = list["components"].as_array().map(Vec::as_slice).unwrap_or_default();
    ensure!(!components.is_empty(), "the list of crates is empty");
    for component in components {
        let has = |field: &str| component.get(field).is_some_and(|value| value != "");
        let is_whole = has("name") && has("version") && has("licenses") && has("purl");
        ensure!(is_whole, "the list of crates lacks facts of {}", component["name"]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let packed = |parent: &str, names: [&str; 2], age_s: u64| {
            let parent = folder.path().join(parent);
            for name in names {
                let path = parent.join("kqps").join(name);
                write(&path, name).unwrap();
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(age_s);
                fs::File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
            }
            let out = parent.join("kqps.tar.gz");
            pack(&parent, "kqps", 1_700_000_000, &out).unwrap();
            fs::read(out).unwrap()
        };
        let one = packed("one", ["a/b", "c"], 1_000_000);
        assert_eq!(one, packed("other", ["c", "a/b"], 2_000_000));
        assert_ne!(one, packed("third", ["c", "a/d"], 2_000_000));
    }

    #[test]
    fn a_list_of_crates_is_whole_or_an_error() {
        let whole = json!({
            "bomFormat": "CycloneDX",
            "metadata": { "component": { "name": "kqps" } },
            "components": [{
                "name": "libc", "version": "0.2.1", "purl": "pkg:cargo/libc@0.2.1",
                "licenses": [{ "expression": "MIT" }],
            }],
        });
        check(&whole.to_string()).unwrap();
        for (pointer, wanted) in [
            ("/components/0/licenses", "lacks facts of \"libc\""),
            ("/components", "is empty"),
            ("/metadata/component/name", "not that of kqps"),
            ("/bomFormat", "not of CycloneDX"),
        ] {
            let mut broken = whole.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            broken.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
            let error = check(&broken.to_string()).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn all_that_is_packed_is_in_the_repository() {
        let missing: Vec<_> =
            FROM_HERE.iter().filter(|place| !workspace::root().join(place).exists()).collect();
        assert_eq!(missing, [&""; 0]);
    }
}
