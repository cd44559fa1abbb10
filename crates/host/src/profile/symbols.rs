//! Names of functions by their addresses: those of the kernel from `/proc/kallsyms`, those of programs from their
//! files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kqps_kernel::perf::Frame;

use super::classify::{Name, UNNAMED};
use super::demangle::demangled;
use super::elf::Functions;

/// The kernel's functions in the order of their addresses; none if they are hidden.
#[derive(Debug, Default)]
pub(super) struct Kernel(Vec<(u64, Box<str>)>);

impl Kernel {
    /// Reads the kernel's names, if this process may see them.
    pub(super) fn read() -> Self {
        let file = fs::File::open("/proc/kallsyms").ok();
        file.map_or_else(Self::default, |file| {
            Self::of_lines(BufReader::new(file).lines().map_while(Result::ok))
        })
    }

    /// The functions in the lines of `/proc/kallsyms`: `ffffffff81000000 T startup_64`, and of modules with their name
    /// behind. None if the addresses are hidden.
    pub(super) fn of_lines(lines: impl Iterator<Item = String>) -> Self {
        let function = |line: String| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            (is_code && address > 0).then_some((address, words.next()?.into()))
        };
        let mut functions: Vec<(u64, Box<str>)> = lines.filter_map(function).collect();
        functions.sort();
        Self(functions)
    }

    /// The function at an address, or `[kernel]`.
    pub(super) fn name(&self, address: u64) -> &str {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        self.0[..after].last().map_or(UNNAMED, |(_, name)| name)
    }
}

/// Names that were looked up.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    kernel: Arc<Kernel>,
    /// Process → the files in its memory.
    maps: HashMap<u32, Vec<Mapped>>,
    /// Where a file is read → its functions; `None` if it cannot be read.
    files: HashMap<PathBuf, Option<Functions>>,
    /// File name → why its functions are not known.
    unnamed: BTreeMap<String, String>,
}

/// A part of a file in the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
    /// Whether the file was removed or replaced since.
    is_gone: bool,
}

impl Symbols {
    /// Looks up names among these of the kernel.
    pub(super) fn new(kernel: Arc<Kernel>, unreadable: &mut BTreeMap<String, String>) -> Self {
        if kernel.0.is_empty() {
            let why = "the addresses in /proc/kallsyms are hidden (CAP_SYSLOG, or kernel.kptr_restrict of 0)";
            unreadable.insert("names of the kernel".into(), why.into());
        }
        Self { kernel, ..Self::default() }
    }

    /// The names of the functions in a call chain of a process.
    pub(super) fn names(&mut self, pid: u32, frames: &[Frame]) -> Vec<Name> {
        let name = |(place, frame): (usize, &Frame)| match *frame {
            Frame::Kernel(address) => Name { text: self.kernel.name(address).to_owned(), kernel: true },
            // A return address may be the first one behind a function that does not return.
            Frame::User(address) => {
                let is_innermost = place == 0 || matches!(frames[place - 1], Frame::Kernel(_));
                let address = if is_innermost { address } else { address.saturating_sub(1) };
                Name { text: self.of_program(pid, address), kernel: false }
            }
        };
        frames.iter().enumerate().map(name).collect()
    }

    /// Adds the files whose functions are not known.
    pub(super) fn report(self, unreadable: &mut BTreeMap<String, String>) {
        unreadable.extend(self.unnamed.into_iter().map(|(file, why)| (format!("names of {file}"), why)));
    }

    fn of_program(&mut self, pid: u32, address: u64) -> String {
        let maps = self
            .maps
            .entry(pid)
            .or_insert_with(|| mapped(&fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()));
        let is_within = |part: &&Mapped| (part.start..part.end).contains(&address);
        let Some(part) = maps.iter().find(is_within) else { return "[unknown]".into() };
        let file = part.path.rsplit('/').next().unwrap_or_default();
        if !part.path.starts_with('/') {
            // `[vdso]` and the like.
            return if file.is_empty() { "[unnamed memory]".into() } else { file.to_owned() };
        }
        let Some((known_as, opened_at)) = part.place(pid) else {
            self.unnamed.insert(file.to_owned(), GONE.into());
            return format!("[{file}]");
        };
        let unnamed = &mut self.unnamed;
        let functions = self.files.entry(known_as).or_insert_with(|| {
            let opened = Functions::open(&opened_at);
            opened.map_err(|error| unnamed.insert(file.to_owned(), error.to_string())).ok()
        });
        let offset = (address - part.start).wrapping_add(part.offset);
        let name = functions.as_ref().and_then(|functions| functions.name_at(offset));
        name.map_or_else(|| format!("[{file}]"), demangled)
    }
}

/// Why a file that was removed or replaced names no functions.
const GONE: &str = "the file was removed or replaced since the server read it";

impl Mapped {
    /// The name under which the file's functions are kept, and the path at which it is read. A file that was replaced
    /// must not be read at its path, where another one is; the kernel still has the program itself. `None` if the file
    /// is gone.
    fn place(&self, pid: u32) -> Option<(PathBuf, PathBuf)> {
        if !self.is_gone {
            // The file may be in another mount namespace.
            return Some((
                PathBuf::from(&self.path),
                PathBuf::from(format!("/proc/{pid}/root{}", self.path)),
            ));
        }
        let program = PathBuf::from(format!("/proc/{pid}/exe"));
        let target = fs::read_link(&program).ok()?;
        (target == Path::new(&format!("{}{DELETED}", self.path))).then(|| (program.clone(), program))
    }
}

/// The suffix that the kernel adds to the path of a file that was removed.
const DELETED: &str = " (deleted)";

/// The code in the memory of a process, from its `maps` (`proc_pid_maps(5)`).
fn mapped(maps: &str) -> Vec<Mapped> {
    let part = |line: &str| {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let is_code = words.next()?.contains('x');
        let offset = words.next()?;
        let path = words.nth(2).unwrap_or_default().trim_start();
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (path, is_gone) = path.strip_suffix(DELETED).map_or((path, false), |path| (path, true));
        let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
        is_code.then(|| Mapped { start, end, offset, path: path.to_owned(), is_gone })
    };
    maps.lines().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(lines: &[&str]) -> Symbols {
        let kernel = Kernel::of_lines(lines.iter().map(ToString::to_string));
        Symbols { kernel: Arc::new(kernel), ..Symbols::default() }
    }

    #[test]
    fn functions_of_the_kernel_are_those_that_begin_before() {
        let mut symbols = symbols(&[
            "0000000000001000 A fixed_percpu_data",
            "ffffffff81000200 t udp_sendmsg",
            "ffffffff81000100 T udp_recvmsg",
            "ffffffffc0000000 t veth_xmit\t[veth]",
            "ffffffff81000180 d a_variable",
        ]);
        let frames =
            [0xffff_ffff_8100_01ff, 0xffff_ffff_8100_0200, 0xffff_ffff_c000_0010, 1].map(Frame::Kernel);
        let names = symbols.names(0, &frames);
        let names: Vec<&str> = names.iter().map(|name| name.text.as_str()).collect();
        assert_eq!(names, ["udp_recvmsg", "udp_sendmsg", "veth_xmit", "[kernel]"]);
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        let mut symbols = symbols(&["0000000000000000 T udp_recvmsg", "0000000000000000 T udp_sendmsg"]);
        assert_eq!(symbols.names(0, &[Frame::Kernel(u64::MAX)])[0].text, "[kernel]");
    }

    #[test]
    fn maps_have_the_code_of_files() {
        let maps = "55e0a000-55e0b000 r--p 00000000 08:01 1234                       /usr/sbin/nsd\n\
                    55e0b000-55e0c000 r-xp 00001000 08:01 1234                       /usr/sbin/nsd (deleted)\n\
                    7ffd1000-7ffd3000 r-xp 00000000 00:00 0                          [vdso]\n";
        let code = mapped(maps);
        let wanted = Mapped {
            start: 0x55e0_b000,
            end: 0x55e0_c000,
            offset: 0x1000,
            path: "/usr/sbin/nsd".into(),
            is_gone: true,
        };
        assert_eq!((&code[0], code[1].path.as_str(), code.len()), (&wanted, "[vdso]", 2));
    }

    /// The file at the path of a program that was replaced has other functions.
    #[test]
    fn a_file_that_was_replaced_names_nothing() {
        let pid = std::process::id();
        let path = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let part = |is_gone| Mapped { start: 0, end: u64::MAX, offset: 0, path: path.clone(), is_gone };
        let mut symbols = Symbols::default();
        symbols.maps.insert(pid, vec![part(true)]);
        let name = symbols.of_program(pid, 0x1000);
        assert!(name.starts_with('[') && symbols.unnamed.values().any(|why| why == GONE), "{name}");
        assert!(symbols.files.is_empty(), "nothing was read");
        assert!(part(false).place(pid).is_some());
    }

    #[test]
    fn functions_of_this_process_are_named() {
        let address = this_is_called as fn() as usize as u64;
        let mut symbols = Symbols::default();
        let name = symbols.of_program(std::process::id(), address + 1);
        assert!(name.ends_with("this_is_called"), "{name}");
        assert_eq!(symbols.of_program(std::process::id(), 8), "[unknown]");
    }

    #[inline(never)]
    fn this_is_called() {
        std::hint::black_box(std::process::id());
    }
}
