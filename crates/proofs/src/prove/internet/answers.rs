//! The answers of a validating resolver beside those that follow from the tree: the rcode, every record, and the AD bit.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_ask::{Connection, Server};
use kqps_internet::{Internet, InternetRecipe};
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
type Rec = (Vec<u8>, u16, Vec<u8>);

/// The facts that are compared: the rcode, whether AD is set, and the records of the answer but signatures, in order of their
/// bytes.
type Facts = (u16, bool, Vec<Rec>);

/// The small Internet of the built-in recipe, with settings.
pub(super) fn internet(settings: &[&str]) -> Result<Internet> {
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let recipe = InternetRecipe::named("internet", Some("small"), &settings)?;
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
        let asked = asked(number, &qname, qtype);
        let reply = connection.ask(&asked, PATIENCE).with_context(said)?;
        let found = facts(&reply).context("the reply is malformed").with_context(said)?;
        let records = expected.answers.into_iter();
        let mut records: Vec<Rec> =
            records.map(|one| (one.owner.to_ascii_lowercase(), one.rtype, one.data)).collect();
        records.sort_unstable();
        let expected: Facts = (expected.rcode, expected.is_secure, records);
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

/// A query with DO, whose ID is the lower half of a number.
fn asked(number: u32, qname: &[u8], qtype: u16) -> Vec<u8> {
    let [_, _, id @ ..] = number.to_be_bytes();
    let mut query = [&id[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0], qname].concat();
    query.extend_from_slice(&qtype.to_be_bytes());
    query.extend_from_slice(&query::CLASS_IN.to_be_bytes());
    let edns = Edns { udp_payload_bytes: REPLY_BYTES, dnssec_ok: true, client_subnet: None };
    edns::append(&mut query, 0, &edns);
    query
}

fn facts(reply: &[u8]) -> Option<Facts> {
    let header = Header::from_bytes(reply)?;
    let mut at = question::end(reply)?;
    let mut records = Vec::new();
    for _ in 0..header.answers() {
        let mut bytes = Vec::new();
        let found = canonical::append_record(reply, at, &mut bytes)?;
        at = found.end;
        if found.rtype != rtype::RRSIG {
            let owner = name::end(&bytes, 0)?;
            // Type and class are between owner and data.
            records.push((bytes[..owner].to_vec(), found.rtype, bytes.get(owner + 4..)?.to_vec()));
        }
    }
    records.sort_unstable();
    Some((edns::rcode(header, reply), reply[3] & AD != 0, records))
}

/// Asks the resolver of a network for the servers of the root. An error if no answer comes within this time.
pub(super) fn try_root(resolver: SocketAddr, home: &NetNs, within: Duration) -> Result<()> {
    connect(resolver, home)?.ask(&asked(0, &[0], rtype::NS), within)?;
    Ok(())
}
