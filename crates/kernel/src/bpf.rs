//! bpf(2): maps, programs and links. A map or program ends with its last descriptor, and a program on a device with its
//! link.

pub(crate) mod assembler;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::thread::{MembarrierCommand, membarrier};

use crate::clock::{now_ns, sleep_until_ns};
use crate::sys::{check, owned};
use assembler::Instruction;

// Commands and types from linux/bpf.h.
const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const LINK_DETACH: libc::c_long = 34;
const PER_CORE_ARRAY: u32 = 6;
const XDP_SOCKETS: u32 = 17;
const ATTACH_TO_XDP: u32 = 37;

/// The purpose of a program: its type, and the place that it is for (linux/bpf.h).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramKind {
    kind: u32,
    attach_type: u32,
}

/// Frames that arrive at a device.
pub(crate) const OF_XDP: ProgramKind = ProgramKind { kind: 6, attach_type: ATTACH_TO_XDP };

/// Packets that a socket may get.
pub(crate) const OF_SOCKET: ProgramKind = ProgramKind { kind: 1, attach_type: 0 };

/// Longer than a core runs a program for the frames at hand.
const FRAMES_NS: u64 = 20_000_000;

/// Makes the program run in the stack (`XDP_FLAGS_SKB_MODE`, `linux/if_link.h`).
pub(crate) const IN_STACK: u32 = 1 << 1;

/// Makes the program run in the driver (`XDP_FLAGS_DRV_MODE`).
pub(crate) const IN_DRIVER: u32 = 1 << 2;

/// Some functions of the kernel are for programs under the GPL alone. The kernel knows this name.
const LICENCE: &CStr = c"Dual MIT/GPL";

/// More cores than any kernel is built for (`CONFIG_NR_CPUS`).
const CORES_MOST: usize = 1 << 14;

/// Room for what the verifier writes about a program that it refuses.
const LOG_BYTES: usize = 1 << 20;

/// How much of the verifier's log an error shows: the end, where the reason is.
const SHOWN_BYTES: usize = 1500;

// The members of `union bpf_attr` that the commands read, up to the last field that is used here.

#[repr(C)]
struct MapAttributes {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

#[repr(C)]
struct ElementAttributes {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramAttributes {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    attach_type: u32,
}

#[repr(C)]
struct LinkAttributes {
    program: u32,
    device: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
struct DetachAttributes {
    link: u32,
}

/// Makes a map from queues to sockets. Keys are numbers below `queues`.
pub(crate) fn sockets(queues: u32) -> io::Result<OwnedFd> {
    map(XDP_SOCKETS, 4, queues)
}

/// Makes counters that begin at 0, each with a count for every core. Keys are numbers below `count`.
pub(crate) fn counters(count: u32) -> io::Result<OwnedFd> {
    map(PER_CORE_ARRAY, 8, count)
}

fn map(kind: u32, value_bytes: u32, entries: u32) -> io::Result<OwnedFd> {
    let mut attributes = MapAttributes { kind, key_bytes: 4, value_bytes, entries };
    // SAFETY: this is the command's struct, and it has no pointers.
    owned(unsafe { bpf(MAP_CREATE, &mut attributes) })
}

/// Puts a socket into a map from queues to sockets. It leaves the map when it is closed.
pub(crate) fn put_socket(sockets: BorrowedFd<'_>, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let value = socket.as_raw_fd() as u32;
    let mut attributes = ElementAttributes {
        map: sockets.as_raw_fd() as u32,
        padding: 0,
        key: &raw const queue as u64,
        value: &raw const value as u64,
        flags: 0,
    };
    // SAFETY: this is the command's struct. Key and value are live and have the sizes of the map, and the kernel only
    // reads them.
    check(unsafe { bpf(MAP_UPDATE, &mut attributes) } as libc::c_int).map(drop)
}

/// The sum of a counter over all cores.
pub(crate) fn sum(counters: BorrowedFd<'_>, counter: u32) -> io::Result<u64> {
    let mut counts = vec![0_u64; CORES_MOST];
    let mut attributes = ElementAttributes {
        map: counters.as_raw_fd() as u32,
        padding: 0,
        key: &raw const counter as u64,
        value: counts.as_mut_ptr() as u64,
        flags: 0,
    };
    // SAFETY: this is the command's struct. The key is live. The kernel writes eight bytes for every core that this
    // host can have, and there is room for more cores than that.
    check(unsafe { bpf(MAP_LOOKUP, &mut attributes) } as libc::c_int)?;
    Ok(counts.iter().sum())
}

/// Loads a program. If the kernel refuses it, the error has the end of the verifier's log.
pub(crate) fn load(program: &[Instruction], of: ProgramKind) -> io::Result<OwnedFd> {
    let error = match load_with(program, of, &mut []) {
        Ok(loaded) => return Ok(loaded),
        Err(error) => error,
    };
    let mut log = vec![0_u8; LOG_BYTES];
    load_with(program, of, &mut log).map_err(|_| match end_of(&log) {
        end if end.is_empty() => error,
        end => io::Error::new(error.kind(), format!("{error}; the verifier's log ends with: {end}")),
    })
}

/// Loads a program. The verifier writes what it does into `log`, unless that is empty.
fn load_with(program: &[Instruction], of: ProgramKind, log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut attributes = ProgramAttributes {
        kind: of.kind,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_bytes: log.len() as u32,
        // Without a level the kernel accepts no address.
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel: 0,
        flags: 0,
        name: *b"kqps_filter\0\0\0\0\0",
        device: 0,
        attach_type: of.attach_type,
    };
    // SAFETY: this is the command's struct. Instructions and licence are live, and the kernel only reads them. The log
    // is live, of the length given, and borrowed for writing.
    owned(unsafe { bpf(PROGRAM_LOAD, &mut attributes) })
}

/// The last lines of a log that ends with a zero byte, in one line.
fn end_of(log: &[u8]) -> String {
    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let end = &text[text.len().saturating_sub(SHOWN_BYTES)..];
    String::from_utf8_lossy(end).lines().collect::<Vec<_>>().join("; ")
}

/// Runs a program on all frames that a device receives. It ends with the descriptor that this returns. `place` is
/// [`IN_STACK`] or [`IN_DRIVER`].
pub(crate) fn attach(program: BorrowedFd<'_>, device: u32, place: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let mut attributes = LinkAttributes { program, device, attach_type: ATTACH_TO_XDP, flags: place };
    // SAFETY: this is the command's struct, and it has no pointers.
    owned(unsafe { bpf(LINK_CREATE, &mut attributes) })
}

/// Takes the program of a link off its device. The descriptor stays open. Requires Linux 5.9.
pub(crate) fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    let mut attributes = DetachAttributes { link: link.as_raw_fd() as u32 };
    // SAFETY: this is the command's struct, and it has no pointers.
    check(unsafe { bpf(LINK_DETACH, &mut attributes) } as libc::c_int).map(drop)
}

/// Waits until no core runs a program that was detached before. Programs run in read-side sections of RCU, whose end on
/// all cores membarrier(2) awaits. Kernels whose cores do without a tick refuse that; then some time must do.
pub(crate) fn await_cores() {
    if membarrier(MembarrierCommand::Global).is_err() {
        sleep_until_ns(now_ns() + FRAMES_NS);
    }
}

/// # Safety
/// `attributes` must be the struct of the command, and its pointers must be valid for what the command does with them.
unsafe fn bpf<A>(command: libc::c_long, attributes: &mut A) -> libc::c_long {
    // SAFETY: the pointer is to a live value of the length given; the caller guarantees the rest.
    unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<A>()) }
}

/// Runs a program once on a frame that no device received (`BPF_PROG_TEST_RUN`). Returns its result.
#[cfg(test)]
pub(crate) fn run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    const PROGRAM_RUN: libc::c_long = 10;
    #[repr(C)]
    struct RunAttributes {
        program: u32,
        result: u32,
        frame_bytes: u32,
        output_bytes: u32,
        frame: u64,
        output: u64,
        repeat: u32,
        duration_ns: u32,
    }
    let mut attributes = RunAttributes {
        program: program.as_raw_fd() as u32,
        result: 0,
        frame_bytes: frame.len() as u32,
        output_bytes: 0,
        frame: frame.as_ptr() as u64,
        output: 0,
        repeat: 1,
        duration_ns: 0,
    };
    // SAFETY: this is the command's struct. The frame is live and of the length given, and the kernel copies it. There
    // is no room for output.
    check(unsafe { bpf(PROGRAM_RUN, &mut attributes) } as libc::c_int)?;
    Ok(attributes.result)
}
