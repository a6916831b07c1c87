//! A server, and databases on it.

use std::sync::atomic::{AtomicU32, Ordering};

use lukasa_postgres::{Database, DatabaseSettings};
use testkit::postgres::{PostgresServer, PostgresVersion};

/// A server for one test.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: PostgresServer,
    databases: AtomicU32,
}

impl Server {
    /// Starts a server with these further settings.
    pub(crate) fn start(version: PostgresVersion, settings: &[&str]) -> Self {
        let process = PostgresServer::start(version, settings).unwrap();
        Self { process, databases: AtomicU32::new(0) }
    }

    /// Returns the name and the address of a new, empty database.
    pub(crate) fn new_database(&self) -> (String, String) {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let address = self.process.create_database(&name).unwrap();
        (name, address)
    }
}

/// Opens a database, as a daemon does.
pub(crate) async fn open(address: &str) -> Database {
    Database::open(address, DatabaseSettings::default()).await.unwrap()
}
