//! A query file from a capture: a line for each query, with what the capture's reply had.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use kqps_dataset::{Check, Client, Dataset, Options, Query};
use kqps_files::whole::whole;
use kqps_message::name::{NameText, literal_end};
use kqps_message::query::CLASS_IN;
use kqps_message::rcode::RcodeName;
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
    let (mut written, mut left_out) = (0_u64, 0_u64);
    whole(output, |out| {
        let mut line = Vec::new();
        for query in dataset.iter() {
            line.clear();
            match append(&query, &mut line) {
                Some(()) => {
                    written += 1;
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
    eprintln!("{}: {written} queries of {name}{others}", output.display());
    Ok(ExitCode::SUCCESS)
}

/// Appends the line of a query; `None` if a line cannot say what the query asks. The line then is of no use.
fn append(query: &Query<'_>, line: &mut Vec<u8>) -> Option<()> {
    let message = query.message;
    if Header::of(message)?.questions() != 1 {
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
    if let Some(opt) = opt {
        line.extend_from_slice(if opt.ttl_s & edns::DO == 0 { b" E" } else { b" D" });
    }
    let expected = query.expected_rcode.map_or(Ok(()), |rcode| write!(line, " {}", RcodeName(rcode)));
    let answer = query.expected_answer.map_or(Ok(()), |digest| write!(line, " ={:016x}", digest.number()));
    line.push(b'\n');
    // Memory takes whatever is written.
    written.and(expected).and(answer).ok()
}

#[cfg(test)]
mod tests {
    use kqps_dataset::Digest;
    use kqps_message::{Edns, query, rtype};

    use super::*;

    fn line(message: &[u8], rcode: Option<u16>, answer: Option<u64>) -> Option<String> {
        let query = Query {
            message,
            question_bytes: 0,
            expected_rcode: rcode,
            expected_answer: answer.map(Digest::from_number),
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
