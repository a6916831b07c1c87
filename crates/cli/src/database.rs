//! Opening of the database that daemons share.

use postgres::{Database, DatabaseSettings, OpenError, OwnerLimits};
use state::StateError;

use crate::exit::Failure;

/// Opens the database at an address, and brings its tables up to date.
pub(crate) async fn open(address: &str) -> Result<Database, Failure> {
    open_with(address, OwnerLimits::default()).await
}

/// Does the same, with limits for each owner.
pub(crate) async fn open_with(
    address: &str,
    owner_limits: OwnerLimits,
) -> Result<Database, Failure> {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let daemon = format!("process {} on {host}", std::process::id());
    let settings = DatabaseSettings { daemon, owner_limits, ..DatabaseSettings::default() };
    Database::open(address, settings).await.map_err(|error| match error {
        OpenError::Address(error) => Failure::usage(error.to_string()),
        // The usual advice is about files.
        OpenError::State(error @ StateError::Newer { .. }) => {
            Failure::new(error.code(), error.to_string()).help("install a newer version of Lukasa")
        }
        OpenError::State(error) => error.into(),
    })
}
