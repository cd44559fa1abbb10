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

/// The kind of measurement that `--resume` goes on with.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Resumed {
    /// A run of `kqps run`.
    Run,
    /// A comparison of `kqps compare`.
    Comparison,
}

impl Resumed {
    /// The command that goes on with it, and its name in words.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Run => ("run", "run"),
            Self::Comparison => ("compare", "comparison"),
        }
    }
}

/// The folder that `--resume` goes on with: that of `--out`, or the newest unfinished one. `beside` is a folder or a study
/// that the user named without `--out`.
pub(crate) fn resumed(
    resumed: Resumed,
    beside: Option<&Path>,
    out: Option<&Path>,
) -> anyhow::Result<PathBuf> {
    let (command, what) = resumed.words();
    if let Some(beside) = beside {
        let go_on = format!("kqps {command} --resume --out");
        return Err(bad_input(if beside.is_dir() {
            format!("--resume takes its folder by --out; to go on: {go_on} {}", beside.display())
        } else if resumed == Resumed::Run {
            format!(
                "--resume takes no study, since a run has its own; name its folder by --out, or leave it out for the \
                 newest one: {go_on} DIR"
            )
        } else {
            format!("--resume takes its folder by --out; to go on: {go_on} DIR")
        }));
    }
    out.map(Path::to_owned).or_else(|| newest(resumed)).ok_or_else(|| {
        let runs = runs();
        bad_input(format!("no unfinished {what} in {} to resume; name it with --out DIR", runs.display()))
    })
}

/// The newest unfinished comparison, or the newest unfinished run that is no comparison and no search. The names of
/// default folders sort by time.
fn newest(resumed: Resumed) -> Option<PathBuf> {
    let folders = std::fs::read_dir(runs()).ok()?.flatten().map(|entry| entry.path());
    let unfinished = |folder: &PathBuf| {
        kqps_observation::Store::read(&folder.join("run.sqlite")).is_ok_and(|run| {
            let is_wanted = (run.study == comparison::NAME) == (resumed == Resumed::Comparison);
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
