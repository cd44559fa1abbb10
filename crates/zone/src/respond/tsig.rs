//! Transaction signatures (RFC 8945), as far as a server without keys needs them. It knows no key, and returns
//! an error that says so.

use kqps_message::record::Record;
use kqps_message::rtype;

use crate::respond::CLASS_ANY;
use crate::respond::record::{copy_name, record};

/// The rcode of a reply to a signature that cannot be checked.
pub(crate) const NOTAUTH: u16 = 9;
const BADKEY: u16 = 17;
/// Time and fudge.
const TIME_BYTES: usize = 8;

/// The signature of a query.
#[derive(Clone, Debug)]
pub(crate) struct Tsig {
    /// The key's name and then the algorithm's, in wire form.
    names: [u8; 510],
    key_bytes: usize,
    names_bytes: usize,
    time: [u8; TIME_BYTES],
    id: [u8; 2],
}

/// Reads the TSIG record at `at`. `None` if it is malformed (RFC 8945, section 4.2).
#[cold]
pub(crate) fn read(message: &[u8], at: usize) -> Option<Tsig> {
    let Record { class: CLASS_ANY, ttl_s: 0, data, .. } = record(message, at)? else { return None };
    let mut wire = [0; 255];
    let mut tsig = Tsig { names: [0; 510], key_bytes: 0, names_bytes: 0, time: [0; TIME_BYTES], id: [0; 2] };
    (tsig.key_bytes, _) = copy_name(message, at, &mut wire)?;
    tsig.names[..tsig.key_bytes].copy_from_slice(&wire[..tsig.key_bytes]);
    // The algorithm's name is not compressed, so it can be read from the data alone.
    let (bytes, end) = copy_name(data, 0, &mut wire)?;
    tsig.names_bytes = tsig.key_bytes + bytes;
    tsig.names[tsig.key_bytes..tsig.names_bytes].copy_from_slice(&wire[..bytes]);
    let (time, rest) = data.get(end..)?.split_first_chunk()?;
    tsig.time = *time;
    let (&[m0, m1], rest) = rest.split_first_chunk()?;
    let rest = rest.get(usize::from(u16::from_be_bytes([m0, m1]))..)?;
    let (&[i0, i1, _, _, o0, o1], other) = rest.split_first_chunk()?;
    tsig.id = [i0, i1];
    (other.len() == usize::from(u16::from_be_bytes([o0, o1]))).then_some(tsig)
}

impl Tsig {
    /// The length of the reply's TSIG record, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.names_bytes + 10 + TIME_BYTES + 8
    }

    /// Writes the record for an unknown key to the front of `out`.
    pub(crate) fn write(&self, out: &mut [u8]) {
        let [.., high, low] = (self.names_bytes - self.key_bytes + TIME_BYTES + 8).to_be_bytes();
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&self.names[..self.key_bytes]);
        put(&rtype::TSIG.to_be_bytes());
        put(&CLASS_ANY.to_be_bytes());
        put(&[0; 4]);
        put(&[high, low]);
        put(&self.names[self.key_bytes..self.names_bytes]);
        put(&self.time);
        put(&[0; 2]);
        put(&self.id);
        put(&BADKEY.to_be_bytes());
        put(&[0; 2]);
    }
}
