//! The zones that a subject serves, as its configuration tells them: a text for each of them, one after another.

use std::path::PathBuf;

use super::template::Values;

/// A zone and where it is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its name, with a dot at the end (`bench.test.`).
    pub origin: String,
    /// Its master file. A zone that is to fail has one that is not there.
    pub file: PathBuf,
}

impl Zone {
    /// A zone of this name, read from this file.
    pub fn new(origin: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        Self { origin: origin.into(), file: file.into() }
    }
}

/// Adds what `{origin}` and `{zone}` stand for, which is the first zone; and `{zones}`, which is the text for each
/// zone with its own.
pub(super) fn with(values: Values, each: Option<&str>, zones: &[Zone]) -> Values {
    let Some(first) = zones.first() else { return values };
    let values = of(values, first);
    let Some(each) = each else { return values };
    let mut all = String::new();
    let mut one = values.clone();
    for zone in zones {
        one = of(one, zone);
        all.push_str(&one.fill(each));
    }
    values.with("zones", &all)
}

fn of(values: Values, zone: &Zone) -> Values {
    values.with("origin", &zone.origin).with("zone", &zone.file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_zone_has_its_text_and_the_first_stands_alone() {
        let zone = |name: &str| Zone::new(format!("{name}."), format!("/z/{name}"));
        let values = Values::default().with("port", &53);
        let each = Some("zone {origin} {zone} on {port}\n");
        let values = with(values, each, &[zone("a.test"), zone("b.test")]);
        assert_eq!(
            values.fill("{origin}\n{zones}{zone}"),
            "a.test.\nzone a.test. /z/a.test on 53\nzone b.test. /z/b.test on 53\n/z/a.test"
        );
    }

    #[test]
    fn without_a_text_there_is_but_one() {
        let zones = [Zone::new("a.test.", "/z/a")];
        assert_eq!(
            with(Values::default(), None, &zones).fill("{origin} {zone} {zones}"),
            "a.test. /z/a {zones}"
        );
    }
}
