//! The Debian packages that tests use. What is missing is installed where that is allowed, and no service is
//! started by it.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::shell;

/// A package and how one sees that it is there, whoever installed it.
struct Package {
    name: &'static str,
    shown_by: Sign,
}

/// What shows that a package is there.
enum Sign {
    /// A program by this name.
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

/// Where libraries are, each architecture's in a folder of its own.
const LIBRARIES: &str = "/usr/lib";

/// Debian asks this program before it starts a service that was just installed.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// What ours says: 101 is "forbidden by policy" (invoke-rc.d(8)). The comment lets a later run know its own
/// file again after a power cut.
const FORBID: &str = "#!/bin/sh\n# Made by `cargo xtask test`, which removes it again.\nexit 101\n";

/// Installs what is missing. Where that is not allowed it says what is missing, and the tests that need it
/// say so once more.
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

/// Whether a package of the list above is there.
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

/// Whether there is such a file below `libraries`, whatever the architecture is called.
fn has_library(libraries: &Path, path: &str) -> bool {
    let architectures = fs::read_dir(libraries).into_iter().flatten().flatten().map(|entry| entry.path());
    [libraries.to_owned()].into_iter().chain(architectures).any(|folder| folder.join(path).is_file())
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.arg("-qq").env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// While it lives, no package may start a service, unless the host has a policy of its own, which is left
/// alone. An interrupt then ends apt-get but not us, so that the policy is removed all the same.
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

/// Puts our policy at `path` unless another one is there; says whether the one there is ours.
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
