//! A tree of YAML nodes with their lines, bounded in length, depth and number of nodes.
//!
//! Aliases are expanded, and every copy counts, so a file that grows by aliases of aliases ends at
//! [`MAX_NODES`] or [`MAX_TEXT`] instead of in memory.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle};

/// Longest rule file, in bytes.
pub const MAX_FILE_LEN: usize = 16 << 20;
/// Most nodes of one file: keys, values, lists and maps, with every copy that anchors and aliases make.
pub const MAX_NODES: usize = 1 << 20;
/// Longest key or value, in bytes.
pub const MAX_TEXT_LEN: usize = 64 << 10;
/// Most bytes of keys and values of one file, with every copy that anchors and aliases make.
pub const MAX_TEXT: usize = 4 * MAX_FILE_LEN;
/// Deepest nesting of lists and maps.
pub const MAX_DEPTH: usize = 128;

/// One node and the line it begins on, counted from 1.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The text, and whether it is written plain, so that its form decides its type.
    Scalar {
        text: Box<str>,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

/// Where and why a text is no usable YAML.
#[derive(Debug)]
pub(crate) struct YamlError {
    pub(crate) line: usize,
    pub(crate) reason: String,
}

impl YamlError {
    pub(crate) fn new(line: usize, reason: impl Into<String>) -> Self {
        Self {
            line,
            reason: reason.into(),
        }
    }
}

impl Node {
    /// Whether the node says nothing: `~`, `null`, or nothing at all.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true }
            if matches!(&**text, "" | "~" | "null" | "Null" | "NULL"))
    }

    /// What the node is, for messages.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a map".to_owned(),
            Kind::Scalar { .. } if self.is_null() => "nothing".to_owned(),
            Kind::Scalar { text, .. } => format!("'{}'", excerpt(text)),
        }
    }
}

/// A text short enough for a message.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 256;
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// Reads the one document of a file; `None` when it holds none.
pub(crate) fn parse(text: &str) -> Result<Option<Node>, YamlError> {
    if text.len() > MAX_FILE_LEN {
        return Err(YamlError::new(
            1,
            format!("the file is longer than {MAX_FILE_LEN} bytes"),
        ));
    }
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) =
            event.map_err(|error| YamlError::new(error.marker().line(), error.info()))?;
        builder.take(event, span.start.line())?;
    }
    Ok(builder.root)
}

/// The pairs of a map with those that `<<` brings from others, as YAML 1.1 has it. Of a key that is given both ways the one counts
/// that comes later, and of several maps the first.
fn merged(pairs: Vec<(Node, Node)>) -> Result<Vec<(Node, Node)>, YamlError> {
    let is_merge =
        |key: &Node| matches!(&key.kind, Kind::Scalar { text, plain: true } if &**text == "<<");
    if !pairs.iter().any(|(key, _)| is_merge(key)) {
        return Ok(pairs);
    }
    let mut merged = Merged::default();
    for (key, value) in pairs {
        if !is_merge(&key) {
            merged.give(key, value);
            continue;
        }
        let maps = match value.kind {
            Kind::List(items) => items,
            _ => vec![value],
        };
        for map in maps.into_iter().rev() {
            let Kind::Map(more) = map.kind else {
                let reason = "map merge requires map or sequence of maps as the value";
                return Err(YamlError::new(map.line, reason));
            };
            for (key, value) in more {
                merged.bring(key, value);
            }
        }
    }
    Ok(merged.pairs)
}

#[derive(Default)]
struct Merged {
    pairs: Vec<(Node, Node)>,
    /// Where the pair of a key is, and whether it was brought from another map.
    places: HashMap<Box<str>, (usize, bool)>,
}

impl Merged {
    /// A pair that the map gives itself. One given twice stays twice, for others to refuse.
    fn give(&mut self, key: Node, value: Node) {
        if let Kind::Scalar { text, .. } = &key.kind {
            match self.places.get_mut(text) {
                Some((at, brought @ true)) => {
                    *brought = false;
                    self.pairs[*at] = (key, value);
                    return;
                }
                Some(_) => {}
                None => {
                    self.places.insert(text.clone(), (self.pairs.len(), false));
                }
            }
        }
        self.pairs.push((key, value));
    }

    fn bring(&mut self, key: Node, value: Node) {
        if let Kind::Scalar { text, .. } = &key.kind {
            if let Some((at, _)) = self.places.get(text) {
                self.pairs[*at].1 = value;
                return;
            }
            self.places.insert(text.clone(), (self.pairs.len(), true));
        }
        self.pairs.push((key, value));
    }
}

/// A list or map whose end has not come yet.
struct Open {
    line: usize,
    anchor: usize,
    children: Vec<Node>,
    /// All there was when it began.
    before: Size,
    is_map: bool,
}

/// How much of a tree there is.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    /// Bytes of keys and values.
    text: usize,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    /// Complete nodes that have an anchor, with their size.
    anchors: HashMap<usize, (Node, Size), foldhash::fast::FixedState>,
    size: Size,
    root: Option<Node>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), YamlError> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => Err(YamlError::new(
                line,
                "the file holds more than one document",
            )),
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                if text.len() > MAX_TEXT_LEN {
                    let reason = format!("a text is longer than {MAX_TEXT_LEN} bytes");
                    return Err(YamlError::new(line, reason));
                }
                let size = Size {
                    nodes: 1,
                    text: text.len(),
                };
                self.count(size, line)?;
                let node = Node {
                    line,
                    kind: Kind::Scalar {
                        text: text.into(),
                        plain,
                    },
                };
                self.add(node, anchor, size)
            }
            Event::SequenceStart(anchor, _) => self.begin(line, anchor, false),
            Event::MappingStart(anchor, _) => self.begin(line, anchor, true),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let Some(&(_, size)) = self.anchors.get(&anchor) else {
                    return Err(YamlError::new(line, "an alias is inside its own anchor"));
                };
                // Counted before it is copied.
                self.count(size, line)?;
                let node = self.anchors[&anchor].0.clone();
                self.add(node, 0, size)
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, more: Size, line: usize) -> Result<(), YamlError> {
        // Neither can overflow: each part is below its bound.
        self.size.nodes += more.nodes;
        self.size.text += more.text;
        if self.size.nodes > MAX_NODES {
            let reason =
                format!("more than {MAX_NODES} nodes, counting what anchors and aliases copy");
            return Err(YamlError::new(line, reason));
        }
        if self.size.text > MAX_TEXT {
            let reason = format!(
                "more than {MAX_TEXT} bytes of text, counting what anchors and aliases copy"
            );
            return Err(YamlError::new(line, reason));
        }
        Ok(())
    }

    fn begin(&mut self, line: usize, anchor: usize, is_map: bool) -> Result<(), YamlError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(YamlError::new(
                line,
                format!("nested deeper than {MAX_DEPTH} levels"),
            ));
        }
        let before = self.size;
        self.count(Size { nodes: 1, text: 0 }, line)?;
        self.open.push(Open {
            line,
            anchor,
            children: Vec::new(),
            before,
            is_map,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), YamlError> {
        // The parser ends only what it began.
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let kind = if open.is_map {
            let mut pairs = Vec::with_capacity(open.children.len() / 2);
            let mut children = open.children.into_iter();
            while let (Some(key), Some(value)) = (children.next(), children.next()) {
                pairs.push((key, value));
            }
            Kind::Map(merged(pairs)?)
        } else {
            Kind::List(open.children)
        };
        let size = Size {
            nodes: self.size.nodes - open.before.nodes,
            text: self.size.text - open.before.text,
        };
        self.add(
            Node {
                line: open.line,
                kind,
            },
            open.anchor,
            size,
        )
    }

    fn add(&mut self, node: Node, anchor: usize, size: Size) -> Result<(), YamlError> {
        if anchor > 0 {
            // The copy for the aliases counts as well: anchors around anchors would square the file.
            self.count(size, node.line)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.open.last_mut() {
            Some(open) => open.children.push(node),
            None => self.root = Some(node),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> (usize, String) {
        let error = parse(text).expect_err("not usable");
        (error.line, error.reason)
    }

    #[test]
    fn aliases_are_expanded_and_counted() {
        let node = parse("a: &x [1, 2]\nb: *x\n")
            .expect("valid")
            .expect("a document");
        let Kind::Map(pairs) = &node.kind else {
            panic!("a map")
        };
        assert!(matches!(&pairs[1].1.kind, Kind::List(items) if items.len() == 2));
        let mut bomb = "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..30 {
            let before = level - 1;
            let copies = vec![format!("*l{before}"); 10].join(", ");
            bomb.push_str(&format!("l{level}: &l{level} [{copies}]\n"));
        }
        let (line, reason) = error(&bomb);
        assert!(reason.contains("nodes"), "{reason}");
        assert!(line <= 7, "{line}");
    }

    #[test]
    fn anchors_around_anchors_are_counted() {
        let inner = "[".to_owned() + &"x,".repeat(100_000) + "]";
        let nested = (0..100).fold(inner, |inner, level| format!("&a{level} [{inner}]"));
        assert!(error(&nested).1.contains("nodes"));
    }

    #[test]
    fn what_is_too_deep_or_too_long_is_refused() {
        let deep = "- ".repeat(200) + "x";
        assert!(error(&deep).1.contains("deeper"));
        assert!(!error(&"[".repeat(100_000)).1.is_empty());
        let long = " ".repeat(MAX_FILE_LEN + 1);
        assert!(error(&long).1.contains("longer"));
    }

    #[test]
    fn long_texts_and_their_copies_are_refused() {
        let (line, reason) = error(&format!("a: b\nc: {}", "x".repeat(MAX_TEXT_LEN + 1)));
        assert_eq!((line, &*reason), (2, "a text is longer than 65536 bytes"));
        let long = "x".repeat(MAX_TEXT_LEN);
        parse(&format!("a: {long}")).expect("the longest text that may be");
        // A thousand copies would be as many megabytes.
        let copies = "*a, ".repeat(16 * MAX_TEXT / MAX_TEXT_LEN);
        let (line, reason) = error(&format!("a: &a {long}\nb: [{copies}]"));
        assert_eq!(line, 2);
        assert!(reason.contains("bytes of text"), "{reason}");
    }

    #[test]
    fn an_alias_within_its_own_anchor_is_refused() {
        assert_eq!(error("a: &x\n  b: *x\n").0, 2);
    }

    #[test]
    fn broken_yaml_names_its_line() {
        assert_eq!(error("a: 1\nb: [1, 2\nc: 3\n").0, 3);
        assert_eq!(error("a: 1\nb: 2\n\tc: 3\nd: 4\n").0, 2);
        assert_eq!(error("a: 1\n---\nb: 2\n").0, 2);
    }
}
