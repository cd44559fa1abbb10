//! Unusual and wrong queries, made from usual ones: other opcodes and classes, wrong counts, misplaced
//! records, OPT records that break the rules, invalid names, truncated messages.

use fastrand::Rng;

use super::query::{Edns, Plain, SOA, option};

const HEADER: usize = 12;

/// A TSIG record (RFC 8945, section 4.2) of the key `k.`, HMAC-SHA256, made in 2026, with a MAC of zeros.
const TSIG: &[u8] = b"\x01k\0\0\xfa\0\xff\0\0\0\0\0\x3d\x0bhmac-sha256\0\0\0\x69\x20\0\0\x01\x2c\0\x20\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Changes the bytes of a query. A change that replaces the question uses the rest of `Plain` only.
type Change = fn(&Plain, &mut Vec<u8>, &mut Rng);

#[rustfmt::skip]
const ODDITIES: [(&str, Change); 37] = [
    ("another opcode", |_, bytes, rng| set_opcode(bytes, rng.u8(1..16))),
    ("another opcode, header only", |_, bytes, rng| {
        set_opcode(bytes, rng.u8(1..16));
        keep_header(bytes);
    }),
    ("header only", |_, bytes, _| keep_header(bytes)),
    ("header only, QDCOUNT 1", |_, bytes, _| {
        keep_header(bytes);
        bytes[5] = 1;
    }),
    ("no question, but OPT", |_, bytes, rng| {
        keep_header(bytes);
        append_opt(bytes, &opt(&[], rng));
    }),
    ("no question, but a cookie", |_, bytes, rng| {
        keep_header(bytes);
        append_opt(bytes, &opt(&option(10, &rng.u64(..).to_be_bytes()), rng));
    }),
    ("two questions", |plain, bytes, _| {
        bytes[5] = 2;
        let end = question_end(plain);
        bytes.splice(end..end, plain.question.bytes());
    }),
    ("QDCOUNT 2, one question", |_, bytes, _| bytes[5] = 2),
    ("record in the answer section", |plain, bytes, _| insert_soa(plain, bytes, 7)),
    ("record in the authority section", |plain, bytes, _| {
        if bytes[9] == 0 {
            insert_soa(plain, bytes, 9);
        }
    }),
    ("record in the additional section", |plain, bytes, _| insert_soa(plain, bytes, 11)),
    ("bytes at the end", |_, bytes, rng| {
        let count = rng.usize(1..20);
        bytes.extend(std::iter::repeat_with(|| rng.u8(..)).take(count));
    }),
    ("cut off", |_, bytes, rng| bytes.truncate(rng.usize(HEADER..bytes.len()))),
    ("less than a header", |_, bytes, rng| bytes.truncate(rng.usize(..HEADER))),
    ("ARCOUNT too high", |_, bytes, _| bytes[11] += 1),
    ("qname points to itself", |_, bytes, _| bytes.splice(HEADER..=HEADER, [0xc0, 12]).for_each(drop)),
    ("qname points ahead", |_, bytes, _| bytes.splice(HEADER..=HEADER, [0xc0, 40]).for_each(drop)),
    ("qname points into the header", |_, bytes, _| bytes.splice(HEADER..=HEADER, [0xc0, 4]).for_each(drop)),
    ("label of a reserved type", |_, bytes, rng| bytes[HEADER] = rng.u8(0x40..0xc0)),
    ("qname of more than 255 bytes", |_, bytes, _| {
        let labels = std::iter::repeat_n(*b"\x0ffifteen letters", 15).flatten();
        bytes.splice(HEADER..HEADER, labels).for_each(drop);
    }),
    ("two OPTs", |_, bytes, rng| {
        let opt = opt(&[], rng);
        append_opt(bytes, &opt);
        append_opt(bytes, &opt);
    }),
    ("OPT whose owner is not the root", |plain, bytes, rng| {
        bytes.truncate(question_end(plain));
        bytes[6..HEADER].fill(0);
        bytes[11] = 1;
        bytes.extend([1, b'x']);
        bytes.extend(opt(&[], rng).bytes());
    }),
    ("OPT that is longer than the message", |plain, bytes, rng| with_opt(plain, bytes, rng, |opt| opt[10] = 9)),
    ("OPT whose option is longer than it", |plain, bytes, rng| with_opt(plain, bytes, rng, |opt| {
        opt[10] = 6;
        opt.extend([0, 3, 0, 9, 0, 0]);
    })),
    ("OPT with unknown flags", |plain, bytes, rng| with_opt(plain, bytes, rng, |opt| opt[8] = 0x7f)),
    ("OPT with an extended rcode", |plain, bytes, rng| with_opt(plain, bytes, rng, |opt| opt[5] = 1)),
    ("OPT of version 1 with options", |plain, bytes, rng| with_opt(plain, bytes, rng, |opt| {
        opt[6] = 1;
        opt[10] = 4;
        opt.extend([0, 3, 0, 0]);
    })),
    ("OPT in the answer section", |plain, bytes, rng| {
        with_opt(plain, bytes, rng, |_| ());
        (bytes[7], bytes[11]) = (1, 0);
    }),
    ("cookie of a wrong length", |plain, bytes, rng| {
        let length = *rng.choice(&[0_usize, 1, 7, 9, 15, 41, 50]).expect("there are some");
        bytes.truncate(question_end(plain));
        bytes[6..HEADER].fill(0);
        append_opt(bytes, &opt(&option(10, &vec![7; length]), rng));
    }),
    ("TSIG of an unknown key", |_, bytes, _| {
        let id = [bytes[0], bytes[1]];
        bytes.extend(TSIG);
        // The original ID, which stands before the error and the length of other data.
        let place = bytes.len() - 6;
        bytes[place..place + 2].copy_from_slice(&id);
        bytes[11] += 1;
    }),
    ("QR set", |_, bytes, _| bytes[2] |= 0x80),
    ("AA and TC set", |_, bytes, _| bytes[2] |= 0x06),
    ("RA and Z set", |_, bytes, _| bytes[3] |= 0xc0),
    ("an rcode set", |_, bytes, rng| bytes[3] |= rng.u8(1..16)),
    ("another class", |plain, bytes, rng| {
        let class: u16 = *rng.choice(&[0, 3, 3, 4, 254, 255, 255, 1000]).expect("there are some");
        let end = question_end(plain);
        bytes[end - 2..end].copy_from_slice(&class.to_be_bytes());
    }),
    ("about the server", |plain, bytes, rng| {
        let names: [&[u8]; 5] = [
            b"\x07version\x04bind\0", b"\x0eversion.server\0", b"\x02id\x06server\0", b"\x08hostname\x04bind\0",
            b"\x07authors\x04bind\0",
        ];
        bytes.splice(HEADER..HEADER + plain.question.qname.len(), names[rng.usize(..5)].iter().copied()).for_each(drop);
        let end = HEADER + bytes[HEADER..].iter().position(|byte| *byte == 0).expect("a name ends") + 1;
        bytes[end..end + 4].copy_from_slice(&[0, *rng.choice(&[16, 16, 16, 1, 255, 6]).expect("there are some"), 0, 3]);
        // The SOA of an IXFR has the old qname for its owner, so it is removed.
        if bytes[9] != 0 {
            bytes[9] = 0;
            bytes.drain(end + 4..end + 6 + SOA.len());
        }
    }),
    ("some bytes changed", |_, bytes, rng| {
        for _ in 0..rng.u8(1..4) {
            // The ID stays, since it identifies the reply.
            let place = rng.usize(2..bytes.len());
            bytes[place] = rng.u8(..);
        }
    }),
];

/// The names of all oddities.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ODDITIES.iter().map(|(name, _)| *name)
}

/// Makes a query odd, and returns the oddity's name.
pub(super) fn make(plain: &Plain, bytes: &mut Vec<u8>, rng: &mut Rng) -> &'static str {
    let (name, change) = rng.choice(&ODDITIES).expect("there are some");
    change(plain, bytes, rng);
    name
}

fn set_opcode(bytes: &mut [u8], opcode: u8) {
    bytes[2] = bytes[2] & 0x87 | opcode << 3;
}

fn keep_header(bytes: &mut Vec<u8>) {
    bytes.truncate(HEADER);
    bytes[4..].fill(0);
}

fn question_end(plain: &Plain) -> usize {
    HEADER + plain.question.qname.len() + 4
}

/// Inserts a SOA record after the question, and counts it at this byte of the header.
fn insert_soa(plain: &Plain, bytes: &mut Vec<u8>, count_at: usize) {
    let end = question_end(plain);
    bytes.splice(end..end, [0xc0, 12].into_iter().chain(SOA)).for_each(drop);
    bytes[count_at] += 1;
}

fn opt(options: &[u8], rng: &mut Rng) -> Edns {
    Edns {
        udp_payload_bytes: 1232,
        version: 0,
        is_do: rng.bool(),
        options: options.to_vec(),
        option_words: String::new(),
    }
}

/// Appends an OPT record, and counts it.
fn append_opt(bytes: &mut Vec<u8>, edns: &Edns) {
    bytes.extend(edns.bytes());
    bytes[11] += 1;
}

/// Keeps the question only, and adds an OPT record with changed bytes.
fn with_opt(plain: &Plain, bytes: &mut Vec<u8>, rng: &mut Rng, change: fn(&mut Vec<u8>)) {
    bytes.truncate(question_end(plain));
    bytes[6..HEADER].fill(0);
    bytes[11] = 1;
    let mut record = opt(&[], rng).bytes();
    change(&mut record);
    bytes.extend(record);
}
