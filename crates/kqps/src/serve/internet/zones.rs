//! A tree of zones from master files: each server has some of them, at addresses of its own, and a delay.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::tree_folder::ServerLine;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kqps_internet::HINTS_TTL_S;
use kqps_message::header::{AA, HEADER_BYTES};
use kqps_message::{Header, edns, name, query, question, rcode, record, rtype};
use kqps_server::services::internet::{Kind, Level, Tree, TreeAnswer};
use kqps_zone::load::{LoadOptions, Served as ZoneServed, load};
use kqps_zone::source::Source;
use kqps_zone::{Asker, Entry, Outcome, Responder, ResponderSettings, Transport, Zones};

/// Room for a reply by TCP.
const REPLY_BYTES: usize = 65_535;

/// The flag of a key that signs the keys of a zone (RFC 4034, section 2.1.1; RFC 5011, section 7), and of one that is
/// revoked.
const SEP: u16 = 1;
const REVOKED: u16 = 1 << 7;

/// A value of `--server`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerArgument {
    addresses: Vec<IpAddr>,
    /// `[ORIGIN=]FILE`.
    zone: PathBuf,
}

/// Parses `ADDR[,ADDR...]=[ORIGIN=]FILE`.
pub(super) fn parse_server(text: &str) -> Result<ServerArgument, String> {
    let expected = || {
        format!("`{text}`: expected ADDR[,ADDR...]=[ORIGIN=]FILE, such as 192.0.2.1,2001:db8::1=test.zone")
    };
    let (addresses, zone) = text.split_once('=').ok_or_else(expected)?;
    let addresses: Result<Vec<IpAddr>, _> = addresses.split(',').map(str::parse).collect();
    let addresses = addresses.map_err(|_| expected())?;
    if zone.is_empty() || zone.ends_with('=') {
        return Err(format!("`{text}`: the file is missing after the ="));
    }
    if let Some(odd) = addresses.iter().find(|address| address.is_unspecified() || address.is_multicast()) {
        return Err(format!("`{text}`: no server can have the address {odd}"));
    }
    Ok(ServerArgument { addresses, zone: zone.into() })
}

/// Servers with their zones.
pub(super) struct ZonesByServer {
    servers: BTreeMap<IpAddr, Served>,
}

/// The zones and the delay of a server.
struct Served {
    zones: Arc<Zones>,
    delay_ns: u64,
}

thread_local! {
    /// Each thread answers with memory of its own.
    static ANSWERING: RefCell<Answering> = RefCell::new(Answering {
        responder: Responder::new(ResponderSettings {
            udp_payload_bytes: edns::UDP_PAYLOAD_BYTES,
            ..ResponderSettings::default()
        }),
        buffer: vec![0; REPLY_BYTES].into(),
    });
}

struct Answering {
    responder: Responder,
    buffer: Box<[u8]>,
}

impl ZonesByServer {
    /// Loads the zones of the servers of `--server`, which all have this delay. The text of an error names the file.
    pub(super) fn from_arguments(servers: &[ServerArgument], delay: Duration) -> Result<Self, String> {
        let mut by_address: BTreeMap<IpAddr, Vec<PathBuf>> = BTreeMap::new();
        for ServerArgument { addresses, zone } in servers {
            for address in addresses {
                let zones = by_address.entry(*address).or_default();
                if zones.contains(zone) {
                    return Err(format!("--server: {address} is given {} twice", zone.display()));
                }
                zones.push(zone.clone());
            }
        }
        let line = |(address, files)| ServerLine { address, delay, files };
        let lines: Vec<ServerLine> = by_address.into_iter().map(line).collect();
        let source = |file: &Path| Source::of_argument(file).map_err(|error| error.to_string());
        Self::load_by(&lines, &source).map_err(|why| format!("--server: {why}"))
    }

    /// Loads the zones of the servers of a folder, each file once. The text of an error names the file.
    pub(super) fn load(servers: &[ServerLine]) -> Result<Self, String> {
        Self::load_by(servers, &|file| Ok(Source { apex: None, path: file.to_owned() }))
    }

    fn load_by(
        servers: &[ServerLine],
        source: &dyn Fn(&Path) -> Result<Source, String>,
    ) -> Result<Self, String> {
        let mut loaded: BTreeMap<&Path, Entry> = BTreeMap::new();
        // Servers with the same zones share them.
        let mut shared: BTreeMap<&[PathBuf], Arc<Zones>> = BTreeMap::new();
        let mut by_address = BTreeMap::new();
        for ServerLine { address, delay, files } in servers {
            if !shared.contains_key(&**files) {
                for file in files {
                    if !loaded.contains_key(&**file) {
                        loaded.insert(file, load_zone(source(file)?)?);
                    }
                }
                let zones = Zones::build(files.iter().map(|file| loaded[&**file].clone()));
                if zones.len() < files.len() {
                    return Err(format!("{address}: two of its files have the same zone"));
                }
                shared.insert(files, Arc::new(zones));
            }
            let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
            let served = Served { zones: shared[&**files].clone(), delay_ns };
            if by_address.insert(*address, served).is_some() {
                return Err(format!("{address} has two lines"));
            }
        }
        Ok(Self { servers: by_address })
    }

    /// The servers of the root.
    fn roots(&self) -> impl Iterator<Item = IpAddr> {
        self.servers
            .iter()
            .filter(|(_, served)| served.zones.get(&[0]).is_some())
            .map(|(address, _)| *address)
    }

    /// The DNSKEY records of the root that sign its keys.
    fn anchors(&self) -> Option<String> {
        let root = self.roots().next()?;
        let (mut asked, mut reply) = (Vec::new(), Vec::new());
        query::write(&mut asked, b".", rtype::DNSKEY, None).ok()?;
        self.answer(root, &asked, true, &mut reply);
        let (mut text, mut at) = (String::new(), question::end(&reply)?);
        for _ in 0..Header::from_bytes(&reply)?.answers() {
            let found = record::read(&reply, at)?;
            at = found.end;
            if found.rtype != rtype::DNSKEY {
                continue;
            }
            if let [f0, f1, protocol, algorithm, key @ ..] = found.data {
                let flags = u16::from_be_bytes([*f0, *f1]);
                if flags & SEP != 0 && flags & REVOKED == 0 {
                    let key = STANDARD.encode(key);
                    let _ = writeln!(text, ". {HINTS_TTL_S} IN DNSKEY {flags} {protocol} {algorithm} {key}");
                }
            }
        }
        Some(text)
    }
}

/// Loads the zone of a file.
fn load_zone(source: Source) -> Result<Entry, String> {
    let file = source.path.clone();
    let found = load(&[source], None, &LoadOptions { threads: 1, progress: &|_| {} });
    let faulty =
        found.reports.iter().find(|report| matches!(report.served, ZoneServed::Nothing | ZoneServed::Other));
    if let Some(error) = faulty.and_then(|report| report.errors.first()) {
        return Err(error.to_string());
    }
    found.zones.iter().next().cloned().ok_or_else(|| format!("{} has no zone", file.display()))
}

impl Tree for ZonesByServer {
    fn prefixes(&self) -> Vec<(IpAddr, u8)> {
        self.servers.keys().map(|address| (*address, if address.is_ipv4() { 32 } else { 128 })).collect()
    }

    fn has_delays(&self) -> bool {
        self.servers.values().any(|served| served.delay_ns > 0)
    }

    fn answer(&self, server: IpAddr, query: &[u8], is_tcp: bool, reply: &mut Vec<u8>) -> TreeAnswer {
        let silent = |level| TreeAnswer { level, kind: Kind::Silent, delay_ns: 0, fault: None };
        let Some(Served { zones, delay_ns }) = self.servers.get(&server) else {
            return silent(Level::Nothing);
        };
        let level = level(zones, query);
        ANSWERING.with_borrow_mut(|Answering { responder, buffer }| {
            buffer[..query.len()].copy_from_slice(query);
            let transport = if is_tcp { Transport::Tcp } else { Transport::Udp };
            let asker = Asker { address: Ipv4Addr::LOCALHOST.into(), transport, now_s: 0, idle_ds: None };
            match responder.respond(zones, buffer, query.len(), &asker) {
                Outcome::Reply(bytes) => {
                    reply.extend_from_slice(&buffer[..bytes]);
                    let kind = kind(reply, responder.rcode());
                    TreeAnswer { level, kind, delay_ns: *delay_ns, fault: None }
                }
                Outcome::Transfer(_) | Outcome::Silence(_) => silent(level),
            }
        })
    }

    fn root_hints(&self) -> String {
        let mut text = String::new();
        for (number, address) in self.roots().enumerate() {
            let rtype = if address.is_ipv4() { "A" } else { "AAAA" };
            let name = format!("root-{number}.kqps.invalid.");
            let _ = writeln!(text, ". {HINTS_TTL_S} IN NS {name}\n{name} {HINTS_TTL_S} IN {rtype} {address}");
        }
        text
    }

    fn trust_anchor(&self) -> String {
        self.anchors().unwrap_or_default()
    }
}

/// The level of the server's zone that is nearest above a query's name.
fn level(zones: &Zones, query: &[u8]) -> Level {
    let Some(end) = name::literal_end(query, HEADER_BYTES) else { return Level::Nothing };
    let mut rest = &query[HEADER_BYTES..end];
    loop {
        if let Some(Entry::Loaded(zone)) = zones.get(rest) {
            return match zone.apex() {
                [0] => Level::Root,
                [label, after @ ..] if after.get(usize::from(*label)) == Some(&0) => Level::Tld,
                _ => Level::Hosting,
            };
        }
        match rest.split_first() {
            Some((label, after)) if *label > 0 => rest = &after[usize::from(*label)..],
            _ => return Level::Nothing,
        }
    }
}

/// The kind of a reply with this rcode.
fn kind(reply: &[u8], rcode: u16) -> Kind {
    let Some(header) = Header::from_bytes(reply) else { return Kind::Formerr };
    match rcode {
        rcode::NOERROR if header.is_truncated() => Kind::Truncated,
        rcode::NOERROR if header.answers() > 0 => Kind::Answer,
        rcode::NOERROR if reply[2] & AA == 0 && header.authorities() > 0 => Kind::Referral,
        rcode::NOERROR => Kind::Nodata,
        rcode::NXDOMAIN => Kind::Nxdomain,
        rcode::REFUSED => Kind::Refused,
        rcode::SERVFAIL => Kind::Servfail,
        rcode::NOTIMP => Kind::Notimp,
        _ => Kind::Formerr,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(folder: &Path) -> ZonesByServer {
        let zone = |file: &str, text: &str| {
            let path = folder.join(file);
            let apex = "$TTL 60\n@ SOA ns.test. h.test. 1 2 3 4 5\n";
            fs::write(&path, format!("{apex}{text}")).unwrap();
            path.display().to_string()
        };
        let root = zone(
            "root",
            "@ NS a.root.\n@ DNSKEY 257 3 13 AAAA\n@ DNSKEY 256 3 13 BBBB\na.root. A 192.0.2.1\ntest. NS ns.test.\nns.test. A 192.0.2.2\n",
        );
        let test = zone(
            "test",
            "@ NS ns.test.\nns A 192.0.2.2\nwww A 192.0.2.80\nsub NS ns.sub\nns.sub A 192.0.2.3\n",
        );
        let servers = [
            format!("192.0.2.1,2001:db8::1=.={root}"),
            format!("192.0.2.2=test={test}"),
            format!("192.0.2.2=b.example={test}"),
        ];
        let servers: Vec<_> = servers.iter().map(|text| parse_server(text).unwrap()).collect();
        ZonesByServer::from_arguments(&servers, Duration::from_millis(3)).unwrap()
    }

    #[test]
    fn each_server_answers_from_its_own_zones() {
        let folder = tempfile::tempdir().unwrap();
        let tree = tree(folder.path());
        let ask = |server: &str, name: &str| {
            let (mut asked, mut reply) = (Vec::new(), Vec::new());
            query::write(&mut asked, name.as_bytes(), rtype::A, None).unwrap();
            let answer = tree.answer(server.parse().unwrap(), &asked, false, &mut reply);
            assert_eq!(reply.is_empty(), answer.kind == Kind::Silent);
            (answer.level, answer.kind)
        };
        assert_eq!(ask("192.0.2.1", "www.test"), (Level::Root, Kind::Referral));
        assert_eq!(ask("2001:db8::1", "no"), (Level::Root, Kind::Nxdomain));
        assert_eq!(ask("192.0.2.2", "wWw.test"), (Level::Tld, Kind::Answer));
        assert_eq!(ask("192.0.2.2", "test"), (Level::Tld, Kind::Nodata));
        assert_eq!(ask("192.0.2.2", "a.sub.test"), (Level::Tld, Kind::Referral));
        assert_eq!(ask("192.0.2.2", "x.b.example"), (Level::Hosting, Kind::Nxdomain));
        assert_eq!(ask("192.0.2.2", "other"), (Level::Nothing, Kind::Refused));
        assert_eq!(ask("192.0.2.3", "www.test"), (Level::Nothing, Kind::Silent));
        assert_eq!(tree.prefixes().len(), 3);
    }

    #[test]
    fn a_resolver_finds_the_root_and_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let tree = tree(folder.path());
        let hints = tree.root_hints();
        assert!(hints.contains("root-0.kqps.invalid. 3600000 IN A 192.0.2.1\n"), "{hints}");
        assert!(hints.contains("root-1.kqps.invalid. 3600000 IN AAAA 2001:db8::1\n"), "{hints}");
        assert_eq!(tree.trust_anchor(), ". 3600000 IN DNSKEY 257 3 13 AAAA\n");
    }

    #[test]
    fn a_server_has_addresses_and_a_file() {
        let server = parse_server("192.0.2.1,::2=test=a=b.zone").unwrap();
        assert_eq!((server.addresses.len(), server.zone.to_str()), (2, Some("test=a=b.zone")));
        for (text, why) in [
            ("test.zone", "expected ADDR"),
            ("here=test.zone", "expected ADDR"),
            ("192.0.2.1=", "the file is missing"),
            ("192.0.2.1=test=", "the file is missing"),
            ("0.0.0.0=test.zone", "no server can have"),
        ] {
            assert!(parse_server(text).unwrap_err().contains(why), "{text}");
        }
        let twice = [parse_server("192.0.2.1=a.zone").unwrap(), parse_server("192.0.2.1=a.zone").unwrap()];
        let error = ZonesByServer::from_arguments(&twice, Duration::ZERO).err().unwrap();
        assert_eq!(error, "--server: 192.0.2.1 is given a.zone twice");
    }
}
