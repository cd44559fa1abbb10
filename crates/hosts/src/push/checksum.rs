//! The checksum of cksum(1), which every POSIX system can compute.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The generator (ISO/IEC 8802-3, as POSIX has it).
const POLYNOMIAL: u32 = 0x04c1_1db7;

/// What each first byte of the remainder adds.
static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut remainder = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            let is_set = remainder & 0x8000_0000 != 0;
            remainder <<= 1;
            if is_set {
                remainder ^= POLYNOMIAL;
            }
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
}

/// The checksum and the length of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checksum {
    pub(super) sum: u32,
    pub(super) bytes: u64,
}

impl Checksum {
    /// Reads a whole file.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut piece = vec![0; 1 << 16];
        let (mut remainder, mut bytes) = (0, 0);
        loop {
            let count = file.read(&mut piece)?;
            if count == 0 {
                break;
            }
            remainder = added(remainder, &piece[..count]);
            bytes += count as u64;
        }
        // The length follows the content, its lowest byte first, without the zeros at its end.
        let length = bytes.to_le_bytes();
        let used = length.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Ok(Self { sum: !added(remainder, &length[..used]), bytes })
    }
}

fn added(remainder: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(remainder, |remainder, byte| {
        (remainder << 8) ^ TABLE[usize::from((remainder >> 24) as u8 ^ byte)]
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn it_is_that_of_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let long: Vec<u8> = (0..200_000_u32).map(|number| (number * 7 + number / 256) as u8).collect();
        for content in [&b""[..], b"123456789", b"\0\0\0", &long] {
            std::fs::write(&path, content).unwrap();
            let Checksum { sum, bytes } = Checksum::of(&path).unwrap();
            let program = Command::new("cksum").stdin(File::open(&path).unwrap()).output().unwrap();
            assert_eq!(String::from_utf8(program.stdout).unwrap().trim(), format!("{sum} {bytes}"));
        }
        std::fs::write(&path, "123456789").unwrap();
        assert_eq!(Checksum::of(&path).unwrap(), Checksum { sum: 930_766_865, bytes: 9 });
    }
}
