//! Where runs lie: in `kqps-runs/` of the current folder where there is such a folder, else among the user's data
//! (XDG Base Directory Specification), so that a run leaves nothing where it was not asked to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kqps_lab::{comparison, kept};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::exit::bad_input;

/// In the current folder.
const HERE: &str = "kqps-runs";

/// The folder of all runs that are not put elsewhere.
pub(super) fn runs() -> PathBuf {
    if Path::new(HERE).is_dir() {
        return HERE.into();
    }
    let data = of_user(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"));
    data.unwrap_or_else(|| HERE.into())
}

/// Among the user's data. A relative path is invalid, says the specification.
fn of_user(data_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let data = data_home.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".local/share")));
    Some(data?.join("kqps/runs"))
}

/// The folder of a new run: `20261121T220507Z-default`, where runs lie.
pub(crate) fn default_folder(study: &str) -> anyhow::Result<PathBuf> {
    let form = format_description!("[year][month][day]T[hour][minute][second]Z");
    let now = OffsetDateTime::now_utc().format(form).context("writing the time")?;
    Ok(runs().join(format!("{now}-{study}")))
}

/// The folder that `--out` names; a file of that name is bad usage.
pub(crate) fn named(folder: &Path) -> anyhow::Result<PathBuf> {
    if folder.exists() && !folder.is_dir() {
        return Err(bad_input(format!("--out {}: expected a folder, and this is a file", folder.display())));
    }
    Ok(folder.to_owned())
}

/// The newest run that is unfinished, comparisons and searches apart; names of default folders sort by time.
pub(super) fn newest_run() -> Option<PathBuf> {
    let folders = std::fs::read_dir(runs()).ok()?.flatten().map(|entry| entry.path());
    let unfinished = |folder: &PathBuf| {
        kqps_observation::Store::read(&folder.join("run.sqlite")).is_ok_and(|run| {
            run.finished_unix_ms.is_none() && ![comparison::NAME, kept::NAME].contains(&&*run.study)
        })
    };
    folders.filter(unfinished).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_data_lie_where_the_specification_says() {
        let of = |data: &str, home: &str| {
            let given = |text: &str| (!text.is_empty()).then(|| text.into());
            of_user(given(data), given(home)).map(|path| path.display().to_string())
        };
        assert_eq!(of("/data", "/home/me").as_deref(), Some("/data/kqps/runs"));
        assert_eq!(of("", "/home/me").as_deref(), Some("/home/me/.local/share/kqps/runs"));
        assert_eq!(of("data", "/home/me").as_deref(), Some("/home/me/.local/share/kqps/runs"));
        assert_eq!(of("", ""), None);
    }
}
