//! Pushes to this host, reached by a shell.

use std::fs;

use super::*;
use crate::host::Words;

/// A host that is this one, with a home of its own, reached by a shell.
fn host(home: &Path, more: &str) -> Host {
    let script = format!("unset XDG_CACHE_HOME; export HOME='{}'; {more} exec \"$@\"", home.display());
    let reach = ["sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
    Host::from_words(Words { name: "ns1", reach, data: "192.0.2.1", ..Words::default() }).unwrap()
}

/// A file that begins as this test's program does, without its table of entries, and that is longer than what waits
/// in memory.
fn program(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("program");
    let mut bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
    bytes.truncate(3 * QUEUED_MOST + 12_345);
    let count = if bytes[4] == 2 { 56..58 } else { 44..46 };
    bytes[count].fill(0);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_program_is_brought_once_and_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let host = host(folder.path(), "");
    let there = push(&host, &program).unwrap();
    let hash = identity::hash(&program).unwrap();
    let expected = folder.path().join(".cache/kqps").join(&hash).join("kqps");
    assert_eq!(Path::new(&there), expected);
    assert_eq!(fs::read(&expected).unwrap(), fs::read(&program).unwrap());
    let facts = fs::metadata(&expected).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&facts.permissions()) & 0o777, 0o700);
    assert_eq!(push(&host, &program).unwrap(), there);
    let again = fs::metadata(&expected).unwrap();
    assert_eq!(facts.modified().unwrap(), again.modified().unwrap());
    // A program that was cut short is brought anew, and nothing else is left.
    File::options().write(true).open(&expected).unwrap().set_len(10).unwrap();
    push(&host, &program).unwrap();
    assert_eq!(identity::hash(&expected).unwrap(), hash);
    assert_eq!(fs::read_dir(expected.parent().unwrap()).unwrap().count(), 1);
    // So is one of the same length with another content.
    let mut bytes = fs::read(&expected).unwrap();
    bytes[100] ^= 1;
    fs::write(&expected, bytes).unwrap();
    push(&host, &program).unwrap();
    assert_eq!(identity::hash(&expected).unwrap(), hash);
}

/// The hash of FIPS 180-4's example, and the script's own for a file of many pieces.
#[test]
fn the_hash_is_that_of_the_programs_of_a_host() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "abc").unwrap();
    let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(sha256_of(&path).unwrap(), (known.to_owned(), 3));
    let long: Vec<u8> = (0..700_000_u32).map(|number| (number * 7 + number / 256) as u8).collect();
    fs::write(&path, &long).unwrap();
    let program = std::process::Command::new("sha256sum").arg(&path).output().unwrap();
    let (hash, bytes) = sha256_of(&path).unwrap();
    assert!(String::from_utf8(program.stdout).unwrap().starts_with(&hash) && bytes == 700_000);
}

#[test]
fn a_file_with_the_length_and_the_crc_of_the_build_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let host = host(folder.path(), "");
    let there = push(&host, &program).unwrap();
    // The polynomial of cksum(1) and a one above it, XORed into the file: a multiple of it changes no remainder.
    let mut bytes = fs::read(&there).unwrap();
    let cksum = |path: &str| std::process::Command::new("cksum").arg(path).output().unwrap().stdout;
    let before = cksum(&there);
    for (at, xor) in [0x01, 0x04, 0xc1, 0x1d, 0xb7].into_iter().enumerate() {
        bytes[1000 + at] ^= xor;
    }
    fs::write(&there, &bytes).unwrap();
    assert_eq!(cksum(&there), before);
    assert_eq!(find_pushed(&host, &program).unwrap(), None, "another program with its checksum");
    push(&host, &program).unwrap();
    assert_eq!(fs::read(&there).unwrap(), fs::read(&program).unwrap());
}

#[test]
fn a_program_that_others_can_replace_does_not_run() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let host = host(folder.path(), "");
    let there = push(&host, &program).unwrap();
    let file = Path::new(&there);
    let own = file.parent().unwrap();
    let all = own.parent().unwrap();
    let cache = all.parent().unwrap();
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for (path, right) in [(own, 0o700), (all, 0o700), (cache, 0o755)] {
        for wrong in [0o770, 0o707] {
            set(path, wrong);
            assert_eq!(find_pushed(&host, &program).unwrap(), None, "{} {wrong:o}", path.display());
            let error = push(&host, &program).unwrap_err().to_string();
            let expected = format!("the folder {} is a link, is another user's, or may", path.display());
            assert!(error.contains(&expected), "{error}");
        }
        set(path, right);
        assert_eq!(find_pushed(&host, &program).unwrap().as_deref(), Some(&*there));
    }
    // Others cannot rename what they do not own in a sticky folder.
    set(cache, 0o1777);
    assert!(find_pushed(&host, &program).unwrap().is_some());
    // A file that others can write is brought anew.
    set(file, 0o722);
    assert_eq!(find_pushed(&host, &program).unwrap(), None);
    push(&host, &program).unwrap();
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o700);
    // No link is followed.
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(all, &elsewhere).unwrap();
    symlink(&elsewhere, all).unwrap();
    assert_eq!(find_pushed(&host, &program).unwrap(), None);
    assert!(push(&host, &program).unwrap_err().to_string().contains("is a link"));
    // A folder of another user, which root can make.
    fs::remove_file(all).unwrap();
    fs::rename(&elsewhere, all).unwrap();
    if std::os::unix::fs::chown(all, Some(4711), None).is_ok() {
        assert_eq!(find_pushed(&host, &program).unwrap(), None);
        assert!(push(&host, &program).unwrap_err().to_string().contains("is another user's"));
    }
}

#[test]
fn answers_have_a_limit() {
    let mut answers = Answers::default();
    for _ in 0..ANSWERS_MOST {
        answers.take(b"kqps-push want x86_64 /a", 0).unwrap();
    }
    assert!(answers.take(b"kqps-push want x86_64 /a", 0).is_err());
}

#[test]
fn what_a_killed_push_left_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let hash = identity::hash(&program).unwrap();
    let made = folder.path().join(".cache/kqps").join(hash);
    fs::create_dir_all(&made).unwrap();
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let part = |machine: &str, pid: u32| made.join(format!(".part-{machine}-{pid}"));
    let (dead, living) = (part(&machine, ended.id()), part(&machine, std::process::id()));
    let elsewhere = part("another-machine", ended.id());
    for part in [&dead, &living, &elsewhere] {
        fs::write(part, "x").unwrap();
    }
    push(&host(folder.path(), ""), &program).unwrap();
    assert!(!dead.exists() && living.exists() && elsewhere.exists());
}

#[test]
fn a_look_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let host = host(folder.path(), "");
    assert_eq!(find_pushed(&host, &program).unwrap(), None);
    assert!(!folder.path().join(".cache").exists());
    let there = push(&host, &program).unwrap();
    assert_eq!(find_pushed(&host, &program).unwrap(), Some(there));
}

#[test]
fn a_host_does_not_choose_the_words_of_commands_here() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let hash = identity::hash(&program).unwrap();
    let arch = std::env::consts::ARCH;
    for path in ["-A", "-oProxyCommand=x", "kqps", "/tmp/kqps", &format!("-x/kqps/{hash}/kqps")] {
        let evil = host(folder.path(), &format!("echo 'kqps-push have {arch} {path}'; exit 0;"));
        let error = push(&evil, &program).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "cannot bring kqps to ns1: it named {} as the program's path",
                message::shown(path.as_bytes())
            )
        );
    }
}

#[test]
fn a_program_that_needs_libraries_is_refused_here() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    // A single program header, which is an interpreter: for 64 bits, the lowest byte first.
    let mut bytes = vec![0; 64 + 56];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    bytes[18] = 0x3e;
    (bytes[32], bytes[54], bytes[56], bytes[64]) = (64, 56, 1, 3);
    fs::write(&path, bytes).unwrap();
    let error = push(&host(folder.path(), ""), &path).unwrap_err().to_string();
    assert!(error.contains(" is not a static program, "), "{error}");
}

#[test]
fn what_hinders_it_is_named_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    fs::write(folder.path().join(".cache"), "in the way").unwrap();
    let error = push(&host(folder.path(), ""), &program).unwrap_err().to_string();
    assert!(error.starts_with("cannot bring kqps to ns1: the folder "), "{error}");
    fs::remove_file(folder.path().join(".cache")).unwrap();

    let error = push(&host(folder.path(), "ulimit -f 1;"), &program).unwrap_err().to_string();
    assert!(error.starts_with("cannot bring kqps to ns1: "), "{error}");
    let made = folder.path().join(".cache/kqps").join(identity::hash(&program).unwrap());
    assert_eq!(fs::read_dir(made).unwrap().count(), 0);

    let error = push(&host(folder.path(), "echo away >&2; exit 5;"), &program).unwrap_err().to_string();
    assert_eq!(error, "cannot bring kqps to ns1: exit status: 5: away");

    let forced = r#"echo '{"hello":{}}'; exec sleep 60;"#;
    let error = push(&host(folder.path(), forced), &program).unwrap_err().to_string();
    assert!(error.ends_with("it sent an agent's hello, so authorized_keys forces that command"), "{error}");
}

#[test]
fn another_architecture_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let mut head = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x02\x01";
    fs::write(&path, [&head[..], &[0; 64]].concat()).unwrap();
    assert_eq!(arch_of(&path).unwrap(), "loongarch64");
    let error = push(&host(folder.path(), ""), &path).unwrap_err().to_string();
    assert!(error.ends_with(" and this kqps loongarch64; all hosts of a run need the same build"), "{error}");
    head[18] = 0xff;
    fs::write(&path, head).unwrap();
    assert!(arch_of(&path).unwrap_err().to_string().ends_with("that kqps does not know"));
    fs::write(&path, "#!/bin/sh\nexit 0 # long enough").unwrap();
    assert_eq!(arch_of(&path).unwrap_err().to_string(), "it is no program (ELF)");
    fs::write(&path, "short").unwrap();
    assert_eq!(arch_of(&path).unwrap_err().to_string(), "it is no program");
    let error = push(&host(folder.path(), ""), &folder.path().join("none")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read the program "), "{error}");
}

#[test]
fn answers_are_found_among_noise() {
    let answer = Answer::parse("kqps-push want x86_64 /home/a b/kqps").unwrap();
    assert_eq!((answer.kind, answer.machine.as_str()), (Kind::Want, "x86_64"));
    assert_eq!(answer.text, "/home/a b/kqps");
    for line in ["", "Welcome", "kqps-push", "kqps-push other x y", "kqps-push want x86_64"] {
        assert_eq!(Answer::parse(line), None);
    }
}
