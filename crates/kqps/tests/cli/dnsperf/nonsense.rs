//! Nonsense for every flag: both programs end with the same status, and say the same first.

use super::both::Both;
use super::peer::Answer;
use super::shape;

/// Command lines that dnsperf refuses as it reads them.
const REFUSED: &[&str] = &[
    "-q 0",
    "-q x",
    "-q -1",
    "-q 1.5",
    "-Q 0",
    "-Q x",
    "-c 0",
    "-c 99999999999",
    "-T 0",
    "-T x",
    "-n 0",
    "-n x",
    "-l -1",
    "-l x",
    "-t x",
    "-t -1",
    "-b 0",
    "-b x",
    "-p 70000",
    "-p x",
    "-x 70000",
    "-x x",
    "-f foo",
    "-m foo",
    "-y foo",
    "-y a:b",
    "-y a:",
    "-y hmac-sha256:a:",
    "-y hmac-foo:a:AAAA",
    "-E foo",
    "-E 1:zz",
    "-E 3:",
    "-S x",
    "-S -1",
    "-O foo=1",
    "-O doh-method=PUT",
    "-O suppress=foo",
    "-O num-queries-per-conn=x",
    "-O",
    "-Z",
    "--x",
    "extra",
    "-s",
    "-d /nonexistent",
    "-u -B",
    "-B -e",
    "-B -D",
    "-E 1:0",
    "-l 1e1",
    "-l +1",
    "-t 1..5",
    "-O =x",
    "-O doh-uri=http://localhost/",
    "-a foo",
    "-s nosuch.invalid.",
    "-d /dev/null",
    "-B -d queries",
];

/// Odd values that dnsperf takes.
const TAKEN: &[&str] = &[
    "-q 70000",
    "-l 0",
    "-S 0",
    "-x 0",
    "-t 2 -q+3",
    "-n 1 -n 2",
    "-h",
    "-H",
    "-E 70000:00",
    "-f any",
    "-c 2 -T 9",
    "-d queries --",
    "-O suppress=unexpected",
    "-O supp=time,",
    "-l . -t 2",
    "-t 99999999999",
];

#[test]
fn nonsense_has_the_status_and_the_words_of_dnsperf() {
    let Some(both) = Both::new() else { return };
    for flags in REFUSED {
        let [theirs, ours] = [both.theirs(Answer::Echo, flags), both.ours(Answer::Echo, flags)];
        assert_eq!((ours.status, theirs.status), (Some(1), Some(1)), "{flags}: {}", ours.err);
        // getopt(3) names the program as it was called.
        let called = both.theirs.path.display().to_string();
        let first = theirs.err.lines().next().map(|line| line.replace(&called, "dnsperf"));
        assert_eq!(ours.err.lines().next().map(str::to_owned), first, "{flags}");
        assert!(ours.heard.is_empty() && !ours.err.contains("panicked"), "{flags}: {}", ours.err);
        assert_eq!(ours.err.contains("Usage: dnsperf"), theirs.err.contains("Usage: dnsperf"), "{flags}");
    }
    for flags in TAKEN {
        let [theirs, ours] = [both.theirs(Answer::Echo, flags), both.ours(Answer::Echo, flags)];
        assert_eq!((ours.status, theirs.status), (Some(0), Some(0)), "{flags}: {}", ours.err);
        assert_eq!(ours.heard.len(), theirs.heard.len(), "{flags}");
    }
}

#[test]
fn lines_that_are_no_queries_are_left_out_with_a_warning() {
    let Some(both) = Both::new() else { return };
    both.write(
        "mixed",
        "bad\nfoo.test FOO\nfoo..test A\nfoo.test A IN\nok.test TYPE65 more words\n*.x A\n. NS\n",
    );
    let [theirs, ours] = [both.theirs(Answer::Echo, "-d mixed"), both.ours(Answer::Echo, "-d mixed")];
    assert_eq!((ours.status, theirs.status), (Some(0), Some(0)));
    assert_eq!((super::sorted(&ours.heard), ours.heard.len()), (super::sorted(&theirs.heard), 4));
    assert!(theirs.err.starts_with("Warning: invalid query input"), "{}", theirs.err);
    assert_eq!(ours.err.matches("Warning: invalid query input: 1 line left out").count(), 3, "{}", ours.err);
    let quiet = both.ours(Answer::Echo, "-d mixed -W");
    assert!(quiet.err.is_empty() && quiet.out.contains("Warning: invalid query input"), "{}", quiet.out);
    // A file without a single query ends well, and sends nothing.
    both.write("bad", "bad\n");
    let [theirs, ours] = [both.theirs(Answer::Echo, "-d bad"), both.ours(Answer::Echo, "-d bad")];
    assert_eq!((ours.status, theirs.status), (Some(0), Some(0)), "{}", ours.err);
    assert_eq!(shape::lines(&ours.out), shape::lines(&theirs.out));
}

#[test]
fn what_differs_from_debians_is_what_the_manual_says() {
    let Some(both) = Both::new() else { return };
    // dnsperf takes no secret whose base64 has no padding.
    let unpadded = "-y hmac-sha256:key:c2VjcmV0";
    let [theirs, ours] = [both.theirs(Answer::Echo, unpadded), both.ours(Answer::Echo, unpadded)];
    assert_eq!((theirs.status, ours.status), (Some(1), Some(0)), "{}", ours.err);
    // Its manual excludes the first two, and Debian's 2.10 takes them. A key with a bad name lets it send nothing, with
    // status 0.
    for flags in ["-B -E 1:00", "-B -y k:c2VjcmV0MTI=", "-y hmac-md5:a..b:c2VjcmV0MTI="] {
        let [theirs, ours] = [both.theirs(Answer::Echo, flags), both.ours(Answer::Echo, flags)];
        assert_eq!(ours.status, Some(1), "{flags}: {}", ours.err);
        if both.theirs.is_debians() {
            assert_eq!(theirs.status, Some(0), "{flags}: {}", theirs.err);
        }
    }
    // Debian's 2.10 takes an extended option without its value. 2.14 does not.
    assert_eq!(both.ours(Answer::Echo, "-O suppress=").status, Some(1));
    // A `#` that begins a line is a comment's in other tools, and a name's in dnsperf.
    both.write("hash", "# c\na.test A\n");
    assert_eq!(both.ours(Answer::Echo, "-d hash").heard.len(), 1);
}
