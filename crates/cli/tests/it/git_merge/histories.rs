//! Random histories of two clones with real git: nothing that either side added is lost, whatever command brings the
//! sides together.

use std::fmt::Write as _;

use super::*;

/// The number of random histories of each way to bring two sides together.
const HISTORIES: u64 = 12;

/// The files of a history.
const FILES: [&str; 2] = [".lukasa/memory/a.md", ".lukasa/memory/deep/b c.md"];

/// A git command that brings two sides together.
#[derive(Clone, Copy, Debug)]
enum Way {
    Merge,
    Rebase,
    CherryPick,
    StashPop,
    Worktree,
}

/// Two clones of one repository.
struct Clones {
    place: Sandbox,
    ours: PathBuf,
    theirs: PathBuf,
}

impl Clones {
    fn new() -> Self {
        let place = Sandbox::new();
        let (ours, theirs) = (place.checkout(), place.path().join("theirs"));
        git_ok(&place, &ours, &["checkout", "--quiet", "-b", "main"]);
        commit(&place, &ours, &[("README.md", b"x\n")]);
        git_ok(&place, &ours, &["clone", "--quiet", ".", theirs.to_str().unwrap()]);
        for clone in [&ours, &theirs] {
            place.run_ok(&["install", "git", "--yes", "--project", clone.to_str().unwrap()]);
        }
        Self { place, ours, theirs }
    }

    fn git(&self, folder: &Path, args: &[&str]) -> String {
        git_ok(&self.place, folder, args)
    }

    /// Commits a base in one clone, and lets both go on from it.
    fn begin(&self, random: &mut Random) -> [String; 2] {
        let texts = [new_text(random), new_text(random)];
        for (file, text) in FILES.iter().zip(&texts) {
            write(&self.ours, file, text);
        }
        commit(&self.place, &self.ours, &[]);
        self.git(&self.theirs, &["fetch", "--quiet", "origin", "main"]);
        self.git(&self.theirs, &["reset", "--quiet", "--hard", "FETCH_HEAD"]);
        texts
    }

    /// Commits up to three random edits in a clone.
    fn edit(&self, folder: &Path, random: &mut Random) {
        for _ in 0..=random.below(3) {
            for file in FILES {
                if !random.one_in(4) {
                    let path = folder.join(file);
                    let text = fs::read_to_string(&path).unwrap();
                    fs::write(path, edited(&text, random)).unwrap();
                }
            }
            commit(&self.place, folder, &[]);
        }
    }

    /// Brings their commits into our clone. Returns whether there was a conflict.
    fn join(&self, way: Way) -> bool {
        let (place, ours) = (&self.place, self.ours.as_path());
        let theirs = self.theirs.to_str().unwrap();
        self.git(ours, &["fetch", "--quiet", theirs, "main:theirs", "--force"]);
        let mut ended = match way {
            Way::Merge => git(place, ours, &["merge", "--no-edit", "theirs"]),
            Way::Rebase => git(place, ours, &["rebase", "theirs"]),
            Way::CherryPick => git(
                place,
                ours,
                &["cherry-pick", "--allow-empty", "--keep-redundant-commits", "main..theirs"],
            ),
            Way::StashPop => {
                let base = self.git(ours, &["merge-base", "main", "theirs"]);
                self.git(ours, &["reset", "--quiet", "--soft", base.trim()]);
                self.git(ours, &["stash", "--quiet"]);
                self.git(ours, &["reset", "--quiet", "--hard", "theirs"]);
                git(place, ours, &["stash", "pop", "--quiet"])
            }
            Way::Worktree => {
                let tree = place.path().join("tree");
                let path = tree.to_str().unwrap();
                self.git(ours, &["worktree", "add", "--quiet", "--detach", path, "main"]);
                let ended = git(place, &tree, &["merge", "--no-edit", "theirs"]);
                commit(place, &tree, &[]);
                self.git(&tree, &["branch", "--force", "joined"]);
                self.git(ours, &["worktree", "remove", "--force", path]);
                self.git(ours, &["reset", "--quiet", "--hard", "joined"]);
                ended
            }
        };
        let mut had_conflict = ended.status != 0;
        let next = match way {
            Way::Rebase => "rebase",
            Way::CherryPick => "cherry-pick",
            Way::Merge | Way::StashPop | Way::Worktree => return had_conflict,
        };
        // Conflicts are committed as they are: the next commit meets their markers.
        for _ in 0..20 {
            if ended.status == 0 {
                return had_conflict;
            }
            had_conflict = true;
            assert!(ended.status == 1, "{way:?}: {}", ended.shown());
            self.git(ours, &["add", "-A"]);
            ended = git(place, ours, &[next, "--continue"]);
        }
        panic!("{way:?} does not end: {}", ended.shown());
    }

    /// Ends a history, whatever state it is in, and lets the next one begin with `main`.
    fn finish(&self) {
        commit(&self.place, &self.ours, &[]);
        git(&self.place, &self.ours, &["stash", "drop", "--quiet"]);
        self.git(&self.ours, &["checkout", "--quiet", "-B", "main"]);
    }
}

/// Returns the texts of a clone.
fn texts(folder: &Path) -> [String; 2] {
    FILES.map(|file| fs::read_to_string(folder.join(file)).unwrap())
}

/// Returns a fact that no other place has.
fn fact(random: &mut Random) -> String {
    let words = ["tea", "bees", "port", "build", "gate", "漢字"];
    let (one, other) = (*random.pick(&words), *random.pick(&words));
    let number = random.below(1_000_000_000);
    match random.below(6) {
        0 => format!("- {one} {number}\n  Why: {other} {number}"),
        1 => format!("- {one} {number}\n  - deep {other} {number}"),
        2 => format!("```\n- {one} {number}\n```"),
        _ => format!("- {one} {other} {number}"),
    }
}

fn new_text(random: &mut Random) -> String {
    let mut text = String::new();
    if random.one_in(2) {
        let name = random.below(1_000_000);
        writeln!(text, "---\nname: n{name}\ntype: project\n---\n").unwrap();
    }
    for section in 0..=random.below(3) {
        writeln!(text, "## Section {section}\n").unwrap();
        for _ in 0..random.below(5) {
            writeln!(text, "{}", fact(random)).unwrap();
        }
        text.push('\n');
    }
    if random.one_in(5) { text.replace('\n', "\r\n") } else { text }
}

/// Returns a text with a random edit: a fact is added, edited or deleted, or a field or a section changes.
fn edited(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let bullets: Vec<usize> =
        (0..lines.len()).filter(|&line| lines[line].starts_with("- ")).collect();
    let headings: Vec<usize> =
        (0..lines.len()).filter(|&line| lines[line].starts_with("## ")).collect();
    match random.below(8) {
        2 if !headings.is_empty() => {
            let below = *random.pick(&headings);
            lines.splice(below + 1..=below, [String::new(), fact(random)]);
        }
        3 if !bullets.is_empty() => drop(lines.remove(*random.pick(&bullets))),
        4 | 5 if !bullets.is_empty() => {
            let line = *random.pick(&bullets);
            write!(lines[line], " and {}", random.below(1_000_000)).unwrap();
        }
        6 => lines.extend([format!("\n## New {}\n", random.below(1_000)), fact(random)]),
        7 if lines.first().is_some_and(|line| line == "---") => {
            lines.insert(1, format!("key{}: {}", random.below(9), random.below(1_000)));
        }
        _ => lines.push(fact(random)),
    }
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let end = if random.one_in(6) { "" } else { line_end };
    format!("{}{end}", lines.join(line_end))
}

#[track_caller]
fn check_nothing_lost(base: &str, sides: [&str; 2], joined: &str, what: &str) {
    let (before, after) = (lines(base.as_bytes()), lines(joined.as_bytes()));
    for side in sides {
        let side = lines(side.as_bytes());
        let lost: Vec<_> = side.difference(&before).filter(|line| !after.contains(*line)).collect();
        assert!(lost.is_empty(), "{what}: {lost:?} is lost from\n{joined}");
    }
}

/// Brings random histories together, and returns how many of them had no conflict.
fn check_way(way: Way) -> u64 {
    let clones = Clones::new();
    let mut clean = 0;
    for seed in 0..HISTORIES {
        let mut random = Random::new(seed * 5 + 1);
        let base = clones.begin(&mut random);
        clones.edit(&clones.ours, &mut random);
        clones.edit(&clones.theirs, &mut random);
        let (ours, theirs) = (texts(&clones.ours), texts(&clones.theirs));
        let had_conflict = clones.join(way);
        let joined = texts(&clones.ours);
        for file in 0..FILES.len() {
            let what = format!("{way:?}, seed {seed}");
            check_nothing_lost(&base[file], [&ours[file], &theirs[file]], &joined[file], &what);
        }
        clean += u64::from(!had_conflict);
        clones.finish();
    }
    clean
}

#[test]
fn a_merge_loses_nothing() {
    assert!(check_way(Way::Merge) > HISTORIES / 3);
}

#[test]
fn a_rebase_loses_nothing() {
    assert!(check_way(Way::Rebase) > HISTORIES / 3);
}

#[test]
fn a_cherry_pick_loses_nothing() {
    assert!(check_way(Way::CherryPick) > HISTORIES / 3);
}

#[test]
fn a_stash_loses_nothing() {
    assert!(check_way(Way::StashPop) > HISTORIES / 3);
}

#[test]
fn a_merge_in_a_worktree_loses_nothing() {
    assert!(check_way(Way::Worktree) > HISTORIES / 3);
}

#[test]
fn both_directions_give_the_same_lines_and_a_second_merge_changes_nothing() {
    let clones = Clones::new();
    let mut compared = 0;
    for seed in 0..HISTORIES {
        let mut random = Random::new(1_000 + seed);
        clones.begin(&mut random);
        clones.edit(&clones.ours, &mut random);
        clones.edit(&clones.theirs, &mut random);
        let ours = clones.ours.to_str().unwrap();
        clones.git(&clones.theirs, &["fetch", "--quiet", ours, "main:ours", "--force"]);
        let had_conflict = clones.join(Way::Merge);
        let back = git(&clones.place, &clones.theirs, &["merge", "--no-edit", "ours"]);
        assert_eq!(back.status != 0, had_conflict, "seed {seed}: {}", back.shown());
        if !had_conflict {
            let (joined, back) = (texts(&clones.ours), texts(&clones.theirs));
            for (joined, back) in joined.iter().zip(&back) {
                assert_eq!(lines(joined.as_bytes()), lines(back.as_bytes()), "seed {seed}");
            }
            // The changes of their side again, as one commit.
            let base = clones.git(&clones.ours, &["merge-base", "main~1", "theirs"]);
            let tree = "theirs^{tree}";
            let again = ["commit-tree", tree, "-p", base.trim(), "-m", "again"];
            let again = clones.git(&clones.ours, &again);
            clones.git(&clones.ours, &["cherry-pick", "--no-commit", again.trim()]);
            let picked = texts(&clones.ours);
            for (joined, picked) in joined.iter().zip(&picked) {
                assert_eq!(lines(joined.as_bytes()), lines(picked.as_bytes()), "seed {seed}");
            }
            compared += 1;
        }
        commit(&clones.place, &clones.theirs, &[]);
        clones.finish();
    }
    assert!(compared > HISTORIES / 3, "{compared}");
}
