//! Tests of `lukasa install git` and of what git does with and without the driver.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn shown(ended: &CommandOutput) -> String {
    ended.shown().replace(env!("CARGO_BIN_EXE_lukasa"), "<lukasa>")
}

#[test]
fn the_driver_is_shown_installed_once_and_removed() {
    let place = Sandbox::new();
    let folder = place.checkout();
    write(&folder, ".git/config", "[core]\n\tbare = false\n");
    let files = [".git/info/attributes", ".git/config"].map(|file| folder.join(file));
    let read = || files.clone().map(|file| fs::read_to_string(file).ok());
    let before = read();
    let dry = place.run(&["install", "git", "--dry-run"]);
    insta::assert_snapshot!(shown(&dry), @r#"
    status 0
    --- stdout
    --- <place>/app/.git/info/attributes
    +++ <place>/app/.git/info/attributes
    @@ -0,0 +1 @@
    +.lukasa/memory/** merge=lukasa
    --- <place>/app/.git/config
    +++ <place>/app/.git/config
    @@ -1,2 +1,5 @@
     [core]
     	bare = false
    +[merge "lukasa"]
    +	name = memories of Lukasa, merged by entry
    +	driver = "[ -s <lukasa> ] && <lukasa> merge-driver --marker-length %L --base-label=%S --our-label=%X --their-label=%Y %O %A %B %P; s=$?; if [ -s <lukasa> ] && [ $s -lt 2 ] || [ $s -gt 128 ]; then exit $s; fi; git merge-file --marker-size=%L -L ours -L base -L theirs %A %O %B; s=$?; if [ $s -gt 127 ]; then for f in %O %A %B; do tr -d '\\0' <$f | cmp -s - $f || exit 1; done; fi; exit $s"
    --- stderr
    git: would change 2 files, 2 settings (<place>/app/.git/info/attributes, <place>/app/.git/config)
    "#);
    assert_eq!(read(), before);
    let ended = place.run(&["install", "git"]);
    assert!(ended.stderr.contains("git merges memories by entry in this clone now"), "{ended:?}");
    let installed = read();
    assert_ne!(installed, before);
    let again = place.run(&["install", "git", "--yes"]);
    assert!(again.stderr.contains("git is set up already; nothing to write"), "{again:?}");
    assert_eq!(read(), installed);
    let value = place.json(&["install", "git", "--dry-run"]);
    assert_eq!(value["files"][0]["does"], "leave");
    assert_eq!(
        git_ok(&place, &folder, &["check-attr", "merge", MEMORY]),
        format!("{MEMORY}: merge: lukasa\n")
    );
    place.run_ok(&["uninstall", "git"]);
    assert_eq!(read(), before);
}

#[test]
fn the_attributes_of_a_project_are_shared_and_its_other_lines_stay() {
    let place = Sandbox::new();
    let folder = place.checkout();
    write(&folder, ".gitattributes", "*.png binary");
    let ended = place.run(&["install", "git", "--scope", "project", "--yes"]);
    assert!(ended.stderr.contains("commit `.gitattributes`"), "{ended:?}");
    let text = fs::read_to_string(folder.join(".gitattributes")).unwrap();
    assert_eq!(text, "*.png binary\n.lukasa/memory/** merge=lukasa\n");
    place.run_ok(&["uninstall", "git", "--scope", "project"]);
    assert_eq!(fs::read_to_string(folder.join(".gitattributes")).unwrap(), "*.png binary");
}

#[test]
fn worktrees_share_the_driver_and_other_folders_are_refused() {
    let place = Sandbox::new();
    let (folder, tree) = (place.checkout(), place.path().join("tree"));
    commit(&place, &folder, &[(MEMORY, b"- a\n")]);
    git_ok(&place, &folder, &["worktree", "add", "--quiet", tree.to_str().unwrap()]);
    place.run_ok(&["install", "git", "--project", tree.to_str().unwrap(), "--yes"]);
    let attribute = git_ok(&place, &folder, &["check-attr", "merge", MEMORY]);
    assert_eq!(attribute, format!("{MEMORY}: merge: lukasa\n"));
    let elsewhere = place.temporary();
    let ended = place.run(&["install", "git", "--project", elsewhere.to_str().unwrap()]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("is not in a git checkout"), "{ended:?}");
}

#[test]
fn another_driver_of_that_name_stays() {
    let place = Sandbox::new();
    let folder = place.checkout();
    git_ok(&place, &folder, &["config", "merge.lukasa.driver", "mine %O %A %B"]);
    let ended = place.run(&["install", "git", "--yes"]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("runs another program"), "{ended:?}");
    let driver = git_ok(&place, &folder, &["config", "merge.lukasa.driver"]);
    assert_eq!(driver, "mine %O %A %B\n");
    // It would merge the memories if an attribute named it.
    assert!(!folder.join(".git/info/attributes").exists());
}

#[test]
fn attributes_that_decide_otherwise_are_reported() {
    let place = Sandbox::new();
    let folder = place.checkout();
    let ours = ".lukasa/memory/** merge=lukasa\n";
    write(&folder, ".gitattributes", format!("{ours}.lukasa/** -merge\n"));
    let ended = place.run(&["install", "git", "--scope", "project", "--yes"]);
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.stderr.contains("git does not use the driver"), "{ended:?}");
    assert!(ended.stderr.contains("says `unset`"), "{ended:?}");
    // The attributes of the clone come before those of the project.
    let ended = place.run(&["install", "git", "--yes"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.stderr.contains("git merges memories by entry in this clone now"), "{ended:?}");
}

#[test]
fn the_driver_stays_until_no_attributes_select_it() {
    let place = Sandbox::new();
    let folder = place.checkout();
    place.run_ok(&["install", "git", "--yes"]);
    place.run_ok(&["install", "git", "--scope", "project", "--yes"]);
    let has_driver = || git(&place, &folder, &["config", "merge.lukasa.driver"]).status == 0;
    let ended = place.run(&["uninstall", "git", "--scope", "project", "--yes"]);
    assert!(ended.stderr.contains("the driver stays in this clone"), "{ended:?}");
    assert!(has_driver());
    place.run_ok(&["uninstall", "git", "--yes"]);
    assert!(!has_driver());
}

#[test]
fn entries_of_both_sides_stay_and_conflicts_have_the_names_of_the_branches() {
    let place = three_versions(
        MEMORY,
        [b"- the port is 80\n", b"- the port is 81\n- b\n", b"- the port is 82\n- c\n"],
    );
    let (status, text) = merge_versions(&place, MEMORY);
    assert_eq!(status, 1);
    insta::assert_snapshot!(String::from_utf8(text).unwrap(), @"
    <<<<<<< HEAD
    - the port is 81
    =======
    - the port is 82
    >>>>>>> other
    - b
    - c
    ");
    let place = three_versions(MEMORY, [b"- a\n", b"- a\n- b\n", b"- a\n- c\n"]);
    assert_eq!(merge_versions(&place, MEMORY), (0, b"- a\n- b\n- c\n".to_vec()));
    // Other files are merged by line, also if a repository names the driver for them.
    let place = three_versions("b.md", [b"- a\n", b"- a\n- b\n", b"- a\n- c\n"]);
    fs::write(place.checkout().join(".git/info/attributes"), "* merge=lukasa\n").unwrap();
    assert_eq!(merge_versions(&place, "b.md").0, 1);
    let place = three_versions("b.md", [b"- a\n", b"- a\n- b\n", b"- a\n- c\n"]);
    assert_eq!(merge_versions(&place, "b.md").0, 1);
}

#[test]
fn a_merge_without_the_program_or_its_configuration_is_that_of_git() {
    let by_line = b"- a\n<<<<<<< HEAD\n- b\n=======\n- c\n>>>>>>> other\n".to_vec();
    let versions: [&[u8]; 3] = [b"- a\n", b"- a\n- b\n", b"- a\n- c\n"];
    let place = three_versions(MEMORY, versions);
    git_ok(&place, &place.checkout(), &["config", "--remove-section", "merge.lukasa"]);
    assert_eq!(merge_versions(&place, MEMORY), (1, by_line.clone()));
}

/// Puts a file in the place of the program, or removes it, and merges three versions.
fn merge_with_program(program: Option<(&[u8], u32)>, versions: [&[u8]; 3]) -> (i32, Vec<u8>) {
    let place = three_versions(MEMORY, versions);
    let file = place.path().join("program");
    if let Some((bytes, mode)) = program {
        fs::write(&file, bytes).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }
    let config = place.checkout().join(".git/config");
    let text = fs::read_to_string(&config).unwrap();
    let text = text.replace(env!("CARGO_BIN_EXE_lukasa"), file.to_str().unwrap());
    fs::write(&config, text).unwrap();
    merge_versions(&place, MEMORY)
}

#[test]
fn a_program_that_cannot_merge_leaves_the_merge_to_git() {
    let by_line = "- a\n<<<<<<< ours\n- b\n=======\n- c\n>>>>>>> theirs\n";
    let versions: [&[u8]; 3] = [b"- a\n", b"- a\n- b\n", b"- a\n- c\n"];
    let elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0\x01\0\0\0";
    for program in [
        None,
        // An interrupted upgrade, and one without permission to run it.
        Some((&b""[..], 0o755)),
        Some((&b"#!/bin/sh\nexit 0\n"[..], 0o644)),
        // A program of another machine, and an earlier version without the command.
        Some((&elf[..], 0o755)),
        Some((&b"#!/bin/sh\necho 'unknown command' >&2\nexit 2\n"[..], 0o755)),
    ] {
        let (status, text) = merge_with_program(program, versions);
        let text = String::from_utf8(text).unwrap();
        assert_eq!((status, text.as_str()), (1, by_line), "{program:?}");
        // Git reports a binary file as a conflict, with our version in place.
        let merged = merge_with_program(program, [b"a\0\n", b"b\0\n", b"c\0\n"]);
        assert_eq!(merged, (1, b"b\0\n".to_vec()), "{program:?}");
    }
    // A program that was killed has not merged, and git ends the merge.
    let killed = Some((&b"#!/bin/sh\nkill -9 $$\n"[..], 0o755));
    assert_eq!(merge_with_program(killed, versions), (2, b"- a\n- b\n".to_vec()));
}

#[test]
fn names_that_are_not_utf_8_are_merged() {
    let place = three_versions(MEMORY, [b"- a\n", b"- a, ours\n", b"- a, theirs\n"]);
    let folder = place.checkout();
    let branch = OsStr::from_bytes(b"caf\xe9");
    let file = PathBuf::from(OsStr::from_bytes(b".lukasa/memory/caf\xe9.md"));
    for (at, text) in [("main", "- b\n- ours\n"), ("other", "- b\n- theirs\n")] {
        git_ok(&place, &folder, &["checkout", "--quiet", at]);
        fs::write(folder.join(&file), text).unwrap();
        git_ok(&place, &folder, &["add", "-A"]);
        git_ok(&place, &folder, &["commit", "--quiet", "-m", "another"]);
    }
    let moved = ["branch", "--move", "other"].map(OsStr::new);
    assert_eq!(git(&place, &folder, &[&moved[..], &[branch]].concat()).status, 0);
    git_ok(&place, &folder, &["checkout", "--quiet", "main"]);
    let merged = git(&place, &folder, &["merge".as_ref(), "--no-edit".as_ref(), branch]);
    assert_eq!(merged.status, 1, "{merged:?}");
    let conflict = "<<<<<<< HEAD\n- a, ours\n=======\n- a, theirs\n>>>>>>> caf\u{fffd}\n";
    assert_eq!(fs::read_to_string(folder.join(MEMORY)).unwrap(), conflict);
    // Both made the file, so there is no version that both began with.
    assert_eq!(fs::read_to_string(folder.join(&file)).unwrap(), "- b\n- ours\n- theirs\n");
}

#[test]
fn invalid_arguments_and_files_end_the_merge() {
    let place = Sandbox::new();
    for args in [&["merge-driver"][..], &["merge-driver", "a", "b", "c", "d"]] {
        let ended = place.run(args);
        assert_eq!(ended.status, 129, "{}", ended.shown());
    }
    let place = three_versions(MEMORY, [b"- a\n", b"- b\n", b"- c\n"]);
    let folder = place.checkout();
    git_ok(
        &place,
        &folder,
        &["config", "merge.lukasa.driver", "lukasa merge-driver %O %A /gone %P || exit 129"],
    );
    let (status, text) = merge_versions(&place, MEMORY);
    assert_eq!((status, text), (2, b"- b\n".to_vec()));
    assert_eq!(git_ok(&place, &folder, &["status", "--porcelain"]), "");
}

/// Versions of a memory that other tools or attackers may have written.
fn hostile_versions() -> Vec<[Vec<u8>; 3]> {
    let texts: [[&[u8]; 3]; 12] = [
        [b"- a\r\n", b"- a\r\n- b\r\n", b"- a\n- c\n"],
        [b"- a", b"- a\n- b", b"- a\n- c"],
        [b"\xef\xbb\xbf- a\n", b"- a\n- b\n", b"\xef\xbb\xbf- a\n- c\n"],
        [b"- a\n", b"- a\n- \xff\xfe b\n", b"- a\n- c\n"],
        [b"- a\n", b"- a\0b\n", b"- a\n- c\n"],
        [b"- a\n", b"- a\n```\n- b\n", b"- a\n```\n- c\n"],
        [b"- a\n", b"- a\n<<<<<<< x\n- b\n=======\n- d\n>>>>>>> y\n", b"- a\n- c\n"],
        [b"- a\n", b"- a\n>>>>>>> y\n- b\n", b"- a\n=======\n- c\n<<<<<<< x\n"],
        [b"---\nname: a\n---\n", b"---\nname: a\n- b\n", b"---\nname: a\n---\n- c\n"],
        [b"", b"- \x1b[2Jb\n", b"- \xe2\x80\xaec\n"],
        [b"- a\n", b"- a\n<!--\n- b\n", b"- a\n-->\n- c\n"],
        [b"- a\r", b"- a\r- b\r", b"- a\r- c\r"],
    ];
    let mut all: Vec<_> = texts.into_iter().map(|texts| texts.map(<[u8]>::to_vec)).collect();
    let large = |last: &str| format!("{}- {last}\n", "- x\n".repeat(100_000)).into_bytes();
    all.push([large("a"), large("b"), large("c")]);
    all
}

#[test]
fn hostile_memories_are_merged_without_loss() {
    for (index, [base, ours, theirs]) in hostile_versions().into_iter().enumerate() {
        let place = three_versions(MEMORY, [&base, &ours, &theirs]);
        let (status, text) = merge_versions(&place, MEMORY);
        assert!(matches!(status, 0 | 1), "{index}: {status}");
        let is_binary = ours.contains(&0);
        let merged = lines(&text);
        for side in [&ours, &theirs] {
            let missing: Vec<_> = lines(side).difference(&lines(&base)).cloned().collect();
            let missing: Vec<_> = missing.iter().filter(|line| !merged.contains(*line)).collect();
            assert!(missing.is_empty() || is_binary, "{index}: {missing:?} in {text:?}");
        }
        if is_binary {
            // Git keeps all three versions.
            assert_eq!((status, text), (1, ours.clone()));
            let stages = git_ok(&place, &place.checkout(), &["ls-files", "--unmerged"]);
            assert_eq!(stages.lines().count(), 3, "{stages}");
        }
    }
}

#[test]
fn names_of_files_and_branches_run_nothing() {
    let file = ".lukasa/memory/$(touch pwned) %L '\"`touch pwned`; x.md";
    let place = three_versions(file, [b"- a\n", b"- b\n", b"- c\n"]);
    let folder = place.checkout();
    let branch = "x';touch${IFS}pwned;'$(touch${IFS}pwned)";
    git_ok(&place, &folder, &["branch", "--move", "other", branch]);
    let ended = git(&place, &folder, &["merge", "--no-edit", branch]);
    assert_eq!(ended.status, 1, "{}", ended.shown());
    let text = fs::read_to_string(folder.join(file)).unwrap();
    assert!(text.ends_with(&format!(">>>>>>> {branch}\n")), "{text}");
    assert!(!folder.join("pwned").exists());
}
