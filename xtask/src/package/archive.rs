//! The archive: a static program with its documents, manual pages, completions, studies, subjects and recipes; and beside
//! it the list of the crates and libraries in the program (SBOM, `CycloneDX` 1.5).
//!
//! The same program gives the same bytes: entries are in order, belong to user 0, and have the time of the release.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use kqps_programs::shell;

use super::documents::{self, Place};
use super::libraries::{Library, libraries};
use super::licences::Crate;
use super::{Release, licences, pages, program, third_party, tools, write};
use crate::workspace;

/// Files and folders of the repository that are in the archive.
const FROM_HERE: [Place; 9] = [
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("README.md", "README.md"),
    ("deploy", "deploy"),
    ("docs", "docs"),
    ("recipes", "recipes"),
    ("studies", "studies"),
    ("subjects", "subjects"),
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
    let crates = licences::crates(&tools::musl())?;
    let libraries = libraries(&crates, true)?;
    let folder = parent.join(&name);
    prepare(&built, &folder, asked)?;
    write(&folder.join("third-party.txt"), third_party::texts(&crates, &libraries))?;
    let out = release.out.join(format!("{name}.tar.gz"));
    pack(&parent, &name, release.epoch_s, &out)?;
    let list = release.out.join(format!("{name}.cdx.json"));
    write(&list, sbom(release, &crates, &libraries)?)?;
    Ok([out, list])
}

/// Fills the folder of the archive, except for the texts of licences.
fn prepare(built: &Path, folder: &Path, asked: Option<&Path>) -> Result<()> {
    program::strip(built, &folder.join("bin/kqps"), asked)?;
    pages::manual(built, &folder.join("share/man/man1"))?;
    for (shell, path) in COMPLETIONS {
        write(&folder.join(path), pages::completions(built, shell)?)?;
    }
    documents::copy_all(&FROM_HERE, folder)
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

/// The list of what is in the program. cargo-cyclonedx writes one beside each crate's manifest; only that of kqps stays.
fn sbom(release: &Release, crates: &[Crate], libraries: &[Library]) -> Result<String> {
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
    let mut list: Value = serde_json::from_str(&text).context("the list of crates is not JSON")?;
    retain(&mut list, crates)?;
    complete(&mut list, &release.version, libraries);
    check(&list)?;
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

/// Leaves only the crates of a list that are in the program: these, and those of the workspace. cargo-cyclonedx also lists
/// crates that the compiler runs. An error if one is missing.
fn retain(list: &mut Value, crates: &[Crate]) -> Result<()> {
    let inside: BTreeSet<(&str, &str)> =
        crates.iter().map(|one| (one.name.as_str(), one.version.as_str())).collect();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let mut kept = BTreeSet::from([text(&list["metadata"]["component"], "bom-ref")]);
    let mut found = 0;
    if let Some(components) = list["components"].as_array_mut() {
        components.retain(|one| {
            let is_ours = text(one, "bom-ref").starts_with("path+");
            let is_theirs = inside.contains(&(&*text(one, "name"), &*text(one, "version")));
            found += usize::from(is_theirs && !is_ours);
            is_ours || is_theirs
        });
        kept.extend(components.iter().map(|one| text(one, "bom-ref")));
    }
    ensure!(found == inside.len(), "the list has {found} crates of the {} in the program", inside.len());
    if let Some(dependencies) = list["dependencies"].as_array_mut() {
        dependencies.retain(|one| kept.contains(&text(one, "ref")));
        for one in dependencies.iter_mut().filter_map(|one| one["dependsOn"].as_array_mut()) {
            one.retain(|name| name.as_str().is_some_and(|name| kept.contains(name)));
        }
    }
    Ok(())
}

/// Gives a list of crates the version of what is packaged, and the libraries that are no crates.
fn complete(list: &mut Value, version: &str, libraries: &[Library]) {
    // A package URL has no `+`.
    let purl = |name: &str, version: &str| format!("pkg:generic/{name}@{}", version.replace('+', "%2B"));
    let kqps = &mut list["metadata"]["component"];
    kqps["version"] = version.into();
    kqps["purl"] = purl("kqps", version).into();
    let components = libraries.iter().map(|one| {
        let purl = purl(one.name, &one.version);
        json!({
            "type": "library",
            "bom-ref": purl,
            "name": one.name,
            "version": one.version,
            "licenses": [{ "expression": one.license }],
            "purl": purl,
        })
    });
    if let Some(list) = list["components"].as_array_mut() {
        list.extend(components);
    }
}

/// Checks that a list is one of `CycloneDX`, of kqps, with a version and a licence for every crate.
fn check(list: &Value) -> Result<()> {
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
        check(&whole).unwrap();
        for (pointer, wanted) in [
            ("/components/0/licenses", "lacks facts of \"libc\""),
            ("/components", "is empty"),
            ("/metadata/component/name", "not that of kqps"),
            ("/bomFormat", "not of CycloneDX"),
        ] {
            let mut broken = whole.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            broken.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
            let error = check(&broken).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn a_list_has_no_crates_that_the_compiler_runs() {
        let of = |name: &str| json!({ "bom-ref": format!("registry+{name}"), "name": name, "version": "1" });
        let ours = json!({ "bom-ref": "path+kqps-wire", "name": "kqps-wire", "version": "1" });
        let list = json!({
            "metadata": { "component": { "bom-ref": "path+kqps", "name": "kqps" } },
            "components": [ours, of("serde"), of("serde_derive")],
            "dependencies": [
                { "ref": "path+kqps", "dependsOn": ["path+kqps-wire", "registry+serde", "registry+serde_derive"] },
                { "ref": "registry+serde_derive", "dependsOn": ["registry+serde"] },
            ],
        });
        let one = |name: &str| Crate {
            name: name.into(),
            version: "1".into(),
            license: "MIT".into(),
            authors: Vec::new(),
            texts: Vec::new(),
            folder: PathBuf::new(),
        };
        let mut left = list.clone();
        retain(&mut left, &[one("serde")]).unwrap();
        assert_eq!(left["components"], json!([ours, of("serde")]));
        let dependencies = json!([{ "ref": "path+kqps", "dependsOn": ["path+kqps-wire", "registry+serde"] }]);
        assert_eq!(left["dependencies"], dependencies);
        assert!(retain(&mut list.clone(), &[one("serde"), one("libc")]).is_err());
    }

    #[test]
    fn a_list_has_the_version_and_the_libraries_that_are_no_crates() {
        let mut list = json!({
            "bomFormat": "CycloneDX",
            "metadata": { "component": { "name": "kqps", "version": "0.1.0" } },
            "components": [],
        });
        let musl = Library {
            name: "musl",
            version: "1.2.5".into(),
            license: "MIT",
            holders: &["others"],
            text: String::new(),
        };
        complete(&mut list, "0.1.0~git1.a+dirty", &[musl]);
        check(&list).unwrap();
        let kqps = &list["metadata"]["component"];
        assert_eq!(kqps["version"], "0.1.0~git1.a+dirty");
        assert_eq!(kqps["purl"], "pkg:generic/kqps@0.1.0~git1.a%2Bdirty");
        assert_eq!(list["components"][0]["purl"], "pkg:generic/musl@1.2.5");
    }

    #[test]
    fn all_that_is_packed_is_in_the_repository() {
        let folder = tempfile::tempdir().unwrap();
        documents::copy_all(&FROM_HERE, folder.path()).unwrap();
        for file in ["README.md", "docs/METHOD.md", "deploy/grafana/kqps.json", "studies/cache.toml"] {
            assert!(folder.path().join(file).is_file(), "{file}");
        }
    }
}
