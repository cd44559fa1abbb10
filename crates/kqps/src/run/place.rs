//! The folder of runs: `kqps-runs/` in the current folder if that exists, else a folder in the user's data
//! (XDG Base Directory Specification). A run leaves no files where the user did not ask for them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kqps_lab::{comparison, search_run};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::exit::bad_input;

/// The folder's name in the current folder.
const HERE: &str = "kqps-runs";

/// The folder of all runs without `--out`.
pub(crate) fn runs() -> PathBuf {
    if Path::new(HERE).is_dir() {
        return HERE.into();
    }
    let data = of_user(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"));
    data.unwrap_or_else(|| HERE.into())
}

/// The folder in the user's data. By the specification a relative path is invalid and ignored.
fn of_user(data_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let data = data_home.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".local/share")));
    Some(data?.join("kqps/runs"))
}

/// The folder of a new run in the folder of runs, such as `20261121T220507Z-default`.
pub(crate) fn default_folder(study: &str) -> anyhow::Result<PathBuf> {
    let form = format_description!("[year][month][day]T[hour][minute][second]Z");
    let now = OffsetDateTime::now_utc().format(form).context("writing the time")?;
    Ok(runs().join(format!("{now}-{study}")))
}

/// The folder of `--out`. If a file has that name, it is bad usage.
pub(crate) fn named(folder: &Path) -> anyhow::Result<PathBuf> {
    if folder.exists() && !folder.is_dir() {
        return Err(bad_input(format!("--out {}: expected a folder, and this is a file", folder.display())));
    }
    Ok(folder.to_owned())
}

/// The folder that `--resume` goes on with: that of `--out`, or the newest unfinished one. `what` is a `run` or a
/// `comparison`, which `kqps command` measures. `beside` is a folder that the user named without `--out`.
pub(crate) fn resumed(
    (command, what): (&str, &str),
    beside: Option<&Path>,
    out: Option<&Path>,
) -> anyhow::Result<PathBuf> {
    if let Some(beside) = beside {
        let folder = if beside.is_dir() { beside.display().to_string() } else { "DIR".to_owned() };
        return Err(bad_input(format!(
            "--resume takes its folder by --out; to go on: kqps {command} --resume --out {folder}"
        )));
    }
    out.map(Path::to_owned).or_else(|| newest(what == "comparison")).ok_or_else(|| {
        let runs = runs();
        bad_input(format!("no unfinished {what} in {} to resume; name it with --out DIR", runs.display()))
    })
}

/// The newest unfinished comparison, or the newest unfinished run that is no comparison and no search. The names of
/// default folders sort by time.
fn newest(is_comparison: bool) -> Option<PathBuf> {
    let folders = std::fs::read_dir(runs()).ok()?.flatten().map(|entry| entry.path());
    let unfinished = |folder: &PathBuf| {
        kqps_observation::Store::read(&folder.join("run.sqlite")).is_ok_and(|run| {
            let is_wanted = (run.study == comparison::NAME) == is_comparison;
            run.finished_unix_ms.is_none() && is_wanted && run.study != search_run::NAME
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
