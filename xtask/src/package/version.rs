//! The version of what is packaged: that of `Cargo.toml` for the commit with the release's tag, and for any other commit an
//! earlier one that names it.

use std::process::Command;

use anyhow::{Context as _, Result};

use kqps_programs::shell;

use crate::workspace;

/// The facts of git about the files that are packaged.
struct Commit {
    /// The short hash.
    hash: String,
    /// Its time in UTC, `20260131T235959`.
    time: String,
    /// Whether it has the tag of the release.
    is_tagged: bool,
    /// Whether files that git knows differ from it.
    is_changed: bool,
}

/// The version of what is packaged now.
pub(super) fn now() -> Result<String> {
    let packages = workspace::metadata()?.packages;
    let kqps = packages.iter().find(|package| package.name == "kqps").context("there is no kqps")?;
    let release = &kqps.version;
    let git = |words: &[&str]| -> Result<String> {
        let mut git = Command::new("git");
        git.current_dir(workspace::root()).env("TZ", "UTC").args(words);
        shell::read(&mut git).context("the version names the commit, which git does not know")
    };
    let format = ["log", "-1", "--abbrev=8", "--format=%h %cd", "--date=format-local:%Y%m%dT%H%M%S"];
    let text = git(&format)?;
    let (hash, time) = text.trim().split_once(' ').context("git printed no hash and time")?;
    let tags = git(&["tag", "--points-at", "HEAD"])?;
    let is_tagged = tags.lines().any(|tag| tag.trim_start_matches('v') == release.as_str());
    let is_changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.trim().is_empty();
    Ok(commit_version(release, &Commit { hash: hash.into(), time: time.into(), is_tagged, is_changed }))
}

/// `~` makes a version an earlier one for dpkg, and `+` a later one (deb-version(7)). A later commit has a later time.
fn commit_version(release: &str, commit: &Commit) -> String {
    let Commit { hash, time, is_tagged, is_changed } = commit;
    let name = if *is_tagged { release.to_owned() } else { format!("{release}~git{time}.{hash}") };
    if *is_changed { name + "+dirty" } else { name }
}

/// A version as the tag of an image, which has neither of these signs.
pub(super) fn as_tag(version: &str) -> String {
    version.replace(['~', '+'], "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tagged_commit_has_the_name_of_the_release() {
        let version = |is_tagged, is_changed| {
            let commit =
                Commit { hash: "40731fc5".into(), time: "20261127T095500".into(), is_tagged, is_changed };
            commit_version("0.1.0", &commit)
        };
        assert_eq!(version(true, false), "0.1.0");
        assert_eq!(version(true, true), "0.1.0+dirty");
        assert_eq!(version(false, false), "0.1.0~git20261127T095500.40731fc5");
        assert_eq!(as_tag(&version(false, true)), "0.1.0-git20261127T095500.40731fc5-dirty");
    }

    #[test]
    fn this_commit_has_a_version() {
        let version = now().unwrap();
        assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
        assert!(!as_tag(&version).contains(|c: char| !c.is_ascii_alphanumeric() && !".-_".contains(c)));
    }
}
