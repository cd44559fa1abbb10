//! The answers of a validating resolver beside those that follow from the tree: the rcode, every record, and the AD bit.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_ask::{Connection, Server};
use kqps_internet::{Expected, Internet, InternetRecipe};
use kqps_kernel::namespace::NetNs;
use kqps_message::edns::{self, Edns};
use kqps_message::name::{self, NameText};
use kqps_message::rtype::RtypeName;
use kqps_message::{Header, canonical, query, question, rtype};

/// How long the resolver may take to answer: its own timeouts end before.
const PATIENCE: Duration = Duration::from_secs(10);

/// The AD bit in the second byte of a header's flags (RFC 4035, section 3.2.3).
const AD: u8 = 0x20;

/// The most bytes of a reply. Every answer fits.
const REPLY_BYTES: u16 = 4096;

/// A record as it is compared: owner in lower case, type and data.
pub(super) type Rec = (Vec<u8>, u16, Vec<u8>);

/// The facts that are compared: the rcode, whether AD is set, and the records of the answer but signatures, in order of their
/// bytes.
type Facts = (u16, bool, Vec<Rec>);

/// The Internet of the built-in recipe in one of its sizes, with settings.
pub(super) fn internet(size: &str, settings: &[&str]) -> Result<Internet> {
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let recipe = InternetRecipe::named("internet", Some(size), &settings)?;
    Ok(Internet::new(&recipe)?)
}

/// Answers that were compared.
#[derive(Default)]
pub(super) struct Compared {
    pub(super) answers: u32,
    /// The number of these that must have the AD bit, and have it.
    pub(super) secure: u32,
}

/// Asks the resolver of a network the first questions of the clients, and compares each answer that the tree says. The error
/// names the first answer that is wrong.
pub(super) fn compare(
    internet: &Internet,
    count: u32,
    resolver: SocketAddr,
    home: &NetNs,
) -> Result<Compared> {
    let mut connection = connect(resolver, home)?;
    let mut compared = Compared::default();
    for number in 0..count {
        let (qname, qtype) = internet.question(number.into());
        let Some(expected) = internet.expected(&qname, qtype) else { continue };
        let said = || format!("question {number}, {} {}", NameText(&qname), RtypeName(qtype));
        let asked = asked(number, &qname, qtype, true);
        let reply = connection.ask(&asked, PATIENCE).with_context(said)?;
        let found = facts(&reply).context("the reply is malformed").with_context(said)?;
        let expected: Facts = (expected.rcode, expected.is_secure, records_of(&expected));
        ensure!(found == expected, "{}: expected {expected:?}, got {found:?}", said());
        compared.answers += 1;
        compared.secure += u32::from(expected.1);
    }
    Ok(compared)
}

/// A socket for the resolver of a network.
fn connect(resolver: SocketAddr, home: &NetNs) -> Result<Connection> {
    let connect = || Server::over_udp(resolver).connect(PATIENCE).map_err(std::io::Error::other);
    Ok(home.within(connect)?)
}

/// The records that an answer must have, in order of their bytes.
pub(super) fn records_of(expected: &Expected) -> Vec<Rec> {
    let records = expected.answers.iter();
    let mut records: Vec<Rec> =
        records.map(|one| (one.owner.to_ascii_lowercase(), one.rtype, one.data.clone())).collect();
    records.sort_unstable();
    records
}

/// A query whose ID is the lower half of a number.
pub(super) fn asked(number: u32, qname: &[u8], qtype: u16, dnssec_ok: bool) -> Vec<u8> {
    let [_, _, id @ ..] = number.to_be_bytes();
    let mut query = [&id[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0], qname].concat();
    query.extend_from_slice(&qtype.to_be_bytes());
    query.extend_from_slice(&query::CLASS_IN.to_be_bytes());
    let edns = Edns { udp_payload_bytes: REPLY_BYTES, dnssec_ok, client_subnet: None };
    edns::append(&mut query, 0, &edns);
    query
}

fn facts(reply: &[u8]) -> Option<Facts> {
    let header = Header::from_bytes(reply)?;
    let [mut records, _, _] = sections(reply)?;
    records.retain(|(_, rtype, _)| *rtype != rtype::RRSIG);
    records.sort_unstable();
    Some((edns::rcode(header, reply), reply[3] & AD != 0, records))
}

/// The records of answer, authority and additional section; `None` if a reply is malformed.
pub(super) fn sections(reply: &[u8]) -> Option<[Vec<Rec>; 3]> {
    let header = Header::from_bytes(reply)?;
    let mut at = question::end(reply)?;
    let mut sections = [Vec::new(), Vec::new(), Vec::new()];
    let counts = [header.answers(), header.authorities(), header.additionals()];
    for (count, section) in counts.into_iter().zip(&mut sections) {
        for _ in 0..count {
            let mut bytes = Vec::new();
            let found = canonical::append_record(reply, at, &mut bytes)?;
            at = found.end;
            let owner = name::end(&bytes, 0)?;
            // Type and class are between owner and data.
            section.push((bytes[..owner].to_vec(), found.rtype, bytes.get(owner + 4..)?.to_vec()));
        }
    }
    Some(sections)
}
