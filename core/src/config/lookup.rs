//! Which pools and nodes selectors select, asked once for each list of selectors: advertisements and peers
//! mostly have the same ones, and then share one set of names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::selector::{Labels, Selector};

/// Names of selected objects.
pub(super) type Names = Arc<BTreeSet<String>>;

/// Objects of a kind with their labels.
pub(super) struct Lookup<'a> {
    objects: BTreeMap<&'a str, &'a Labels>,
    /// Objects that have a label, by its key and value.
    labelled: BTreeMap<(&'a str, &'a str), Vec<&'a str>>,
    all: Names,
    known: BTreeMap<Vec<Selector>, Names>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(objects: impl Iterator<Item = (&'a str, &'a Labels)>) -> Self {
        let objects: BTreeMap<&str, &Labels> = objects.collect();
        let mut labelled: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for (name, labels) in &objects {
            for (key, value) in labels.iter() {
                labelled.entry((key, value)).or_default().push(name);
            }
        }
        let all = Arc::new(objects.keys().map(|name| (*name).to_owned()).collect());
        Self { objects, labelled, all, known: BTreeMap::new() }
    }

    /// Whether nothing is known of the kind: then nothing can be said to be missing.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    pub(super) fn all(&self) -> Names {
        Arc::clone(&self.all)
    }

    /// Names of the objects that any of the selectors selects.
    pub(super) fn selected(&mut self, selectors: &[Selector]) -> Names {
        if let Some(names) = self.known.get(selectors) {
            return Arc::clone(names);
        }
        let mut names = BTreeSet::new();
        for selector in selectors {
            let matching = |name: &&&str| self.objects.get(**name).is_some_and(|it| selector.matches(it));
            match selector.needed_label() {
                Some((key, values)) => {
                    let labelled =
                        values.iter().filter_map(|value| self.labelled.get(&(key, value.as_str())));
                    names.extend(labelled.flatten().filter(matching).map(|name| (*name).to_owned()));
                }
                None => names.extend(self.objects.keys().filter(matching).map(|name| (*name).to_owned())),
            }
        }
        let names = Arc::new(names);
        self.known.insert(selectors.to_vec(), Arc::clone(&names));
        names
    }

    /// As [`Lookup::selected`], but no selector selects all.
    pub(super) fn selected_or_all(&mut self, selectors: &[Selector]) -> Names {
        if selectors.is_empty() { self.all() } else { self.selected(selectors) }
    }

    /// Whether there is an object of this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.objects.contains_key(name)
    }
}
