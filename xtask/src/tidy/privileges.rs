//! Sockets that listen, and acts that need rights or reach beyond this process: each function that does one is named in
//! SECURITY.md, in a row with its file: `` `FILE`: `function` ``. A new one without a sentence is a fault, and so is a
//! row whose function does no such thing any more.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::Visit;

use super::Source;
use crate::workspace;

/// The page.
const PAGE: &str = "SECURITY.md";

/// Folders whose code tests and proves kqps.
const APART: [&str; 3] = ["crates/proofs/", "crates/faults/", "crates/skips/"];

/// Calls and constants of such acts, in any crate.
const ACTS: [&str; 32] = [
    "tcp::listen(",
    "tcp::listen_with(",
    "TcpListener::bind(",
    "UnixListener::bind(",
    "Socket::new(Domain::PACKET",
    "Socket::new(libc::AF_XDP",
    "Socket::new(NETLINK_ROUTE",
    "SYS_bpf",
    "SYS_perf_event_open",
    "fsopen(",
    "SYS_sched_setscheduler",
    "setpriority_process(",
    "setpriority_pgrp(",
    "setrlimit(",
    "move_into_link_name_space(",
    "libc::unshare(",
    "mount::mount",
    "SIOCETHTOOL",
    "SIOCSIFFLAGS",
    "buffer_size_force(",
    "SO_SNDBUFFORCE",
    "SO_ATTACH_BPF",
    "SO_ATTACH_FILTER",
    "SO_ATTACH_REUSEPORT_CBPF",
    "set_parent_process_death_signal(",
    "/dev/cpu_dma_latency",
    "Ok(kill_process(",
    "kill_process_group(",
    "pidfd_send_signal(",
    "chown(",
    "Command::new(\"apt-get\")",
    "policy-rc.d",
];

/// Acts in some crates alone: `listen` of a socket, which elsewhere is a function of kqps, and writing to paths, which in
/// these crates are those of the kernel.
const WITHIN: [(&str, &str); 4] = [
    ("crates/kernel/", ".listen("),
    ("crates/kernel/", "fs::write("),
    ("crates/tuning/src/real/", "OpenOptions::new()"),
    ("crates/tuning/src/real/", "fs::write("),
];

/// A function: its file and its name.
type Function = (String, String);

pub(super) fn faults(sources: &[Source]) -> Result<Vec<String>> {
    let path = workspace::root().join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(compared(&acting(sources), &named(&page)))
}

fn compared(acting: &BTreeSet<Function>, named: &BTreeSet<Function>) -> Vec<String> {
    let unnamed = acting.difference(named).map(|(file, function)| {
        format!(
            "{file}: `{function}` listens or needs rights, and no row of {PAGE} has `{file}`: `{function}`"
        )
    });
    let idle = named.difference(acting).map(|(file, function)| {
        format!("{PAGE} names `{function}` of {file}, which neither listens nor needs rights")
    });
    unnamed.chain(idle).collect()
}

/// The functions that the rows of the page's tables name.
fn named(page: &str) -> BTreeSet<Function> {
    let cells = page.lines().filter(|line| line.starts_with('|')).flat_map(|row| row.split('|'));
    let files = cells.flat_map(|cell| cell.split(';')).filter_map(|part| {
        let (file, functions) = part.trim().strip_prefix('`')?.split_once("`: ")?;
        Path::new(file).extension().is_some_and(|extension| extension == "rs").then_some((file, functions))
    });
    files
        .flat_map(|(file, functions)| {
            let names = functions.split(',').map(|name| name.trim().trim_matches('`').to_owned());
            names.map(|name| (file.to_owned(), name))
        })
        .collect()
}

/// The functions outside of tests that do such an act.
fn acting(sources: &[Source]) -> BTreeSet<Function> {
    let mut found = BTreeSet::new();
    for source in sources {
        let path = source.path.display().to_string();
        let is_program = path.starts_with("crates/") && path.contains("/src/") && !path.contains("/tests");
        if is_program && !APART.iter().any(|apart| path.starts_with(apart)) {
            Acts { path, lines: source.text.lines().collect(), found: &mut found }.visit_file(&source.syntax);
        }
    }
    found
}

struct Acts<'a> {
    path: String,
    lines: Vec<&'a str>,
    found: &'a mut BTreeSet<Function>,
}

impl Acts<'_> {
    fn look(&mut self, signature: &syn::Signature, body: Span) {
        let lines = &self.lines[body.start().line - 1..body.end().line];
        let code = lines.iter().filter(|line| !line.trim_start().starts_with("//"));
        let acts: Vec<&str> = ACTS
            .into_iter()
            .chain(WITHIN.into_iter().filter(|(folder, _)| self.path.starts_with(folder)).map(|(_, act)| act))
            .collect();
        if code.into_iter().any(|line| acts.iter().any(|act| line.contains(act))) {
            self.found.insert((self.path.clone(), signature.ident.to_string()));
        }
    }
}

impl<'a> Visit<'a> for Acts<'_> {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.look(&item.sig, item.block.span());
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.look(&item.sig, item.block.span());
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        let is_test = item.attrs.iter().any(|attribute| match &attribute.meta {
            syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
            _ => false,
        });
        if !is_test {
            syn::visit::visit_item_mod(self, item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into(), syntax: syn::parse_file(text).unwrap() }
    }

    const LISTENS: &str = "fn open() {\n    // tcp::listen(a, 1)\n    tcp::listen(a, 1);\n}\n\
        fn quiet() {\n    // mount::mount(x)\n}\nimpl A {\n    fn raw(&self) {\n        f(libc::SYS_bpf);\n    }\n}\n\
        #[cfg(test)]\nmod tests {\n    fn t() { tcp::listen(a, 1); }\n}\n";

    #[test]
    fn a_function_without_a_row_is_a_fault() {
        let sources = [
            source("crates/a/src/x.rs", LISTENS),
            source("crates/a/tests/x.rs", LISTENS),
            source("crates/proofs/src/x.rs", LISTENS),
        ];
        let acting = acting(&sources);
        let file = "crates/a/src/x.rs".to_owned();
        assert_eq!(acting, [(file.clone(), "open".to_owned()), (file.clone(), "raw".to_owned())].into());
        let page = "| a socket | who asks | `crates/a/src/x.rs`: `open`, `raw` |\n";
        assert_eq!(compared(&acting, &named(page)), [] as [&str; 0]);
        let faults = compared(
            &acting,
            &named("`crates/a/src/x.rs`: `raw` stands in no row\n| `crates/a/src/x.rs`: `open` |\n"),
        );
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("crates/a/src/x.rs: `raw` listens or needs rights"), "{faults:?}");
    }

    #[test]
    fn a_row_whose_function_does_nothing_such_is_a_fault() {
        let page = "| x | `crates/a/src/x.rs`: `open`; `crates/a/src/y.rs`: `gone` |\n";
        let faults = compared(&acting(&[source("crates/a/src/x.rs", LISTENS)]), &named(page));
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[1].contains("names `gone` of crates/a/src/y.rs"), "{faults:?}");
    }
}
