//! Turns arbitrary names into paths that the grammar of memory paths allows.
//!
//! An allowed name stays unchanged; others keep their letters and digits. The rules are stricter
//! than the grammar where that is simpler, never looser.

use memory::limits::{PATH_BYTES_MAX, PATH_SEGMENTS_MAX};
use unicode_normalization::UnicodeNormalization;

/// Maximum length in bytes of a changed segment; leaves room for a suffix and for its neighbors.
const SLUG_BYTES_MAX: usize = 60;

/// Maximum length in bytes of a path; leaves room for `/memories/<scope>/` and a suffix.
const SLUG_PATH_BYTES_MAX: usize = PATH_BYTES_MAX - 64;

/// Maximum number of segments of a path. The scope is one more, and a target folder may be another.
const SLUG_SEGMENTS_MAX: usize = PATH_SEGMENTS_MAX - 2;

/// Returns the path in a form that can be addressed, unchanged if it already is.
pub(super) fn path(path: &str) -> String {
    let named: Vec<String> =
        path.split('/').filter(|part| !matches!(*part, "" | ".")).map(segment).collect();
    let fits = named.len() <= SLUG_SEGMENTS_MAX
        && named.iter().map(|part| part.len() + 1).sum::<usize>() <= SLUG_PATH_BYTES_MAX;
    match named.split_last() {
        None => "unnamed".to_owned(),
        Some(_) if fits => named.join("/"),
        // Too deep or too long: the outer folders and the file name carry most information.
        Some((file, folders)) => {
            let outer = folders.iter().take(SLUG_SEGMENTS_MAX - 1).chain([file]);
            outer.map(|part| segment(&shorten(part))).collect::<Vec<_>>().join("/")
        }
    }
}

/// Returns a file name made of running text: letters, digits and dashes in lower case.
pub(super) fn word(text: &str) -> String {
    let is_kept = |c: char| c.is_alphanumeric() && is_allowed(c);
    let nfc: String = text.nfc().collect::<String>().to_lowercase();
    let words: Vec<&str> = nfc.split(|c| !is_kept(c)).filter(|word| !word.is_empty()).collect();
    // The lower case of an allowed letter may contain a mark that is not in NFC.
    segment(&words.join("-"))
}

/// Returns a segment in a form that can be addressed.
fn segment(name: &str) -> String {
    let nfc: String = name.nfc().collect();
    if is_addressable(&nfc) {
        return nfc;
    }
    let mut kept = String::with_capacity(nfc.len());
    for c in nfc.chars().map(|c| if is_allowed(c) { c } else { '-' }) {
        if !(matches!(c, '-' | '.' | ' ') && kept.ends_with(c)) {
            kept.push(c);
        }
    }
    let (stem, dot, extension) = match kept.trim_end_matches(['.', '-', ' ']).rsplit_once('.') {
        Some((stem, extension)) => (stem, ".", extension),
        None => (&*kept, "", ""),
    };
    let stem = match stem.trim_matches(['.', '-', ' ']) {
        "" => "unnamed",
        stem => stem,
    };
    let kept = shorten(&[stem, dot, extension].concat());
    if is_device(&kept) { format!("_{kept}") } else { kept }
}

/// Shortens a name in the middle of its stem, keeping a short extension.
fn shorten(name: &str) -> String {
    if name.len() <= SLUG_BYTES_MAX {
        return name.to_owned();
    }
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if extension.len() <= 10 => (stem, extension),
        _ => (name, ""),
    };
    let room = SLUG_BYTES_MAX - extension.len() - 1;
    let ends = stem.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|&end| end <= room).last().unwrap_or_default();
    let stem = match memory::text::slice(stem, ..end).trim_end_matches(['.', ' ']) {
        "" => "unnamed",
        stem => stem,
    };
    if extension.is_empty() { stem.to_owned() } else { format!("{stem}.{extension}") }
}

fn is_addressable(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= SLUG_BYTES_MAX * 3
        && !name.contains("..")
        && !name.starts_with('.')
        && !name.ends_with(['.', ' '])
        && name.chars().all(is_allowed)
        && !is_device(name)
}

/// Checks whether a character may occur in a name: no separator, wildcard, quote or escape of any
/// system, and no invisible character.
fn is_allowed(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || (c.is_ascii_graphic() && !"/\\<>\":|*?~%".contains(c));
    }
    !c.is_whitespace()
        && !c.is_control()
        && !matches!(c,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{2000}'..='\u{200F}' | '\u{2028}'..='\u{202F}'
            | '\u{205F}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
            | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFF}' | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{10FFFF}')
}

/// Checks whether Windows treats the name as a device, whatever its extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    let is_port = port.is_some_and(|n| n.chars().count() == 1 && n.chars().all(char::is_numeric));
    is_port || matches!(&*stem, "con" | "prn" | "aux" | "nul" | "conin$" | "conout$")
}
