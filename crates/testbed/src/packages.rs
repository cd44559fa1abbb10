//! Installs the Debian packages of missing name servers, and of programs that their settings need, for users who run kqps from a checkout. `cargo run`
//! sets [`VARIABLE`]; an installed kqps does not, so no other user is surprised. It starts no service.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use kqps_kernel::interrupts::Interrupts;
use kqps_observation::Cell;
use kqps_programs::services::NoServices;

use crate::subject::setting::Need;
use crate::subject::{Definition, must_be_installed, programs};

/// The environment variable that permits the installation of packages if its value is `debian`.
/// `.cargo/config.toml` sets it for runs through cargo.
pub const VARIABLE: &str = "KQPS_INSTALL_SUBJECTS";

/// Packages of subjects whose programs are not on this host, each once, in the order of the subjects.
pub fn missing(subjects: &[Definition]) -> Vec<String> {
    let absent = |subject: &&Definition| must_be_installed(subject).is_err();
    let mut packages = Vec::new();
    for package in subjects.iter().filter(absent).filter_map(|subject| subject.package.as_ref()) {
        if !packages.contains(package) {
            packages.push(package.clone());
        }
    }
    packages
}

/// The program that a cell's subject needs with its settings and that is not on this host; `None` if there is none.
pub fn lacking<'a>(cell: &'a Cell, definitions: &'a BTreeMap<String, Definition>) -> Option<&'a Need> {
    let definition = definitions.get(&cell.subject)?;
    definition.needs(cell.factors.words()).find(|need| programs::find(&need.program).is_none())
}

/// Whether packages may be installed here: requested by [`VARIABLE`], on Debian, as root.
///
/// # Errors
///
/// The first of these conditions that does not hold, as a reason in words.
pub fn allowed() -> Result<(), String> {
    if std::env::var(VARIABLE).as_deref() != Ok("debian") {
        return Err("kqps installs nothing by itself".into());
    }
    if !Path::new("/etc/debian_version").exists() || programs::find("apt-get").is_none() {
        return Err("this is no Debian system".into());
    }
    // The owner of our own folder in /proc is our effective user.
    match fs::metadata("/proc/self").map(|facts| facts.uid()) {
        Ok(0) => Ok(()),
        _ => Err("only root may install packages".into()),
    }
}

/// Installs packages, and returns the failed ones, each with its reason. It passes each name to `announce` before
/// it begins. `interrupts` end it after the current step.
pub fn install(
    packages: &[String],
    interrupts: &Interrupts,
    mut announce: impl FnMut(&str),
) -> Vec<(String, String)> {
    let policy = match NoServices::begin() {
        Ok(policy) => policy,
        Err(error) => {
            let reason = format!("services cannot be kept from starting: {error}");
            return packages.iter().map(|package| (package.clone(), reason.clone())).collect();
        }
    };
    let mut failed = Vec::new();
    let mut updated = false;
    for package in packages {
        if interrupts.is_asked() {
            break;
        }
        announce(package);
        let mut outcome = apt_get(&["install", "--yes", "--no-install-recommends", package]);
        if outcome.is_err() && !updated && !interrupts.is_asked() {
            updated = true;
            // Missing or old package lists are the usual cause. If this fails too, the next attempt also fails.
            let _ = apt_get(&["update"]);
            outcome = apt_get(&["install", "--yes", "--no-install-recommends", package]);
        }
        if let Err(reason) = outcome {
            failed.push((package.clone(), reason));
        }
    }
    drop(policy);
    failed
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("apt-get")
        .args(["--quiet", "-o", "DPkg::Lock::Timeout=60", "-o", "Acquire::Retries=1"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("apt-get: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
    Err(format!("apt-get {} failed: {}", arguments[0], last.trim()))
}

#[cfg(test)]
mod tests {
    use kqps_observation::Factors;

    use super::*;
    use crate::subject::builtin;

    #[test]
    fn packages_of_absent_programs_are_missing() {
        let mut subjects = builtin::of_default_study();
        for subject in &mut subjects {
            subject.programs = vec!["no-such-program-anywhere".into()];
        }
        assert_eq!(missing(&subjects), ["nsd", "knot", "bind9"]);
        subjects[1].programs = vec!["sh".into()];
        assert_eq!(missing(&subjects), ["nsd", "bind9"]);
    }

    #[test]
    fn a_value_of_a_setting_may_need_a_program() {
        let mut front = builtin::servers().into_iter().find(|definition| definition.name == "front").unwrap();
        let need = |program: &str| Need { program: program.into(), package: "its-package".into() };
        let setting = front.settings.get_mut("front").unwrap();
        setting.needs =
            [("dnsdist".into(), need("no-such-program-anywhere")), ("none".into(), need("sh"))].into();
        let definitions = [("front".to_owned(), front)].into();
        let of = |words: &[(&str, &str)]| {
            let words = words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned()));
            let factors = Factors::read(words).unwrap();
            let cell = Cell { subject: "front".into(), factors, ..Cell::default() };
            lacking(&cell, &definitions).map(|need| need.program.clone())
        };
        assert_eq!((of(&[]), of(&[("front", "none")])), (None, None));
        assert_eq!(of(&[("front", "dnsdist")]).as_deref(), Some("no-such-program-anywhere"));
    }
}
