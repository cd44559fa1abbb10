//! The program that is packaged: built with optimisation, and without symbols.

use std::fs;
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
    workspace::program(asked)
}

/// The static program. An error if the given one is not static.
pub(super) fn fixed(asked: Option<&Path>) -> Result<PathBuf> {
    let program = match asked {
        Some(program) => program.to_owned(),
        None => static_build()?,
    };
    ensure!(is_static(&fs::read(&program)?), "{} is not a static program", program.display());
    Ok(program)
}

fn static_build() -> Result<PathBuf> {
    let target = musl();
    let underscored = target.replace('-', "_");
    let mut build = cargo();
    build.args(["build", "--release", "--package", "kqps", "--target", &target]);
    build.env(format!("CC_{underscored}"), "musl-gcc").env(format!("CFLAGS_{underscored}"), KERNEL_HEADERS);
    shell::run(&mut build).with_context(|| format!("kqps could not be built for {target}"))?;
    Ok(workspace::metadata()?.target_directory.join(target).join("release/kqps"))
}

/// Copies a program without its symbols, which are most of its size.
pub(super) fn strip(program: &Path, to: &Path) -> Result<()> {
    super::copy(program, to)?;
    shell::run(Command::new("strip").args(["--strip-all", "--remove-section=.comment"]).arg(to))?;
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
}
