//! What was read of objects, kept as long as they are the very same ones: after an edit only the object that
//! was edited is read again.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Readings of the objects of a kind, by name.
#[derive(Debug)]
pub(super) struct Kept<K, R> {
    by_name: BTreeMap<String, (Arc<K>, Arc<R>)>,
}

impl<K, R> Default for Kept<K, R> {
    fn default() -> Self {
        Self { by_name: BTreeMap::new() }
    }
}

/// What follows from a reading and from what it refers to, kept as long as neither changes.
#[derive(Debug)]
pub(super) struct Resolved<R, T> {
    by_name: BTreeMap<String, (Arc<R>, Arc<T>)>,
}

impl<R, T> Default for Resolved<R, T> {
    fn default() -> Self {
        Self { by_name: BTreeMap::new() }
    }
}

impl<R, T> Resolved<R, T> {
    /// What follows from this reading; anew if what is known does not hold any more.
    pub(super) fn get(
        &mut self,
        name: &str,
        reading: &Arc<R>,
        holds: impl FnOnce(&T) -> bool,
        resolve: impl FnOnce() -> T,
    ) -> Arc<T> {
        match self.by_name.get(name) {
            Some((of, resolved)) if Arc::ptr_eq(of, reading) && holds(resolved) => Arc::clone(resolved),
            _ => {
                let resolved = Arc::new(resolve());
                let entry = (Arc::clone(reading), Arc::clone(&resolved));
                self.by_name.insert(name.to_owned(), entry);
                resolved
            }
        }
    }

    /// What is known under this name.
    pub(super) fn peek(&self, name: &str) -> Option<&T> {
        self.by_name.get(name).map(|(_, resolved)| &**resolved)
    }

    /// Forgets what no object has any more.
    pub(super) fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.by_name.retain(|name, _| exists(name));
    }
}

/// Readings that are no more, and those that are new.
pub(super) struct Changes<R> {
    pub(super) gone: Vec<Arc<R>>,
    pub(super) new: Vec<Arc<R>>,
}

impl<K, R> Kept<K, R> {
    /// Has a reading of each of these objects from now on, and of no other.
    pub(super) fn read(
        &mut self,
        objects: &BTreeMap<String, Arc<K>>,
        mut read: impl FnMut(&K) -> R,
    ) -> Changes<R> {
        if self.by_name.is_empty() {
            // All at once: a sorted map is made faster from a list than one by one.
            let read = |(name, object): (&String, &Arc<K>)| {
                (name.clone(), (Arc::clone(object), Arc::new(read(object))))
            };
            self.by_name = objects.iter().map(read).collect();
            let new = self.by_name.values().map(|(_, reading)| Arc::clone(reading)).collect();
            return Changes { gone: Vec::new(), new };
        }
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        let mut before = self.by_name.iter().peekable();
        for (name, object) in objects {
            // The same object has the same name.
            if before.next_if(|(_, (kept, _))| Arc::ptr_eq(kept, object)).is_some() {
                continue;
            }
            while let Some((earlier, _)) = before.next_if(|(earlier, _)| *earlier < name) {
                gone.push(earlier.clone());
            }
            let same =
                |(of, (kept, _)): &(&String, &(Arc<K>, Arc<R>))| *of == name && Arc::ptr_eq(kept, object);
            if before.next_if(same).is_none() {
                before.next_if(|(of, _)| *of == name);
                new.push((name, object));
            }
        }
        gone.extend(before.map(|(name, _)| name.clone()));
        let mut changes = Changes { gone: Vec::new(), new: Vec::new() };
        let removed = gone.iter().filter_map(|name| self.by_name.remove(name)).map(|(_, reading)| reading);
        changes.gone.extend(removed);
        for (name, object) in new {
            let reading = Arc::new(read(object));
            changes.new.push(Arc::clone(&reading));
            let replaced = self.by_name.insert(name.clone(), (Arc::clone(object), reading));
            changes.gone.extend(replaced.map(|(_, reading)| reading));
        }
        changes
    }

    /// Has no reading any more, so that all are read again; those that were there.
    pub(super) fn forget(&mut self) -> Vec<Arc<R>> {
        std::mem::take(&mut self.by_name).into_values().map(|(_, reading)| reading).collect()
    }

    /// Name, object and reading of each.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Arc<K>, &Arc<R>)> {
        self.by_name.iter().map(|(name, (object, reading))| (name, object, reading))
    }

    /// Name, object and reading of one.
    pub(super) fn get(&self, name: &str) -> Option<(&String, &Arc<K>, &Arc<R>)> {
        let (name, (object, reading)) = self.by_name.get_key_value(name)?;
        Some((name, object, reading))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_another_object_is_read_again() {
        let objects = |texts: &[(&str, &Arc<u32>)]| -> BTreeMap<String, Arc<u32>> {
            texts.iter().map(|(name, object)| ((*name).to_owned(), Arc::clone(object))).collect()
        };
        let [a, b, c, other] = [1, 2, 3, 2].map(Arc::new);
        let mut kept = Kept::default();
        let mut read = |objects: &BTreeMap<String, Arc<u32>>| {
            let Changes { gone, new } = kept.read(objects, |number| number * 10);
            let numbers = |of: Vec<Arc<u32>>| of.iter().map(|it| **it).collect::<Vec<_>>();
            (numbers(gone), numbers(new), kept.iter().map(|(_, _, reading)| **reading).collect::<Vec<_>>())
        };
        assert_eq!(read(&objects(&[("a", &a), ("b", &b)])), (vec![], vec![10, 20], vec![10, 20]));
        assert_eq!(read(&objects(&[("a", &a), ("b", &b)])), (vec![], vec![], vec![10, 20]));
        // Equal, but not the same.
        assert_eq!(read(&objects(&[("a", &a), ("b", &other)])), (vec![20], vec![20], vec![10, 20]));
        assert_eq!(read(&objects(&[("b", &other), ("c", &c)])), (vec![10], vec![30], vec![20, 30]));
        assert_eq!(read(&objects(&[])), (vec![20, 30], vec![], vec![]));
    }
}
