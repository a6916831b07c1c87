//! `lukasa migrate`: copies a home to a database that several daemons share, or back.
//!
//! The adapters of rows and files are in `state`, `postgres` and `store`. Here are the two ends, the order of the steps,
//! and the words for people. Both directions take the same steps:
//!
//! 1. Refuse a target with memories, and complete interrupted writes of the origin.
//! 2. Copy rows and files to a place that nothing reads: an owner with a provisional name, or folders beside the home.
//! 3. Read the origin and the copy again, and compare them.
//! 4. Put the copy in place: the owner gets its name, or the folders are renamed.

mod copy;
mod report;

use std::path::Path;
use std::sync::Arc;

use engine::BaseFolders;
use memory::error_code::MemoryErrorCode;
use postgres::{Database, ImportError, OwnerName, OwnerState};
use state::transfer::{NoRows, Places, RowSource};
use state::{SqliteImport, SqliteState};
use store::{HostedRoot, IncomingHome, IncomingHomeError, complete_interrupted_writes, real_path};

use self::copy::{Content, Progress};
use self::report::Report;
use crate::app::{self, App};
use crate::args::Migrate;
use crate::daemon::DaemonLock;
use crate::database;
use crate::exit::{Failure, Status, chain};

/// One end of a copy, as the command line names it.
enum End {
    Home(BaseFolders),
    Database(String),
}

/// The ends of a copy.
enum Route {
    ToDatabase(BaseFolders, String),
    ToHome(String, BaseFolders),
}

/// Copies memories and state.
pub(crate) async fn run(app: &App, args: &Migrate) -> Result<Status, Failure> {
    let route = route(app, args)?;
    let owner = OwnerName::existing(&args.owner)
        .map_err(|error| Failure::usage(format!("--owner: {error}")))?;
    let owner = owner.as_str();
    let (Route::ToDatabase(home, address) | Route::ToHome(address, home)) = &route;
    if matches!(route, Route::ToDatabase(..)) && !is_used(home)? {
        let what = format!("there are no memories in {}", home.data.display());
        return Err(Failure::new(MemoryErrorCode::NotFound, what)
            .help("name the folder of a home with `--from HOME`"));
    }
    let _lock = if args.dry_run { None } else { Some(DaemonLock::acquire(&home.state)?) };
    let database = database::open(address).await?;
    let done = match &route {
        Route::ToDatabase(home, _) => {
            Box::pin(to_database(app, (home, args.dry_run), (&database, owner))).await
        }
        Route::ToHome(_, home) => {
            Box::pin(to_home(app, (&database, owner), (home, args.dry_run))).await
        }
    };
    let ended = match done {
        Ok(report) => report.print(app, &database, owner),
        Err(failure) => Err(failure),
    };
    database.close().await;
    ended
}

/// Returns the ends that the command line names.
fn route(app: &App, args: &Migrate) -> Result<Route, Failure> {
    let end = |text: &Option<String>| text.as_deref().map(|text| end(app, text)).transpose();
    let other = || {
        let address = args.database.clone().filter(|address| !address.is_empty());
        address.ok_or_else(|| {
            Failure::usage("no database is named")
                .help("use `--from HOME --to postgres://…`, or set LUKASA_DATABASE")
        })
    };
    let ours = || app.folders.clone();
    match (end(&args.from)?, end(&args.to)?) {
        (Some(End::Home(home)), Some(End::Database(address))) => {
            Ok(Route::ToDatabase(home, address))
        }
        (Some(End::Database(address)), Some(End::Home(home))) => Ok(Route::ToHome(address, home)),
        (Some(End::Home(home)), None) => Ok(Route::ToDatabase(home, other()?)),
        (None, Some(End::Database(address))) => Ok(Route::ToDatabase(ours(), address)),
        (None, Some(End::Home(home))) => Ok(Route::ToHome(other()?, home)),
        (Some(End::Database(address)), None) => Ok(Route::ToHome(address, ours())),
        (None, None) => Err(Failure::usage("`lukasa migrate` needs `--from` or `--to`")
            .help("`--to postgres://…` copies this home to a database, `--from postgres://…` copies it back")),
        (Some(End::Home(_)), Some(End::Home(_))) => {
            Err(Failure::usage("both ends are homes: copy the folders instead"))
        }
        (Some(End::Database(_)), Some(End::Database(_))) => {
            Err(Failure::usage("both ends are databases: use `pg_dump` instead"))
        }
    }
}

fn end(app: &App, text: &str) -> Result<End, Failure> {
    match text.split_once("://") {
        Some(("postgres" | "postgresql", _)) => Ok(End::Database(text.to_owned())),
        // The text is not repeated, since it may have a password.
        Some(_) => Err(Failure::usage("an address of a database begins with `postgres://`")),
        None if text.is_empty() => Err(Failure::usage("the folder of a home has a name")),
        None => Ok(End::Home(home(app, Path::new(text)))),
    }
}

/// Returns the folders of a home. The folder of this machine's memories names its whole home, also where the state is
/// elsewhere.
fn home(app: &App, folder: &Path) -> BaseFolders {
    let current = app::current_folder().unwrap_or_default();
    let data = current.join(app::expand(folder.to_owned()));
    if real_path(&data) == real_path(&app.folders.data) {
        return app.folders.clone();
    }
    BaseFolders { state: data.join("state"), data }
}

fn is_used(home: &BaseFolders) -> Result<bool, Failure> {
    home.is_used().map_err(|error| Failure::file("look for memories in", &home.data, &error))
}

async fn to_database(
    app: &App,
    (home, is_dry_run): (&BaseFolders, bool),
    (database, owner): (&Database, &str),
) -> Result<Report, Failure> {
    let state = Arc::new(SqliteState::new(home.state_database()));
    let origin = Origin::Home(home, &state);
    if is_dry_run {
        let free = match database.find_owner(owner).await? {
            Some(found) => found.is_empty().await?,
            None => true,
        };
        let refused = ImportError::InUse(owner.to_owned());
        let counted = origin.count().await?;
        return if free { Ok(counted) } else { Err(refused.into()) };
    }
    complete(app, Arc::clone(&state) as _, home, &origin.roots().await?).await?;
    let mut import = database.begin_import(owner).await?;
    let copied = async {
        let pair = |from: HostedRoot| {
            let backend = Arc::new(import.root(from.identity()));
            let to = HostedRoot::shared(from.identity(), backend);
            (from, to.expect("the identity is one of a hosted root"))
        };
        let pairs: Vec<_> = origin.roots().await?.into_iter().map(pair).collect();
        let mut report = origin.count().await?;
        refuse_unfinished_tasks(&report)?;
        let progress = Progress::new(app, "copying", report.steps());
        let mut rows = origin.rows().await?;
        let copied = copy::copy(&mut *rows, &mut import, &pairs, &progress).await?;
        drop((rows, progress));
        let progress = Progress::new(app, "comparing", 2 * report.steps());
        let roots: Vec<_> = pairs.into_iter().map(|(_, to)| to).collect();
        let copy = copy::read(&mut import.snapshot().await?, &roots, &progress).await?;
        let again = origin.content(&progress).await?;
        copy::compare(&copied, &copy, &again)?;
        report.set_content(&copied);
        Ok(report)
    };
    match copied.await {
        Ok(report) => {
            Box::pin(app.finish_write("finishing", import.finish())).await?;
            state_close(&state).await;
            Ok(report)
        }
        Err(failure) => {
            // If this fails, too, the next attempt removes the rows.
            drop(import.discard().await);
            Err(failure)
        }
    }
}

/// Refuses a home whose tasks wait or run. In the database the id of a folder's workspace is the name of another one, and a
/// daemon would run them there. A fact that is meant for a project could get into the global memories.
fn refuse_unfinished_tasks(report: &Report) -> Result<(), Failure> {
    let tasks = report.unfinished_tasks();
    if tasks == 0 {
        return Ok(());
    }
    let what = format!("tasks that wait or run in the home: {tasks}");
    Err(Failure::new(MemoryErrorCode::Locked, what).help(
        "let a daemon of the home end them, or cancel them with `lukasa tasks --cancel TASK`",
    ))
}

async fn to_home(
    app: &App,
    (database, owner): (&Database, &str),
    (home, is_dry_run): (&BaseFolders, bool),
) -> Result<Report, Failure> {
    if !is_dry_run && IncomingHome::resume(home.clone())? {
        app.output.note("an earlier copy was complete, and is now in place");
        return Ok(Report::resumed(home));
    }
    if is_used(home)? {
        let path = home.data.clone();
        return Err(IncomingHomeError::Occupied(path).into());
    }
    let Some(source) = database.find_owner(owner).await? else {
        let what = format!("there is no owner `{owner}` in the database");
        return Err(Failure::new(MemoryErrorCode::NotFound, what).help("name one with `--owner`"));
    };
    let source = Arc::new(source);
    let origin = Origin::Owner(&source, home);
    if is_dry_run {
        return origin.count().await;
    }
    complete(app, Arc::clone(&source) as _, home, &origin.roots().await?).await?;
    let incoming = IncomingHome::begin(home.clone())?;
    let copied = copy_to_folders(app, &origin, home, incoming.folders()).await;
    match copied {
        Ok(report) => {
            app.finish_write("finishing", async { incoming.publish() }).await?;
            Ok(report)
        }
        Err(failure) => {
            // If this fails, too, the next attempt removes the files.
            drop(incoming.discard());
            Err(failure)
        }
    }
}

/// Copies an owner to folders, and compares.
async fn copy_to_folders(
    app: &App,
    origin: &Origin<'_>,
    home: &BaseFolders,
    folders: &BaseFolders,
) -> Result<Report, Failure> {
    let pair = |from: HostedRoot| {
        let to = folders.hosted_root(from.identity());
        (from, to.expect("the identity is one of a hosted root"))
    };
    let pairs: Vec<_> = origin.roots().await?.into_iter().map(pair).collect();
    let mut report = origin.count().await?;
    let progress = Progress::new(app, "copying", report.steps());
    let database = folders.state_database();
    let mut import = SqliteImport::create(&database, places(home)).await?;
    let mut rows = origin.rows().await?;
    let copied = copy::copy(&mut *rows, &mut import, &pairs, &progress).await?;
    drop((rows, progress));
    import.finish().await?;
    let progress = Progress::new(app, "comparing", 2 * report.steps());
    let state = SqliteState::new(database);
    let roots: Vec<_> = pairs.into_iter().map(|(_, to)| to).collect();
    let mut rows: Box<dyn RowSource> = match state.snapshot(places(home)).await? {
        Some(rows) => Box::new(rows),
        None => Box::new(NoRows),
    };
    let copy = copy::read(&mut *rows, &roots, &progress).await?;
    drop(rows);
    state_close(&state).await;
    let again = origin.content(&progress).await?;
    copy::compare(&copied, &copy, &again)?;
    report.set_content(&copied);
    Ok(report)
}

/// Completes writes that a crash interrupted.
async fn complete(
    app: &App,
    state: Arc<dyn state::HistoryStore>,
    home: &BaseFolders,
    roots: &[HostedRoot],
) -> Result<(), Failure> {
    let completing = complete_interrupted_writes(state, home, roots);
    app.finish_write("completing interrupted writes", completing).await?;
    Ok(())
}

async fn state_close(state: &SqliteState) {
    state::HistoryStore::close(state).await;
}

fn places(home: &BaseFolders) -> Places {
    let home = home.clone();
    Places::new(move |identity| home.hosted_place(identity))
}

/// The end that is read.
enum Origin<'o> {
    Home(&'o BaseFolders, &'o SqliteState),
    /// An owner, and the home to which it is copied.
    Owner(&'o OwnerState, &'o BaseFolders),
}

impl Origin<'_> {
    async fn rows(&self) -> Result<Box<dyn RowSource>, Failure> {
        match self {
            Self::Home(home, state) => {
                let rows = state.snapshot(places(home)).await?;
                if state.last_repair().is_some() {
                    // History may be gone, and a person has to know before it is left behind.
                    let what = "the state database was damaged, and was repaired or set aside";
                    return Err(Failure::new(MemoryErrorCode::StorageFailed, what)
                        .help("nothing was copied; `lukasa doctor` says what is left, then run the command again"));
                }
                Ok(match rows {
                    Some(rows) => Box::new(rows),
                    None => Box::new(NoRows),
                })
            }
            Self::Owner(owner, _) => Ok(Box::new(owner.snapshot().await?)),
        }
    }

    async fn roots(&self) -> Result<Vec<HostedRoot>, Failure> {
        match self {
            Self::Home(home, _) => {
                let identities = home
                    .hosted_identities()
                    .map_err(|error| Failure::file("list the memories in", &home.state, &error))?;
                Ok(identities.iter().filter_map(|identity| home.hosted_root(identity)).collect())
            }
            Self::Owner(owner, home) => {
                let places = owner.places().await?;
                let root = |place: &String| {
                    let root = HostedRoot::shared(place, Arc::new(owner.root(place)));
                    root.filter(|_| home.hosted_place(place).is_some()).ok_or_else(|| {
                        let what = format!("no folder can have the identity `{place}`");
                        Failure::new(MemoryErrorCode::StorageFailed, what)
                    })
                };
                places.iter().map(root).collect()
            }
        }
    }

    async fn content(&self, progress: &Progress) -> Result<Content, Failure> {
        let roots = self.roots().await?;
        copy::read(&mut *self.rows().await?, &roots, progress).await
    }

    async fn count(&self) -> Result<Report, Failure> {
        let (direction, home) = match self {
            Self::Home(home, _) => (report::Direction::ToDatabase, home),
            Self::Owner(_, home) => (report::Direction::ToHome, home),
        };
        let mut rows = self.rows().await?;
        Report::count(direction, home, &mut *rows, &self.roots().await?).await
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::InUse(_) => Self::new(MemoryErrorCode::AlreadyExists, error.to_string())
                .help("nothing was copied; name another owner with `--owner NAME`"),
            ImportError::Running(_) => Self::new(MemoryErrorCode::Locked, error.to_string())
                .help("wait for its end, or if it was killed, ten seconds"),
            ImportError::State(error) => error.into(),
        }
    }
}

impl From<IncomingHomeError> for Failure {
    fn from(error: IncomingHomeError) -> Self {
        let text = chain(&error);
        match error {
            IncomingHomeError::Occupied(_) => Self::new(MemoryErrorCode::AlreadyExists, text).help(
                "nothing was overwritten; name an empty folder with `--to HOME`, or move that away",
            ),
            IncomingHomeError::Io { path, source } => Self::file("use", &path, &source),
        }
    }
}
