//! The program that is packaged: built with optimisation, and without symbols.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use kqps_proofs::shell;

use super::tools::musl;
use crate::workspace::{self, cargo};

/// Where musl-gcc finds the headers of the kernel, which musl does not have. They come after musl's own.
const KERNEL_HEADERS: &str = "-idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu";

/// The program against the system's C library.
pub(super) fn dynamic(asked: Option<&Path>) -> Result<PathBuf> {
    match asked {
        Some(program) => Ok(program.to_owned()),
        None => built_for(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH), &[]),
    }
}

/// The static program. An error if the given one is not static.
pub(super) fn fixed(asked: Option<&Path>) -> Result<PathBuf> {
    let program = if let Some(program) = asked {
        program.to_owned()
    } else {
        let underscored = musl().replace('-', "_");
        let compiler = (format!("CC_{underscored}"), "musl-gcc");
        built_for(&musl(), &[compiler, (format!("CFLAGS_{underscored}"), KERNEL_HEADERS)])?
    };
    ensure!(is_static(&fs::read(&program)?), "{} is not a static program", program.display());
    Ok(program)
}

/// Builds the program for a target with these variables. The folder of a target keeps it apart from builds that have the
/// paths of this machine in them.
fn built_for(target: &str, variables: &[(String, &str)]) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--release", "--package", "kqps", "--target", target]);
    // The variables would take the place of all flags of configuration files.
    build.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let places = Places::of_this_machine();
    build.arg("--config").arg(format!("build.rustflags={:?}", places.flags()));
    build.envs(variables.iter().map(|(name, value)| (name, value)));
    shell::run(&mut build).with_context(|| format!("kqps could not be built for {target}"))?;
    let built = workspace::metadata()?.target_directory.join(target).join("release/kqps");
    Ok(built)
}

/// The places on this machine that the compiler would write into the program: names of users and of servers are in them,
/// and the same source would give other bytes on another machine.
struct Places {
    /// The folder of cargo's downloads.
    cargo_home: PathBuf,
    /// The folders below it that have the crates' sources, each of them named after a server.
    sources: Vec<PathBuf>,
}

impl Places {
    fn of_this_machine() -> Self {
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
        Self::below(std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from))
    }

    fn below(cargo_home: PathBuf) -> Self {
        // A machine that has all sources in the repository has no such folder.
        let entries = fs::read_dir(cargo_home.join("registry/src")).into_iter().flatten();
        let mut sources: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        sources.sort();
        Self { cargo_home, sources }
    }

    /// The compiler's flags that give these places other names. The last that fits counts.
    fn flags(&self) -> Vec<String> {
        let flag = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
        let first = [flag(workspace::root(), "/kqps"), flag(&self.cargo_home, "/cargo")];
        first.into_iter().chain(self.sources.iter().map(|source| flag(source, "/crates"))).collect()
    }

    /// A place that stands in a program's bytes.
    fn in_program(&self, program: &[u8]) -> Option<String> {
        let servers = self.sources.iter().filter_map(|source| source.file_name());
        let home = self.cargo_home.as_os_str();
        let mut places = servers.chain([home]).filter(|place| !place.is_empty());
        let place = places.find(|place| contains(program, place.as_bytes()))?;
        Some(place.to_string_lossy().into_owned())
    }
}

/// Whether the bytes have this part, which is not empty.
fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Copies a program without its symbols, which are most of its size.
pub(super) fn strip(program: &Path, to: &Path) -> Result<()> {
    super::copy(program, to)?;
    shell::run(Command::new("strip").args(["--strip-all", "--remove-section=.comment"]).arg(to))?;
    if let Some(place) = Places::of_this_machine().in_program(&fs::read(to)?) {
        eprintln!("warning: {} has the path {place} of this machine in it", program.display());
    }
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(0o755))?)
}

/// Whether an ELF file for 64 bits names no interpreter: no program header has the type `PT_INTERP` (elf(5)).
fn is_static(elf: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let field = elf.get(at..at + bytes)?;
        Some(field.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte)))
    };
    let headers = || Some((number(32, 8)?, number(54, 2)?, number(56, 2)?));
    let (true, Some((first, bytes, count))) = (elf.starts_with(b"\x7fELF\x02\x01"), headers()) else {
        return false;
    };
    count > 0
        && (0..count)
            .all(|place| number(first + place * bytes, 4).is_some_and(|kind| kind != PT_INTERP as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with program headers of these types and nothing else.
    fn elf(types: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = types.len() as u8;
        for kind in types {
            bytes.extend(kind.to_le_bytes());
            bytes.extend([0; 52]);
        }
        bytes
    }

    #[test]
    fn a_static_program_names_no_interpreter() {
        assert!(is_static(&elf(&[6, 1, 1])));
        assert!(!is_static(&elf(&[6, 3, 1])));
        assert!(!is_static(&elf(&[])));
        assert!(!is_static(b"#!/bin/sh"));
        // The tests themselves are linked to the system's C library.
        assert!(!is_static(&fs::read(std::env::current_exe().unwrap()).unwrap()));
    }

    #[test]
    fn no_place_of_the_builder_is_in_the_program() {
        let home = tempfile::tempdir().unwrap();
        let source = home.path().join("registry/src/index.example-0a");
        fs::create_dir_all(&source).unwrap();
        let places = Places::below(home.path().to_owned());
        let flags = places.flags();
        let root = workspace::root().display();
        assert_eq!(flags[0], format!("--remap-path-prefix={root}=/kqps"));
        // The compiler takes the last that fits, so the longest comes last.
        assert_eq!(flags[2], format!("--remap-path-prefix={}=/crates", source.display()));
        assert_eq!(places.in_program(b"/crates/serde-1.0.0/src/lib.rs"), None);
        let named = format!("0{}/git/x.rs", home.path().display());
        assert_eq!(places.in_program(named.as_bytes()), Some(home.path().display().to_string()));
        assert_eq!(places.in_program(b"a/index.example-0a/b").as_deref(), Some("index.example-0a"));
    }
}
