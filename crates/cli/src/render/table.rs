//! Tables: aligned columns on a terminal, cells separated by tabs in a pipe.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use anstyle::Style;

use crate::render::{FAINT, OutputStyle};

/// The layout of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// The heading.
    pub(crate) head: &'static str,
    /// Whether cells are aligned to the right.
    pub(crate) right: bool,
    /// The style of the cells.
    pub(crate) style: Option<Style>,
}

impl Column {
    /// Creates a column of words, aligned to the left.
    pub(crate) const fn left(head: &'static str) -> Self {
        Self { head, right: false, style: None }
    }

    /// Creates a column of numbers, aligned to the right.
    pub(crate) const fn right(head: &'static str) -> Self {
        Self { head, right: true, style: None }
    }

    /// Sets the style of the cells.
    pub(crate) const fn styled(mut self, style: Style) -> Self {
        self.style = Some(style);
        self
    }
}

/// Returns rows in aligned columns below their headings; the last column is cut to the width of the terminal.
///
/// Cells must be sanitized and on one line. Without rows the result is empty.
pub(crate) fn aligned(
    columns: &[Column],
    rows: impl IntoIterator<Item = Vec<String>>,
    look: OutputStyle,
) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    if rows.is_empty() {
        return String::new();
    }
    let width_of = |index: usize| {
        let cells = rows.iter().filter_map(|row| row.get(index));
        let widest = cells.map(|cell| cell.width()).max().unwrap_or(0);
        widest.max(columns.get(index).map_or(0, |column| column.head.width()))
    };
    let widths: Vec<usize> = (0..columns.len()).map(width_of).collect();
    let heads: Vec<String> = columns.iter().map(|column| column.head.to_owned()).collect();
    let mut table =
        look.paint(FAINT, line(columns, &widths, &heads, OutputStyle::PLAIN).trim_end());
    table.push('\n');
    for row in &rows {
        table.push_str(line(columns, &widths, row, look).trim_end());
        table.push('\n');
    }
    table
}

/// Returns rows in aligned columns if the style asks for them, else with cells separated by tabs.
pub(crate) fn lines(columns: &[Column], rows: Vec<Vec<String>>, look: OutputStyle) -> String {
    if look.columns {
        return aligned(columns, rows, look);
    }
    rows.iter().map(|row| row.join("\t") + "\n").collect()
}

fn line(columns: &[Column], widths: &[usize], row: &[String], look: OutputStyle) -> String {
    let mut line = String::new();
    let mut used = 0;
    for (index, ((column, &width), cell)) in columns.iter().zip(widths).zip(row).enumerate() {
        if index > 0 {
            line.push_str("  ");
            used += 2;
        }
        let is_last = index + 1 == columns.len();
        let cell = match look.width {
            Some(total) if is_last => cut(cell, total.saturating_sub(used).max(10)),
            _ => cell.clone(),
        };
        let padding = " ".repeat(width.saturating_sub(cell.width()));
        let cell = match column.style {
            Some(style) if !cell.is_empty() => look.paint(style, &cell),
            _ => cell,
        };
        match (column.right, is_last) {
            (true, _) => line.extend([padding.as_str(), &cell]),
            (false, true) => line.push_str(&cell),
            (false, false) => line.extend([cell.as_str(), &padding]),
        }
        used += width;
    }
    line
}

/// Returns a text cut to a number of columns, with `…` at the end if it was cut.
pub(crate) fn cut(text: &str, columns_max: usize) -> String {
    if text.width() <= columns_max {
        return text.to_owned();
    }
    let mut shown = String::new();
    let mut used = 1;
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used > columns_max {
            break;
        }
        shown.push(character);
    }
    shown.push('…');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_the_last_is_cut() {
        let columns = [Column::right("SIZE"), Column::left("PATH"), Column::left("ABOUT")];
        let rows = [
            vec!["1.5K".to_owned(), "a.md".to_owned(), "日本語 and so on and on".to_owned()],
            vec!["12B".to_owned(), "notes/long.md".to_owned(), String::new()],
        ];
        let look = OutputStyle { width: Some(36), ..OutputStyle::PLAIN };
        insta::assert_snapshot!(aligned(&columns, rows, look), @r"
        SIZE  PATH           ABOUT
        1.5K  a.md           日本語 and so …
         12B  notes/long.md
        ");
    }

    #[test]
    fn a_cut_counts_columns_and_not_letters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
    }
}
