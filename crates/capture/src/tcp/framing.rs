//! The bytes of one direction, in order and without gaps, cut into messages by their length prefixes.

use kqps_message::header::QR;
use kqps_message::name::NAME_BYTES_MAX;
use kqps_message::{HEADER_BYTES, Header};

use crate::counts::Why;

const PREFIX_BYTES: usize = 2;

/// Bytes from which a direction whose beginning was not seen can begin: a length prefix and a header.
const BEGINNING_BYTES: usize = PREFIX_BYTES + HEADER_BYTES;

/// The lowest opcode that is not assigned to messages with questions or records (6 is that of stateful operations).
const OPCODE_END: u8 = 6;

/// The bytes of a question or a record whose name is the root.
const QUESTION_BYTES_LEAST: usize = 5;
const RECORD_BYTES_LEAST: usize = 11;

/// The bit of byte 3 of a header that is zero in all messages (RFC 6895, section 2).
const RESERVED: u8 = 0x40;

#[derive(Debug, Default)]
pub(super) struct Framing {
    /// The bytes of a message that is not whole, from its length prefix on.
    partial: Vec<u8>,
    /// Whether it is known where messages begin. Otherwise the next segment must begin with a plausible one.
    is_sure: bool,
}

/// Whether bytes at the place of a message are one.
enum Judgement {
    /// Too few bytes to judge.
    Unknown,
    /// A message, so many bytes with its length prefix.
    Message(usize),
    /// No message of this direction.
    Broken,
}

impl Framing {
    /// Notes that the next byte is the first one of the direction.
    pub(super) fn begin(&mut self) {
        self.partial = Vec::new();
        self.is_sure = true;
    }

    /// Notes that bytes are missing before the next byte.
    pub(super) fn lose(&mut self) {
        self.partial = Vec::new();
        self.is_sure = false;
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// Takes the next bytes, which are those of one segment. Passes each message that they complete to `whole`.
    /// Returns why they complete none, if they do not.
    pub(super) fn take(&mut self, bytes: &[u8], to_server: bool, whole: &mut impl FnMut(&[u8])) -> Why {
        let mut rest = bytes;
        if !self.partial.is_empty() {
            match self.resume(bytes, to_server, whole) {
                Ok(behind) => rest = behind,
                Err(why) => return why,
            }
        }
        while !rest.is_empty() {
            match judge(rest, to_server, self.is_sure) {
                Judgement::Message(length) => {
                    self.is_sure = true;
                    let Some((message, behind)) = rest.split_at_checked(length) else { break };
                    whole(&message[PREFIX_BYTES..]);
                    rest = behind;
                }
                Judgement::Unknown => break,
                Judgement::Broken if self.is_sure => {
                    self.lose();
                    return Why::BadMessage;
                }
                Judgement::Broken => return Why::TcpGap,
            }
        }
        self.partial.extend_from_slice(rest);
        Why::TcpPart
    }

    /// Goes on with the message that has begun. Returns the bytes behind it; or why there are none, if the message is
    /// not whole or is none.
    fn resume<'a>(
        &mut self,
        bytes: &'a [u8],
        to_server: bool,
        whole: &mut impl FnMut(&[u8]),
    ) -> Result<&'a [u8], Why> {
        let missing = BEGINNING_BYTES.saturating_sub(self.partial.len()).min(bytes.len());
        let (beginning, mut rest) = bytes.split_at(missing);
        self.partial.extend_from_slice(beginning);
        match judge(&self.partial, to_server, self.is_sure) {
            Judgement::Unknown => Err(Why::TcpPart),
            Judgement::Message(length) => {
                self.is_sure = true;
                let missing = (length - self.partial.len()).min(rest.len());
                self.partial.extend_from_slice(&rest[..missing]);
                rest = &rest[missing..];
                if self.partial.len() < length {
                    return Err(Why::TcpPart);
                }
                whole(&self.partial[PREFIX_BYTES..]);
                self.partial = Vec::new();
                Ok(rest)
            }
            Judgement::Broken if self.is_sure => {
                self.lose();
                Err(Why::BadMessage)
            }
            // The bytes before were no message. This segment may begin with one.
            Judgement::Broken => {
                self.lose();
                Ok(bytes)
            }
        }
    }
}

/// Judges bytes that begin where a message does, or where one might.
fn judge(bytes: &[u8], to_server: bool, is_sure: bool) -> Judgement {
    let Some((prefix, message)) = bytes.split_first_chunk() else { return Judgement::Unknown };
    let length = usize::from(u16::from_be_bytes(*prefix));
    let is_other_way = message.get(2).is_some_and(|bits| (bits & QR != 0) == to_server);
    if length < HEADER_BYTES || is_other_way {
        return Judgement::Broken;
    }
    let whole = Judgement::Message(PREFIX_BYTES + length);
    match Header::from_bytes(message) {
        _ if is_sure && message.len() > 2 => whole,
        None => Judgement::Unknown,
        Some(header) if is_plausible(header, message, length) => whole,
        Some(_) => Judgement::Broken,
    }
}

/// Whether the message that begins here can have this length. Its first bytes are `message`, which may go on behind it.
fn is_plausible(header: Header<'_>, message: &[u8], length: usize) -> bool {
    let records =
        usize::from(header.answers()) + usize::from(header.authorities()) + usize::from(header.additionals());
    let questions = usize::from(header.questions());
    let bytes_least = HEADER_BYTES + questions * QUESTION_BYTES_LEAST + records * RECORD_BYTES_LEAST;
    header.opcode() < OPCODE_END
        && message[3] & RESERVED == 0
        && (header.is_reply() || header.rcode() == 0)
        && questions <= 1
        && questions + records > 0
        && bytes_least <= length
        && (questions == 0 || is_plausible_question(message, length))
}

/// Whether the bytes behind the header can be a question that ends within this length.
fn is_plausible_question(message: &[u8], length: usize) -> bool {
    let visible = &message[..length.min(message.len())];
    let mut at = HEADER_BYTES;
    loop {
        let is_short = at < HEADER_BYTES + NAME_BYTES_MAX;
        match visible.get(at) {
            None => return is_short && at < length,
            Some(0) => return is_short && at + QUESTION_BYTES_LEAST <= length,
            Some(&label @ 1..=63) => at += 1 + usize::from(label),
            Some(_) => return false,
        }
    }
}
