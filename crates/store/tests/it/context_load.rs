//! Loads of context files: order, folders, imports, and failures.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lukasa_store::{
    BaseFolders, Caller, ContextCache, ContextFileSet, ContextFiles, ContextSettings, LoadOptions,
    LoadSkipReason, TrustedFolders,
};
use memory::context_file::ImportResolution;
use memory::error_code::MemoryErrorCode;
use memory::limits::{CONTEXT_FILE_BYTES_MAX, CONTEXT_FILES_MAX};
use memory::path::RelativePath;
use memory::screen::Screen;

/// A home folder with a project in it that the person trusts.
struct LoadFixture {
    folder: tempfile::TempDir,
    settings: ContextSettings,
    cache: Arc<ContextCache>,
}

impl LoadFixture {
    async fn new() -> Self {
        let home = Self::without_trust();
        home.trusted().add(&home.path("app")).await.unwrap();
        home
    }

    fn without_trust() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(folder.path()).unwrap();
        for name in ["app/.git", "app/src/deep", "app/docs", "config"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        let mut settings = ContextSettings::new(top.join("config"));
        settings.home = Some(top);
        Self { folder, settings, cache: Arc::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.folder.path()).unwrap().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn folders(&self) -> BaseFolders {
        BaseFolders { data: self.path("data"), state: self.path("state") }
    }

    fn trusted(&self) -> TrustedFolders {
        TrustedFolders::new(&self.folders())
    }

    fn files(&self, cwd: &str) -> ContextFiles {
        let (settings, screen) = (Arc::new(self.settings.clone()), Screen::default());
        let caller = Caller::person("test");
        let files = ContextFiles::new(self.folders(), settings, screen, self.path(cwd), caller);
        files.with_cache(Arc::clone(&self.cache))
    }

    async fn load(&self, cwd: &str) -> Arc<ContextFileSet> {
        self.files(cwd).load().await
    }

    /// Returns the loaded context files, as names in the home with their scopes.
    fn loaded(&self, loaded: &ContextFileSet) -> Vec<String> {
        let origin = |at: &usize| {
            let origin = &loaded.origins[*at];
            format!("{} {}", origin.scope.as_str(), self.name(&origin.path))
        };
        loaded.files.iter().map(origin).collect()
    }

    fn skipped(&self, loaded: &ContextFileSet) -> Vec<(String, LoadSkipReason)> {
        loaded.skipped.iter().map(|one| (self.name(&one.path), one.reason)).collect()
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.path("")).unwrap_or(path).display().to_string()
    }

    /// Loads one file with this text. Returns the results of its imports, and the skipped files.
    async fn imports(
        &self,
        text: &str,
    ) -> (Vec<Result<String, String>>, Vec<(String, LoadSkipReason)>) {
        self.write("app/QWEN.md", text);
        let loaded = self.load("app").await;
        let source = loaded.files.first().map(|&at| &loaded.sources[at]);
        let target = |import: &memory::context_file::ResolvedImport| match &import.resolution {
            ImportResolution::Replaced(at) => Ok(loaded.sources[*at].display_path.clone()),
            ImportResolution::Failed(why) => Err(why.clone()),
        };
        let imports = source.map_or(&[][..], |source| &source.imports);
        (imports.iter().map(target).collect(), self.skipped(&loaded))
    }
}

#[tokio::test]
async fn files_load_from_the_widest_to_the_nearest_and_named_files_last() {
    let mut home = LoadFixture::new().await;
    home.settings.other_product_folders = vec![home.path(".qwen")];
    home.settings.project_folders = vec![".qwen".to_owned()];
    home.settings.included = vec![home.path("shared")];
    home.settings.files = vec![home.path("extension/rules.md")];
    let names = [
        "app/src/AGENTS.md",
        "app/AGENTS.md",
        "app/QWEN.md",
        "app/.lukasa/AGENTS.md",
        "app/.qwen/QWEN.md",
        "app/src/.qwen/QWEN.md",
        "config/AGENTS.md",
        ".qwen/QWEN.md",
        "shared/QWEN.md",
        "extension/rules.md",
        "app/src/deep/QWEN.md",
        "app/docs/QWEN.md",
        "QWEN.md",
    ];
    for name in names {
        home.write(name, name);
    }
    let loaded = home.load("app/src").await;
    let expected = [
        "global config/AGENTS.md",
        "global .qwen/QWEN.md",
        "project app/QWEN.md",
        "project app/AGENTS.md",
        "project app/.lukasa/AGENTS.md",
        "project app/.qwen/QWEN.md",
        "project app/src/AGENTS.md",
        "included shared/QWEN.md",
        "extension extension/rules.md",
    ];
    assert_eq!(home.loaded(&loaded), expected, "no folder below, beside or above is searched");
    let shown: Vec<_> = loaded.sources.iter().map(|source| source.display_path.as_str()).collect();
    assert_eq!(shown[0], "../../config/AGENTS.md");
    assert_eq!((shown[2], shown[6]), ("../QWEN.md", "AGENTS.md"));
    assert_eq!(home.skipped(&loaded), []);
}

#[tokio::test]
async fn an_untrusted_folder_contributes_nothing() {
    let mut home = LoadFixture::without_trust();
    home.settings.included = vec![home.path("shared")];
    for name in ["app/QWEN.md", "app/src/QWEN.md", "config/QWEN.md", "shared/QWEN.md"] {
        home.write(name, format!("{name} @{}", home.path("app/docs/x.md").display()));
    }
    home.write("app/docs/x.md", "x");
    let loaded = home.load("app/src").await;
    assert_eq!(home.loaded(&loaded), ["global config/QWEN.md", "included shared/QWEN.md"]);
    let untrusted = |name: &str| (name.to_owned(), LoadSkipReason::Untrusted);
    let skipped = home.skipped(&loaded);
    assert!(skipped.contains(&untrusted("app/QWEN.md")), "{skipped:?}");
    assert!(skipped.contains(&untrusted("app/src/QWEN.md")), "{skipped:?}");
    assert!(!loaded.origins.iter().any(|origin| origin.path.starts_with(home.path("app"))));
    // Trust in a part does not extend to the rest, and a checkout cannot bring its own list.
    home.write("app/.lukasa/trust/folders.txt", home.path("app").display().to_string());
    home.trusted().add(&home.path("app/src")).await.unwrap();
    home.write("app/src/QWEN.md", "@../docs/x.md");
    let loaded = home.load("app/src").await;
    assert_eq!(home.loaded(&loaded)[1], "project app/src/QWEN.md");
    let skipped = home.skipped(&loaded);
    assert!(skipped.contains(&untrusted("../docs/x.md")), "{skipped:?}");
    home.trusted().remove(&home.path("app/src")).await.unwrap();
    assert_eq!(home.load("app/src").await.files.len(), 2);
}

#[tokio::test]
async fn trust_applies_to_real_paths_and_its_list_is_private() {
    let home = LoadFixture::without_trust();
    let trusted = home.trusted();
    symlink(home.path("app"), home.path("way")).unwrap();
    assert_eq!(trusted.list().await.unwrap(), Vec::<PathBuf>::new());
    assert_eq!(trusted.add(&home.path("way")).await.unwrap(), (home.path("app"), true));
    assert_eq!(trusted.add(&home.path("app")).await.unwrap(), (home.path("app"), false));
    assert_eq!(trusted.list().await.unwrap(), [home.path("app")]);
    let mode = fs::metadata(home.path("state/trust/folders.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // A folder whose name only begins with that of a trusted one is untrusted.
    home.write("apple/QWEN.md", "x");
    assert_eq!(home.load("apple").await.files.len(), 0);
    home.write("file", "x");
    for (folder, expected) in
        [("gone", MemoryErrorCode::NotFound), ("file", MemoryErrorCode::NotFound)]
    {
        assert_eq!(trusted.add(&home.path(folder)).await.unwrap_err().code(), expected);
    }
    assert_eq!(trusted.add(Path::new("/")).await.unwrap_err().code(), MemoryErrorCode::InvalidPath);
    fs::create_dir(home.path("a\nb")).unwrap();
    assert_eq!(
        trusted.add(&home.path("a\nb")).await.unwrap_err().code(),
        MemoryErrorCode::InvalidPath
    );
    // A removed folder can be taken off the list.
    fs::create_dir(home.path("short")).unwrap();
    trusted.add(&home.path("short")).await.unwrap();
    fs::remove_dir(home.path("short")).unwrap();
    assert!(trusted.remove(&home.path("short")).await.unwrap());
    assert!(!trusted.remove(&home.path("short")).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrently_trusted_folders_are_all_listed() {
    let home = LoadFixture::without_trust();
    let tasks: Vec<_> = (0..12)
        .map(|n| {
            let (trusted, folder) = (home.trusted(), home.path(&format!("f{n:02}")));
            fs::create_dir(&folder).unwrap();
            tokio::spawn(async move { trusted.add(&folder).await.unwrap().1 })
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap());
    }
    assert_eq!(home.trusted().list().await.unwrap().len(), 12);
}

#[tokio::test]
async fn the_same_file_and_the_same_text_are_loaded_once() {
    let home = LoadFixture::new().await;
    home.write("app/AGENTS.md", "same");
    symlink("AGENTS.md", home.path("app/QWEN.md")).unwrap();
    home.write("app/src/QWEN.md", "same");
    let loaded = home.load("app/src").await;
    assert_eq!(home.loaded(&loaded), ["project app/AGENTS.md"]);
    let expected = [
        ("app/AGENTS.md".to_owned(), LoadSkipReason::SameFile),
        ("app/src/QWEN.md".to_owned(), LoadSkipReason::SameText),
    ];
    assert_eq!(home.skipped(&loaded), expected);
}

#[tokio::test]
async fn files_that_the_host_loads_itself_are_left_out() {
    let home = LoadFixture::new().await;
    home.write("app/AGENTS.md", "a");
    home.write("app/QWEN.md", "b");
    let loaded = home.files("app").without_host_loaded(&["AGENTS.md"]).load().await;
    assert_eq!(home.loaded(&loaded), ["project app/QWEN.md"]);
    assert_eq!(home.load("app").await.files.len(), 2, "another host has its own cache entry");
}

#[tokio::test]
async fn imports_lead_to_files_below_the_project_and_nowhere_else() {
    let home = LoadFixture::new().await;
    home.write("app/docs/a.md", "a");
    home.write("app/docs/my notes.md", "n");
    home.write("app/docs/b#1.md", "n");
    home.write("app/docs/说明.txt", "z");
    home.write("elsewhere.md", "secret");
    home.write("app/.git/config", "token");
    home.write("app/.env", "KEY");
    home.write("app/.ssh/id_rsa", "KEY");
    home.write("app/docs/.aws/credentials", "KEY");
    symlink(home.path("elsewhere.md"), home.path("app/docs/out.md")).unwrap();
    symlink("a.md", home.path("app/docs/in.md")).unwrap();
    symlink("loop.md", home.path("app/docs/loop.md")).unwrap();
    symlink(home.path(""), home.path("app/up")).unwrap();
    let absolute = home.path("app/docs/a.md").display().to_string();
    let refused = |why: LoadSkipReason| Err(why.to_string());
    let a = || Ok("docs/a.md".to_owned());
    for (text, expected) in [
        ("@docs/a.md", Some(a())),
        ("@./docs/../docs/a.md,", Some(a())),
        ("<!-- @import: docs/a.md -->", Some(a())),
        (&format!("@{absolute}"), Some(a())),
        ("@~/app/docs/a.md", Some(a())),
        ("@docs/in.md", Some(a())),
        ("@docs/说明.txt。", Some(Ok("docs/说明.txt".to_owned()))),
        ("@../elsewhere.md", Some(refused(LoadSkipReason::Outside))),
        ("@~/elsewhere.md", Some(refused(LoadSkipReason::Outside))),
        ("@docs/out.md", Some(refused(LoadSkipReason::Outside))),
        ("@up/elsewhere.md", Some(refused(LoadSkipReason::Outside))),
        ("@/etc/passwd", Some(refused(LoadSkipReason::Outside))),
        ("@.git/config", Some(refused(LoadSkipReason::Hidden))),
        ("@.env", Some(refused(LoadSkipReason::Hidden))),
        ("@.ssh/id_rsa", Some(refused(LoadSkipReason::Hidden))),
        ("@docs/.aws/credentials", Some(refused(LoadSkipReason::Hidden))),
        ("@https://x.example/a.md", Some(refused(LoadSkipReason::Url))),
        ("@docs/gone.md", None),
        ("@docs/loop.md", None),
        ("@docs", None),
        ("@alice", None),
        ("`@docs/a.md`", None),
        ("<!-- @docs/a.md -->", None),
        ("(@docs/a.md)", Some(a())),
        ("@docs/a.md#part.", Some(a())),
        ("见（@docs/a.md）。", Some(a())),
        ("@docs/a.md，然后", Some(a())),
        ("@\"docs/my notes.md\"", Some(Ok("docs/my notes.md".to_owned()))),
        ("@docs/b#1.md", Some(Ok("docs/b#1.md".to_owned()))),
    ] {
        let (imports, _) = home.imports(text).await;
        assert_eq!(imports, Vec::from_iter(expected), "{text}");
    }
    let (_, skipped) = home.imports("@docs/gone.md @alice").await;
    assert_eq!(skipped, [("docs/gone.md".to_owned(), LoadSkipReason::Missing)]);
}

#[tokio::test]
async fn imports_may_lead_to_folders_that_a_person_listed() {
    let mut home = LoadFixture::new().await;
    home.write("common/rules.md", "r");
    home.write("config/QWEN.md", "@./own.md @~/common/rules.md");
    home.write("config/own.md", "own");
    let own = || Ok("../config/own.md".to_owned());
    let (imports, _) = home.imports("x").await;
    assert_eq!(imports, [own(), Err(LoadSkipReason::Outside.to_string())]);
    home.settings.included = vec![home.path("common")];
    home.cache = Arc::default();
    let (imports, skipped) = home.imports("@../common/rules.md @../config/own.md").await;
    assert_eq!(imports, [own(), Ok("../common/rules.md".to_owned())]);
    // The project may import from there too, but not from the person's own folder.
    assert_eq!(skipped, [("../config/own.md".to_owned(), LoadSkipReason::Outside)]);
}

#[tokio::test]
async fn one_load_may_have_its_own_folders_files_and_trust() {
    let home = LoadFixture::without_trust();
    home.write("app/QWEN.md", "p @../team/more.md");
    home.write("team/QWEN.md", "t");
    home.write("team/more.md", "m");
    home.write("rules.md", "r");
    let options = LoadOptions {
        included: vec![home.path("team")],
        files: vec![home.path("rules.md")],
        trusted: Some(true),
        ..LoadOptions::default()
    };
    let loaded = home.files("app/src").with_options(options).load().await;
    let expected = ["project app/QWEN.md", "included team/QWEN.md", "extension rules.md"];
    assert_eq!(home.loaded(&loaded), expected);
    assert_eq!(loaded.sources.len(), 4, "an import may lead to the folder");
    assert_eq!(home.load("app/src").await.files, [0; 0]);
    home.trusted().add(&home.path("app")).await.unwrap();
    assert_eq!(home.load("app/src").await.files.len(), 1);
    let distrusting = LoadOptions { trusted: Some(false), ..LoadOptions::default() };
    let loaded = home.files("app/src").with_options(distrusting).load().await;
    assert_eq!(loaded.files, [0; 0]);
}

#[tokio::test]
async fn import_cycles_and_depths_are_bounded() {
    let home = LoadFixture::new().await;
    home.write("app/a.md", "@b.md");
    home.write("app/b.md", "@a.md @QWEN.md");
    let (imports, skipped) = home.imports("@a.md").await;
    assert_eq!((imports, skipped), (vec![Ok("a.md".to_owned())], vec![]));
    for n in 1..9 {
        home.write(&format!("app/d{n}.md"), format!("{n} @d{}.md", n + 1));
    }
    let (_, skipped) = home.imports("@d1.md").await;
    assert_eq!(skipped, [("d6.md".to_owned(), LoadSkipReason::TooDeep)]);
    assert_eq!(home.load("app").await.sources.len(), 6);
}

#[tokio::test]
async fn unreadable_files_are_skipped_and_the_others_are_loaded() {
    let home = LoadFixture::new().await;
    let large = "x".repeat(CONTEXT_FILE_BYTES_MAX + 1);
    home.write("app/docs/large.md", &large);
    home.write("app/docs/bytes.md", b"\xff\xfe");
    home.write("app/docs/nul.md", b"a\0b");
    let pipe = home.path("app/docs/pipe.md");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (name, why) in [
        ("large.md", LoadSkipReason::TooLarge),
        ("bytes.md", LoadSkipReason::NotText),
        ("nul.md", LoadSkipReason::NotText),
        ("pipe.md", LoadSkipReason::NotAFile),
    ] {
        let text = format!("{name} @docs/{name}");
        let expected = (vec![Err(why.to_string())], vec![(format!("docs/{name}"), why)]);
        assert_eq!(home.imports(&text).await, expected);
        // The same holds for the file as a context file.
        fs::rename(home.path("app/docs").join(name), home.path("app/src/QWEN.md")).unwrap();
        let loaded = home.load("app/src").await;
        assert_eq!(home.loaded(&loaded), ["project app/QWEN.md"]);
        assert!(home.skipped(&loaded).contains(&("app/src/QWEN.md".to_owned(), why)), "{name}");
        fs::remove_file(home.path("app/src/QWEN.md")).unwrap();
    }
    fs::create_dir(home.path("app/src/QWEN.md")).unwrap();
    home.write("app/src/AGENTS.md", "near");
    let loaded = home.load("app/src").await;
    assert_eq!(home.loaded(&loaded), ["project app/QWEN.md", "project app/src/AGENTS.md"]);
}

#[tokio::test]
async fn the_number_and_the_size_of_loaded_files_are_bounded() {
    let home = LoadFixture::new().await;
    for n in 0..CONTEXT_FILES_MAX {
        home.write(&format!("app/docs/{n}.md"), n.to_string());
    }
    let asked: Vec<_> = (0..CONTEXT_FILES_MAX).map(|n| format!("@docs/{n}.md")).collect();
    let asking = asked.join("\n");
    let (imports, skipped) = home.imports(&asking).await;
    assert_eq!(imports.iter().filter(|import| import.is_ok()).count(), CONTEXT_FILES_MAX - 1);
    assert_eq!(skipped, [("docs/199.md".to_owned(), LoadSkipReason::TooMany)]);
    for n in 0..5 {
        home.write(&format!("app/docs/{n}.md"), n.to_string().repeat(CONTEXT_FILE_BYTES_MAX));
    }
    let (imports, skipped) = home.imports("@docs/0.md @docs/1.md @docs/2.md @docs/3.md").await;
    assert_eq!(imports.iter().filter(|import| import.is_ok()).count(), 3);
    assert_eq!(skipped, [("docs/3.md".to_owned(), LoadSkipReason::TooMuch)]);
}

/// Sets the time of a file so that its stamp differs from every later version.
fn set_old_time(path: &Path, second: i64) {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(second.unsigned_abs());
    fs::File::options().write(true).open(path).unwrap().set_modified(at).unwrap();
}

#[tokio::test]
async fn only_changed_files_are_loaded_again() {
    let home = LoadFixture::new().await;
    home.write("app/QWEN.md", "one @docs/a.md @docs/later.md");
    home.write("app/docs/a.md", "a");
    for name in ["app/QWEN.md", "app/docs/a.md"] {
        set_old_time(&home.path(name), 1_000_000_000);
    }
    let first = home.load("app").await;
    let again = home.load("app").await;
    assert!(Arc::ptr_eq(&first, &again));
    let text = |loaded: &ContextFileSet| {
        loaded.sources.iter().map(|one| one.text.to_string()).collect::<Vec<_>>()
    };
    // A file that is written, created, replaced by a link, removed or no longer trusted is detected at once.
    home.write("app/docs/a.md", "b");
    assert_eq!(text(&*home.load("app").await)[1], "b");
    home.write("app/docs/later.md", "later");
    assert_eq!(text(&*home.load("app").await)[2], "later");
    home.write("app/AGENTS.md", "two");
    assert_eq!(home.load("app").await.files.len(), 2);
    home.write("app/docs/c.md", "c");
    fs::remove_file(home.path("app/docs/a.md")).unwrap();
    symlink("c.md", home.path("app/docs/a.md")).unwrap();
    assert!(text(&*home.load("app").await).contains(&"c".to_owned()));
    fs::remove_file(home.path("app/AGENTS.md")).unwrap();
    assert_eq!(home.load("app").await.files.len(), 1);
    home.trusted().remove(&home.path("app")).await.unwrap();
    assert_eq!(home.load("app").await.files.len(), 0);
}

#[tokio::test]
async fn configured_names_replace_the_default_names() {
    let mut home = LoadFixture::new().await;
    home.write("app/CLAUDE.md", "c");
    home.write("app/QWEN.md", "q");
    home.settings.names = vec![RelativePath::parse("CLAUDE.md").unwrap()];
    assert_eq!(home.loaded(&*home.load("app").await), ["project app/CLAUDE.md"]);
}
