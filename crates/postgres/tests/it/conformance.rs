//! The conformance suites. Each of their tests has a new owner of one database: the rows of other owners must not
//! matter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lukasa_postgres::{Database, OwnerState};
use state::{HistoryStore, TaskStore};
use testkit::postgres::PostgresVersion;

use crate::support::{Server, open};

/// Aborts some of the transactions as a server does that cannot serialize them: when they write to one of the tables, or
/// when they commit. A repeated transaction has another number, so it is not aborted for the same reason.
const ABORT_SOME: &str = "
    CREATE FUNCTION abort_some() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF hashtext(concat(pg_current_xact_id(), TG_TABLE_NAME, TG_NAME)) % 20 = 0 THEN
            RAISE EXCEPTION 'injected' USING ERRCODE = '40001';
        END IF;
        RETURN NULL;
    END $$;
    DO $$ DECLARE name text; BEGIN
        FOREACH name IN ARRAY ARRAY['counters', 'changes', 'change_files', 'heads', 'marks', 'open_changes', 'tasks',
            'runs', 'sessions', 'conversations', 'segments', 'proposals', 'model_work'] LOOP
            EXECUTE format('CREATE TRIGGER at_once AFTER INSERT OR UPDATE OR DELETE ON %I
                FOR EACH STATEMENT EXECUTE FUNCTION abort_some()', name);
            EXECUTE format('CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT OR UPDATE OR DELETE ON %I
                INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION abort_some()', name);
        END LOOP;
    END $$";

/// Owners of one database.
struct Owners {
    database: Database,
    added: AtomicU32,
}

impl Owners {
    async fn add(&self) -> OwnerState {
        let number = self.added.fetch_add(1, Ordering::Relaxed);
        self.database.owner(&format!("owner {number}")).await.unwrap()
    }
}

/// Runs both suites on a server with these settings, after SQL statements on the database.
async fn check(version: PostgresVersion, settings: &[&str], sql: &str) {
    let server = Server::start(version, settings);
    let (name, address) = server.new_database();
    let owners = Owners { database: open(&address).await, added: AtomicU32::new(0) };
    server.process.query(&name, sql).unwrap();
    testkit::conformance::state::run(async || {
        Arc::new(owners.add().await) as Arc<dyn HistoryStore>
    })
    .await;
    testkit::conformance::tasks::run(async || {
        let both = Arc::new(owners.add().await);
        (Arc::clone(&both) as Arc<dyn TaskStore>, both as Arc<dyn HistoryStore>)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_conforms_to_both_ports() {
    check(PostgresVersion::Debian, &[], "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_conforms_with_serializable_transactions_of_which_some_are_aborted() {
    let serializable = "default_transaction_isolation=serializable";
    check(PostgresVersion::Newest, &[serializable], ABORT_SOME).await;
}
