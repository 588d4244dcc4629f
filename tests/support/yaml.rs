//! As much YAML as our compose file uses: maps by indentation, `[a, "b"]`, plain and quoted scalars, comments.

#[derive(Debug, Clone, PartialEq)]
pub enum Yaml {
    Null,
    Text(String),
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
}

// === impl Yaml ===

impl Yaml {
    pub fn parse(text: &str) -> Self {
        let lines: Vec<(usize, &str)> = text
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
            .map(|line| (line.len() - line.trim_start().len(), line.trim()))
            .collect();
        let mut at = 0;
        let parsed = map(&lines, &mut at, 0);
        assert_eq!(at, lines.len(), "{:?}", lines.get(at));
        parsed
    }

    /// What stands behind a colon.
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

fn map(lines: &[(usize, &str)], at: &mut usize, indent: usize) -> Yaml {
    let mut entries: Vec<(String, Yaml)> = Vec::new();
    while let Some(&(depth, line)) = lines.get(*at) {
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
        *at += 1;
        let value = match lines.get(*at) {
            Some(&(deeper, _)) if rest.is_empty() && deeper > indent => map(lines, at, deeper),
            _ => Yaml::inline(rest),
        };
        entries.push((name.to_owned(), value));
    }
    Yaml::Map(entries)
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

/// The items between commas that stand in no quotes.
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
