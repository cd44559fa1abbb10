//! A time in which a server stands still for the queries for one name, and answers all others.

use std::time::Duration;

/// Where the question's name begins in a message (RFC 1035, section 4.1.1).
const NAME_AT: usize = 12;

/// A standstill in which no query for a name is answered. Those that came meanwhile are answered at its end.
#[derive(Clone, Debug)]
pub struct Standstill {
    /// The first label of the name, after its length.
    label: &'static [u8],
    /// Queries for it that are answered before.
    before: u64,
    lasts: Duration,
    /// When it ends; `None` before it began.
    until_ns: Option<u64>,
}

impl Standstill {
    /// A standstill that begins after so many queries for names whose first label, after its length, is this.
    pub fn new(label: &'static [u8], before: u64, lasts: Duration) -> Self {
        Self { label, before, lasts, until_ns: None }
    }

    /// When the reply to this message may leave; `None` if at once.
    pub fn holds_until_ns(&mut self, message: &[u8], now_ns: u64) -> Option<u64> {
        if !message.get(NAME_AT..)?.starts_with(self.label) {
            return None;
        }
        if self.before > 0 {
            self.before -= 1;
            return None;
        }
        let lasts_ns = self.lasts.as_nanos() as u64;
        let until_ns = *self.until_ns.get_or_insert(now_ns + lasts_ns);
        (now_ns < until_ns).then_some(until_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_the_replies_for_its_name_for_its_time() {
        let message = |name: &[u8]| [&[0; NAME_AT][..], name].concat();
        let (named, other) = (message(b"\x04held\0"), message(b"\x05other\0"));
        let mut standstill = Standstill::new(b"\x04held", 2, Duration::from_nanos(300));
        let mut held = |message: &[u8], now_ns| standstill.holds_until_ns(message, now_ns);
        assert_eq!([held(&named, 0), held(&other, 1), held(&named, 2)], [None; 3]);
        assert_eq!([held(&named, 10), held(&named, 309)], [Some(310); 2]);
        assert_eq!([held(&other, 20), held(&named, 310), held(b"", 311)], [None; 3]);
    }
}
