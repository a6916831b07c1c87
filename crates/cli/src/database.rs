//! Opening of the database that daemons share.

use memory::error_code::MemoryErrorCode;
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
    let settings = DatabaseSettings { owner_limits, ..settings() };
    Database::open(address, settings).await.map_err(failure)
}

/// Opens the database at an address, and leaves its tables as they are: a command that only looks at them must not change them
/// under the daemons.
pub(crate) async fn open_unchanged(address: &str) -> Result<Database, Failure> {
    Database::open_unchanged(address, settings()).await.map_err(failure)
}

fn settings() -> DatabaseSettings {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let daemon = format!("process {} on {host}", std::process::id());
    DatabaseSettings { daemon, ..DatabaseSettings::default() }
}

fn failure(error: OpenError) -> Failure {
    match error {
        OpenError::Address(error) => Failure::usage(error.to_string()),
        // The usual advice is about files.
        OpenError::State(error @ StateError::Newer { .. }) => {
            Failure::new(error.code(), error.to_string()).help("install a newer version of Lukasa")
        }
        OpenError::State(error) => error.into(),
        OpenError::Outdated => Failure::new(MemoryErrorCode::StorageFailed, error.to_string()),
    }
}
