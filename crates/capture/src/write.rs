//! Writes captures in the format of libpcap with nanoseconds: datagrams of UDP, and connections of TCP from handshake
//! to end, between any addresses of IPv4 or IPv6, with right checksums.

mod packet;

use std::collections::HashMap;
use std::io::{self, Write};
use std::mem;
use std::net::SocketAddr;

pub use packet::Segment;

/// The number of nanosecond captures, then version 2.4 of the format.
const MAGIC: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
/// The snap length of the header: as much as tcpdump takes.
const SNAP_BYTES: u32 = 256 << 10;

/// The types of links (<https://www.tcpdump.org/linktypes.html>).
const ETHERNET: u32 = 1;
const RAW: u32 = 101;

/// The most payload of a segment, bytes: what fits every path of IPv6.
const SEGMENT_BYTES: usize = 1220;

/// Writes packets, in the order of the calls. Times are nanoseconds of Unix time.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    is_ethernet: bool,
    /// Packets written, by which packets differ that are the same otherwise.
    packets: u32,
    /// The last initial sequence number.
    initial: u32,
    /// The next sequence number of each direction of a connection.
    sequences: HashMap<(SocketAddr, SocketAddr), u32>,
    frame: Vec<u8>,
    message: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the header of a capture of packets without frames.
    pub fn new(out: W) -> io::Result<Self> {
        Self::with_link(out, RAW)
    }

    /// Writes the header of a capture of Ethernet frames.
    pub fn ethernet(out: W) -> io::Result<Self> {
        Self::with_link(out, ETHERNET)
    }

    fn with_link(mut out: W, link: u32) -> io::Result<Self> {
        out.write_all(&MAGIC.to_le_bytes())?;
        for number in VERSION {
            out.write_all(&number.to_le_bytes())?;
        }
        // The time zone and the accuracy of times, which all programs leave at 0.
        out.write_all(&[0; 8])?;
        out.write_all(&SNAP_BYTES.to_le_bytes())?;
        out.write_all(&link.to_le_bytes())?;
        Ok(Self {
            out,
            is_ethernet: link == ETHERNET,
            packets: 0,
            initial: 0,
            sequences: HashMap::new(),
            frame: Vec::new(),
            message: Vec::new(),
        })
    }

    /// Writes a datagram of UDP. The error says if it is too long, or if the addresses are of two versions of IP.
    pub fn udp(&mut self, at_ns: u64, from: SocketAddr, to: SocketAddr, payload: &[u8]) -> io::Result<()> {
        self.begin(from);
        packet::udp(&mut self.frame, self.packets, from, to, payload)?;
        self.end(at_ns)
    }

    /// Writes a segment of TCP as it is.
    pub fn segment(&mut self, at_ns: u64, segment: &Segment<'_>) -> io::Result<()> {
        self.begin(segment.from);
        packet::tcp(&mut self.frame, self.packets, segment)?;
        self.end(at_ns)
    }

    /// Writes a frame of the capture's link as it is.
    pub fn frame(&mut self, at_ns: u64, frame: &[u8]) -> io::Result<()> {
        self.frame.clear();
        self.frame.extend_from_slice(frame);
        self.end(at_ns)
    }

    /// Writes a handshake: SYN, SYN with ACK, ACK.
    pub fn tcp_connect(&mut self, at_ns: u64, client: SocketAddr, server: SocketAddr) -> io::Result<()> {
        let (first, second) = (self.new_sequence(), self.new_sequence());
        let syn = Segment::new(client, server, first, 0, Segment::SYN, &[]);
        self.segment(at_ns, &syn)?;
        let (first, second_next) = (first.wrapping_add(1), second.wrapping_add(1));
        let reply = Segment::new(server, client, second, first, Segment::SYN | Segment::ACK, &[]);
        self.segment(at_ns, &reply)?;
        self.sequences.insert((client, server), first);
        self.sequences.insert((server, client), second_next);
        self.control(at_ns, client, server, Segment::ACK)
    }

    /// Writes a message with the length before it, in segments of at most 1220 bytes. Without a handshake before, the
    /// capture begins in the middle of the connection.
    pub fn tcp_message(
        &mut self,
        at_ns: u64,
        from: SocketAddr,
        to: SocketAddr,
        message: &[u8],
    ) -> io::Result<()> {
        let bytes = u16::try_from(message.len()).map_err(|_| packet::too_long())?;
        let mut whole = mem::take(&mut self.message);
        whole.clear();
        whole.extend_from_slice(&bytes.to_be_bytes());
        whole.extend_from_slice(message);
        let written = self.tcp_bytes(at_ns, from, to, &whole);
        self.message = whole;
        written
    }

    /// Writes the next bytes of a connection, whatever they are, in segments of at most 1220 bytes.
    pub fn tcp_bytes(
        &mut self,
        at_ns: u64,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
    ) -> io::Result<()> {
        for payload in bytes.chunks(SEGMENT_BYTES) {
            let (sequence, acknowledgment) = (self.sequence(from, to), self.sequence(to, from));
            let flags = Segment::PSH | Segment::ACK;
            self.segment(at_ns, &Segment::new(from, to, sequence, acknowledgment, flags, payload))?;
            let payload_bytes = u32::try_from(payload.len()).expect("a segment has 1220 bytes at most");
            self.sequences.insert((from, to), sequence.wrapping_add(payload_bytes));
        }
        Ok(())
    }

    /// Writes the end of a connection that `from` closes first: FIN of either end, each with its ACK.
    pub fn tcp_close(&mut self, at_ns: u64, from: SocketAddr, to: SocketAddr) -> io::Result<()> {
        for (one, other) in [(from, to), (to, from)] {
            self.control(at_ns, one, other, Segment::FIN | Segment::ACK)?;
            let next = self.sequence(one, other).wrapping_add(1);
            self.sequences.insert((one, other), next);
        }
        self.control(at_ns, from, to, Segment::ACK)?;
        self.forget(from, to);
        Ok(())
    }

    /// Writes the end of a connection that `from` resets.
    pub fn tcp_reset(&mut self, at_ns: u64, from: SocketAddr, to: SocketAddr) -> io::Result<()> {
        self.control(at_ns, from, to, Segment::RST | Segment::ACK)?;
        self.forget(from, to);
        Ok(())
    }

    /// Writes a whole connection for one query: handshake and query at `at_ns`, the response with its time if there is
    /// one, and the close by the client at the time of the last message.
    pub fn tcp_query(
        &mut self,
        at_ns: u64,
        client: SocketAddr,
        server: SocketAddr,
        query: &[u8],
        response: Option<(u64, &[u8])>,
    ) -> io::Result<()> {
        self.tcp_connect(at_ns, client, server)?;
        self.tcp_message(at_ns, client, server, query)?;
        let mut last_ns = at_ns;
        if let Some((response_ns, response)) = response {
            self.tcp_message(response_ns, server, client, response)?;
            last_ns = response_ns;
        }
        self.tcp_close(last_ns, client, server)
    }

    /// Writes what is buffered, and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes a segment without payload.
    fn control(&mut self, at_ns: u64, from: SocketAddr, to: SocketAddr, flags: u8) -> io::Result<()> {
        let (sequence, acknowledgment) = (self.sequence(from, to), self.sequence(to, from));
        self.segment(at_ns, &Segment::new(from, to, sequence, acknowledgment, flags, &[]))
    }

    /// The next sequence number of a direction. A connection without a handshake is in its middle.
    fn sequence(&mut self, from: SocketAddr, to: SocketAddr) -> u32 {
        if let Some(next) = self.sequences.get(&(from, to)) {
            return *next;
        }
        let next = self.new_sequence();
        self.sequences.insert((from, to), next);
        next
    }

    /// Initial sequence numbers, spread over their range, so that some connections pass its end.
    fn new_sequence(&mut self) -> u32 {
        self.initial = self.initial.wrapping_add(0x9e37_79b9);
        self.initial
    }

    fn forget(&mut self, from: SocketAddr, to: SocketAddr) {
        self.sequences.remove(&(from, to));
        self.sequences.remove(&(to, from));
    }

    /// Begins a frame.
    fn begin(&mut self, from: SocketAddr) {
        self.frame.clear();
        if self.is_ethernet {
            packet::ethernet(&mut self.frame, from.is_ipv4());
        }
    }

    /// Writes the frame.
    fn end(&mut self, at_ns: u64) -> io::Result<()> {
        let seconds = u32::try_from(at_ns / 1_000_000_000)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a time after the year 2106"))?;
        let nanoseconds = u32::try_from(at_ns % 1_000_000_000).expect("a second has 10^9 nanoseconds");
        let bytes = u32::try_from(self.frame.len()).map_err(|_| packet::too_long())?;
        for word in [seconds, nanoseconds, bytes, bytes] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.packets = self.packets.wrapping_add(1);
        self.out.write_all(&self.frame)
    }
}
