//! Unified diffs in color.

use crate::render::{BAD, FAINT, GOOD, MARK, OutputStyle};

/// Returns a diff with colored signs and escaped control characters.
///
/// Without color and terminal it stays a valid patch, byte for byte.
pub(crate) fn colored(diff: &str, look: OutputStyle) -> String {
    let mut shown = String::with_capacity(diff.len());
    let mut in_hunk = false;
    for line in diff.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        in_hunk |= line.starts_with("@@");
        let text = look.memory_text(line);
        let style = match line.chars().next() {
            Some('+') if in_hunk => Some(GOOD),
            Some('-') if in_hunk => Some(BAD),
            Some('@') => Some(MARK),
            Some('+' | '-') if line.starts_with("+++ ") || line.starts_with("--- ") => Some(FAINT),
            Some('+') => Some(GOOD),
            Some('-') => Some(BAD),
            _ => None,
        };
        match style {
            Some(style) => shown.push_str(&look.paint(style, &text)),
            None => shown.push_str(&text),
        }
        shown.push_str(end);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n same\n--- old\n+\u{1b}new\r\n";

    #[test]
    fn a_piped_diff_stays_a_patch() {
        assert_eq!(colored(DIFF, OutputStyle::PLAIN), DIFF);
    }

    #[test]
    fn signs_are_colored_and_control_characters_are_escaped() {
        let look = OutputStyle { color: true, terminal: true, columns: true, width: None };
        let shown = colored(DIFF, look).replace('\u{1b}', "ESC");
        insta::assert_snapshot!(shown, @r"
        ESC[2m--- aESC[0m
        ESC[2m+++ bESC[0m
        ESC[36m@@ -1,2 +1,2 @@ESC[0m
         same
        ESC[31m--- oldESC[0m
        ESC[32m+^[new^MESC[0m
        ");
    }
}
