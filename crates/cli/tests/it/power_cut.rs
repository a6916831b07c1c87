//! Tests of power cuts at random moments of the first seconds of writing: every acknowledged write must exist.
//!
//! As root, the home is on its own file system in an image. A copy of the image, taken while the writer is stopped, has
//! the content of a real disk after a power cut. If no image can be mounted, files that were not synchronized are
//! damaged instead.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::{Random, delay_fault};

use crate::full_disk::{mount, with_own_mounts};
use crate::sandbox::Sandbox;
use crate::served::McpServerProcess;
use crate::storm::texts;

/// The latest time of the power cut after the first write, in milliseconds. A file system writes unsynchronized data
/// after five seconds or later, and Lukasa synchronizes memories some seconds after the last write.
const CUTS: [usize; 5] = [50, 300, 1_000, 2_500, 6_500];

/// The storage of the home.
enum Disk {
    /// An image with a file system.
    Image(PathBuf),
    /// A folder.
    Folder,
}

impl Disk {
    fn new(place: &Sandbox) -> Self {
        let image = place.path().join("disk.img");
        fs::File::create(&image).unwrap().set_len(64 * 1024 * 1024).unwrap();
        let made = succeeds("mkfs.ext4", &["-q", image.to_str().unwrap()]);
        if made && mount_image(&image, &place.home()) { Self::Image(image) } else { Self::Folder }
    }

    /// Simulates a power cut while a writer writes.
    fn cut(&self, place: &Sandbox, writer: McpServerProcess, dice: &mut Random) {
        match self {
            Self::Image(image) => {
                writer.signal("STOP");
                let left = place.path().join("left.img");
                fs::copy(image, &left).unwrap();
                writer.kill();
                assert!(succeeds("umount", &[place.home().to_str().unwrap()]));
                mount(&["-o", "loop", left.to_str().unwrap()], &place.home());
                restart(place);
            }
            Self::Folder => {
                writer.kill();
                for (name, text) in texts(&place.home().join("memory")) {
                    let file = place.home().join("memory").join(name);
                    // Older files may be synchronized already, so they stay undamaged.
                    let age = fs::metadata(&file).unwrap().modified().unwrap().elapsed();
                    if age.unwrap_or_default() > Duration::from_millis(500) {
                        continue;
                    }
                    match dice.below(4) {
                        0 => fs::remove_file(file).unwrap(),
                        1 => fs::write(file, "").unwrap(),
                        2 => fs::write(file, "\0".repeat(text.len())).unwrap(),
                        _ => {}
                    }
                }
                for lock in fs::read_dir(place.home().join("state/locks")).unwrap() {
                    match dice.below(3) {
                        0 => fs::remove_file(lock.unwrap().path()).unwrap(),
                        1 => fs::write(lock.unwrap().path(), "").unwrap(),
                        _ => {}
                    }
                }
                restart(place);
            }
        }
    }
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|ended| ended.status.success())
}

fn mount_image(image: &Path, at: &Path) -> bool {
    succeeds("mount", &["-o", "loop", image.to_str().unwrap(), at.to_str().unwrap()])
}

/// Changes the lock files as if the machine had been restarted since.
fn restart(place: &Sandbox) {
    let Ok(locks) = fs::read_dir(place.home().join("state/locks")) else { return };
    for lock in locks {
        let path = lock.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        if let Some(boot) = text.split_ascii_whitespace().nth(1) {
            fs::write(&path, text.replace(boot, &"f".repeat(boot.len()))).unwrap();
        }
    }
}

/// Writes until the power cut; returns the acknowledged writes.
fn write(
    writer: &mut McpServerProcess,
    until: Instant,
    dice: &mut Random,
) -> BTreeMap<String, String> {
    let mut acknowledged: BTreeMap<String, String> = BTreeMap::new();
    while acknowledged.is_empty() || Instant::now() < until {
        let number = acknowledged.len();
        let text = format!("- fact {number}\n{}", "- more of it\n".repeat(dice.below(400)));
        if let Some((name, old)) = acknowledged.iter_mut().last().filter(|_| dice.one_in(3)) {
            let (head, rest) = old.split_once('\n').unwrap();
            writer.done(&json!({
                "command": "str_replace", "path": format!("/memories/global/{name}"),
                "old_str": format!("{head}\n"), "new_str": "- edited\n",
            }));
            *old = format!("- edited\n{rest}");
        } else {
            let folder = ["", "deep/", "deep/er/"][dice.below(3)];
            let name = format!("{folder}{number:04}.md");
            writer.create(&format!("/memories/global/{name}"), &text);
            acknowledged.insert(name, text);
        }
        delay_fault(Duration::from_millis(*dice.pick(&[0, 0, 5, 40, 200])));
    }
    acknowledged
}

#[test]
fn a_power_cut_in_the_first_seconds_of_a_root_loses_nothing_that_was_acknowledged() {
    let test =
        "power_cut::a_power_cut_in_the_first_seconds_of_a_root_loses_nothing_that_was_acknowledged";
    with_own_mounts(test, || {
        let given = std::env::var("LUKASA_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one("power cut"));
        println!("the same writes again: LUKASA_TEST_SEED={seed}");
        let mut dice = Random::new(seed);
        for most in CUTS {
            let place = Sandbox::new();
            let disk = Disk::new(&place);
            let mut writer = McpServerProcess::start(&place);
            let until =
                Instant::now() + Duration::from_millis((most / 2 + dice.below(most)) as u64);
            let acknowledged = write(&mut writer, until, &mut dice);
            disk.cut(&place, writer, &mut dice);
            place.run_ok(&["ls"]);
            let mut found = texts(&place.home().join("memory"));
            found.remove("MEMORY.md");
            assert_eq!(found, acknowledged, "after {most} ms at the most");
            let log = place.run_ok(&["log", "--json", "-n", "100000"]);
            assert!(!log.contains("\"outside\""), "our own write looks like somebody else's");
            place.check_healthy();
            if let Disk::Image(_) = disk {
                assert!(succeeds("umount", &[place.home().to_str().unwrap()]));
            }
        }
    });
}
