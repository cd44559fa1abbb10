//! The functions in an ELF file, by its symbol table (System V ABI, chapters 4 and 5). Only files of 64 bits in little
//! endian, as all machines that kqps runs on have.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// A longer table is not read.
const TABLE_BYTES_MOST: u64 = 1 << 28;

/// The functions of one file.
#[derive(Debug, Default)]
pub(super) struct Functions {
    /// In the order of their addresses.
    functions: Vec<Function>,
    /// The names, each with a zero byte after it.
    names: Vec<u8>,
    /// The parts of the file that are loaded: place in the file, length and address.
    loaded: Vec<(u64, u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Function {
    address: u64,
    bytes: u64,
    name: u32,
}

/// A table in the file.
#[derive(Clone, Copy, Debug)]
struct Section {
    kind: u32,
    offset: u64,
    bytes: u64,
    /// For symbols: the section with their names.
    link: u32,
}

const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const PT_LOAD: u32 = 1;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
const SYMBOL_BYTES: usize = 24;

impl Functions {
    /// Reads the symbols of a file: all if the file still has them, or those for the dynamic linker. A file without any
    /// has no functions.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut header = [0; 64];
        file.read_exact_at(&mut header, 0)?;
        if header[..6] != *b"\x7fELF\x02\x01" {
            return Err(io::Error::other("no ELF file of 64 bits in little endian"));
        }
        let loaded = loaded(&file, &header)?;
        let sections = sections(&file, &header)?;
        let of_kind = |kind| sections.iter().find(|section| section.kind == kind && section.bytes > 0);
        let Some(symbols) = of_kind(SHT_SYMTAB).or(of_kind(SHT_DYNSYM)) else {
            return Ok(Self { loaded, ..Self::default() });
        };
        let strings = sections.get(symbols.link as usize).ok_or(io::Error::other("symbols without names"))?;
        let (table, names) = (read(&file, symbols)?, read(&file, strings)?);
        let mut functions: Vec<Function> = table.chunks_exact(SYMBOL_BYTES).filter_map(function).collect();
        functions.sort_by_key(|function| (function.address, function.bytes));
        Ok(Self { functions, names, loaded })
    }

    /// The name of the function that the byte at this place in the file belongs to, as the symbol has it.
    pub(super) fn name_at(&self, offset: u64) -> Option<&str> {
        let is_within =
            |&&(start, bytes, _): &&(u64, u64, u64)| (start..start.saturating_add(bytes)).contains(&offset);
        let &(start, _, address) = self.loaded.iter().find(is_within)?;
        let address = address.wrapping_add(offset - start);
        let after = self.functions.partition_point(|function| function.address <= address);
        let function = self.functions[..after].last()?;
        // Functions in assembly may have no length.
        if function.bytes > 0 && address >= function.address.saturating_add(function.bytes) {
            return None;
        }
        let name = self.names.get(function.name as usize..)?;
        let end = name.iter().position(|byte| *byte == 0)?;
        str::from_utf8(&name[..end]).ok().filter(|name| !name.is_empty())
    }
}

/// A symbol, if it is a function that the file defines.
fn function(symbol: &[u8]) -> Option<Function> {
    let kind = symbol[4] & 0xf;
    let is_defined = half(symbol, 6) != 0;
    (is_defined && matches!(kind, STT_FUNC | STT_GNU_IFUNC)).then(|| Function {
        address: xword(symbol, 8),
        bytes: xword(symbol, 16),
        name: word(symbol, 0),
    })
}

fn loaded(file: &File, header: &[u8; 64]) -> io::Result<Vec<(u64, u64, u64)>> {
    let table = entries(file, xword(header, 32), (half(header, 54), half(header, 56)), 56)?;
    let parts = table.iter().filter(|entry| word(entry, 0) == PT_LOAD);
    Ok(parts.map(|entry| (xword(entry, 8), xword(entry, 32), xword(entry, 16))).collect())
}

fn sections(file: &File, header: &[u8; 64]) -> io::Result<Vec<Section>> {
    let table = entries(file, xword(header, 40), (half(header, 58), half(header, 60)), 64)?;
    let section = |entry: &Vec<u8>| Section {
        kind: word(entry, 4),
        offset: xword(entry, 24),
        bytes: xword(entry, 32),
        link: word(entry, 40),
    };
    Ok(table.iter().map(section).collect())
}

/// The entries of a table whose size and number the header has. Each must have `least` bytes.
fn entries(file: &File, offset: u64, (size, count): (u16, u16), least: u16) -> io::Result<Vec<Vec<u8>>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if size < least {
        return Err(io::Error::other("a table with entries that are too short"));
    }
    let mut table = vec![0; usize::from(size) * usize::from(count)];
    file.read_exact_at(&mut table, offset)?;
    Ok(table.chunks_exact(usize::from(size)).map(<[u8]>::to_vec).collect())
}

fn read(file: &File, section: &Section) -> io::Result<Vec<u8>> {
    if section.bytes > TABLE_BYTES_MOST || section.bytes > file.metadata()?.len() {
        return Err(io::Error::other("a table that is too long"));
    }
    let mut bytes = vec![0; section.bytes as usize];
    file.read_exact_at(&mut bytes, section.offset)?;
    Ok(bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn xword(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one loaded part, in which `answer` is 16 bytes long and `start` has no length.
    fn file() -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, b"\x7fELF\x02\x01");
        put(32, &64u64.to_le_bytes());
        put(40, &0x100u64.to_le_bytes());
        put(54, &56u16.to_le_bytes());
        put(56, &1u16.to_le_bytes());
        put(58, &64u16.to_le_bytes());
        put(60, &3u16.to_le_bytes());
        // The loaded part: from 0x300 on, at address 0x5000.
        put(64, &PT_LOAD.to_le_bytes());
        put(64 + 8, &0x300u64.to_le_bytes());
        put(64 + 16, &0x5000u64.to_le_bytes());
        put(64 + 32, &0x100u64.to_le_bytes());
        // The symbols and their names.
        put(0x140 + 4, &SHT_SYMTAB.to_le_bytes());
        put(0x140 + 24, &0x200u64.to_le_bytes());
        put(0x140 + 32, &(3 * SYMBOL_BYTES as u64).to_le_bytes());
        put(0x140 + 40, &2u32.to_le_bytes());
        put(0x180 + 24, &0x280u64.to_le_bytes());
        put(0x180 + 32, &15u64.to_le_bytes());
        put(0x280, b"\0answer\0start\0");
        for (number, (name, kind, address, size)) in
            [(8u32, STT_FUNC, 0x5040u64, 0u64), (1, STT_FUNC, 0x5010, 16), (1, 1, 0x5000, 8)]
                .iter()
                .enumerate()
        {
            let at = 0x200 + number * SYMBOL_BYTES;
            put(at, &name.to_le_bytes());
            put(at + 4, &[*kind]);
            put(at + 6, &1u16.to_le_bytes());
            put(at + 8, &address.to_le_bytes());
            put(at + 16, &size.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn an_address_belongs_to_the_function_around_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, file()).unwrap();
        let functions = Functions::open(&path).unwrap();
        let at = [0x30f, 0x310, 0x31f, 0x320, 0x340, 0x3f0].map(|offset| functions.name_at(offset));
        assert_eq!(at, [None, Some("answer"), Some("answer"), None, Some("start"), Some("start")]);
        assert_eq!(functions.name_at(0x400), None, "nothing is loaded there");
    }

    #[test]
    fn no_bytes_are_read_beyond_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let whole = file();
        for cut in [0, 63, 0x100, 0x1ff, 0x210, 0x285] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(Functions::open(&path).is_err(), "{cut}");
        }
        let mut long = whole;
        long[0x140 + 32..0x148 + 32].copy_from_slice(&u64::MAX.to_le_bytes());
        std::fs::write(&path, &long).unwrap();
        assert!(Functions::open(&path).is_err());
    }

    #[test]
    fn this_program_has_functions() {
        let functions = Functions::open(&std::env::current_exe().unwrap()).unwrap();
        assert!(!functions.functions.is_empty());
    }
}
