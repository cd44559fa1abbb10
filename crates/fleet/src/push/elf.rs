//! The header of a program's file (elf(5)): for which architecture it is, and whether it needs libraries.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
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

/// The length of the longest header, in bytes.
const HEADER: usize = 64;

/// The type of the entry that names a dynamic linker (`PT_INTERP`).
const INTERPRETER: u64 = 3;

/// Whether a program is started by a dynamic linker, which loads libraries that another host may lack.
pub(super) fn is_dynamic(program: &Path) -> io::Result<bool> {
    let mut file = File::open(program)?;
    let mut head = Vec::new();
    file.by_ref().take(HEADER as u64).read_to_end(&mut head)?;
    head.resize(HEADER, 0);
    let (is_long, is_big) = (head[4] == 2, head[5] == 2);
    let number = |bytes: &[u8]| {
        let add = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
        if is_big { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) }
    };
    // Where the table of entries begins, the length of an entry, and how many there are.
    let [place, length, count] = if is_long {
        [&head[32..40], &head[54..56], &head[56..58]].map(number)
    } else {
        [&head[28..32], &head[42..44], &head[44..46]].map(number)
    };
    for entry in 0..count {
        let mut kind = [0; 4];
        file.seek(SeekFrom::Start(place.saturating_add(entry * length)))?;
        file.read_exact(&mut kind)?;
        if number(&kind) == INTERPRETER {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file of a program for 64 bits with two entries of these types.
    fn program(kinds: [u32; 2], is_big: bool) -> tempfile::NamedTempFile {
        let bytes = |number: u32, length: usize| {
            let mut bytes = number.to_le_bytes()[..].to_vec();
            bytes.resize(length, 0);
            if is_big {
                bytes.reverse();
            }
            bytes
        };
        let mut head = b"\x7fELF\x02".to_vec();
        head.push(if is_big { 2 } else { 1 });
        head.resize(32, 0);
        head.extend(bytes(64, 8));
        head.resize(54, 0);
        let count = [56, 2].map(|number: u32| bytes(number, 4));
        // Numbers of two bytes.
        head.extend(
            count.iter().flat_map(|bytes| if is_big { bytes[2..].to_vec() } else { bytes[..2].to_vec() }),
        );
        head.resize(64, 0);
        for kind in kinds {
            head.extend(bytes(kind, 4));
            head.resize(head.len() + 52, 0);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), head).unwrap();
        file
    }

    #[test]
    fn a_program_with_an_interpreter_is_dynamic() {
        for is_big in [false, true] {
            assert!(is_dynamic(program([1, 3], is_big).path()).unwrap());
            assert!(!is_dynamic(program([1, 2], is_big).path()).unwrap(), "it may relocate itself");
        }
        let short = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(short.path(), "\x7fELF").unwrap();
        assert!(!is_dynamic(short.path()).unwrap());
    }
}
