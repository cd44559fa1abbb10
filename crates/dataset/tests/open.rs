//! Query files as users write them, opened and read back: known bytes, every kind of bad file, the cache.

use std::fs;
use std::path::{Path, PathBuf};

use kqps_dataset::{Check, Dataset, DatasetError, Digest, Format, Options};
use kqps_message::{edns, header, rcode};

/// A directory with a query file in it and a cache beside it.
struct Bench {
    directory: tempfile::TempDir,
    options: Options,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let options = Options { cache_dir: Some(directory.path().join("cache")), ..Options::default() };
        Self { directory, options }
    }

    fn with(change: impl FnOnce(&mut Options)) -> Self {
        let mut bench = Self::new();
        change(&mut bench.options);
        bench
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("queries")
    }

    fn open(&self, content: impl AsRef<[u8]>) -> Result<Dataset, DatasetError> {
        fs::write(self.path(), content).expect("a query file");
        Dataset::open(&self.path(), &self.options)
    }

    /// The text of an error after the path of the file.
    fn refused(&self, content: impl AsRef<[u8]>) -> String {
        let error = self.open(content).expect_err("a bad file").to_string();
        error.strip_prefix(&self.path().display().to_string()).unwrap_or(&error).to_owned()
    }

    fn cached(&self) -> Vec<PathBuf> {
        let cache = self.options.cache_dir.as_deref().expect("a cache");
        fs::read_dir(cache).expect("the cache").map(|entry| entry.expect("an entry").path()).collect()
    }
}

/// A query file that asks for the address of each label under `test`.
fn lines(labels: impl Iterator<Item = String>) -> String {
    labels.fold(String::new(), |text, label| text + &label + ".test A\n")
}

/// The message, expected rcode and question length of the only query.
fn only(dataset: &Dataset) -> (Vec<u8>, Option<u16>, usize) {
    assert_eq!(dataset.queries(), 1);
    let query = dataset.query(dataset.first());
    (query.message.to_vec(), query.expected_rcode, query.question_bytes)
}

const WWW: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x04test\0\x00\x01\x00\x01";

#[test]
fn a_line_becomes_a_query_of_known_bytes() {
    for text in
        ["www.test A\n", "www.test. A", "www.test\tTYPE1\r\n", "  www.test \t a  \n", "\u{feff}www.test A"]
    {
        let dataset = Bench::new().open(text).expect(text);
        assert_eq!(only(&dataset), (WWW.to_vec(), None, 14), "{text}");
    }
}

#[test]
fn comments_and_blank_lines_are_no_queries() {
    let text = "; a comment\n\n# another\n   \t\n  ;x\nwww.test A\n\r\n";
    assert_eq!(only(&Bench::new().open(text).expect("a query")).0, WWW);
    let long = format!("# {}\nwww.test A", "x".repeat(100_000));
    assert_eq!(only(&Bench::new().open(long).expect("a query")).0, WWW);
}

#[test]
fn a_name_may_begin_with_a_hash_as_in_dnsperf() {
    let text = "#tag.test A\n# A\n#a note\n#\n\t#www.test TYPE65 NXDOMAIN\n#.test\n;#x.test A\n";
    let dataset = Bench::new().open(text).expect("two queries");
    let names: Vec<u8> = dataset.iter().map(|query| query.message[12]).collect();
    assert_eq!(names, [4, 4], "the lengths of #tag and #www");
    assert_eq!((dataset.hash_queries(), dataset.hash_comments(), dataset.skipped()), (2, 2, 0));
    // A name with a bad type is not a query either. It is counted as left out.
    let dataset = Bench::new().open("#tag.test AAAAA\nwww.test A\n").expect("a query");
    assert_eq!((dataset.hash_queries(), dataset.hash_comments()), (0, 1));
}

#[test]
fn what_a_file_says_of_the_answer_is_known_whatever_is_checked() {
    let text = "a.test A\nb.test A NXDOMAIN\nc.test A NOERROR =6f15e63fb37c575a\nd.test A NOERROR\n\
                e.test A =c6a4a1d1545475f9\nf.test A RCODE23\n";
    let dataset = Bench::new().open(text).expect("queries").checked(Check::Off);
    let expectations: Vec<String> =
        (0..6).map(|index| dataset.expected(dataset.position(index)).to_string()).collect();
    assert_eq!(expectations, ["unknown", "NXDOMAIN", "NODATA", "NOERROR", "unknown", "BADCOOKIE"]);
}

#[test]
fn a_name_is_bytes() {
    let dataset = Bench::new().open(b"\xff\\032\\.\\ b.test A").expect("a query");
    assert_eq!(only(&dataset).0[12..24], *b"\x05\xff . b\x04test\0");
    let root = Bench::new().open(". NS").expect("a query");
    assert_eq!(only(&root).0[12..], *b"\0\x00\x02\x00\x01");
}

#[test]
fn the_content_of_further_columns_determines_their_meaning() {
    let opt = |columns: &str| {
        let dataset = Bench::new().open(format!("www.test A {columns}")).expect(columns);
        let (message, rcode, _) = only(&dataset);
        let opt = edns::find(&message)
            .expect("well formed")
            .map(|opt| (opt.ttl_s & edns::DO != 0, opt.data.to_vec()));
        (opt, rcode)
    };
    let subnet = b"\x00\x08\x00\x07\x00\x01\x18\x00\xc0\x00\x02".to_vec();
    let subnet_v6 = b"\x00\x08\x00\x08\x00\x02\x20\x00\x20\x01\x0d\xb8".to_vec();
    assert_eq!(opt(""), (None, None));
    assert_eq!(opt("E"), (Some((false, vec![])), None));
    assert_eq!(opt("D"), (Some((true, vec![])), None));
    assert_eq!(opt("192.0.2.0/24"), (Some((false, subnet.clone())), None));
    assert_eq!(opt("2001:db8::/32"), (Some((false, subnet_v6)), None));
    assert_eq!(opt("NXDOMAIN"), (None, Some(rcode::NXDOMAIN)));
    assert_eq!(opt("rcode23"), (None, Some(23)));
    assert_eq!(opt("D 192.0.2.0/24\tnoerror"), (Some((true, subnet)), Some(rcode::NOERROR)));
}

#[test]
fn edns_for_all_queries_adds_to_what_a_line_says() {
    let bench = Bench::with(|options| options.dnssec = true);
    let (message, _, question_bytes) = only(&bench.open("www.test A E").expect("a query"));
    assert_eq!(message[26..], *b"\0\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00");
    assert_eq!((message[11], question_bytes), (1, 14));
    let bench = Bench::with(|options| options.edns = true);
    let (message, ..) = only(&bench.open("www.test A").expect("a query"));
    assert_eq!(message[26..], *b"\0\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00");
}

#[test]
fn a_bad_line_is_named_with_its_place_and_what_was_expected() {
    for (text, error) in [
        ("www.test A\nwww..test A", ":2:5: bad name: a label is empty"),
        ("www.test", ":1:9: expected a type after the name, such as A or TYPE65"),
        ("\n\n www.test\r\n", ":3:10: expected a type after the name, such as A or TYPE65"),
        (
            "www.test AAAAA",
            ":1:10: unknown type \"AAAAA\"; expected one such as A or TYPE65; did you mean AAAA?",
        ),
        ("www.test \u{fc}", r#":1:10: unknown type "\xc3\xbc"; expected one such as A or TYPE65"#),
        (
            "www.test IN A",
            ":1:10: \"IN\" is a class, and every query's class is IN: expected `name type` without one",
        ),
        (
            "www.test TXT CLASS3",
            ":1:14: \"CLASS3\" is a class, and every query's class is IN: expected `name type` without one",
        ),
        ("a.test A\nb.test TYPE65536", ":2:8: unknown type \"TYPE65536\"; expected one such as A or TYPE65"),
        (
            "example.test\nrequire www\n",
            ":1:13: this is a dynamic update; -u reads a file of them, and without it a line is `name type`",
        ),
        (
            "a.test A\nadd www 3600 A 192.0.2.1",
            ":2:1: this is a dynamic update; -u reads a file of them, and without it a line is `name type`",
        ),
        (
            "a.test A\nsend",
            ":2:1: this is a dynamic update; -u reads a file of them, and without it a line is `name type`",
        ),
        ("a\\999 A", ":1:2: bad name: an escape is above \\255"),
        ("www.test A D E", ":1:14: a second EDNS column in one line"),
        ("www.test A NXDOMAIN NOERROR", ":1:21: a second expected rcode in one line"),
        ("www.test A =00c0ffee00c0ffee =00c0ffee00c0ffee", ":1:30: a second expected answer in one line"),
        (
            "www.test A =00c0ffee00c0ffe",
            ":1:12: bad answer digest \"=00c0ffee00c0ffe\"; expected = and 16 hexadecimal digits, as `kqps gen queries` \
             writes them",
        ),
        (
            "www.test A 192.0.2.0/33",
            ":1:12: bad client subnet \"192.0.2.0/33\"; expected an address and a length such as 192.0.2.0/24 or \
             2001:db8::/32",
        ),
        (
            "www.test A NXDOMAN",
            ":1:12: unknown column \"NXDOMAN\"; expected E (EDNS), D (EDNS and DO), AD, a client subnet such as \
             192.0.2.0/24 or 2001:db8::/32, an expected rcode such as NXDOMAIN, or = and the digest of an \
             expected answer; did you mean NXDOMAIN?",
        ),
    ] {
        assert_eq!(Bench::new().refused(text), error, "{text}");
    }
    let long = Bench::new().refused(format!("{} A", "x".repeat(5000)));
    assert_eq!(long, ":1:4097: the line is longer than 4096 bytes; binary messages are read with -B");
}

#[test]
fn columns_come_in_any_order_and_all_count() {
    let digest = "=00c0FFEE00c0ffee";
    for text in
        [format!("www.test A D NXDOMAIN {digest}"), format!("www.test A {digest}\tNXDOMAIN 192.0.2.0/24 D")]
    {
        let dataset = Bench::new().open(&*text).expect(&text);
        assert_eq!((dataset.answers(), dataset.check()), (1, Check::Answers), "all expectations");
        assert_eq!(only(&dataset).1, Some(3));
        let query = dataset.query(dataset.first());
        let expected = Some(Digest::from_number(0x00c0_ffee_00c0_ffee, false));
        assert_eq!((query.expected_rcode, query.expected_answer), (Some(3), expected), "{text}");
        assert!(query.message.len() > WWW.len(), "there is EDNS");
        let dataset = dataset.checked(Check::Rcode);
        let query = dataset.query(dataset.first());
        assert_eq!((query.expected_rcode, query.expected_answer), (Some(3), None));
        let dataset = dataset.checked(Check::Off);
        let query = dataset.query(dataset.first());
        assert_eq!((query.expected_rcode, query.expected_answer), (None, None));
    }
}

#[test]
fn a_query_that_asks_for_ad_has_the_bit_and_a_digest_that_covers_it() {
    let dataset = Bench::new().open("www.test A =00c0ffee00c0ffee ad").expect("a query");
    let query = dataset.query(dataset.first());
    assert_eq!(query.expected_answer, Some(Digest::from_number(0xc0_ffee_00c0_ffee, true)));
    assert_eq!((dataset.answers(), query.message[3] & header::AD), (1, header::AD));
    assert!(Bench::new().refused("www.test A AD AD").contains("AD column"));
}

#[test]
fn bad_lines_are_counted_where_that_is_asked_for() {
    let bench = Bench::with(|options| options.skip_bad = true);
    let text = format!("a.. A\nwww.test A\nx\n{} A\nwww.test AAAAA\n", "x".repeat(9000));
    let dataset = bench.open(&text).expect("one query");
    assert_eq!((only(&dataset).0, dataset.skipped()), (WWW.to_vec(), 4));
    let causes: Vec<_> = dataset.skipped_causes().collect();
    assert_eq!(causes, [("bad name", 1), ("no type", 1), ("unknown type", 1), ("line too long", 1)]);
    let again = bench.open(&text).expect("as it is kept");
    assert_eq!(again.skipped_causes().collect::<Vec<_>>(), causes);
    let named = [
        "q:1:3: bad name: a label is empty",
        "q:3:2: expected a type after the name, such as A or TYPE65",
        "q:4:4097: the line is longer than 4096 bytes; binary messages are read with -B",
        "q:5:10: unknown type \"AAAAA\"; expected one such as A or TYPE65; did you mean AAAA?",
    ];
    for dataset in [&dataset, &again] {
        assert_eq!(dataset.bad().lines(Path::new("q")), named, "of the file, and as they are kept");
    }
    assert_eq!(
        bench.refused("x\ny\n"),
        format!("{} holds no query; 2 bad ones were skipped", bench.path().display())
            [bench.path().display().to_string().len()..]
    );
}

#[test]
fn a_file_is_refused_with_the_first_bad_lines_of_all() {
    let bench = Bench::new();
    let lines = |content: Vec<u8>| {
        fs::write(bench.path(), content).expect("a file");
        let error = Dataset::open(&bench.path(), &bench.options).expect_err("no dataset");
        let path = bench.path().display().to_string();
        error.lines().iter().map(|line| line.replace(&path, "q")).collect::<Vec<_>>()
    };
    let text = "x\nwww.test A\ny\nz\n# nothing\nx\nx\nx\nwww.test A\nx\n";
    let refused = lines(text.into());
    assert!(refused[0].starts_with("q:1:2: expected a type"), "{refused:?}");
    assert!(refused[4].starts_with("q:7:2: expected a type"), "{refused:?}");
    assert_eq!(refused[5..], ["q: and 2 more are bad"]);
    // A source without an end is refused, too, whether its lines are bad or not.
    assert_eq!(lines("x\n".repeat(5000).into())[5..], ["q: and 995 or more are bad"]);
    let long = lines(["x\n", &format!("# {}\n", "x".repeat(4000)).repeat(4400)].concat().into());
    assert_eq!((long.len(), &*long[1]), (2, "q: the rest was not read"), "{long:?}");
    let updates = lines("test\nadd x 1 A 1.2.3.4\nsend\ntest\nadd y 1 A 1.2.3.4\nsend\n".into());
    assert_eq!((updates.len(), &*updates[1]), (2, "q: the rest was not read"), "{updates:?}");
    let reply = [&WWW[..2], &[0x80], &WWW[3..]].concat();
    let refused = lines(binary(&[&reply, WWW, &reply]));
    assert_eq!(refused[1..], ["q: message 3, at byte 56: it is a reply (QR=1); expected queries"]);
}

/// A binary file of these messages.
fn binary(messages: &[&[u8]]) -> Vec<u8> {
    messages.iter().flat_map(|message| [&(message.len() as u16).to_be_bytes(), *message].concat()).collect()
}

#[test]
fn binary_messages_are_kept_but_for_their_id() {
    let mut message = WWW.to_vec();
    message[..2].copy_from_slice(&[0xab, 0xcd]);
    for format in [Format::Auto, Format::Binary] {
        let bench = Bench::with(|options| options.format = format);
        let dataset = bench.open(binary(&[&message, &message])).expect("two queries");
        let all: Vec<_> = dataset.iter().map(|query| (query.message, query.question_bytes)).collect();
        assert_eq!(all, [(WWW, 14), (WWW, 14)]);
    }
}

#[test]
fn a_binary_message_that_has_an_opt_record_gets_the_do_flag() {
    let edns = Bench::with(|options| options.edns = true);
    let with_opt = only(&edns.open(binary(&[WWW])).expect("a query")).0;
    let bench = Bench::with(|options| options.dnssec = true);
    let wants = only(&bench.open(binary(&[WWW])).expect("a query")).0;
    assert_ne!(with_opt, wants);
    assert_eq!(only(&bench.open(binary(&[&with_opt])).expect("a query")).0, wants);
    assert_eq!(only(&bench.open(binary(&[&wants])).expect("a query")).0, wants);
}

#[test]
fn a_binary_message_gets_one_opt_record() {
    let bench = Bench::with(|options| options.edns = true);
    let (first, ..) = only(&bench.open(binary(&[WWW])).expect("a query"));
    assert_eq!(first[26..], *b"\0\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00");
    assert_eq!(only(&bench.open(binary(&[&first])).expect("a query")).0, first);
}

#[test]
fn a_bad_message_is_named_with_its_place() {
    let good = binary(&[WWW]);
    let after_good = |bytes: &[u8]| [&good, bytes].concat();
    let mut reply = WWW.to_vec();
    reply[2] |= 0x80;
    let mut counts_a_record = WWW.to_vec();
    counts_a_record[7] = 1;
    // An additional record of nearly the largest size that fits.
    let mut long = [WWW, b"\0\x00\x0a\x00\x01\x00\x00\x00\x00\xff\xd0", &vec![0; 0xffd0]].concat();
    long[11] = 1;
    for (content, error) in [
        (after_good(&good[..9]), ": message 2, at byte 28: the file ends after 9 of 28 bytes"),
        (after_good(&[0]), ": message 2, at byte 28: the file ends after 1 of 2 bytes"),
        (
            after_good(&[0, 3, 1, 2, 3]),
            ": message 2, at byte 28: 3 bytes are too few for a DNS message, whose header has 12",
        ),
        (binary(&[&reply]), ": message 1, at byte 0: it is a reply (QR=1); expected queries"),
        (binary(&[&WWW[..20]]), ": message 1, at byte 0: its question section is cut short or malformed"),
        (
            binary(&[&counts_a_record]),
            ": message 1, at byte 0: no OPT record can be added: its sections do not match its header's counts",
        ),
        (
            after_good(&binary(&[&long])),
            ": message 2, at byte 28: it is too long for an OPT or TSIG record to be added",
        ),
    ] {
        let bench = Bench::with(|options| options.edns = true);
        assert_eq!(bench.refused(&content), error);
        let bench = Bench::with(|options| options.skip_bad = true);
        let skipping = bench.open([good.clone(), content].concat()).expect("a query");
        assert!(skipping.iter().any(|query| query.message == WWW));
    }
}

#[test]
fn a_text_that_is_read_as_binary_is_seen_to_be_one() {
    let bench = Bench::with(|options| options.format = Format::Binary);
    assert_eq!(
        bench.refused("www.test A\n"),
        ": message 1, at byte 0: this is text, not a length; without -B the file is read as lines of `name type`"
    );
}

#[test]
fn a_name_that_is_a_word_of_updates_is_asked() {
    let dataset = Bench::new().open("add A\nsend.test A\ndelete TYPE65\n").expect("three queries");
    assert_eq!(dataset.queries(), 3);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let bench = Bench::new();
    assert_eq!(bench.refused(""), " holds no query");
    assert_eq!(bench.refused("# nothing\n"), " holds no query");
    let open = |path: &Path| Dataset::open(path, &bench.options).expect_err("no dataset").to_string();
    let directory = bench.directory.path();
    let expected = format!("{} is a directory; expected a file of queries", directory.display());
    assert_eq!(open(directory), expected);
    let missing = directory.join("missing");
    let expected = format!("cannot open {}: No such file or directory (os error 2)", missing.display());
    assert_eq!(open(&missing), expected);
    assert!(bench.cached().is_empty(), "nothing is kept of what failed");
}

#[test]
fn positions_lead_to_every_query() {
    let text = lines((0..5000).map(|index| "x".repeat(1 + index % 60)));
    let dataset = Bench::new().open(text).expect("5000 queries");
    let mut position = dataset.first();
    for index in 0..5000 {
        assert_eq!(dataset.position(index), position);
        assert_eq!(dataset.query(position).message[12], 1 + (index % 60) as u8);
        position = dataset.after(position);
    }
    assert_eq!(position, dataset.end());
    assert_eq!(dataset.position(5000), dataset.end());
}

#[test]
fn the_hash_is_that_of_the_content() {
    let dataset = Bench::new().open("www.test A").expect("a query");
    assert_eq!(dataset.hash(), blake3_hex(b"www.test A"));
    assert_eq!(dataset.note(), None);
}

fn blake3_hex(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

#[test]
fn an_encoded_file_is_made_once_for_each_content_and_shape() {
    let mut bench = Bench::new();
    bench.open("www.test A").expect("a query");
    let first = bench.cached();
    assert_eq!(first.len(), 1);
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).expect("a file"));
    let before = inode(&first[0]);
    bench.open("www.test A").expect("a query");
    assert_eq!((bench.cached(), inode(&first[0])), (first, before));
    bench.options.edns = true;
    assert_eq!(only(&bench.open("www.test A").expect("a query")).0.len(), WWW.len() + 11);
    bench.open("www.test AAAA").expect("a query");
    assert_eq!(bench.cached().len(), 3);
}

#[test]
fn a_damaged_encoded_file_is_made_again() {
    let bench = Bench::new();
    bench.open("www.test A").expect("a query");
    let kept = bench.cached().remove(0);
    let whole = fs::read(&kept).expect("the file");
    let mut damaged: Vec<Vec<u8>> =
        (0..whole.len()).step_by(7).map(|bytes| whole[..bytes].to_vec()).collect();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        damaged.push(bytes);
    }
    damaged.push([&whole[..], b"more"].concat());
    for bytes in damaged {
        fs::write(&kept, bytes).expect("damage");
        assert_eq!(only(&bench.open("www.test A").expect("a query")).0, WWW);
        assert_eq!(fs::read(&kept).expect("the file"), whole);
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_said_and_done_without() {
    let bench = Bench::new();
    fs::write(bench.options.cache_dir.as_deref().expect("a cache"), "a file, not a directory")
        .expect("a file");
    let dataset = bench.open("www.test A").expect("a query");
    assert_eq!(only(&dataset).0, WWW);
    let note = dataset.note().expect("a note");
    assert!(note.contains("not kept") && note.contains("cannot write"), "{note}");
}

#[test]
fn writers_at_the_same_time_do_not_disturb_each_other() {
    let bench = Bench::new();
    let text = lines((0..20_000).map(|index| format!("n{index}")));
    fs::write(bench.path(), text).expect("a query file");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let dataset = Dataset::open(&bench.path(), &bench.options).expect("20,000 queries");
                assert_eq!(dataset.iter().count(), 20_000);
            });
        }
    });
    assert_eq!(bench.cached().len(), 1);
}

#[test]
fn a_pipe_is_read_once() {
    let bench = Bench::new();
    let mut child = std::process::Command::new("echo")
        .arg("www.test A")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("echo runs");
    let pipe = child.stdout.take().expect("its output");
    let path = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe)));
    assert_eq!(only(&Dataset::open(&path, &bench.options).expect("a query")).0, WWW);
    child.wait().expect("echo ends");
}

#[test]
fn another_encoding_is_named_and_no_line_of_it_skipped() {
    let bench = Bench::with(|options| options.skip_bad = true);
    let utf_16: Vec<u8> = "\u{feff}www.test A\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let expected = ":1:1: the file is encoded in UTF-16, as its byte order mark shows; save it as UTF-8";
    assert_eq!(bench.refused(utf_16), expected);
    // Lines end with CRLF, and the mark is not part of the first name.
    let dataset = bench.open("\u{feff}www.test A NOERROR\r\nwww.test A\r\n").expect("a dataset");
    assert!(dataset.iter().all(|query| query.message == WWW));
}
