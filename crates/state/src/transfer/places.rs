//! Conversion of places between a database of one machine and a shared one.
//!
//! On a machine the place of a root is a digest of its folder. In a shared database the place of a hosted root is its
//! identity. Roots in checkouts keep their digest, which no root of a shared database has.

use std::collections::HashMap;

use crate::error::Fault;
use crate::transfer::{Row, Table, Value};

/// A function from the identity of a hosted root to its place on this machine. `None` for any other identity.
type LocalPlace = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The places of the hosted roots of a machine.
pub struct Places {
    local_place: LocalPlace,
    known: HashMap<String, Option<String>>,
}

impl std::fmt::Debug for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Places").field(&self.known).finish()
    }
}

impl Places {
    /// Returns the places that `local_place` computes from identities.
    pub fn new(local_place: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { local_place: Box::new(local_place), known: HashMap::new() }
    }

    /// Converts the places in a row of this machine to those of a shared database.
    pub(crate) fn share(&mut self, table: &Table, row: &mut Row) -> Result<(), Fault> {
        self.convert(table, row, |places, identity, place| {
            Ok(places.is_hosted(identity, place).then(|| identity.to_owned()))
        })
    }

    /// Converts the places in a row of a shared database to those of this machine.
    pub(crate) fn localize(&mut self, table: &Table, row: &mut Row) -> Result<(), Fault> {
        self.convert(table, row, |places, identity, place| {
            if place != identity {
                return Ok(None);
            }
            let local = places.local(identity).map(str::to_owned);
            let unknown = || Fault::Damaged(format!("no folder can have the identity `{place}`"));
            local.ok_or_else(unknown).map(Some)
        })
    }

    /// Returns whether a place on this machine is that of a hosted root.
    pub(crate) fn is_hosted(&mut self, identity: &str, place: &str) -> bool {
        self.local(identity).is_some_and(|local| local == place)
    }

    fn local(&mut self, identity: &str) -> Option<&str> {
        if !self.known.contains_key(identity) {
            self.known.insert(identity.to_owned(), (self.local_place)(identity));
        }
        self.known.get(identity)?.as_deref()
    }

    fn convert(
        &mut self,
        table: &Table,
        row: &mut Row,
        place_of: impl Fn(&mut Self, &str, &str) -> Result<Option<String>, Fault>,
    ) -> Result<(), Fault> {
        let index = |name| table.columns.iter().position(|column| column.name == name);
        if let Some((identity, place)) = table.located
            && let (Some(identity), Some(place)) = (index(identity), index(place))
            && let (Some(Value::Text(identity)), Some(Value::Text(from))) =
                (row.get(identity), row.get(place))
            && let Some(converted) = place_of(self, identity, from)?
        {
            row[place] = Value::Text(converted);
        }
        if let Some(pairs) = table.pairs.and_then(index)
            && let Some(Value::Text(json)) = row.get_mut(pairs)
        {
            *json = convert_pairs(json, |identity, place| place_of(self, identity, place))?;
        }
        Ok(())
    }
}

/// Replaces the place in each pair `["IDENTITY","PLACE"]` of a JSON text without spaces, as this program writes it. The
/// rest keeps its bytes. No text inside the JSON looks like that, because its quotation marks are escaped.
fn convert_pairs(
    json: &str,
    mut place_of: impl FnMut(&str, &str) -> Result<Option<String>, Fault>,
) -> Result<String, Fault> {
    let mut converted = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, after)) = rest.split_once("[\"") {
        converted.push_str(before);
        converted.push_str("[\"");
        rest = after;
        let Some((identity, behind)) = after.split_once("\",\"") else { continue };
        let Some((place, _)) = behind.split_once("\"]") else { continue };
        if identity.contains(['"', '\\']) || place.contains(['"', '\\']) {
            continue;
        }
        if let Some(other) = place_of(identity, place)? {
            converted.push_str(identity);
            converted.push_str("\",\"");
            converted.push_str(&other);
            rest = behind.split_at(place.len()).1;
        }
    }
    converted.push_str(rest);
    Ok(converted)
}
