//! The folders of Quipu, the earlier name of this product: the same environment variables and system folders under
//! that name.

use std::path::Path;

use etcetera::BaseStrategy as _;

use super::{absolute, below_home, current_folder, folders, variable};
use crate::exit::Failure;
use crate::files::quipu::QuipuHome;
use std::path::PathBuf;

/// The name of Quipu's folder in the system's data and state folders.
const NAME: &str = "quipu";

/// Returns the possible Quipu homes according to the environment, most likely first. They need not exist.
pub(crate) fn quipu_homes() -> Vec<QuipuHome> {
    let here = current_folder().unwrap_or_default();
    let named = variable("QUIPU_HOME").map(|home| QuipuHome::in_one(absolute(&here, home)));
    let Ok(system) = etcetera::choose_base_strategy() else { return named.into_iter().collect() };
    let hidden = QuipuHome::in_one(system.home_dir().join(format!(".{NAME}")));
    let data = below_home("XDG_DATA_HOME").unwrap_or_else(|| system.data_dir()).join(NAME);
    let state = below_home("XDG_STATE_HOME").or_else(|| system.state_dir());
    let state = state.map_or_else(|| data.join("state"), |state| state.join(NAME));
    let config = below_home("XDG_CONFIG_HOME").unwrap_or_else(|| system.config_dir()).join(NAME);
    named.into_iter().chain([QuipuHome { data, state, config }, hidden]).collect()
}

/// Returns the settings file of this program, which need not exist.
pub(crate) fn settings_file() -> Result<PathBuf, Failure> {
    Ok(folders(&current_folder().unwrap_or(Path::new("").to_owned()))?.1)
}
