//! Sizes: a file is one idea, and a function fits a screen.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::Visit;

use super::Source;

/// The report lists longer files.
const FILE_LISTED: usize = 400;
/// Longer files are faults.
const FILE_FAULT: usize = 500;
/// The report lists longer functions.
const FUNCTION_LISTED: usize = 70;
/// Longer functions are faults.
const FUNCTION_FAULT: usize = 100;

/// A file or function with its length in lines.
struct Measured {
    place: String,
    lines: usize,
}

/// The sizes of all files and functions, longest first.
pub(super) struct Report {
    files: Vec<Measured>,
    functions: Vec<Measured>,
}

impl Report {
    pub(super) fn from_sources(sources: &[Source]) -> Self {
        let mut files = Vec::new();
        let mut functions = Functions { file: String::new(), found: Vec::new() };
        for source in sources {
            functions.file = source.path.display().to_string();
            functions.visit_file(&source.syntax);
            files.push(Measured { place: functions.file.clone(), lines: source.text.lines().count() });
        }
        let mut functions = functions.found;
        for list in [&mut files, &mut functions] {
            list.sort_by(|a, b| b.lines.cmp(&a.lines).then_with(|| a.place.cmp(&b.place)));
        }
        Self { files, functions }
    }

    pub(super) fn print(&self) {
        print_kind("files", &self.files, FILE_LISTED);
        print_kind("functions", &self.functions, FUNCTION_LISTED);
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let files = self.files.iter().filter(|file| file.lines > FILE_FAULT);
        let functions = self.functions.iter().filter(|function| function.lines > FUNCTION_FAULT);
        files
            .map(|file| format!("{} has {} lines, more than {FILE_FAULT}", file.place, file.lines))
            .chain(
                functions.map(|f| format!("{} has {} lines, more than {FUNCTION_FAULT}", f.place, f.lines)),
            )
            .collect()
    }
}

fn print_kind(kind: &str, list: &[Measured], listed: usize) {
    let longest = list.first().map_or(0, |one| one.lines);
    let median = list.get(list.len() / 2).map_or(0, |one| one.lines);
    eprintln!("{} {kind}: median {median} lines, longest {longest}", list.len());
    for one in list.iter().take_while(|one| one.lines > listed) {
        eprintln!("  {:>4} lines  {}", one.lines, one.place);
    }
}

/// Collects every function that has a body, in modules, implementations, traits and other functions.
struct Functions {
    file: String,
    found: Vec<Measured>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, end: Span) {
        let first = signature.span().start().line;
        let place = format!("{}:{first} {}", self.file, signature.ident);
        self.found.push(Measured { place, lines: end.end().line + 1 - first });
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.sig, item.block.span());
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.sig, item.block.span());
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.sig, body.span());
        }
        syn::visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { path: "a.rs".into(), text: text.into(), syntax: syn::parse_file(text).unwrap() }
    }

    #[test]
    fn a_function_is_measured_from_its_name_to_its_brace() {
        let report =
            Report::from_sources(&[source("/// Docs do\n/// not count.\nfn f() {\n    let _ = 1;\n}\n")]);
        assert_eq!(report.functions[0].lines, 3);
        assert_eq!(report.functions[0].place, "a.rs:3 f");
    }

    #[test]
    fn what_is_too_long_is_a_fault() {
        let long = format!("impl A {{ fn g(&self) {{\n{} }} }}", "    h();\n".repeat(FUNCTION_FAULT));
        assert_eq!(Report::from_sources(&[source(&long)]).faults().len(), 1);
    }
}
