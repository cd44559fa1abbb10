//! The functions in an ELF file, by its symbol table (System V ABI, chapters 4 and 5). Only files of 64 bits in little
//! endian, as all machines that kqps runs on have.

use std::error::Error;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::path::Path;

use object::LittleEndian;
use object::elf::{FileHeader64, PT_LOAD, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC, Sym64};
use object::read::ReadCache;
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};

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

impl Functions {
    /// Reads the symbols of a file: all if the file still has them, or those for the dynamic linker. A file without any
    /// has no functions.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::read(&ReadCache::new(File::open(path)?)).map_err(io::Error::other)
    }

    fn read(file: &ReadCache<File>) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let order = LittleEndian;
        let header =
            FileHeader64::<LittleEndian>::parse(file).ok().filter(|header| header.is_little_endian());
        let header = header.ok_or("no ELF file of 64 bits in little endian")?;
        let parts = header.program_headers(order, file)?.iter().filter(|part| part.p_type(order) == PT_LOAD);
        let loaded =
            parts.map(|part| (part.p_offset(order), part.p_filesz(order), part.p_vaddr(order))).collect();
        let sections = header.section_headers(order, file)?;
        let of_kind = |kind| {
            sections.iter().find(|section| section.sh_type(order) == kind && section.sh_size(order) > 0)
        };
        let Some(symbols) = of_kind(SHT_SYMTAB).or_else(|| of_kind(SHT_DYNSYM)) else {
            return Ok(Self { loaded, ..Self::default() });
        };
        let names = sections.get(symbols.sh_link(order) as usize).ok_or("symbols without names")?;
        if symbols.sh_size(order).max(names.sh_size(order)) > TABLE_BYTES_MOST {
            return Err("a table that is too long".into());
        }
        let symbols: &[Sym64<LittleEndian>] = symbols.data_as_array(order, file)?;
        let is_function = |symbol: &&Sym64<LittleEndian>| {
            !symbol.is_undefined(order) && matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC)
        };
        let function = |symbol: &Sym64<LittleEndian>| Function {
            address: symbol.st_value(order),
            bytes: symbol.st_size(order),
            name: symbol.st_name(order),
        };
        let mut functions: Vec<Function> = symbols.iter().filter(is_function).map(function).collect();
        functions.sort_by_key(|function| (function.address, function.bytes));
        Ok(Self { functions, names: names.data(order, file)?.to_vec(), loaded })
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
        let name = CStr::from_bytes_until_nul(self.names.get(function.name as usize..)?).ok()?;
        name.to_str().ok().filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOL_BYTES: usize = size_of::<Sym64<LittleEndian>>();

    /// A file with one loaded part, in which `answer` is 16 bytes long and `start` has no length.
    fn file() -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, b"\x7fELF\x02\x01\x01");
        put(32, &64u64.to_le_bytes());
        put(40, &0x100u64.to_le_bytes());
        put(54, &56u16.to_le_bytes());
        put(56, &1u16.to_le_bytes());
        put(58, &64u16.to_le_bytes());
        put(60, &3u16.to_le_bytes());
        // The loaded part: from 0x300 on, at address 0x5000.
        put(64, &PT_LOAD.0.to_le_bytes());
        put(64 + 8, &0x300u64.to_le_bytes());
        put(64 + 16, &0x5000u64.to_le_bytes());
        put(64 + 32, &0x100u64.to_le_bytes());
        // The symbols and their names.
        put(0x140 + 4, &SHT_SYMTAB.0.to_le_bytes());
        put(0x140 + 24, &0x200u64.to_le_bytes());
        put(0x140 + 32, &(3 * SYMBOL_BYTES as u64).to_le_bytes());
        put(0x140 + 40, &2u32.to_le_bytes());
        put(0x180 + 24, &0x280u64.to_le_bytes());
        put(0x180 + 32, &15u64.to_le_bytes());
        put(0x280, b"\0answer\0start\0");
        for (number, (name, kind, address, size)) in
            [(8u32, STT_FUNC.0, 0x5040u64, 0u64), (1, STT_FUNC.0, 0x5010, 16), (1, 1, 0x5000, 8)]
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
    fn only_files_of_this_kind_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        for (at, byte) in [(0, b'#'), (4, 1), (5, 2)] {
            let mut bytes = file();
            bytes[at] = byte;
            std::fs::write(&path, &bytes).unwrap();
            let error = Functions::open(&path).unwrap_err().to_string();
            assert_eq!(error, "no ELF file of 64 bits in little endian");
        }
    }

    #[test]
    fn this_program_has_functions() {
        let functions = Functions::open(&std::env::current_exe().unwrap()).unwrap();
        assert!(!functions.functions.is_empty());
    }
}
