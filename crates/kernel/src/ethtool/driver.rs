//! Facts that a driver reports about itself and its device.

use std::io;

use super::request::{ask_driver, ask_words, if_offered, text};

/// From linux/ethtool.h; the libc crate lacks them.
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GPERMADDR: u32 = 0x20;

/// The longest hardware address of any kind of device, in bytes (`MAX_ADDR_LEN`).
const ADDRESS_BYTES_MOST: u32 = 32;

/// A device's driver, and where the device is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverInfo {
    /// The driver's name, such as `ixgbe`.
    pub name: String,
    /// The device's address on its bus, such as `0000:3b:00.0`; `None` for a device without hardware.
    pub bus: Option<String>,
}

/// Asks a device for its driver.
pub fn driver_info(device: &str) -> io::Result<Option<DriverInfo>> {
    // struct ethtool_drvinfo: the command, five texts of 32 bytes (name, version, firmware, bus, expansion ROM), and
    // 32 bytes more.
    let mut words = [0_u32; 49];
    words[0] = ETHTOOL_GDRVINFO;
    // SAFETY: this is the command's struct, which has no length fields.
    let answer = unsafe { ask_words(device, words) };
    let info = answer.map(|words| {
        let bus = text(&words[25..33]);
        // Some virtual devices have the second text.
        let has_bus = !bus.is_empty() && bus != "N/A";
        DriverInfo { name: text(&words[1..9]), bus: has_bus.then_some(bus) }
    });
    if_offered(info)
}

/// The Ethernet address that a device was made with, whatever it has now. Virtual devices have none.
pub fn permanent_mac(device: &str) -> io::Result<Option<[u8; 6]>> {
    // struct ethtool_perm_addr: command, length, then the bytes of the address.
    let mut words = [0_u32; 2 + ADDRESS_BYTES_MOST as usize / 4];
    words[..2].copy_from_slice(&[ETHTOOL_GPERMADDR, ADDRESS_BYTES_MOST]);
    // SAFETY: this is the command's struct, with room for as many bytes as its length says.
    let answer = unsafe { ask_driver(device, &mut words) };
    Ok(if_offered(answer)?.and_then(|_| mac_of(&words)))
}

fn mac_of(words: &[u32]) -> Option<[u8; 6]> {
    let bytes: Vec<u8> = words[2..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mac = *bytes.first_chunk::<6>()?;
    (words[1] == 6 && mac != [0; 6]).then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_ethernet_address_is_a_mac() {
        let of = |length: u32, bytes: [u8; 8]| {
            let word = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap());
            mac_of(&[ETHTOOL_GPERMADDR, length, word(0), word(4)])
        };
        assert_eq!(of(6, [2, 3, 4, 5, 6, 7, 9, 9]), Some([2, 3, 4, 5, 6, 7]));
        assert_eq!(of(6, [0; 8]), None);
        assert_eq!(of(20, [2, 3, 4, 5, 6, 7, 9, 9]), None);
    }
}
