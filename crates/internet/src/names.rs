//! The names of zones and of what is in them, in wire form and lower case, and the way back from labels to numbers.

use kqps_recipe::append_decimal;

use crate::place::{Node, ZoneId};
use crate::tree::{LABELS, Tree, Zone};

/// Adds a label.
fn label(write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    let start = out.len();
    out.push(0);
    write(out);
    out[start] = u8::try_from(out.len() - start - 1).expect("a label has 63 bytes at most");
}

fn plain(text: &[u8], out: &mut Vec<u8>) {
    label(|out| out.extend_from_slice(text), out);
}

/// Adds a label of a word and a number.
fn counted(word: &[u8], number: u64, out: &mut Vec<u8>) {
    let write = |out: &mut Vec<u8>| {
        out.extend_from_slice(word);
        append_decimal(number, out);
    };
    label(write, out);
}

/// Adds the letter of a server: `a`, `b` and so on.
fn letter(own: u8, out: &mut Vec<u8>) {
    plain(&[b'a' + own], out);
}

impl Tree {
    /// Appends the name of a zone.
    pub(crate) fn append_apex(&self, zone: &Zone, out: &mut Vec<u8>) {
        match zone {
            Zone::Root => {}
            Zone::Tld(tld) => plain(&self.tlds[*tld as usize].label, out),
            Zone::Company(company) => {
                counted(b"dns-", u64::from(*company), out);
                plain(&self.tlds[self.companies[*company as usize].tld as usize].label, out);
            }
            Zone::Site(site) => {
                label(|out| self.labels.append(self.recipe.seed ^ LABELS, site.number, out), out);
                plain(&self.tlds[site.tld as usize].label, out);
            }
        }
        out.push(0);
    }

    /// Appends the name of a node in a zone.
    pub(crate) fn append_name(&self, zone: &Zone, node: Node, out: &mut Vec<u8>) {
        match node {
            Node::Apex => {}
            Node::Tld(tld) => plain(&self.tlds[tld as usize].label, out),
            Node::RootServers => plain(b"root-servers", out),
            Node::RootServer(own) => {
                letter(own, out);
                plain(b"root-servers", out);
            }
            Node::Nic => plain(b"nic", out),
            Node::NicServer(own) => {
                letter(own, out);
                plain(b"nic", out);
            }
            Node::Company(company) => counted(b"dns-", company.into(), out),
            Node::Site(number) => {
                label(|out| self.labels.append(self.recipe.seed ^ LABELS, number, out), out);
            }
            Node::Server(own) => counted(b"ns", u64::from(own) + 1, out),
            Node::Edge(number, step) => edge(number, step, out),
            Node::Www => plain(b"www", out),
            Node::Mail => plain(b"mail", out),
            Node::Host(host) => counted(b"host-", host.into(), out),
            Node::Wildcard => plain(b"*", out),
            Node::Dmarc => plain(b"_dmarc", out),
            Node::Tcp => plain(b"_tcp", out),
            Node::Sip => {
                plain(b"_sip", out);
                plain(b"_tcp", out);
            }
        }
        self.append_apex(zone, out);
    }

    /// The name of a zone.
    pub(crate) fn apex(&self, id: ZoneId) -> Vec<u8> {
        let mut out = Vec::new();
        self.append_apex(&self.zone(id), &mut out);
        out
    }

    /// The zone directly below a top-level domain that has this label. `spare` is a buffer.
    #[inline]
    pub(crate) fn child(&self, tld: u32, label: &[u8], spare: &mut Vec<u8>) -> Option<Zone> {
        if label.first_chunk().is_some_and(|word: &[u8; 4]| word.eq_ignore_ascii_case(b"dns-")) {
            let company = u32::try_from(number(&label[4..])?).ok()?;
            let is_there = self.companies.get(company as usize).is_some_and(|known| known.tld == tld);
            return is_there.then_some(Zone::Company(company));
        }
        let digits = label.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let number = number(&label[label.len() - digits..])?;
        if number >= self.recipe.zone.count {
            return None;
        }
        spare.clear();
        self.labels.append(self.recipe.seed ^ LABELS, number, spare);
        if !spare.eq_ignore_ascii_case(label) {
            return None;
        }
        let site = self.site(number);
        (site.tld == tld).then_some(Zone::Site(site))
    }
}

fn edge(number: u64, step: u8, out: &mut Vec<u8>) {
    let write = |out: &mut Vec<u8>| {
        out.push(b'e');
        append_decimal(number, out);
        out.push(b'-');
        append_decimal(step.into(), out);
    };
    label(write, out);
}

/// The number in decimal digits, without leading zeros.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 10 || (digits[0] == b'0' && digits.len() > 1) {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
    })
}

/// The number of a server after `a`, if it is below `servers`.
pub(crate) fn lettered(label: &[u8], servers: u8) -> Option<u8> {
    let [letter] = label else { return None };
    let own = letter.to_ascii_lowercase().checked_sub(b'a')?;
    (own < servers).then_some(own)
}

/// The number after a word.
pub(crate) fn after(word: &[u8], label: &[u8]) -> Option<u64> {
    let (head, digits) = label.split_at_checked(word.len())?;
    if head.eq_ignore_ascii_case(word) { number(digits) } else { None }
}
