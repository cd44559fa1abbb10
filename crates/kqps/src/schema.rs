//! The files in `docs/schema`, which describe all JSON that kqps prints and stores. They are made from the types.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use kqps_observation::{Cell, Run, RunTrial};
use kqps_server::Report;
use kqps_server::services::auth::ZonesLoaded;
use kqps_verdict::judge::SearchVerdict;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::print::Versioned;
use crate::{check, compare, export, find, history, host, load, plan, probe, run, serve, show};

/// Writes the files instead of comparing them, if it is set.
const WRITE: &str = "KQPS_WRITE_SCHEMAS";

/// The name of each file, and its schema.
fn all() -> Vec<(&'static str, Schema)> {
    vec![
        ("advice", schema::<Versioned<'_, host::Advised>>()),
        ("check", schema::<Versioned<'_, check::Checked>>()),
        ("comparison", schema::<compare::PrintedComparison<'_>>()),
        ("export", schema::<export::Exported<'_>>()),
        ("export-table", schema::<kqps_report::PrintedSheet<'_>>()),
        ("find-trial", schema::<find::PrintedTrial<'_>>()),
        ("find-verdict", schema::<SearchVerdict>()),
        ("history-change", schema::<history::PrintedChange>()),
        ("host", schema::<host::HostOutput<'_>>()),
        ("host-tuning", schema::<host::TuningOutput>()),
        ("plan", schema::<plan::PrintedPlan<'_>>()),
        ("probe", schema::<Versioned<'_, probe::Probe>>()),
        ("run", schema::<run::PrintedRun<'_>>()),
        ("run-plan", schema::<run::plan::Plan<'_>>()),
        ("server", schema::<Versioned<'_, Report>>()),
        ("server-reloaded", schema::<Versioned<'_, serve::words::Reloaded<'_, ZonesLoaded>>>()),
        ("server-internet-ready", schema::<Versioned<'_, serve::internet::words::Ready<'_>>>()),
        ("server-ready", schema::<Versioned<'_, serve::words::Ready<'_>>>()),
        ("show", schema::<Versioned<'_, show::FileFacts>>()),
        ("store-cell", schema::<Cell>()),
        ("store-run", schema::<Run>()),
        ("store-trial", schema::<RunTrial>()),
        ("trial", schema::<load::Judged<'_>>()),
    ]
}

fn schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

#[test]
fn the_schemas_in_the_docs_are_those_of_the_types() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema"));
    let mut names = BTreeSet::new();
    for (name, schema) in all() {
        let path = folder.join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, &text).unwrap();
        }
        let stored = fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text, "{name}.json is not that of its type; {WRITE}=1 writes it anew");
        names.insert(format!("{name}.json"));
    }
    let found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(found.collect::<BTreeSet<_>>(), names);
}
