//! Files that are neither queries nor captures: one sentence that names the format and what helps.

use std::fs;

use kqps_dataset::{Dataset, Format, Options};

/// The lines of the error for a file with this content, after the path.
fn refused(content: &[u8], format: Format) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("queries");
    fs::write(&path, content).expect("a file");
    let options = Options { cache_dir: Some(folder.path().join("cache")), format, ..Options::default() };
    let error = Dataset::open(&path, &options).expect_err("no queries");
    let begin = path.display().to_string();
    error.lines().iter().map(|line| line.strip_prefix(&begin).unwrap_or(line).to_owned()).collect()
}

/// A file of the format that begins so.
fn file(begin: &[u8]) -> Vec<u8> {
    let mut file = begin.to_vec();
    file.extend((0..2000_u32).flat_map(|number| number.wrapping_mul(0x9e37_79b1).to_be_bytes()));
    file
}

#[test]
fn a_format_is_named_with_the_command_that_helps() {
    let mut tar = vec![0; 600];
    tar[..10].copy_from_slice(b"plain.pcap");
    tar[257..263].copy_from_slice(b"ustar\0");
    let erf = b"\0\0\0\0\x00\xf1\x53\x65\x02\x04\x00\x5c\0\0\0\x4a\0\0\x02";
    for (begin, named, helps) in [
        (&b"\xfd7zXZ\0\0\x04"[..], "xz", "`xz -d`"),
        (b"BZh91AY&SY", "bzip2", "`bzip2 -d`"),
        (b"\x04\x22\x4d\x18\x64\x40\xa7", "lz4", "`lz4 -d`"),
        (b"PK\x03\x04\x14\0", "zip", "`unzip`"),
        (&tar, "tar", "`tar -xf`"),
        (b"snoop\0\0\0\0\0\0\x02", "snoop", "`editcap -F pcap`"),
        (b"RTSS\x01\x01", "Network Monitor 1", "`editcap -F pcap`"),
        (b"GMBU\0\x02", "Network Monitor 2", "`editcap -F pcap`"),
        (erf, "ERF", "`editcap -F pcap`"),
        (b"\x83\x65C-DNS\xa3", "C-DNS", "`inspector`"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS", "`git lfs pull`"),
        (b"<!DOCTYPE html>\n<html>", "HTML", "download the file itself"),
    ] {
        let said = refused(&file(begin), Format::Auto);
        let [said] = &said[..] else { panic!("{said:?}") };
        assert!(said.contains(named) && said.contains(helps), "{said}");
        assert!(said.is_ascii() && !said.contains('\\'), "{said}");
    }
    // As lines for dnsperf, too.
    assert!(refused(&file(b"\xfd7zXZ\0"), Format::Plain)[0].contains("`xz -d`"));
}

#[test]
fn text_of_another_program_is_named_with_the_command_that_helps() {
    for (line, named, helps) in [
        (
            "22:13:20.000000 IP 198.18.0.7.40000 > 198.18.0.53.53: 0+ A? q0.example.test. (33)",
            "text that tcpdump printed",
            "`tcpdump -w FILE`",
        ),
        (
            "1700000000.0 IP6 2001:db8::1.40000 > 2001:db8::53.53: 0+ A? q0.example.test. (33)",
            "text that tcpdump printed",
            "`tcpdump -w FILE`",
        ),
        (
            "14-Nov-2023 22:13:20.000 client @0x7f 198.18.0.7#4 (q0.test): query: q0.test IN A + (198.18.0.53)",
            "a query log of BIND",
            "`sed ",
        ),
        (
            "[1700000000] unbound[5:0] info: 198.18.0.7 q0.example.test. A IN",
            "a query log of Unbound",
            "`sed ",
        ),
        (
            "Nov 14 22:13:20 dnsmasq[5]: query[A] q0.example.test from 198.18.0.7",
            "a query log of dnsmasq",
            "`sed ",
        ),
        (
            "14-Nov-2023 22:13:20.000 CQ 198.18.0.7:40000 -> 198.18.0.53:53 UDP 33b q0.example.test/IN/A",
            "text that dnstap-read printed",
            "the file of dnstap",
        ),
        ("#separator \\x09", "a log of Zeek", "`zeek-cut query qtype_name`"),
    ] {
        for end in ["\n", "\r\n"] {
            let text = format!("{line}{end}").repeat(50);
            for format in [Format::Auto, Format::Plain, Format::Updates] {
                let said = refused(text.as_bytes(), format);
                let [said] = &said[..] else { panic!("{said:?}") };
                assert!(said.contains(named) && said.contains(helps), "{said}");
            }
        }
    }
}

#[test]
fn another_binary_file_is_one_sentence() {
    let expected = " is a binary file; expected lines of `name type`, a capture (pcap, pcapng or dnstap, plain or \
                    compressed by gzip or zstd), or with -B messages after their lengths";
    for begin in [
        &b"\x7fELF\x02\x01\x01\0"[..],
        b"\x89PNG\r\n\x1a\n",
        b"\0\0\x01\0",
        b"\x03\x0a\xff\xff\xff\xff\xff\xff",
    ] {
        assert_eq!(refused(&file(begin), Format::Auto), [expected], "{begin:?}");
    }
}

#[test]
fn a_line_of_an_update_may_have_the_longest_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("updates");
    let text =
        |bytes: usize| format!("a.test\nadd x 60 TYPE65280 \\# {bytes} {}\nsend\n", "ab".repeat(bytes));
    fs::write(&path, text(65_000)).expect("a file");
    let options = Options {
        cache_dir: Some(folder.path().join("cache")),
        format: Format::Updates,
        ..Options::default()
    };
    let dataset = Dataset::open(&path, &options).expect("an update");
    assert_eq!(dataset.query(dataset.first()).message.len(), 12 + 12 + 65_000 + 14);
    let said =
        refused(format!("a.test\nadd x 60 TXT {}\nsend\n", "a".repeat(300_000)).as_bytes(), Format::Updates);
    assert!(said[0].starts_with(":2:270337: the line is longer than 270336 bytes"), "{said:?}");
}
