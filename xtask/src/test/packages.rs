//! The Debian packages that tests use. Missing ones are installed if that is allowed. No service is started.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGINT, SIGTERM};

use kqps_proofs::shell;

/// A package, and the sign of its presence, no matter how it was installed.
struct Package {
    name: &'static str,
    shown_by: Sign,
}

enum Sign {
    /// A program of this name.
    Program(&'static str),
    /// This file.
    File(&'static str),
    /// This file in the folder of libraries, or in that of any architecture (Debian policy, section 9.1.1).
    Library(&'static str),
    /// Python can import these modules.
    PythonModules(&'static str),
}

/// Every package that a test, a proof or `xtask peers` uses.
const PACKAGES: &[Package] = &[
    Package { name: "bind9", shown_by: Sign::Program("named") },
    Package { name: "chromium", shown_by: Sign::Program("chromium") },
    Package { name: "dnsdist", shown_by: Sign::Program("dnsdist") },
    Package { name: "dnsperf", shown_by: Sign::Program("dnsperf") },
    Package {
        name: "fonts-dejavu-core",
        shown_by: Sign::File("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"),
    },
    Package { name: "knot", shown_by: Sign::Program("knotd") },
    Package { name: "knot-dnsutils", shown_by: Sign::Program("kxdpgun") },
    Package { name: "nftables", shown_by: Sign::Program("nft") },
    Package { name: "nsd", shown_by: Sign::Program("nsd") },
    Package { name: "pdns-backend-bind", shown_by: Sign::Library("pdns/libbindbackend.so") },
    Package { name: "pdns-recursor", shown_by: Sign::Program("pdns_recursor") },
    Package { name: "pdns-server", shown_by: Sign::Program("pdns_server") },
    Package { name: "python3", shown_by: Sign::Program("python3") },
    Package { name: "python3-venv", shown_by: Sign::PythonModules("venv, ensurepip") },
    Package { name: "unbound", shown_by: Sign::Program("unbound") },
];

/// The folder of libraries, with a subfolder for each architecture.
const LIBRARIES: &str = "/usr/lib";

/// The program that Debian asks before it starts a newly installed service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Our own policy. Status 101 is "forbidden by policy" (invoke-rc.d(8)). By the comment, a later run
/// recognises its own file after a power cut.
const FORBID: &str = "#!/bin/sh\n# Made by `cargo xtask test`, which removes it again.\nexit 101\n";

/// Installs the missing packages. If that is not allowed, it prints their names, and the tests that need
/// them report it again.
pub(super) fn install() -> Result<()> {
    let missing: Vec<&str> = PACKAGES.iter().filter(|package| !there(package)).map(|p| p.name).collect();
    if missing.is_empty() {
        eprintln!("all {} packages are there", PACKAGES.len());
        return Ok(());
    }
    let list = missing.join(" ");
    if shell::find("apt-get").is_none() {
        eprintln!("these programs' Debian packages are missing, and there is no apt-get here: {list}");
        return Ok(());
    }
    if shell::read(Command::new("id").arg("-u"))?.trim() != "0" {
        eprintln!(
            "these Debian packages are missing, and only root may install them: apt-get install {list}"
        );
        return Ok(());
    }
    eprintln!("installing {list}");
    let _quiet = NoServices::begin()?;
    shell::run(apt_get().arg("update"))?;
    shell::run(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(&missing))
}

pub(super) fn has(name: &str) -> bool {
    PACKAGES.iter().any(|package| package.name == name && there(package))
}

fn there(package: &Package) -> bool {
    match package.shown_by {
        Sign::Program(program) => shell::find(program).is_some(),
        Sign::File(path) => Path::new(path).is_file(),
        Sign::Library(path) => has_library(Path::new(LIBRARIES), path),
        Sign::PythonModules(modules) => {
            let import = format!("import {modules}");
            shell::read(Command::new("python3").args(["-c", &import])).is_ok()
        }
    }
}

/// Whether there is such a file below `libraries`, for any architecture.
fn has_library(libraries: &Path, path: &str) -> bool {
    let architectures = fs::read_dir(libraries).into_iter().flatten().flatten().map(|entry| entry.path());
    [libraries.to_owned()].into_iter().chain(architectures).any(|folder| folder.join(path).is_file())
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.arg("-qq").env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// While it lives, no package may start a service. A policy of the host's own stays unchanged. An interrupt
/// ends apt-get but not this program, so that the policy is removed in any case.
struct NoServices {
    ours: bool,
    handlers: Vec<signal_hook::SigId>,
}

impl NoServices {
    fn begin() -> Result<Self> {
        let ignored = Arc::new(AtomicBool::new(false));
        let handlers = [SIGINT, SIGTERM]
            .into_iter()
            .map(|signal| signal_hook::flag::register(signal, Arc::clone(&ignored)))
            .collect::<Result<_, _>>()?;
        // From here on the drop below cleans up, whatever happens.
        let mut guard = Self { ours: false, handlers };
        guard.ours = forbid(Path::new(POLICY))?;
        Ok(guard)
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = fs::remove_file(POLICY)
        {
            eprintln!("cannot remove {POLICY}, which this command made: {error}");
        }
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
    }
}

/// Puts our policy at `path`, unless there is another one. Returns whether the policy there is ours.
fn forbid(path: &Path) -> Result<bool> {
    match fs::read(path) {
        Ok(found) => return Ok(found == FORBID.as_bytes()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
    fs::write(path, FORBID).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_whatever_the_architecture() {
        for folder in ["aarch64-linux-gnu/pdns", "x86_64-linux-gnu/pdns", "pdns"] {
            let libraries = tempfile::tempdir().unwrap();
            assert!(!has_library(libraries.path(), "pdns/libbindbackend.so"));
            fs::create_dir_all(libraries.path().join(folder)).unwrap();
            assert!(!has_library(libraries.path(), "pdns/libbindbackend.so"), "{folder} is empty");
            fs::write(libraries.path().join(folder).join("libbindbackend.so"), "").unwrap();
            assert!(has_library(libraries.path(), "pdns/libbindbackend.so"), "{folder}");
        }
    }

    #[test]
    fn a_policy_of_the_hosts_own_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy-rc.d");
        assert!(forbid(&path).unwrap(), "none was there, so ours was put there");
        assert!(forbid(&path).unwrap(), "ours is known again");
        fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
        assert!(!forbid(&path).unwrap(), "another one is not ours");
        assert_eq!(fs::read_to_string(&path).unwrap(), "#!/bin/sh\nexit 0\n");
    }
}
