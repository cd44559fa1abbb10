//! Names of functions by their addresses: those of the kernel from `/proc/kallsyms`, those of programs from their
//! files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

use kqps_kernel::perf::Frame;

use super::classify::Name;
use super::demangle::demangled;
use super::elf::Functions;

/// Names that were looked up.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// The kernel's functions in the order of their addresses; empty if they are hidden.
    kernel: Vec<(u64, Box<str>)>,
    /// Process → the files in its memory.
    maps: HashMap<u32, Vec<Mapped>>,
    /// Path → the functions in the file; `None` if it cannot be read.
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
}

impl Symbols {
    /// Reads the kernel's names, if this process may see them.
    pub(super) fn open(unreadable: &mut BTreeMap<String, String>) -> Self {
        let kernel = match fs::File::open("/proc/kallsyms") {
            Ok(file) => {
                let lines = BufReader::new(file).lines().map_while(Result::ok);
                kernel_functions(lines)
            }
            Err(_) => Vec::new(),
        };
        if kernel.is_empty() {
            let why = "the addresses in /proc/kallsyms are hidden (CAP_SYSLOG, or kernel.kptr_restrict of 0)";
            unreadable.insert("names of the kernel".into(), why.into());
        }
        Self { kernel, ..Self::default() }
    }

    /// The names of the functions in a call chain of a process.
    pub(super) fn names(&mut self, pid: u32, frames: &[Frame]) -> Vec<Name> {
        let name = |(place, frame): (usize, &Frame)| match *frame {
            Frame::Kernel(address) => Name { text: self.of_kernel(address), kernel: true },
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

    fn of_kernel(&self, address: u64) -> String {
        let after = self.kernel.partition_point(|(start, _)| *start <= address);
        self.kernel[..after].last().map_or_else(|| "[kernel]".into(), |(_, name)| name.to_string())
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
        // The file may be in another mount namespace.
        let path = PathBuf::from(format!("/proc/{pid}/root{}", part.path));
        let unnamed = &mut self.unnamed;
        let functions = self.files.entry(PathBuf::from(&part.path)).or_insert_with(|| {
            let opened = Functions::open(&path);
            opened.map_err(|error| unnamed.insert(file.to_owned(), error.to_string())).ok()
        });
        let offset = (address - part.start).wrapping_add(part.offset);
        let name = functions.as_ref().and_then(|functions| functions.name_at(offset));
        name.map_or_else(|| format!("[{file}]"), demangled)
    }
}

/// The kernel's functions from the lines of `/proc/kallsyms`: `ffffffff81000000 T startup_64`, and of modules with
/// their name behind. Nothing if the addresses are hidden.
fn kernel_functions(lines: impl Iterator<Item = String>) -> Vec<(u64, Box<str>)> {
    let function = |line: String| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
        (is_code && address > 0).then_some((address, words.next()?.into()))
    };
    let mut functions: Vec<(u64, Box<str>)> = lines.filter_map(function).collect();
    functions.sort();
    functions
}

/// The code in the memory of a process, from its `maps` (proc_pid_maps(5)).
fn mapped(maps: &str) -> Vec<Mapped> {
    let part = |line: &str| {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let is_code = words.next()?.contains('x');
        let offset = words.next()?;
        let path = words.nth(2).unwrap_or_default().trim_start();
        let number = |text| u64::from_str_radix(text, 16).ok();
        let path = path.strip_suffix(" (deleted)").unwrap_or(path).to_owned();
        is_code.then_some(Mapped { start: number(start)?, end: number(end)?, offset: number(offset)?, path })
    };
    maps.lines().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(lines: &[&str]) -> Symbols {
        let kernel = kernel_functions(lines.iter().map(ToString::to_string));
        Symbols { kernel, ..Symbols::default() }
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
        let wanted =
            Mapped { start: 0x55e0_b000, end: 0x55e0_c000, offset: 0x1000, path: "/usr/sbin/nsd".into() };
        assert_eq!((&code[0], code[1].path.as_str(), code.len()), (&wanted, "[vdso]", 2));
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
