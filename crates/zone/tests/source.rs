//! The zones that a user gives: real files in real directories.

use std::fs;
use std::path::Path;

use kqps_message::name;
use kqps_zone::source::{Source, Sources};

/// Zones as `name=file`, with files relative to the folder.
fn shown(folder: &Path, sources: &Sources) -> Vec<String> {
    let zones = sources.zones.iter();
    zones
        .map(|zone| {
            let apex = zone.apex.as_ref().map_or("?".to_owned(), |apex| name::NameText(apex).to_string());
            let path = zone.path.strip_prefix(folder).unwrap_or(&zone.path);
            format!("{apex}={}", path.display())
        })
        .collect()
}

#[test]
fn an_argument_is_a_file_perhaps_with_a_name() {
    let of = |text: &str| {
        Source::of_argument(Path::new(text)).map(|source| {
            let apex = source.apex.map(|apex| name::NameText(&apex).to_string());
            (apex, source.path.display().to_string())
        })
    };
    let named = |apex: &str, path: &str| (Some(apex.to_owned()), path.to_owned());
    assert_eq!(of("a/example.zone").unwrap(), (None, "a/example.zone".to_owned()));
    assert_eq!(of("Example.org=a/b=c").unwrap(), named("Example.org.", "a/b=c"));
    assert_eq!(of(".=root").unwrap(), named(".", "root"));
    assert_eq!(of("./a=b").unwrap(), (None, "./a=b".to_owned()));
    assert_eq!(
        of("a..b=c").unwrap_err().to_string(),
        "\"a..b\" is not the name of a zone: a label is empty; write NAME=FILE, or only FILE"
    );
}

#[test]
fn a_files_name_is_that_of_its_zone() {
    for (path, expected) in [
        ("zones/example.org.zone", Some("example.org.")),
        ("zones/example.org", Some("example.org.")),
        ("zones/a..b.zone", None),
        ("zones/.zone", None),
        ("..", None),
    ] {
        let source = Source { apex: None, path: path.into() };
        assert_eq!(
            source.file_name().map(|name| name::NameText(&name).to_string()).as_deref(),
            expected,
            "{path}"
        );
    }
}

#[test]
fn every_zone_of_a_directory_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    assert!(
        Sources::read(folder.path()).unwrap_err().to_string().ends_with("NAME.zone or NAME would be one")
    );
    for file in ["b.example.zone", "a.example", ".hidden", "a.example~", "a.jnl", "Ka.+008+1.key", "dsset-a."]
    {
        fs::write(at(file), "").unwrap();
    }
    fs::create_dir(at("directory.zone")).unwrap();
    std::os::unix::fs::symlink("b.example.zone", at("c.example")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("d.example")).unwrap();
    let sources = Sources::read(folder.path()).unwrap();
    assert_eq!(shown(folder.path(), &sources), ["?=a.example", "?=b.example.zone", "?=c.example"]);
}

#[test]
fn a_list_has_a_zone_on_each_line() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    fs::write(&list, "# zones\n\n a.example  sub/a file \r\nb.example.\t/zones/b ; the other\n. root\n")
        .unwrap();
    let sources = Sources::read(&list).unwrap();
    assert_eq!(shown(folder.path(), &sources), ["a.example.=sub/a file", "b.example.=/zones/b", ".=root"]);
    for (text, expected) in [
        ("a b\n  a..b c\n", ":2:3: a label is empty"),
        ("a b\n\n ab # c\n", ":3:4: expected the zone's file after its name"),
        ("# nothing\n", " has no zones; each of its files NAME.zone or NAME would be one"),
    ] {
        fs::write(&list, text).unwrap();
        assert_eq!(Sources::read(&list).unwrap_err().to_string(), format!("{}{expected}", list.display()));
    }
}

#[test]
fn marks_of_comments_and_configurations_may_be_in_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    for (text, expected) in [
        ("a.example x#1;2 # y\n", "a.example.=x#1;2"),
        ("\t; {old} zones\na.example x", "a.example.=x"),
        ("# options {\na.example x ; {\n", "a.example.=x"),
        ("a.example /zones/{a}/x", "a.example.=/zones/{a}/x"),
        ("zone x", "zone.=x"),
        ("zone x ; {\n", "zone.=x"),
        ("include x\n", "include.=x"),
    ] {
        fs::write(&list, text).unwrap();
        assert_eq!(shown(folder.path(), &Sources::read(&list).unwrap()), [expected], "{text}");
    }
}

#[test]
fn the_case_of_keywords_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("more"), "VIEW v { Zone b.example in { Type MASTER; file b; }; };").unwrap();
    fs::write(
        at("conf"),
        "Include \"more\"; OPTIONS { Directory zones; }; ZONE a.example { FILE a; type Primary; };",
    )
    .unwrap();
    let sources = Sources::read(&at("conf")).unwrap();
    assert_eq!(shown(folder.path(), &sources), ["b.example.=zones/b", "a.example.=zones/a"]);
}

const NAMED_CONF: &str = r#"
// The file of a user of BIND.
include "options.conf";
acl "trusted" { 10.0.0.0/8; !{ 10.1.0.0/16; }; };
logging { channel x { file "x.log" versions 3; severity info; }; };
zone "." { type hint; file "/usr/share/dns/root.hints"; };
zone "a.example" IN { /* the first } */
    type master; # not "secondary"
    file "a.db";
    allow-transfer { trusted; key "k"; };
    update-policy { grant * self * A; };
};
view "inner" IN {
    match-clients { any; };
    zone b.example { file "/zones/b.db"; type primary; };
    zone "c.example" { type slave; masters { 192.0.2.1; }; file "c.db"; };
    zone "version.bind" chaos { type master; file "v.db"; };
};
"#;

#[test]
fn a_configuration_of_bind_names_its_primary_zones() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("options.conf"), "options { directory \"zones\"; listen-on { any; }; };").unwrap();
    fs::write(at("named.conf"), NAMED_CONF).unwrap();
    let sources = Sources::read(&at("named.conf")).unwrap();
    assert_eq!(shown(folder.path(), &sources), ["a.example.=zones/a.db", "b.example.=/zones/b.db"]);
    assert_eq!(sources.left_out, 3);
}

#[test]
fn what_is_wrong_in_a_configuration_has_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("named.conf");
    for (text, expected) in [
        ("zone \"a\" {\n type primary; };", "1:6: this primary zone has no file"),
        ("zone \"a..b\" { type primary; file \"x\"; };", "1:6: a label is empty"),
        ("options {};\nzone { type primary; file \"x\"; };", "2:1: expected the zone's name after zone"),
        ("zone \"a\" { type primary; file \"x\";", "1:35: expected }, found the end of the file"),
        ("options {};\nzone \"a\" { type primary; file \"x\" };", "2:35: expected a semicolon, found }"),
        ("options {\n /* };", "2:2: this is never closed"),
        ("acl x { {\n", "1:8: this block is never closed"),
        ("options {};\n } ;", "2:2: expected a semicolon, found }"),
        ("zone \"a { type primary; };", "1:6: this is never closed"),
        ("{ }", "1:1: expected a statement, found {"),
        ("options {}; zone a", "1:13: this statement has no semicolon"),
        ("options {}; include;", "1:13: expected the name of a file after include"),
        ("options {}; include \"named.conf\";", "1:21: files are included too deep"),
        (
            "options {};\n include \"none\";",
            "2:10: cannot include none: No such file or directory (os error 2)",
        ),
        (
            "zone a { type primary;\n include none; };",
            "2:10: cannot include none: No such file or directory (os error 2)",
        ),
        (
            "options {};\ninclude \"none.d/*.conf\";",
            "2:9: no file matches the pattern \"none.d/*.conf\"; BIND refuses such an include, too",
        ),
        ("options {};\nzone . { type hint; };", " has no primary zone of class IN"),
    ] {
        fs::write(&path, text).unwrap();
        let colon = if expected.starts_with(' ') { "" } else { ":" };
        let error = Sources::read(&path).unwrap_err().to_string();
        let error = error.replace(&format!("include {}/", folder.path().display()), "include ");
        assert_eq!(error, format!("{}{colon}{expected}", path.display()), "{text}");
    }
}

/// As in `named-checkconf -p` of BIND 9.18, except for the order of the files, which does not matter to BIND.
#[test]
fn a_configuration_may_include_by_pattern_and_within_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    for name in ["b", "a", "c"] {
        write(
            &format!("zones.d/{name}.conf"),
            &format!("\u{feff}zone {name} {{ type primary; file {name}; }};\r\n"),
        );
    }
    write("zones.d/.hidden.conf", "zone hidden { type primary; file x; };");
    write("options", "directory \"served\";");
    write("served/kind", "type primary;");
    write("served/all", "include \"kind\"; file \"d.db\";");
    write("served/view", "zone e { type primary; file e; };");
    let path = write(
        "named.conf",
        "include \"zones.d/[ab].conf\";\ninclude \"zones.d/c*\";\noptions { include \"options\"; };\n\
         zone d { include \"all\"; };\nview v { include \"vie?\"; };\n",
    );
    let sources = Sources::read(&path).unwrap();
    assert_eq!(
        shown(folder.path(), &sources),
        ["a.=served/a", "b.=served/b", "c.=served/c", "d.=served/d.db", "e.=served/e"]
    );
    assert_eq!(sources.left_out, 0);
}

#[test]
fn every_file_that_cannot_be_included_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("more.conf"), "\n include \"none.b\";").unwrap();
    fs::write(at("named.conf"), "include none.a;\ninclude more.conf;\ninclude folder;\ninclude \"x/*\"; zone z { type primary; file z; };").unwrap();
    fs::create_dir(at("folder")).unwrap();
    let error = Sources::read(&at("named.conf")).unwrap_err().to_string();
    let error = error.replace(&format!("{}/", folder.path().display()), "");
    assert_eq!(
        error,
        "4 included files cannot be read:\n  \
         named.conf:1:9: cannot include none.a: No such file or directory (os error 2)\n  \
         more.conf:2:10: cannot include none.b: No such file or directory (os error 2)\n  \
         named.conf:3:9: cannot include folder: Is a directory (os error 21)\n  \
         named.conf:4:9: no file matches the pattern \"x/*\"; BIND refuses such an include, too"
    );
}
