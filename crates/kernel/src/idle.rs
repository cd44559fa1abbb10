//! Keeping cores from sleeping so deeply that waking up takes time.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

/// A wish to the kernel that cores with nothing to do are ready at once. It holds for all cores of the host until this
/// is dropped, or the process ends, however it does.
#[derive(Debug)]
pub struct Awake {
    _wish: File,
}

/// Wishes that no core takes any time to wake up (`/dev/cpu_dma_latency`). Fails without the right
/// to open that, and where there is none.
pub fn stay_awake() -> io::Result<Awake> {
    let mut wish = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
    wish.write_all(&0_i32.to_ne_bytes())?;
    Ok(Awake { _wish: wish })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// What the kernel grants at present, microseconds.
    fn granted_us() -> i32 {
        let mut bytes = [0; 4];
        File::open("/dev/cpu_dma_latency").unwrap().read_exact(&mut bytes).unwrap();
        i32::from_ne_bytes(bytes)
    }

    #[test]
    fn a_wish_is_granted_while_it_lasts() {
        match stay_awake() {
            Ok(_awake) => assert_eq!(granted_us(), 0),
            Err(error) => println!("skipped: cores cannot be kept awake: {error}"),
        }
    }
}
