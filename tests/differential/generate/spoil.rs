//! Commands that are almost right: a value of another type at any position, an extra option or a missing one.

use bson::{Bson, Document};

use super::Generator;

impl Generator {
    pub fn spoil(&mut self, command: &mut Document) {
        match self.random.below(8) {
            0 => {
                let name = match self.random.below(8) {
                    0 => "nosuch",
                    _ => self.any_option(),
                };
                command.insert(name, self.any(1));
            }
            _ => self.spoil_inside(command, true),
        }
    }

    fn spoil_inside(&mut self, document: &mut Document, top: bool) {
        let keys: Vec<String> = document.keys().skip(usize::from(top)).cloned().collect();
        if keys.is_empty() {
            return;
        }
        let key = &keys[self.random.below(keys.len())];
        match document.get_mut(key) {
            Some(Bson::Document(inner)) if !inner.is_empty() && self.random.chance(60) => {
                self.spoil_inside(inner, false);
            }
            Some(Bson::Array(list)) if !list.is_empty() && self.random.chance(60) => {
                let at = self.random.below(list.len());
                match &mut list[at] {
                    Bson::Document(inner) if self.random.chance(80) => {
                        self.spoil_inside(inner, false)
                    }
                    value => *value = self.any(1),
                }
            }
            Some(value) => {
                if self.random.chance(20) {
                    document.remove(key);
                } else {
                    *value = self.any(1);
                }
            }
            None => {}
        }
    }
}
