//! The merge driver of memories in git's own files: a line of attributes, and a section of a clone's configuration.
//!
//! Both are added as lines at the end and removed as lines, so that every other byte stays. A section of that name that
//! runs another program is not changed.

use crate::render::text::shell_word;

/// The memories of a checkout, as a pattern of attributes.
const PATTERN: &str = ".lukasa/memory/**";

/// The attribute that selects the driver.
const ATTRIBUTE: &str = "merge=lukasa";

/// The section of the driver.
const SECTION: &str = "[merge \"lukasa\"]";

/// The subcommand by which our driver is recognized.
const COMMAND: &str = " merge-driver ";

/// Adds the line of attributes. It is the last one, so that no earlier line decides otherwise.
pub(super) fn add_attributes(text: &str) -> String {
    if selects_driver(text) {
        return text.to_owned();
    }
    format!("{text}{}{PATTERN} {ATTRIBUTE}\n", missing_line_end(text))
}

/// Checks whether attributes have our line.
pub(crate) fn selects_driver(text: &str) -> bool {
    text.lines().any(is_our_attribute)
}

/// Removes the line of attributes.
pub(super) fn remove_attributes(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !is_our_attribute(line)).collect()
}

fn is_our_attribute(line: &str) -> bool {
    line.split_whitespace().eq([PATTERN, ATTRIBUTE])
}

/// Adds the section of the driver, or replaces an earlier one of ours; `None` if it runs another program.
pub(super) fn add_driver(text: &str, program: &str) -> Option<String> {
    let section = section(program);
    if text.contains(&section) {
        return Some(text.to_owned());
    }
    let text = remove_driver(text)?;
    Some(format!("{text}{}{section}", missing_line_end(&text)))
}

/// Removes our lines of the section of the driver; `None` if it runs another program. What a user added to the section
/// stays, with the head of the section if it belongs to it.
pub(super) fn remove_driver(text: &str) -> Option<String> {
    let mut rest = String::new();
    for section in sections(text) {
        let (head, lines) =
            section.split_at(section.find('\n').map_or(section.len(), |end| end + 1));
        let driver = lines.lines().find(|line| setting_name(line) == "driver");
        match driver.filter(|_| head.trim() == SECTION) {
            Some(driver) if !driver.contains(COMMAND) => return None,
            Some(_) => {
                let is_own = |line: &&str| !["driver", "name"].contains(&setting_name(line));
                let own: Vec<_> = lines.split_inclusive('\n').filter(is_own).collect();
                let is_setting = |line: &&str| {
                    let line = line.trim_start();
                    !line.is_empty() && !line.starts_with(['#', ';'])
                };
                if own.iter().any(is_setting) {
                    rest.push_str(head);
                }
                rest.extend(own);
            }
            None => rest.push_str(section),
        }
    }
    Some(rest)
}

/// Returns the name of the setting on a line; the line if it has none.
fn setting_name(line: &str) -> &str {
    line.split_once('=').map_or(line, |(name, _)| name).trim()
}

/// Splits a configuration before each line that begins a section.
fn sections(text: &str) -> Vec<&str> {
    let mut sections = Vec::new();
    let (mut start, mut offset) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') && offset > start {
            sections.extend(text.get(start..offset));
            start = offset;
        }
        offset += line.len();
    }
    sections.extend(text.get(start..));
    sections
}

fn section(program: &str) -> String {
    let driver = driver(program).replace('\\', "\\\\").replace('"', "\\\"");
    format!("{SECTION}\n\tname = memories of Lukasa, merged by entry\n\tdriver = \"{driver}\"\n")
}

/// Returns the command of the driver, for a shell.
///
/// Git takes any exit status up to 128 for a merge with conflicts, and then the file for its result. The file still has
/// only our version if the program did not run, or did not know the command. So git merges by line then. An empty
/// program, as of an interrupted upgrade, would even end with 0.
///
/// `git merge-file` refuses binary files. They are a conflict, with our version in place, as git itself has it.
fn driver(program: &str) -> String {
    // Git replaces what follows a percent sign.
    let program = shell_word(program).replace('%', "%%");
    format!(
        "[ -s {program} ] && {program}{COMMAND}--marker-length %L --base-label=%S \
         --our-label=%X --their-label=%Y %O %A %B %P; s=$?; \
         if [ -s {program} ] && [ $s -lt 2 ] || [ $s -gt 128 ]; then exit $s; fi; \
         git merge-file --marker-size=%L -L ours -L base -L theirs %A %O %B; s=$?; \
         if [ $s -gt 127 ]; then for f in %O %A %B; do \
         tr -d '\\0' <$f | cmp -s - $f || exit 1; done; fi; exit $s"
    )
}

const fn missing_line_end(text: &str) -> &'static str {
    match text.as_bytes() {
        [] | [.., b'\n'] => "",
        _ => "\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_attributes_is_added_once_and_removed() {
        for (text, with) in [
            ("", ".lukasa/memory/** merge=lukasa\n"),
            ("*.md text\n", "*.md text\n.lukasa/memory/** merge=lukasa\n"),
            ("* -merge", "* -merge\n.lukasa/memory/** merge=lukasa\n"),
        ] {
            assert_eq!(add_attributes(text), with);
            assert_eq!(add_attributes(with), with);
            assert_eq!(remove_attributes(with).trim_end(), text.trim_end());
        }
        let own = " .lukasa/memory/**\tmerge=lukasa\r\n*.md text\n";
        assert_eq!(add_attributes(own), own);
        assert_eq!(remove_attributes(own), "*.md text\n");
    }

    #[test]
    fn the_section_is_added_once_and_removed() {
        let section = section("/opt/lukasa");
        insta::assert_snapshot!(section, @r#"
        [merge "lukasa"]
        	name = memories of Lukasa, merged by entry
        	driver = "[ -s /opt/lukasa ] && /opt/lukasa merge-driver --marker-length %L --base-label=%S --our-label=%X --their-label=%Y %O %A %B %P; s=$?; if [ -s /opt/lukasa ] && [ $s -lt 2 ] || [ $s -gt 128 ]; then exit $s; fi; git merge-file --marker-size=%L -L ours -L base -L theirs %A %O %B; s=$?; if [ $s -gt 127 ]; then for f in %O %A %B; do tr -d '\\0' <$f | cmp -s - $f || exit 1; done; fi; exit $s"
        "#);
        // What a user wrote into the section stays.
        let with = format!("{section}# mine\n[a]\n");
        assert_eq!(remove_driver(&with).unwrap(), "# mine\n[a]\n");
        let with = format!("{section}\trecursive = binary\n");
        assert_eq!(remove_driver(&with).unwrap(), format!("{SECTION}\n\trecursive = binary\n"));
        for text in ["", "[core]\n\tbare = false\n", "[core]\n\tbare = false"] {
            let with = add_driver(text, "/opt/lukasa").unwrap();
            assert!(with.starts_with(text) && with.ends_with(&section), "{with}");
            assert_eq!(add_driver(&with, "/opt/lukasa").as_ref(), Some(&with));
            assert_eq!(remove_driver(&with).unwrap().trim_end(), text.trim_end());
            // The program has moved.
            let moved = add_driver(&with, "/usr/bin/lukasa").unwrap();
            assert_eq!(remove_driver(&moved).unwrap().trim_end(), text.trim_end());
            assert!(!moved.contains("/opt/lukasa"), "{moved}");
        }
    }

    #[test]
    fn sections_around_it_stay_and_another_driver_too() {
        let around = format!("[a]\n\tb = [c]\n{}[d]\n\te = f\n", section("lukasa"));
        assert_eq!(remove_driver(&around).unwrap(), "[a]\n\tb = [c]\n[d]\n\te = f\n");
        let other = "[merge \"lukasa\"]\n\tdriver = mine %O %A %B\n";
        assert_eq!(add_driver(other, "lukasa"), None);
        assert_eq!(remove_driver(other), None);
        assert_eq!(remove_driver("[core]\n"), Some("[core]\n".to_owned()));
    }

    #[test]
    fn a_program_with_odd_characters_is_quoted() {
        let line = section("/o d/100%/\"l'\\ukasa");
        assert!(line.contains(r#"'/o d/100%%/\"l'\\''\\ukasa' merge-driver"#), "{line}");
    }
}
