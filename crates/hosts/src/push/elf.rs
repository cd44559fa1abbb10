//! The header of a program's file (elf(5)).

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Architectures by the number in the header of a program (elf(5), `e_machine`), and as `uname -m` names them.
pub(super) const ARCHES: [(u16, &str, &[&str]); 8] = [
    (0x3e, "x86_64", &["x86_64", "amd64"]),
    (0xb7, "aarch64", &["aarch64", "arm64"]),
    (0xf3, "riscv64", &["riscv64"]),
    (0x15, "powerpc64", &["ppc64le", "ppc64"]),
    (0x16, "s390x", &["s390x"]),
    (0x102, "loongarch64", &["loongarch64"]),
    (0x28, "arm", &["armv6l", "armv7l", "armv8l"]),
    (0x03, "x86", &["i386", "i486", "i586", "i686"]),
];

/// The architecture of a program's file.
pub(super) fn arch_of(program: &Path) -> io::Result<&'static str> {
    let mut head = [0; 20];
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    File::open(program)?.read_exact(&mut head).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => wrong("it is no program"),
        _ => error,
    })?;
    if head[..4] != *b"\x7fELF" {
        return Err(wrong("it is no program (ELF)"));
    }
    let number = [head[18], head[19]];
    // The sixth byte says which end comes first.
    let number = if head[5] == 2 { u16::from_be_bytes(number) } else { u16::from_le_bytes(number) };
    let arch = ARCHES.iter().find(|(known, ..)| *known == number).map(|(_, name, _)| *name);
    arch.ok_or_else(|| wrong("it is for an architecture that kqps does not know"))
}
