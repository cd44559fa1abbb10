//! Abilities of drivers for XDP, as the kernel reports them: the generic netlink family `netdev` (Linux 6.3,
//! Documentation/netlink/specs/netdev.yaml).

use std::collections::BTreeMap;
use std::io;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NlasIterator};
use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};

// From linux/genetlink.h.
const FAMILY_OF_FAMILIES: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

// From linux/netdev.h.
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;

/// The driver runs programs (`NETDEV_XDP_ACT_BASIC`).
pub(super) const RUNS: u64 = 1;
/// The driver hands frames to sockets (`NETDEV_XDP_ACT_REDIRECT`).
pub(super) const REDIRECTS: u64 = 2;
/// The driver reads and writes the frames of sockets itself (`NETDEV_XDP_ACT_XSK_ZEROCOPY`).
pub(super) const ZERO_COPY: u64 = 8;

/// The lengths of `struct nlmsghdr` and `struct genlmsghdr`.
const HEADER_BYTES: usize = 16;
const GENERIC_BYTES: usize = 4;

/// Device index → what its driver can do, as bits, for all devices of the calling thread's network namespace.
pub(super) fn features() -> io::Result<BTreeMap<u32, u64>> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let name = attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
    let found = exchange(&socket, FAMILY_OF_FAMILIES, NLM_F_REQUEST, CTRL_CMD_GETFAMILY, &name);
    let families = found.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT) => {
            io::Error::new(io::ErrorKind::Unsupported, "the kernel does not say before Linux 6.3")
        }
        _ => error,
    })?;
    let family = families.iter().find_map(|family| number(family, CTRL_ATTR_FAMILY_ID));
    let unnumbered = || io::Error::other("the kernel gave the family `netdev` no number");
    let family = family.ok_or_else(unnumbered)? as u16;
    let devices = exchange(&socket, family, NLM_F_REQUEST | NLM_F_DUMP, NETDEV_CMD_DEV_GET, &[])?;
    let features = devices.iter().filter_map(|device| {
        Some((number(device, NETDEV_A_DEV_IFINDEX)? as u32, number(device, NETDEV_A_DEV_XDP_FEATURES)?))
    });
    Ok(features.collect())
}

/// Sends one request, and returns the attributes of every message that answers it.
fn exchange(
    socket: &Socket,
    family: u16,
    flags: u16,
    command: u8,
    attributes: &[u8],
) -> io::Result<Vec<Vec<u8>>> {
    socket.send(&request(family, flags, command, attributes), 0)?;
    let mut answers = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let mut rest = &datagram[..];
        while let Some((length, kind)) = header(rest) {
            let short = || io::Error::other("a message of generic netlink is shorter than it says");
            let body = rest.get(HEADER_BYTES..length).ok_or_else(short)?;
            match kind {
                NLMSG_DONE => return Ok(answers),
                NLMSG_ERROR => {
                    let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    return Err(io::Error::from_raw_os_error(-code));
                }
                _ => answers.push(body.get(GENERIC_BYTES..).ok_or_else(short)?.to_vec()),
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        if flags & NLM_F_DUMP == 0 {
            return Ok(answers);
        }
    }
}

/// The length and the type of the message at the beginning of these bytes; `None` if there is none.
fn header(bytes: &[u8]) -> Option<(usize, u16)> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    (bytes.len() >= HEADER_BYTES).then_some((length, kind))
}

fn request(family: u16, flags: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
    let length = (HEADER_BYTES + GENERIC_BYTES + attributes.len()) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(family.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // The number of the request, and the port of the sender, which the kernel knows.
    bytes.extend([0; 8]);
    // The command, the version of the family, and two reserved bytes.
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(attributes);
    bytes
}

/// An attribute, padded to a multiple of four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = (4 + value.len()) as u16;
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The number in an attribute of two, four or eight bytes.
fn number(attributes: &[u8], kind: u16) -> Option<u64> {
    let found = NlasIterator::new(attributes).filter_map(Result::ok).find(|found| found.kind() == kind)?;
    let value = found.value();
    match value.len() {
        2 => value.first_chunk().map(|bytes| u64::from(u16::from_ne_bytes(*bytes))),
        4 => value.first_chunk().map(|bytes| u64::from(u32::from_ne_bytes(*bytes))),
        8 => value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_by_their_type() {
        let attributes = [
            attribute(NETDEV_A_DEV_IFINDEX, &7_u32.to_ne_bytes()),
            attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0"),
            attribute(NETDEV_A_DEV_XDP_FEATURES, &0x1_0000_0003_u64.to_ne_bytes()),
        ]
        .concat();
        assert_eq!(attributes.len(), 8 + 12 + 12);
        assert_eq!(number(&attributes, NETDEV_A_DEV_IFINDEX), Some(7));
        assert_eq!(number(&attributes, NETDEV_A_DEV_XDP_FEATURES), Some(0x1_0000_0003));
        assert_eq!(number(&attributes, CTRL_ATTR_FAMILY_NAME), None);
        assert_eq!(number(&attributes, 9), None);
    }

    #[test]
    fn a_request_begins_with_its_length_and_family() {
        let bytes = request(21, NLM_F_REQUEST, NETDEV_CMD_DEV_GET, &[1, 2, 3, 4]);
        assert_eq!(header(&bytes), Some((24, 21)));
        assert_eq!(bytes[HEADER_BYTES..], [1, 1, 0, 0, 1, 2, 3, 4]);
        assert_eq!(header(&bytes[..15]), None);
    }
}
