//! Opening of the database that daemons share.

use postgres::{Database, DatabaseSettings, OpenError};

use crate::exit::Failure;

/// Opens the database at an address, and brings its tables up to date.
pub(crate) async fn open(address: &str) -> Result<Database, Failure> {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let daemon = format!("process {} on {host}", std::process::id());
    let settings = DatabaseSettings { daemon, ..DatabaseSettings::default() };
    Database::open(address, settings).await.map_err(|error| match error {
        OpenError::Address(error) => Failure::usage(format!("--database: {error}")),
        OpenError::State(error) => error.into(),
    })
}
