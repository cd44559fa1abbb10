//! The target for the definitions of subjects: any bytes as a definition, which is then asked what a run asks.

use std::collections::BTreeMap;

use kqps_testbed::subject::Definition;

use crate::text::{FILE, is_placed, text};

/// Takes any bytes as the definition of a subject. It must be refused with a place in the file, or accept its own
/// settings and answer every question of a run.
pub fn subject_file(bytes: &[u8]) {
    let text = text(bytes);
    let definition = match Definition::read(FILE, &text) {
        Ok(definition) => definition,
        Err(error) => return is_placed(&error, &text),
    };
    assert_eq!(definition.text, text);
    assert!(!definition.name.is_empty() && !definition.start.command.is_empty());
    let none = BTreeMap::new();
    questions(&definition, &none);
    for (name, declared) in &definition.settings {
        // A default with a placeholder is known only at a start.
        let default = Some(&declared.default).filter(|default| !default.contains('{'));
        for value in declared.values.keys().chain(default) {
            let given = [(name.clone(), value.clone())].into();
            let accepted = definition.check_settings(&given);
            assert!(accepted.is_ok(), "{name} = {value}: {accepted:?}");
            questions(&definition, &given);
        }
    }
    let unknown = [("no setting".to_owned(), String::new())].into();
    assert!(definition.check_settings(&unknown).is_err());
}

/// Asks a definition with these settings as a run does.
fn questions(definition: &Definition, given: &BTreeMap<String, String>) {
    for workers in [1, 2, u32::MAX] {
        // It may not know how many ports that are, but then it says so.
        if let Err(error) = definition.ports(given, workers) {
            assert!(error.to_string().starts_with(&definition.title));
        }
    }
    let sockets = definition.echo_sockets(given);
    assert!(["shared", "reuseport", "port-each"].contains(&&*sockets), "{sockets}");
    assert!(!definition.takes_io() || definition.echo_io(given) != "{io}");
    assert!(definition.check_zones(1).is_ok());
    assert_eq!(definition.check_zones(2).is_ok(), definition.each_zone.is_some());
    assert!(definition.each_zone.is_none() || definition.takes_zone());
    let _ = (definition.ready.within(), definition.stop.within());
}
