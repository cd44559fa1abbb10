//! The cores to which software passes the packets of a device in the calling thread's network namespace.

use std::io;
use std::path::Path;

use super::sysfs;

/// Distributes the packets of each receive queue of a device over some cores (RPS). From then on the calling thread
/// sees the devices of its network namespace in `/sys` ([`sysfs::show_own_devices`]).
pub(super) fn spread(device: &str, cpus: &[u32]) -> io::Result<()> {
    sysfs::show_own_devices()?;
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
