//! The part of YAML that our compose files use: maps by indentation, `[a, "b"]`, plain and quoted scalars, comments, and a map
//! that is named once (`name: &anchor`) and merged into others (`<<: *anchor`).

use std::collections::HashMap;

#[derive(Debug, Clone, PartialEq)]
pub enum Yaml {
    Null,
    Text(String),
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
}

struct Reader<'a> {
    /// Indentation and text of each line.
    lines: Vec<(usize, &'a str)>,
    /// The index of the next line.
    at: usize,
    anchors: HashMap<&'a str, Yaml>,
}

// === impl Yaml ===

impl Yaml {
    pub fn parse(text: &str) -> Self {
        let lines: Vec<(usize, &str)> = text
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
            .map(|line| (line.len() - line.trim_start().len(), line.trim()))
            .collect();
        let mut reader = Reader {
            lines,
            at: 0,
            anchors: HashMap::new(),
        };
        let parsed = reader.map(0);
        assert_eq!(
            reader.at,
            reader.lines.len(),
            "{:?}",
            reader.lines.get(reader.at)
        );
        parsed
    }

    /// Parses the value that follows a colon on the same line.
    pub fn inline(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return Self::Null;
        }
        match text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            Some(items) => Self::List(split(items).iter().map(|item| scalar(item)).collect()),
            None => scalar(text),
        }
    }

    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            other => panic!("not a text: {other:?}"),
        }
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// Reads the map whose entries have this indentation. Its own entries override merged ones.
    fn map(&mut self, indent: usize) -> Yaml {
        let mut entries: Vec<(String, Yaml)> = Vec::new();
        let mut merged = Vec::new();
        while let Some(&(depth, line)) = self.lines.get(self.at) {
            if depth < indent {
                break;
            }
            assert_eq!(depth, indent, "{line:?} is indented oddly");
            let (name, rest) = line
                .split_once(": ")
                .or_else(|| line.strip_suffix(':').map(|name| (name, "")))
                .unwrap_or_else(|| panic!("{line:?}: only maps and inline lists are read here"));
            assert!(
                entries.iter().all(|(known, _)| known != name),
                "{name} twice"
            );
            self.at += 1;
            match rest.strip_prefix('*') {
                Some(anchor) if name == "<<" => match self.anchors.get(anchor) {
                    Some(Yaml::Map(named)) => merged.extend(named.clone()),
                    other => panic!("{line:?}: {other:?}"),
                },
                _ => {
                    let value = self.value(rest, indent);
                    entries.push((name.to_owned(), value));
                }
            }
        }
        for (name, value) in merged {
            if entries.iter().all(|(known, _)| *known != name) {
                entries.push((name, value));
            }
        }
        Yaml::Map(entries)
    }

    /// Reads the value after a colon: the rest of its line, or the map below it.
    fn value(&mut self, rest: &'a str, indent: usize) -> Yaml {
        let anchor = rest.strip_prefix('&');
        let is_map = rest.is_empty() || anchor.is_some();
        let value = match self.lines.get(self.at) {
            Some(&(deeper, _)) if is_map && deeper > indent => self.map(deeper),
            _ => Yaml::inline(rest),
        };
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, value.clone());
        }
        value
    }
}

fn scalar(text: &str) -> Yaml {
    let text = text.trim();
    let quoted = ['"', '\''].iter().find_map(|&quote| {
        text.strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote))
    });
    assert!(!text.contains('\\'), "escapes are not read here: {text}");
    Yaml::Text(quoted.unwrap_or(text).to_owned())
}

/// Splits at commas outside quotes.
fn split(items: &str) -> Vec<String> {
    let (mut found, mut item, mut quote) = (Vec::new(), String::new(), None);
    for c in items.chars() {
        match quote {
            None if c == ',' => {
                found.push(std::mem::take(&mut item));
                continue;
            }
            None if c == '"' || c == '\'' => quote = Some(c),
            Some(open) if open == c => quote = None,
            _ => {}
        }
        item.push(c);
    }
    if !item.trim().is_empty() {
        found.push(item);
    }
    found
}
