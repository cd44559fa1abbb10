//! Reading and writing control messages (`cmsg(3)`) as bytes.

use std::mem::size_of;
use std::net::IpAddr;

use crate::address::LocalAddress;

/// Room for all control messages that this crate uses: a timestamp, a segment size and a local address take 96
/// bytes.
pub(crate) const CONTROL_BYTES: usize = 128;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Control(pub(crate) [u8; CONTROL_BYTES]);

const HEADER: usize = align(size_of::<libc::cmsghdr>());

/// The bytes of the control message that asks for segmentation, which is the first one.
pub(crate) const SEGMENT_BYTES: usize = HEADER + align(size_of::<u16>());

const fn align(bytes: usize) -> usize {
    bytes.next_multiple_of(size_of::<usize>())
}

/// Facts about a received message, from its control messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ControlData {
    pub(crate) segment_bytes: Option<u16>,
    pub(crate) arrived_ns: Option<u64>,
    pub(crate) to: Option<LocalAddress>,
}

/// Reads all control messages. Skips unknown ones, and stops at a malformed one.
#[inline]
pub(crate) fn read(mut bytes: &[u8]) -> ControlData {
    let mut found = ControlData::default();
    while bytes.len() >= HEADER {
        let length = usize::from_ne_bytes(array(&bytes[..size_of::<usize>()]));
        let Some(data) = bytes.get(HEADER..length) else { break };
        let level = libc::c_int::from_ne_bytes(array(&bytes[HEADER - 8..HEADER - 4]));
        let kind = libc::c_int::from_ne_bytes(array(&bytes[HEADER - 4..HEADER]));
        found.take(level, kind, data);
        bytes = bytes.get(align(length)..).unwrap_or_default();
    }
    found
}

impl ControlData {
    #[inline]
    fn take(&mut self, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) if data.len() >= 4 => {
                self.segment_bytes = u16::try_from(libc::c_int::from_ne_bytes(array(&data[..4]))).ok();
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if data.len() >= 16 => {
                let seconds = u64::from_ne_bytes(array(&data[..8]));
                let nanoseconds = u64::from_ne_bytes(array(&data[8..16]));
                self.arrived_ns = Some(seconds * 1_000_000_000 + nanoseconds);
            }
            // struct in_pktinfo: interface, local address, destination address in the header.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) if data.len() >= 12 => {
                let interface = u32::from_ne_bytes(array(&data[..4]));
                self.to = Some(LocalAddress::v4(array(&data[4..8]), interface));
            }
            // struct in6_pktinfo: address, interface.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if data.len() >= 20 => {
                let interface = u32::from_ne_bytes(array(&data[16..20]));
                self.to = Some(LocalAddress::v6(array(&data[..16]), interface));
            }
            _ => {}
        }
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the caller cut it to size")
}

impl Control {
    pub(crate) const EMPTY: Self = Self([0; CONTROL_BYTES]);

    /// Writes the segment size and the source address, if given. Returns the number of bytes written.
    #[inline]
    pub(crate) fn write(&mut self, segment_bytes: Option<u16>, from: Option<&LocalAddress>) -> usize {
        let mut used = 0;
        if let Some(segment_bytes) = segment_bytes {
            used = self.push(used, libc::SOL_UDP, libc::UDP_SEGMENT, &segment_bytes.to_ne_bytes());
        }
        match from.map(|from| from.ip) {
            // The interface stays 0: the route determines it, as without a source address.
            Some(IpAddr::V4(ip)) => {
                let mut data = [0; 12];
                data[4..8].copy_from_slice(&ip.octets());
                used = self.push(used, libc::IPPROTO_IP, libc::IP_PKTINFO, &data);
            }
            Some(IpAddr::V6(ip)) => {
                let mut data = [0; 20];
                // A multicast address must not be a source (RFC 4291, section 2.7): the kernel chooses another.
                if !ip.is_multicast() {
                    data[..16].copy_from_slice(&ip.octets());
                }
                if ip.is_unicast_link_local() || ip.is_multicast() {
                    // Such an address needs its link as well (RFC 4007, section 6).
                    data[16..].copy_from_slice(&from.map_or(0, |from| from.interface).to_ne_bytes());
                }
                used = self.push(used, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data);
            }
            None => {}
        }
        used
    }

    #[inline]
    fn push(&mut self, at: usize, level: libc::c_int, kind: libc::c_int, data: &[u8]) -> usize {
        let place = &mut self.0[at..at + HEADER + align(data.len())];
        place[..size_of::<usize>()].copy_from_slice(&(HEADER + data.len()).to_ne_bytes());
        place[HEADER - 8..HEADER - 4].copy_from_slice(&level.to_ne_bytes());
        place[HEADER - 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        place[HEADER..HEADER + data.len()].copy_from_slice(data);
        at + place.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mut control = Control::EMPTY;
        let from = LocalAddress { ip: "127.0.0.2".parse().unwrap(), interface: 0 };
        let used = control.write(Some(40), Some(&from));
        assert_eq!(used, 24 + 32);
        assert_eq!(read(&control.0[..used]).to, Some(from));

        let from = LocalAddress { ip: "::2".parse().unwrap(), interface: 0 };
        let used = control.write(None, Some(&from));
        assert_eq!(read(&control.0[..used]).to, Some(from));
        assert_eq!(control.write(None, None), 0);
    }

    #[test]
    fn nothing_is_sent_from_a_multicast_address_but_by_its_link() {
        let mut control = Control::EMPTY;
        let asked = LocalAddress { ip: "ff02::1".parse().unwrap(), interface: 3 };
        let used = control.write(None, Some(&asked));
        let by_link = LocalAddress { ip: "::".parse().unwrap(), interface: 3 };
        assert_eq!(read(&control.0[..used]).to, Some(by_link));
    }

    #[test]
    fn broken_bytes_are_passed_over() {
        assert!(read(&[0; 64]).to.is_none());
        assert!(read(&[0xff; 64]).to.is_none());
        assert!(read(&[1, 2, 3]).to.is_none());
    }
}
