//! Reads every setting once more after all were made, since a later one may have made the driver begin anew.

use std::collections::BTreeMap;

use super::{Applied, ApplyError, set};
use crate::journal::{Journal, Record};
use crate::setting::{Setting, value};
use crate::system::System;

/// How many times all are looked at. In the last round nothing may have changed any more.
const ROUNDS: u32 = 2;

/// Makes changes again that later ones have reset. Of a setting that was changed several times, the last value counts.
pub(super) fn again(
    system: &dyn System,
    journal: &Journal,
    records: &mut [Record],
    applied: &mut Applied,
) -> Result<(), ApplyError> {
    let mut last: BTreeMap<Setting, (usize, usize)> = BTreeMap::new();
    for (record, parts) in records.iter().map(|record| &record.parts).enumerate() {
        last.extend(parts.iter().enumerate().map(|(at, part)| (part.setting.clone(), (record, at))));
    }
    let mut places: Vec<(usize, usize)> = last.into_values().collect();
    places.sort_unstable();
    for round in 1..=ROUNDS {
        let mut is_whole = true;
        for (record, at) in &places {
            let record = &mut records[*record];
            let part = &record.parts[*at];
            let (setting, wanted) = (part.setting.clone(), part.wanted.clone());
            let now = system.read(&setting)?;
            if part.found.as_ref().is_none_or(|found| value::alike(&setting, &now, found)) {
                continue;
            }
            if round == ROUNDS {
                return Err(ApplyError::NotTaken { setting, wanted, found: now });
            }
            is_whole = false;
            record.parts[*at].found = Some(set(system, journal, &setting, &wanted, applied)?);
            journal.write(record)?;
        }
        if is_whole {
            break;
        }
    }
    Ok(())
}
