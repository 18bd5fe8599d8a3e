//! Which pools and nodes selectors select, asked once for each list of selectors: advertisements and peers
//! mostly have the same ones, and then share one set of names. The answers are kept as long as names and
//! labels stay what they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::selector::{FixedLabels, Selector};

/// Names of selected objects.
pub(super) type Names = Arc<BTreeSet<String>>;

/// An object by its name and labels.
pub(super) type Labelled = (Arc<str>, Arc<FixedLabels>);

/// Objects of a kind with their labels.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    objects: BTreeMap<Arc<str>, Arc<FixedLabels>>,
    /// Names of the objects that have a label, by its key and value; made when it is asked for.
    places: Option<Places>,
    all: Names,
    /// The set before, and the names in which it differs. Nobody has it any more as a rule, and then it is
    /// brought up to date for the next one, since to copy all names is what an edit would mostly cost.
    all_before: Option<(Names, BTreeSet<Arc<str>>)>,
    known: BTreeMap<Vec<Selector>, Names>,
    named: BTreeMap<Names, Named>,
    /// How often the objects became others.
    version: u64,
    /// How many answers there were when the objects changed last.
    asked: usize,
    /// Answers of the time before, until they are asked for again.
    before: (BTreeMap<Vec<Selector>, Names>, BTreeMap<Names, Named>),
}

/// What there is of a list of names.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) found: Names,
    pub(super) unknown: Arc<[String]>,
}

/// So many answers may be kept for nothing.
const FEW: usize = 1024;

type Places = BTreeMap<String, BTreeMap<String, BTreeSet<Arc<str>>>>;

impl Lookup {
    /// These objects are no more, or have other labels; those are new. Answers that this does not touch stay
    /// what they are.
    pub(super) fn change(&mut self, gone: Vec<Labelled>, new: Vec<Labelled>) {
        self.version += 1;
        if self.objects.is_empty() {
            self.objects = new.into_iter().collect();
            self.fill();
            return;
        }
        let names: BTreeSet<Arc<str>> = gone.iter().chain(&new).map(|(name, _)| Arc::clone(name)).collect();
        for (name, labels) in gone {
            self.objects.remove(&name);
            for (key, value) in labels.iter() {
                let of_value = self.places.as_mut().and_then(|it| it.get_mut(key)?.get_mut(value));
                if let Some(names) = of_value {
                    names.remove(&name);
                }
            }
        }
        for (name, labels) in new {
            self.places.iter_mut().for_each(|places| place(places, &name, &labels));
            self.objects.insert(name, labels);
        }
        // With so many changes it is faster from nothing.
        if names.len() > self.objects.len() / 8 {
            self.fill();
            return;
        }
        self.change_all(&names);
        let objects = &self.objects;
        for (selectors, selected) in &mut self.known {
            let selects = |name: &Arc<str>| {
                let labels = objects.get(name);
                labels.is_some_and(|labels| selectors.iter().any(|selector| selector.matches(labels)))
            };
            update(selected, &names, selects);
        }
        self.named.retain(|list, _| !names.iter().any(|name| list.contains(&**name)));
        self.turn();
    }

    /// Lets `all` follow these names. Mostly they only have other labels, and it stays what it is.
    fn change_all(&mut self, names: &BTreeSet<Arc<str>>) {
        let objects = &self.objects;
        if names.iter().all(|name| self.all.contains(&**name) == objects.contains_key(name)) {
            return;
        }
        let (mut all, missed) = match self.all_before.take() {
            Some((before, missed)) if Arc::strong_count(&before) == 1 => (before, missed),
            _ => (Arc::clone(&self.all), BTreeSet::new()),
        };
        update(&mut all, names.union(&missed), |name| objects.contains_key(name));
        self.all_before = Some((std::mem::replace(&mut self.all, all), names.clone()));
    }

    /// Nothing is known but the objects.
    fn fill(&mut self) {
        let all = self.objects.keys().map(ToString::to_string).collect();
        let objects = std::mem::take(&mut self.objects);
        *self = Self { objects, all: Arc::new(all), version: self.version, ..Self::default() };
    }

    /// The objects are as before, and so are the answers. What is not asked any more is forgotten when it is
    /// more than half of all.
    pub(super) fn keep(&mut self) {
        if self.answers() > 2 * self.asked + FEW {
            self.turn();
        }
    }

    /// What nobody asks for from now on is forgotten the next time.
    fn turn(&mut self) {
        self.asked = self.answers();
        self.before = (std::mem::take(&mut self.known), std::mem::take(&mut self.named));
    }

    fn answers(&self) -> usize {
        self.known.len() + self.named.len()
    }

    /// Another number for other objects.
    pub(super) fn version(&self) -> u64 {
        self.version
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
        if let Some((selectors, names)) = self.before.0.remove_entry(selectors) {
            return Arc::clone(self.known.entry(selectors).or_insert(names));
        }
        let objects = &self.objects;
        let places = self.places.get_or_insert_with(|| all_places(objects));
        let mut names = Vec::new();
        for selector in selectors {
            let matching = |name: &&Arc<str>| objects.get(*name).is_some_and(|it| selector.matches(it));
            match selector.needed_label() {
                Some((key, values)) => {
                    let by_value = places.get(key);
                    let found = values.iter().filter_map(|value| by_value?.get(value)).flatten();
                    names.extend(found.filter(matching).map(ToString::to_string));
                }
                None => names.extend(objects.keys().filter(matching).map(ToString::to_string)),
            }
        }
        // All at once: a sorted set is made faster from a list than one by one.
        let names = Arc::new(names.into_iter().collect());
        self.known.insert(selectors.to_vec(), Arc::clone(&names));
        names
    }

    /// As [`Lookup::selected`], but no selector selects all.
    pub(super) fn selected_or_all(&mut self, selectors: &[Selector]) -> Names {
        if selectors.is_empty() { self.all() } else { self.selected(selectors) }
    }

    /// The objects of these names, and the names that no object has.
    pub(super) fn named(&mut self, names: &Names) -> Named {
        if let Some(named) = self.named.get(names) {
            return named.clone();
        }
        let known = self.before.1.remove(names).unwrap_or_else(|| {
            let unknown: Arc<[String]> = names.difference(&self.all).cloned().collect();
            let found = match unknown.is_empty() {
                true => Arc::clone(names),
                false => Arc::new(names.intersection(&self.all).cloned().collect()),
            };
            Named { found, unknown }
        });
        self.named.entry(Arc::clone(names)).or_insert(known).clone()
    }
}

/// Lets a set have exactly those of these names that belong to it; it is another set only if that differs.
fn update<'n>(
    set: &mut Names,
    names: impl IntoIterator<Item = &'n Arc<str>>,
    belongs: impl Fn(&Arc<str>) -> bool,
) {
    for name in names {
        match (set.contains(&**name), belongs(name)) {
            (true, false) => drop(Arc::make_mut(set).remove(&**name)),
            (false, true) => drop(Arc::make_mut(set).insert(name.to_string())),
            _ => {}
        }
    }
}

fn all_places(objects: &BTreeMap<Arc<str>, Arc<FixedLabels>>) -> Places {
    let mut places: BTreeMap<&str, BTreeMap<&str, Vec<Arc<str>>>> = BTreeMap::new();
    for (name, labels) in objects {
        for (key, value) in labels.iter() {
            places.entry(key).or_default().entry(value).or_default().push(Arc::clone(name));
        }
    }
    let names = |(value, names): (&str, Vec<Arc<str>>)| (value.to_owned(), names.into_iter().collect());
    let by_value = places.into_iter();
    by_value.map(|(key, by_value)| (key.to_owned(), by_value.into_iter().map(names).collect())).collect()
}

fn place(places: &mut Places, name: &Arc<str>, labels: &FixedLabels) {
    for (key, value) in labels.iter() {
        // Most labels are there already: no text is copied for those.
        let by_value = match places.get_mut(key) {
            Some(by_value) => by_value,
            None => places.entry(key.to_owned()).or_default(),
        };
        match by_value.get_mut(value) {
            Some(names) => drop(names.insert(Arc::clone(name))),
            None => drop(by_value.insert(value.to_owned(), BTreeSet::from([Arc::clone(name)]))),
        }
    }
}
