//! A folder that belongs to one new run, and to no other kqps.

use std::path::Path;

use kqps_observation::store::Claim;

use crate::error::LabError;
use kqps_testbed::folder::Folder;

/// Claims a folder for a new run, and makes it if it is missing. It must be called before anything is written
/// there, since the folder may hold another run, or files of the user's.
pub(crate) fn claim(folder: &Path) -> Result<(Folder, Claim), LabError> {
    let folder = Folder::make(folder)?;
    if let Some(path) = folder.foreign() {
        return Err(LabError::Foreign { path });
    }
    let claim = Claim::new(&folder.store())?;
    Ok((folder, claim))
}
