//! Preventing deep sleep states of cores, from which they wake slowly.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

/// A request to the kernel that idle cores wake without delay. It applies to all cores of the host until this value
/// is dropped or the process ends in any way.
#[derive(Debug)]
pub struct Awake {
    _wish: File,
}

/// Requests a wake-up latency of 0 µs for all cores (`/dev/cpu_dma_latency`). Fails if the file does not exist or
/// this process may not open it.
pub fn stay_awake() -> io::Result<Awake> {
    let mut wish = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
    wish.write_all(&0_i32.to_ne_bytes())?;
    Ok(Awake { _wish: wish })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use kqps_skips::{Capability, skip};

    use super::*;

    /// The latency that the kernel grants at present, in microseconds.
    fn granted_us() -> i32 {
        let mut bytes = [0; 4];
        File::open("/dev/cpu_dma_latency").unwrap().read_exact(&mut bytes).unwrap();
        i32::from_ne_bytes(bytes)
    }

    #[test]
    fn a_wish_is_granted_while_it_lasts() {
        match stay_awake() {
            Ok(_awake) => assert_eq!(granted_us(), 0),
            Err(error) => skip(Capability::IdleStates, format!("cores cannot be kept awake: {error}")),
        }
    }
}
