//! A query file from a capture: a line for each query, with what the capture's reply had.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use kqps_dataset::{Check, Client, Dataset, Options, Query};
use kqps_files::whole::whole;
use kqps_message::header::RD;
use kqps_message::name::{NameText, literal_end};
use kqps_message::query::CLASS_IN;
use kqps_message::rcode::RcodeName;
use kqps_message::record::Record;
use kqps_message::rtype::RtypeName;
use kqps_message::{HEADER_BYTES, Header, edns};
use kqps_recipe::Expect;

use super::capture::unwritable;
use crate::captured::CapturedArgs;
use crate::exit::bad_input;

/// Writes the queries of a capture to `output`, which appears whole or not at all.
pub(super) fn write(
    capture: &Path,
    captured: &CapturedArgs,
    expect: Option<Expect>,
    output: &Path,
) -> anyhow::Result<ExitCode> {
    let options = Options { capture: captured.options(Client::Address), ..Options::default() };
    let dataset = Dataset::open(capture, &options).map_err(bad_input)?;
    let name = capture.display();
    let Some(facts) = dataset.capture() else {
        return Err(bad_input(format!("--from {name}: it is no capture; expected pcap, pcapng or dnstap")));
    };
    let check = match expect {
        None | Some(Expect::Nothing) => Check::Off,
        Some(Expect::Rcode) => Check::Rcode,
        Some(Expect::Answers) => Check::Answers,
    };
    if check != Check::Off && facts.answered == 0 {
        return Err(bad_input(format!("--expect: no query of {name} has a reply in it")));
    }
    let dataset = dataset.checked(check);
    let (mut written, mut left_out, mut asked_otherwise) = (0_u64, 0_u64, 0_u64);
    whole(output, |out| {
        let mut line = Vec::new();
        for query in dataset.iter() {
            line.clear();
            match append(&query, &mut line) {
                Some(says_all) => {
                    written += 1;
                    asked_otherwise += u64::from(!says_all);
                    out.write_all(&line)?;
                }
                None => left_out += 1,
            }
        }
        Ok(())
    })
    .map_err(unwritable(output))?;
    let others = match left_out {
        0 => String::new(),
        count => format!("; {count} that no line can say were left out (another class, or not one question)"),
    };
    let otherwise = match asked_otherwise {
        0 => String::new(),
        count => format!(
            "; {count} lines do not say all of their queries (RD, CD, AD, the size or options of EDNS), and expect \
             nothing"
        ),
    };
    eprintln!("{}: {written} queries of {name}{others}{otherwise}", output.display());
    Ok(ExitCode::SUCCESS)
}

/// Appends the line of a query; `None` if a line cannot say what the query asks. The line then is of no use. Returns
/// whether the query of the line is the captured one, so that the same answer is expected. Otherwise the line has none.
fn append(query: &Query<'_>, line: &mut Vec<u8>) -> Option<bool> {
    let message = query.message;
    if Header::from_bytes(message)?.questions() != 1 {
        return None;
    }
    let end = literal_end(message, HEADER_BYTES)?;
    let &[t0, t1, c0, c1] = message.get(end..)?.first_chunk::<4>()?;
    if u16::from_be_bytes([c0, c1]) != CLASS_IN {
        return None;
    }
    let name = NameText(&message[HEADER_BYTES..end]);
    let written = write!(line, "{name} {}", RtypeName(u16::from_be_bytes([t0, t1])));
    let opt = edns::find(message).ok().flatten();
    if let Some(opt) = &opt {
        line.extend_from_slice(if opt.ttl_s & edns::DO == 0 { b" E" } else { b" D" });
    }
    let says_all = is_usual(message, opt.as_ref());
    let expected_rcode = query.expected_rcode.filter(|_| says_all);
    let expected_answer = query.expected_answer.filter(|_| says_all);
    let expected = expected_rcode.map_or(Ok(()), |rcode| write!(line, " {}", RcodeName(rcode)));
    let answer = expected_answer.map_or(Ok(()), |digest| write!(line, " ={:016x}", digest.number()));
    line.push(b'\n');
    // Memory takes whatever is written.
    written.and(expected).and(answer).ok().map(|()| says_all)
}

/// Whether a query has what that of a line has beside its question: RD and no other flag, and no record but EDNS with
/// the usual size and without options.
fn is_usual(message: &[u8], opt: Option<&Record<'_>>) -> bool {
    let Some(header) = Header::from_bytes(message) else { return false };
    let has_usual_edns = opt.is_none_or(|opt| {
        opt.class == edns::UDP_PAYLOAD_BYTES && opt.ttl_s & !edns::DO == 0 && opt.data.is_empty()
    });
    let records = (header.answers(), header.authorities(), header.additionals());
    message[2..4] == [RD, 0] && records == (0, 0, u16::from(opt.is_some())) && has_usual_edns
}

#[cfg(test)]
mod tests {
    use kqps_dataset::Digest;
    use kqps_message::header::{AD, CD};
    use kqps_message::{ClientSubnet, Edns, query, rtype};

    use super::*;

    fn line(message: &[u8], rcode: Option<u16>, answer: Option<u64>) -> Option<String> {
        let query = Query {
            message,
            question_bytes: 0,
            expected_rcode: rcode,
            expected_answer: answer.map(|number| Digest::from_number(number, false)),
        };
        let mut line = Vec::new();
        append(&query, &mut line)?;
        Some(String::from_utf8(line).unwrap())
    }

    fn message(edns: Option<&Edns>) -> Vec<u8> {
        let mut message = Vec::new();
        query::write(&mut message, b"wWw.a\\.b.test", rtype::AAAA, edns).unwrap();
        message
    }

    #[test]
    fn a_line_has_what_the_query_and_its_reply_had() {
        assert_eq!(line(&message(None), None, None).unwrap(), "wWw.a\\.b.test. AAAA\n");
        let with = |dnssec_ok| message(Some(&Edns { dnssec_ok, ..Edns::default() }));
        assert_eq!(line(&with(false), Some(3), None).unwrap(), "wWw.a\\.b.test. AAAA E NXDOMAIN\n");
        let whole = "wWw.a\\.b.test. AAAA D NOERROR =00000000000000ff\n";
        assert_eq!(line(&with(true), Some(0), Some(255)).unwrap(), whole);
    }

    #[test]
    fn a_line_that_does_not_say_all_expects_nothing() {
        let said = |message: &[u8]| line(message, Some(0), Some(255)).unwrap();
        for (byte, bits) in [(2, 0), (3, AD), (3, CD)] {
            let mut flags = message(None);
            flags[byte] = bits;
            assert_eq!(said(&flags), "wWw.a\\.b.test. AAAA\n");
        }
        let large = Edns { udp_payload_bytes: 4096, ..Edns::default() };
        let subnet = Edns { client_subnet: ClientSubnet::parse("192.0.2.0/24"), ..Edns::default() };
        for edns in [large, subnet] {
            assert_eq!(said(&message(Some(&edns))), "wWw.a\\.b.test. AAAA E\n");
        }
    }

    #[test]
    fn what_no_line_can_say_is_left_out() {
        let mut chaos = message(None);
        let class = chaos.len() - 1;
        chaos[class] = 3;
        assert_eq!(line(&chaos, None, None), None);
        let mut two = message(None);
        two[5] = 2;
        assert_eq!(line(&two, None, None), None);
        assert_eq!(line(&[0; 12], None, None), None);
    }
}
