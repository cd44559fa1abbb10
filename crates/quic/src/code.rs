//! The error codes of DNS over QUIC (RFC 9250, section 4.3), for connections and streams.

use quinn_proto::VarInt;

/// No error: the connection is closed because it is not needed.
pub const NO_ERROR: u32 = 0;
/// The peer failed for a reason of its own.
pub const INTERNAL_ERROR: u32 = 1;
/// The other side broke the rules of RFC 9250.
pub const PROTOCOL_ERROR: u32 = 2;
/// The client no longer wants the answer.
pub const REQUEST_CANCELLED: u32 = 3;
/// The server has too much to do.
pub const EXCESSIVE_LOAD: u32 = 4;
/// None of the others.
pub const UNSPECIFIED_ERROR: u32 = 5;

/// The name of a code; `None` if RFC 9250 has none.
pub fn name(code: u64) -> Option<&'static str> {
    Some(match u32::try_from(code).ok()? {
        NO_ERROR => "DOQ_NO_ERROR",
        INTERNAL_ERROR => "DOQ_INTERNAL_ERROR",
        PROTOCOL_ERROR => "DOQ_PROTOCOL_ERROR",
        REQUEST_CANCELLED => "DOQ_REQUEST_CANCELLED",
        EXCESSIVE_LOAD => "DOQ_EXCESSIVE_LOAD",
        UNSPECIFIED_ERROR => "DOQ_UNSPECIFIED_ERROR",
        _ => return None,
    })
}

pub(crate) fn number(code: u32) -> VarInt {
    VarInt::from_u32(code)
}
