//! The model: a plain table of memories, and the effect of each act on it.

use std::collections::BTreeMap;

/// The text of each memory by its scope and path.
pub(super) type SimFiles = BTreeMap<String, String>;

/// Text in every memory that an agent creates, until it is replaced.
pub(super) const REPLACED: &str = "more of it\n";

/// An act of one caller.
#[derive(Clone, Debug)]
pub(super) enum SimAct {
    Create {
        name: String,
        text: String,
    },
    /// Replaces [`REPLACED`].
    Replace {
        name: String,
        new: String,
    },
    Insert {
        name: String,
        text: String,
    },
    /// Deletes a memory or a folder.
    Delete {
        name: String,
    },
    /// Renames a memory or a folder.
    Rename {
        from: String,
        to: String,
    },
    /// A person's save, with or without an existing memory.
    Save {
        name: String,
        text: String,
    },
    /// All possible acts of this list, as one change.
    Draft(Vec<Self>),
    /// Undoes the newest change.
    Undo,
}

impl SimAct {
    /// Returns the expected state after the act; `None` if it has to be refused.
    ///
    /// `last` is the state before the newest change.
    pub(super) fn effect(&self, model: &SimFiles, last: Option<&SimFiles>) -> Option<SimFiles> {
        let mut after = model.clone();
        match self {
            Self::Create { name, text } => {
                if after.insert(name.clone(), text.clone()).is_some() {
                    return None;
                }
            }
            Self::Replace { name, new } => {
                let text = after.get_mut(name)?;
                if text.matches(REPLACED).count() != 1 {
                    return None;
                }
                *text = text.replace(REPLACED, new);
            }
            Self::Insert { name, text } => after.get_mut(name)?.insert_str(0, text),
            Self::Delete { name } => after.retain(|known, _| below(known, name).is_none()),
            Self::Rename { from, to } => {
                let moved: Vec<_> =
                    model.keys().filter_map(|name| Some((name, below(name, from)?))).collect();
                for (name, rest) in &moved {
                    let text = after.remove(*name)?;
                    if after.insert(format!("{to}{rest}"), text).is_some() {
                        return None;
                    }
                }
                if scope(from) != scope(to) {
                    return None;
                }
            }
            Self::Save { name, text } => {
                after.insert(name.clone(), text.clone());
            }
            Self::Draft(acts) => {
                for act in acts {
                    after = act.effect(&after, None).unwrap_or(after);
                }
            }
            Self::Undo => after.clone_from(last?),
        }
        (after != *model).then_some(after)
    }

    /// Returns whether the act is about a folder. Real folders may be empty; those of the model may not.
    pub(super) fn is_about_a_folder(&self) -> bool {
        match self {
            Self::Delete { name } | Self::Rename { from: name, .. } => !name.contains('.'),
            Self::Draft(acts) => acts.iter().any(Self::is_about_a_folder),
            Self::Undo => true,
            Self::Create { .. }
            | Self::Replace { .. }
            | Self::Insert { .. }
            | Self::Save { .. } => false,
        }
    }
}

/// Returns the rest of a name that is `folder` or is inside of it.
fn below<'a>(name: &'a str, folder: &str) -> Option<&'a str> {
    name.strip_prefix(folder).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn scope(name: &str) -> Option<&str> {
    Some(name.split_once('/')?.0)
}
