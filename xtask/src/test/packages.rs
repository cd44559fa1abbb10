//! The Debian packages that tests use. Missing ones are installed if that is allowed. No service is started.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGINT, SIGTERM};

use kqps_programs::services::NoServices;
use kqps_programs::shell;

/// A package, and the sign of its presence, no matter how it was installed.
pub(crate) struct Package {
    name: &'static str,
    shown_by: Sign,
}

impl Package {
    /// A package that has this program.
    pub(crate) const fn with_program(name: &'static str, program: &'static str) -> Self {
        Self { name, shown_by: Sign::Program(program) }
    }
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
    Package { name: "bind9-dnsutils", shown_by: Sign::Program("dig") },
    Package { name: "chromium", shown_by: Sign::Program("chromium") },
    Package { name: "curl", shown_by: Sign::Program("curl") },
    Package { name: "dnsdist", shown_by: Sign::Program("dnsdist") },
    Package { name: "dnsperf", shown_by: Sign::Program("dnsperf") },
    Package {
        name: "fonts-dejavu-core",
        shown_by: Sign::File("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"),
    },
    Package { name: "iproute2", shown_by: Sign::Program("ip") },
    Package { name: "jq", shown_by: Sign::Program("jq") },
    Package { name: "knot", shown_by: Sign::Program("knotd") },
    Package { name: "knot-dnsutils", shown_by: Sign::Program("kxdpgun") },
    Package { name: "knot-resolver", shown_by: Sign::Program("kresd") },
    Package { name: "ldnsutils", shown_by: Sign::Program("ldns-verify-zone") },
    Package { name: "make", shown_by: Sign::Program("make") },
    Package { name: "nftables", shown_by: Sign::Program("nft") },
    Package { name: "nsd", shown_by: Sign::Program("nsd") },
    Package { name: "openssh-client", shown_by: Sign::Program("ssh") },
    Package { name: "openssh-server", shown_by: Sign::Program("sshd") },
    Package { name: "openssl", shown_by: Sign::Program("openssl") },
    Package { name: "pdns-backend-bind", shown_by: Sign::Library("pdns/libbindbackend.so") },
    Package { name: "pdns-recursor", shown_by: Sign::Program("pdns_recursor") },
    Package { name: "pdns-server", shown_by: Sign::Program("pdns_server") },
    Package { name: "pdns-tools", shown_by: Sign::Program("dnsreplay") },
    Package { name: "python3", shown_by: Sign::Program("python3") },
    Package { name: "python3-venv", shown_by: Sign::PythonModules("venv, ensurepip") },
    Package { name: "tcpdump", shown_by: Sign::Program("tcpdump") },
    Package { name: "tcpreplay", shown_by: Sign::Program("tcpreplay") },
    Package { name: "unbound", shown_by: Sign::Program("unbound") },
    Package { name: "util-linux", shown_by: Sign::Program("nsenter") },
];

/// The folder of libraries, with a subfolder for each architecture.
const LIBRARIES: &str = "/usr/lib";

/// Installs the missing packages of tests. If that is not allowed, it prints their names, and the tests that need
/// them report it again.
pub(super) fn install() -> Result<()> {
    if missing(PACKAGES).is_empty() {
        eprintln!("all {} packages are there", PACKAGES.len());
        return Ok(());
    }
    install_missing(PACKAGES)
}

/// The names of those packages that are not there.
pub(crate) fn missing(packages: &[Package]) -> Vec<&'static str> {
    packages.iter().filter(|package| !there(package)).map(|package| package.name).collect()
}

/// Installs those packages that are not there. If that is not allowed, it prints their names.
pub(crate) fn install_missing(packages: &[Package]) -> Result<()> {
    let missing = missing(packages);
    if missing.is_empty() {
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
    let _uninterrupted = Uninterrupted::begin()?;
    let _quiet = NoServices::begin().context("services cannot be kept from starting")?;
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

/// While it lives, an interrupt ends apt-get but not this program, so that what forbids services is removed in any case.
struct Uninterrupted {
    handlers: Vec<signal_hook::SigId>,
}

impl Uninterrupted {
    fn begin() -> Result<Self> {
        let ignored = Arc::new(AtomicBool::new(false));
        let handlers = [SIGINT, SIGTERM]
            .into_iter()
            .map(|signal| signal_hook::flag::register(signal, Arc::clone(&ignored)))
            .collect::<Result<_, _>>()?;
        Ok(Self { handlers })
    }
}

impl Drop for Uninterrupted {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
    }
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
}
