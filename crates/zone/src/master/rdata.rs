//! The data of a record of any type: in the form of its type, or as bytes in the form of RFC 3597.

use kqps_message::rtype;

use super::error::{Parsed, Trouble, Wrong};
use super::fields::{self, Field};
use super::lexer::Lexer;
use super::types::A6;
use super::{a6, binary, gateway, location, number, svcb, wire};

const HIP: u16 = 55;
const IPSECKEY: u16 = 45;
const LOC: u16 = 29;
const APL: u16 = 42;
const AMTRELAY: u16 = 260;

/// The most bytes of data, since the length has 16 bits.
const DATA_BYTES_MAX: usize = 65_535;

/// Reads the rest of an entry as data of this type into `out`, and replaces its content.
#[inline]
pub(super) fn read(rtype: u16, lexer: &mut Lexer<'_>, origin: &[u8], out: &mut Vec<u8>) -> Parsed<()> {
    out.clear();
    let at = lexer.at();
    if lexer.peek()? == Some(b'\\') && lexer.takes_marker() {
        generic(rtype, lexer, out)?;
    } else if let Some(fields) = fields::type_fields(rtype) {
        for &field in fields {
            fields::read(field, lexer, origin, out)?;
        }
    } else {
        special(rtype, lexer, origin, out)?;
    }
    if out.len() > DATA_BYTES_MAX {
        return Err(Trouble::rule(at, "a record's data has at most 65535 bytes, and this has more"));
    }
    lexer.end()
}

fn special(rtype: u16, lexer: &mut Lexer<'_>, origin: &[u8], out: &mut Vec<u8>) -> Parsed<()> {
    match rtype {
        LOC => location::read(lexer, out),
        A6 => a6::read(lexer, origin, out),
        APL => gateway::read_apl(lexer, out),
        IPSECKEY => gateway::read_ipseckey(lexer, origin, out),
        HIP => gateway::read_hip(lexer, origin, out),
        rtype::SVCB | rtype::HTTPS => svcb::read(lexer, origin, out),
        AMTRELAY => gateway::read_amtrelay(lexer, origin, out),
        _ => {
            let token = lexer.need("\\#")?;
            Err(Trouble::new(token.at, Wrong::NoText(rtype)))
        }
    }
}

/// Reads the text after `\#`: a length, and as many bytes (RFC 3597, section 5). Data of a known type must be
/// valid for the type, since an answer may have to find the names in it.
fn generic(rtype: u16, lexer: &mut Lexer<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let expected = "the length of the data, from 0 to 65535";
    let token = lexer.need(expected)?;
    let announced = usize::from(number::decimal(&token, u16::MAX, expected)?);
    binary::hex_rest(lexer, announced == 0, out)?;
    if out.len() != announced {
        return Err(Trouble::new(token.at, Wrong::Length { announced, given: out.len() }));
    }
    if !is_data(rtype, out) {
        return Err(Trouble::new(token.at, Wrong::Data(rtype)));
    }
    Ok(())
}

/// Whether these bytes can be data of this type. Any bytes can be data of an unknown type.
fn is_data(rtype: u16, data: &[u8]) -> bool {
    match rtype {
        LOC => data.len() == location::BYTES,
        A6 => a6::is(data),
        APL => gateway::is_apl(data),
        IPSECKEY => gateway::is_ipseckey(data),
        HIP => gateway::is_hip(data),
        rtype::SVCB | rtype::HTTPS => svcb::is(data),
        AMTRELAY => gateway::is_amtrelay(data),
        _ => fields::type_fields(rtype).is_none_or(|fields: &[Field]| wire::are(fields, data)),
    }
}
