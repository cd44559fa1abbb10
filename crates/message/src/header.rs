//! The twelve bytes that open every message (RFC 1035, section 4.1.1; AD and CD from RFC 4035, section 3).

/// The length of a header in bytes.
pub const HEADER_BYTES: usize = 12;

/// The bits of byte 2 that hold the opcode.
pub const OPCODE: u8 = 0x78;
/// The bit of byte 2 that marks a reply.
pub const QR: u8 = 0x80;
/// The bit of byte 2 that marks an authoritative answer.
pub const AA: u8 = 0x04;
/// The bit of byte 2 that marks a truncated reply.
pub const TC: u8 = 0x02;
/// The bit of byte 2 that asks for recursion.
pub const RD: u8 = 0x01;
/// The bit of byte 3 that offers recursion.
pub const RA: u8 = 0x80;
/// The bit of byte 3 that says that the server validated the data.
pub const AD: u8 = 0x20;
/// The bit of byte 3 that asks the server not to validate.
pub const CD: u8 = 0x10;

/// A view of a message's header. Only [`Self::from_bytes`] checks the length; reading a field costs no check.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a>(&'a [u8; HEADER_BYTES]);

impl<'a> Header<'a> {
    /// The header of `message`; `None` if the message has fewer than 12 bytes.
    #[inline]
    pub fn from_bytes(message: &'a [u8]) -> Option<Self> {
        message.first_chunk().map(Self)
    }

    /// The ID, by which a reply is matched with its query.
    #[inline]
    pub fn id(self) -> u16 {
        self.word(0)
    }

    /// QR: whether this is a reply.
    #[inline]
    pub fn is_reply(self) -> bool {
        self.0[2] & QR != 0
    }

    /// The kind of query, 0 to 15; 0 is QUERY.
    #[inline]
    pub fn opcode(self) -> u8 {
        (self.0[2] >> 3) & 0x0f
    }

    /// AA: whether the answer is authoritative.
    #[inline]
    pub fn is_authoritative(self) -> bool {
        self.0[2] & AA != 0
    }

    /// TC: whether the server truncated the reply.
    #[inline]
    pub fn is_truncated(self) -> bool {
        self.0[2] & TC != 0
    }

    /// RD: whether the query asks for recursion.
    #[inline]
    pub fn wants_recursion(self) -> bool {
        self.0[2] & RD != 0
    }

    /// RA: whether the server offers recursion.
    #[inline]
    pub fn offers_recursion(self) -> bool {
        self.0[3] & RA != 0
    }

    /// The four bits of the rcode that the header holds. An OPT record may hold eight more
    /// ([`crate::edns::rcode`]).
    #[inline]
    pub fn rcode(self) -> u16 {
        u16::from(self.0[3] & 0x0f)
    }

    /// QDCOUNT: the number of questions according to the header.
    #[inline]
    pub fn questions(self) -> u16 {
        self.word(4)
    }

    /// ANCOUNT: the number of answer records according to the header.
    #[inline]
    pub fn answers(self) -> u16 {
        self.word(6)
    }

    /// NSCOUNT: the number of authority records according to the header.
    #[inline]
    pub fn authorities(self) -> u16 {
        self.word(8)
    }

    /// ARCOUNT: the number of additional records according to the header.
    #[inline]
    pub fn additionals(self) -> u16 {
        self.word(10)
    }

    #[inline]
    fn word(self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }
}

/// The ID of `message`, which may be shorter than a header; `None` if it has fewer than two bytes.
#[inline]
pub fn id(message: &[u8]) -> Option<u16> {
    message.first_chunk().map(|id| u16::from_be_bytes(*id))
}

/// Writes `id` into the first two bytes of a message. Does nothing if the message is shorter.
#[inline]
pub fn set_id(message: &mut [u8], id: u16) {
    if let Some(place) = message.first_chunk_mut() {
        *place = id.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_read_from_its_own_bits() {
        let bytes = [0x12, 0x34, 0b1010_1101, 0b1000_0011, 0, 1, 0, 2, 0, 3, 1, 4];
        let header = Header::from_bytes(&bytes).expect("twelve bytes");
        assert_eq!(header.id(), 0x1234);
        assert!(header.is_reply());
        assert_eq!(header.opcode(), 5);
        assert!(header.is_authoritative());
        assert!(!header.is_truncated());
        assert!(header.wants_recursion());
        assert!(header.offers_recursion());
        assert_eq!(header.rcode(), 3);
        let counts = (header.questions(), header.answers(), header.authorities(), header.additionals());
        assert_eq!(counts, (1, 2, 3, 260));
    }

    #[test]
    fn eleven_bytes_are_no_header() {
        assert!(Header::from_bytes(&[0; 11]).is_none());
    }

    #[test]
    fn an_id_is_written_where_there_is_room() {
        let mut message = [0xff; 12];
        set_id(&mut message, 0x0102);
        assert_eq!(message[..3], [1, 2, 0xff]);
        set_id(&mut [0xff], 7);
    }
}
