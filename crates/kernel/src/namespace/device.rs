//! Settings of a device in the calling thread's network namespace that rtnetlink does not offer.

use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr::null;

use crate::sys::check;

/// From linux/ethtool.h; the libc crate lacks them.
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GLINK: u32 = 0x0a;
const ETHTOOL_SGRO: u32 = 0x2c;
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETH_SS_STATS: u32 = 1;

/// The bytes of a counter's name (`ETH_GSTRING_LEN`).
const NAME_BYTES: usize = 32;

/// More counters than any driver has: some drivers have a dozen for each of a hundred queues.
const COUNTERS_MOST: usize = 1 << 15;

/// Switches generic receive offload of a device on or off.
pub(super) fn set_gro(device: &str, on: bool) -> io::Result<()> {
    ethtool(device, ETHTOOL_SGRO, u32::from(on)).map(drop)
}

/// Switches on or off that a device computes the checksums of the packets that it sends. If it is off, the kernel
/// computes them.
pub(super) fn set_checksum_offload(device: &str, on: bool) -> io::Result<()> {
    ethtool(device, ETHTOOL_STXCSUM, u32::from(on)).map(drop)
}

/// Whether a device has its carrier and can send. The request also makes the kernel process pending carrier changes
/// (`net/core/link_watch.c`, `linkwatch_sync_dev`). Otherwise it would do that up to 1 s later, and drop all packets
/// until then.
pub(super) fn is_linked(device: &str) -> io::Result<bool> {
    ethtool(device, ETHTOOL_GLINK, 0).map(|value| value != 0)
}

pub(super) fn ethtool(device: &str, command: u32, value: u32) -> io::Result<u32> {
    let mut asked = [command, value];
    // SAFETY: commands with one value take `struct ethtool_value`, which consists of these two words.
    unsafe { ask_driver(device, &mut asked)? };
    Ok(asked[1])
}

/// Sends a command of linux/ethtool.h to a device's driver. The driver writes its answer over `words`.
///
/// # Safety
///
/// `words` must be the struct of the command in its first field. It must have room for all that the kernel writes:
/// as much as its length fields say or, for commands without them, as much as the driver has.
pub(super) unsafe fn ask_driver<Word>(device: &str, words: &mut [Word]) -> io::Result<()> {
    let mut request = request_of(device);
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: the request is live, and so are the words that it points to; the caller guarantees their layout.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) }).map(drop)
}

/// An interface request that contains only the device's name.
fn request_of(device: &str) -> libc::ifreq {
    // SAFETY: an interface request is plain old data.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // The last byte stays 0, which ends the name.
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request
}

/// The counters of a device's driver, as `ethtool -S` shows them. Empty if the driver has none.
pub(super) fn driver_counters(device: &str) -> io::Result<Vec<(String, u64)>> {
    // SAFETY: the three buffers below are the structs of their commands, with room for more counters than any driver
    // has.
    let ask = |buffer: &mut [u64]| unsafe { ask_driver(device, buffer) };
    let word = |low: u32, high: u32| u64::from_ne_bytes(pair(low, high));
    // struct ethtool_sset_info: command, reserved, a mask of 64 bits, and a length for each bit set.
    let mut lengths = [word(ETHTOOL_GSSET_INFO, 0), 1 << ETH_SS_STATS, 0];
    ask(&mut lengths)?;
    let count = (lengths[2] as u32 as usize).min(COUNTERS_MOST);
    if lengths[1] == 0 || count == 0 {
        return Ok(Vec::new());
    }
    // struct ethtool_gstrings: command, set, length, then the names.
    let mut names = vec![0_u64; 2 + COUNTERS_MOST * NAME_BYTES / 8];
    names[0] = word(ETHTOOL_GSTRINGS, ETH_SS_STATS);
    names[1] = word(count as u32, 0);
    ask(&mut names)?;
    // struct ethtool_stats: command, length, then the counters.
    let mut counts = vec![0_u64; 1 + COUNTERS_MOST];
    counts[0] = word(ETHTOOL_GSTATS, count as u32);
    ask(&mut counts)?;
    let bytes: Vec<u8> = names.iter().flat_map(|word| word.to_ne_bytes()).skip(12).collect();
    let name = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).trim().to_owned()
    };
    Ok(bytes.chunks(NAME_BYTES).map(name).zip(counts[1..].iter().copied()).take(count).collect())
}

/// The name of a device's driver. Virtual devices without a driver of their own return an error.
pub(crate) fn driver(device: &str) -> io::Result<String> {
    // struct ethtool_drvinfo: the command, five texts of 32 bytes of which the first is the name, and 32 bytes more.
    let mut words = [0_u32; 49];
    words[0] = ETHTOOL_GDRVINFO;
    // SAFETY: this is the command's struct, which has no length fields.
    unsafe { ask_driver(device, &mut words)? };
    let bytes: Vec<u8> = words[1..9].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// The number of a device's queues that receive. Drivers with a fixed number may return an error.
pub(crate) fn receive_queues(device: &str) -> io::Result<u32> {
    // struct ethtool_channels: the command, and the numbers of queues that receive, send, do neither or do both: first
    // how many there can be, then how many there are.
    let mut words = [0_u32; 9];
    words[0] = ETHTOOL_GCHANNELS;
    // SAFETY: this is the command's struct, which has no length fields.
    unsafe { ask_driver(device, &mut words)? };
    Ok(words[5] + words[8])
}

/// Two words of 32 bits, one after the other as in a C struct.
fn pair(first: u32, second: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    bytes
}

/// Distributes the packets of each receive queue of a device over some cores (RPS). Moves the calling thread into a
/// mount namespace of its own, because `/sys/class/net` shows the devices of the namespace in which sysfs was
/// mounted.
pub(super) fn spread(device: &str, cpus: &[u32]) -> io::Result<()> {
    // SAFETY: the call touches no memory, and changes the calling thread only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    let (nothing, root, sys, sysfs) = (c"none", c"/", c"/sys", c"sysfs");
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: both strings end in 0 and stay alive; without a file system the call reads nothing else. The mounts of
    // other namespaces do not change.
    check(unsafe { libc::mount(nothing.as_ptr(), root.as_ptr(), null(), private, null()) })?;
    // SAFETY: as above.
    check(unsafe { libc::mount(nothing.as_ptr(), sys.as_ptr(), sysfs.as_ptr(), 0, null()) })?;
    let queues = Path::new("/sys/class/net").join(device).join("queues");
    for entry in std::fs::read_dir(queues)? {
        let queue = entry?.path();
        if queue.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"rx-")) {
            std::fs::write(queue.join("rps_cpus"), mask(cpus))?;
        }
    }
    Ok(())
}

/// A set of cores in the kernel's format: hexadecimal words of 32 bits, the highest first, separated by commas.
fn mask(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(1, |highest| highest / 32 + 1);
    let word = |number: u32| {
        cpus.iter().filter(|cpu| **cpu / 32 == number).fold(0_u32, |word, cpu| word | 1 << (cpu % 32))
    };
    (0..words).rev().map(|number| format!("{:08x}", word(number))).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_cores_are_written_as_the_kernel_does() {
        assert_eq!(mask(&[]), "00000000");
        assert_eq!(mask(&[0, 1, 5]), "00000023");
        assert_eq!(mask(&[33, 0]), "00000002,00000001");
    }
}
