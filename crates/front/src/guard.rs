//! Judges which answers by datagrams are believed. An attacker who does not see the queries must guess the port, the
//! ID, the case of every letter (draft-vixie-dnsext-dns0x20) and, if the back end has cookies, 64 bits more (RFC 7873).

use kqps_message::header::HEADER_BYTES;

use super::cookies::{CookieVerdict, Cookies};
use super::queries::Query;

/// How far an answer is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is the back end's.
    Whole,
    /// It may be another's. The query is sent again over a connection, where no other host can answer.
    Doubted,
    /// It is the back end's, and refuses the cookie. The query is sent again with the cookie of the answer.
    Again,
    /// Its sender did not see the query.
    Forged,
}

/// Judges an answer to a query, whose question it repeats in some case. Without a question nothing shows the case.
pub(super) fn judge(query: &Query, cookies: Option<&mut Cookies>, reply: &[u8]) -> Trust {
    let said = cookies.map_or(CookieVerdict::Right, |cookies| cookies.read(reply));
    let question = reply.get(HEADER_BYTES..query.asked.end());
    let is_same = reply[5] == 1 && question == Some(query.asked.question(&query.bytes));
    match said {
        CookieVerdict::Wrong => Trust::Forged,
        CookieVerdict::Right if is_same => Trust::Whole,
        CookieVerdict::Refused if !query.had_bad_cookie => Trust::Again,
        CookieVerdict::Right | CookieVerdict::Refused | CookieVerdict::Doubtful => Trust::Doubted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsed_query::ParsedQuery;
    use crate::queries::{Client, Queries};

    #[test]
    fn an_answer_repeats_the_case_of_its_question() {
        let question = b"\x03wWw\x04TesT\0\0\x01\0\x01";
        let bytes = [&[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], &question[..]].concat();
        let mut queries = Queries::new(1);
        let place =
            queries.add(Client::Inner(1), &bytes, ParsedQuery::from_query(&bytes).unwrap(), None).unwrap();
        let query = queries.get(place);
        let mut reply = bytes.clone();
        reply[2] |= 0x80;
        assert_eq!(judge(query, None, &reply), Trust::Whole);
        reply[13] ^= 0x20;
        assert_eq!(judge(query, None, &reply), Trust::Doubted);
        reply.truncate(12);
        reply[5] = 0;
        assert_eq!(judge(query, None, &reply), Trust::Doubted, "an error without a question");
        let mut cookies = Cookies::new().unwrap();
        let mut forged = [&bytes[..], b"\0\0\x29\x04\xd0\0\0\0\0\0\x0c\0\x0a\0\x0812345678"].concat();
        (forged[2], forged[11]) = (0x81, 1);
        assert_eq!(judge(query, Some(&mut cookies), &forged), Trust::Forged);
    }

    #[test]
    fn a_refused_cookie_is_replaced_once() {
        let bytes = b"\0\x07\x01\0\0\x01\0\0\0\0\0\x01\x01a\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0";
        let mut queries = Queries::new(1);
        let place =
            queries.add(Client::Inner(1), bytes, ParsedQuery::from_query(bytes).unwrap(), None).unwrap();
        let mut cookies = Cookies::new().unwrap();
        let mut refusal = Vec::new();
        cookies.write(bytes, &mut refusal);
        // BADCOOKIE is 23: 1 in the OPT record, and 7 in the header. A server cookie follows the client's.
        let end = refusal.len();
        refusal.extend(b"12345678");
        (refusal[2], refusal[3], refusal[end - 18]) = (0x81, 7, 1);
        (refusal[end - 13], refusal[end - 9]) = (20, 16);
        assert_eq!(judge(queries.get(place), Some(&mut cookies), &refusal), Trust::Again);
        queries.get_mut(place).had_bad_cookie = true;
        assert_eq!(judge(queries.get(place), Some(&mut cookies), &refusal), Trust::Doubted);
    }
}
