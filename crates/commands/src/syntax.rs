//! A row's syntax string, read as the tree of arguments that COMMAND DOCS returns.
//!
//! ```text
//! alternatives  sequence | sequence …
//! sequence      part part …
//! part          [ alternatives ]         optional
//!               < alternatives >         one of them
//!               name                     an argument
//!               WORD                     that word itself
//!               WORD name, WORD < … >    an argument or choice behind its word
//! ```
//!
//! A sequence followed by itself in brackets with an ellipsis, `key [key ...]`, may be repeated; so may
//! one part followed by `[...]`.

/// One argument, or a group of arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The word that stands before it, or (of [`Kind::Word`]) that it is.
    pub(crate) token: Option<&'static str>,
    pub(crate) optional: bool,
    pub(crate) multiple: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The word itself.
    Word,
    /// A value.
    Value,
    /// One of these.
    OneOf(Vec<Argument>),
    /// All of these, in order.
    Block(Vec<Argument>),
}

impl Argument {
    fn new(name: impl Into<String>, kind: Kind) -> Argument {
        Argument {
            name: name.into(),
            kind,
            token: None,
            optional: false,
            multiple: false,
        }
    }

    /// The argument's parts as one: itself when there is one.
    fn join(mut parts: Vec<Argument>, kind: fn(Vec<Argument>) -> Kind) -> Option<Argument> {
        if parts.len() <= 1 {
            return parts.pop();
        }
        let names: Vec<&str> = parts.iter().map(|part| &part.name[..]).collect();
        Some(Argument::new(names.join("_"), kind(parts)))
    }

    /// What a client may send for it, as COMMAND DOCS names types.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Word => "pure-token",
            Kind::OneOf(_) => "oneof",
            Kind::Block(_) => "block",
            Kind::Value => match &self.name[..] {
                "key" | "newkey" | "source" | "destination" => "key",
                "pattern" => "pattern",
                "unix-time-seconds" | "unix-time-milliseconds" => "unix-time",
                "seconds" | "milliseconds" | "decrement" | "increment" | "start" | "end"
                | "offset" | "count" | "cursor" | "numkeys" | "index" | "db" | "destination-db"
                | "protover" | "client-id" | "limit" | "window-ms" | "cost" | "max_burst"
                | "period" | "quantity" | "bit" | "bits" | "config-epoch" | "end-slot"
                | "frequency" | "index1" | "index2" | "len" | "maxage" | "ms" | "num-matches"
                | "numfields" | "numlocal" | "numreplicas" | "port" | "rank" | "slot"
                | "start-slot" | "ttl" | "version" | "weight" => "integer",
                "height" | "latitude" | "longitude" | "radius" | "score" | "width" => "double",
                _ => "string",
            },
        }
    }
}

/// Reads a syntax string; `None` when it does not follow the grammar.
pub(crate) fn parse(syntax: &'static str) -> Option<Vec<Argument>> {
    let spaced = spread(syntax);
    let mut words = spaced.into_iter().peekable();
    let choices = alternatives(&mut words)?;
    if words.next().is_some() {
        return None;
    }
    match <[_; 1]>::try_from(choices) {
        Ok([only]) => Some(only),
        Err(choices) => Some(vec![one_of(choices)?]),
    }
}

/// Splits into names, words and brackets.
fn spread(syntax: &'static str) -> Vec<&'static str> {
    let mut parts = Vec::new();
    for mut word in syntax.split_whitespace() {
        while let Some(rest) = word.strip_prefix(['[', '<']) {
            parts.push(&word[..1]);
            word = rest;
        }
        let inner = word.trim_end_matches([']', '>']);
        if !inner.is_empty() {
            parts.push(inner);
        }
        parts.extend(word[inner.len()..].split_inclusive([']', '>']));
    }
    parts
}

type Words = std::iter::Peekable<std::vec::IntoIter<&'static str>>;

fn one_of(choices: Vec<Vec<Argument>>) -> Option<Argument> {
    let choices: Option<Vec<Argument>> = choices
        .into_iter()
        .map(|choice| Argument::join(choice, Kind::Block))
        .collect();
    Argument::join(choices?, Kind::OneOf)
}

/// Up to the closing bracket or the end.
fn alternatives(words: &mut Words) -> Option<Vec<Vec<Argument>>> {
    let mut choices = vec![sequence(words)?];
    while words.next_if_eq(&"|").is_some() {
        choices.push(sequence(words)?);
    }
    Some(choices)
}

fn sequence(words: &mut Words) -> Option<Vec<Argument>> {
    let mut parts: Vec<Argument> = Vec::new();
    while let Some(word) = words.next_if(|word| !matches!(*word, "|" | "]" | ">")) {
        match word {
            "[" => {
                let choices = alternatives(words)?;
                words.next_if_eq(&"]")?;
                if !repeat(&mut parts, &choices) {
                    let mut part = one_of(choices)?;
                    part.optional = true;
                    parts.push(part);
                }
            }
            "<" => parts.push(choice(words)?),
            "..." => parts.push(Argument::new("...", Kind::Word)),
            name if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
                parts.push(after_word(name, words)?);
            }
            name => parts.push(Argument::new(name, Kind::Value)),
        }
    }
    Some(parts)
}

/// What follows `<`.
fn choice(words: &mut Words) -> Option<Argument> {
    let choices = alternatives(words)?;
    words.next_if_eq(&">")?;
    one_of(choices)
}

/// A word, and the argument or choice that belongs to it.
fn after_word(word: &'static str, words: &mut Words) -> Option<Argument> {
    let is_name = |next: &&str| next.starts_with(|c: char| c.is_ascii_lowercase());
    let mut part = if words.next_if_eq(&"<").is_some() {
        choice(words)?
    } else if let Some(name) = words.next_if(is_name) {
        Argument::new(name, Kind::Value)
    } else {
        Argument::new(word.to_ascii_lowercase(), Kind::Word)
    };
    part.token = Some(word);
    Some(part)
}

/// Takes `[key ...]` as saying that the `key` before it may be repeated.
fn repeat(parts: &mut Vec<Argument>, choices: &[Vec<Argument>]) -> bool {
    let [again] = choices else { return false };
    let Some((Argument { name, .. }, again)) = again.split_last() else {
        return false;
    };
    let Some(start) = parts.len().checked_sub(again.len().max(1)) else {
        return false;
    };
    let same = |(a, b): (&Argument, &Argument)| a.name == b.name && a.kind == b.kind;
    if name != "..." || !parts[start..].iter().zip(again).all(same) {
        return false;
    }
    let tail = parts.split_off(start);
    if let Some(mut whole) = Argument::join(tail, Kind::Block) {
        whole.multiple = true;
        parts.push(whole);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arity, FindKeys, KeyFlags, KeySpec, Row, rows};

    fn all_rows() -> impl Iterator<Item = &'static Row> {
        rows().flat_map(|row| std::iter::once(row).chain(row.subs))
    }

    /// The fewest words that an argument takes.
    fn least_words(argument: &Argument) -> usize {
        if argument.optional {
            return 0;
        }
        let own = match &argument.kind {
            Kind::Word => return 1,
            Kind::Value => 1,
            Kind::OneOf(parts) => parts.iter().map(least_words).min().unwrap_or(0),
            Kind::Block(parts) => parts.iter().map(least_words).sum(),
        };
        own + usize::from(argument.token.is_some())
    }

    /// Whether it always takes the same number of words.
    fn is_fixed(argument: &Argument) -> bool {
        let parts = match &argument.kind {
            Kind::Word | Kind::Value => &[][..],
            Kind::OneOf(parts) | Kind::Block(parts) => parts,
        };
        !argument.optional && !argument.multiple && parts.iter().all(is_fixed)
    }

    #[test]
    fn every_syntax_agrees_with_its_arity() {
        for row in all_rows().filter(|row| row.subs.is_empty()) {
            let arguments = parse(row.syntax).unwrap_or_else(|| panic!("{}", row.name));
            let least: usize = arguments.iter().map(least_words).sum();
            // Their own usage errors stand for their arity.
            if !["CL.THROTTLE", "HOTKEYS|START"].contains(&row.name) {
                assert_eq!(row.arity.least(), row.name_words() + least, "{}", row.name);
            }
            let fixed = arguments.iter().all(is_fixed);
            let bound = matches!(row.arity, Arity::Exactly(_));
            let any_words = ["QUIT", "AUTH", "PSYNC"].contains(&row.name);
            assert!(any_words || bound == fixed, "{}", row.name);
        }
    }

    /// Arguments of type key that a spec stands for; those of unknown place have words of their own.
    fn keys_at_least(spec: &KeySpec) -> usize {
        match spec.find {
            FindKeys::Range { last, step } => 1 + last.max(0) as usize / usize::from(step),
            FindKeys::KeyNum { .. } | FindKeys::Part { .. } => 1,
            FindKeys::Unknown => usize::from(spec.finder.is_some()),
        }
    }

    #[test]
    fn every_syntax_has_its_keys() {
        for row in all_rows().filter(|row| row.subs.is_empty()) {
            let arguments = parse(row.syntax).unwrap_or_default();
            let flat = arguments.iter().flat_map(|argument| match &argument.kind {
                Kind::Block(parts) | Kind::OneOf(parts) => parts.iter().collect::<Vec<_>>(),
                _ => vec![argument],
            });
            let keys = flat
                .filter(|argument| argument.type_name() == "key")
                .count();
            let specs = row.keys.iter().filter(|spec| !spec.is_no_key());
            let expected: usize = specs.map(keys_at_least).sum();
            assert_eq!(keys, expected, "{}", row.name);
            let known = KeyFlags::RO
                .or(KeyFlags::RW)
                .or(KeyFlags::OW)
                .or(KeyFlags::RM)
                .or(KeyFlags::NOT_KEY);
            assert!(
                row.keys.iter().all(|spec| spec.flags.intersects(known)),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn the_tree_has_the_shape_of_the_text() {
        let set = parse("key value [NX | XX] [GET] [EX seconds | KEEPTTL]").expect("the grammar");
        let shape: Vec<(&str, &str, bool)> = set
            .iter()
            .map(|part| (&part.name[..], part.type_name(), part.optional))
            .collect();
        let expected = [
            ("key", "key", false),
            ("value", "string", false),
            ("nx_xx", "oneof", true),
            ("get", "pure-token", true),
            ("seconds_keepttl", "oneof", true),
        ];
        assert_eq!(shape, expected);
        let mset = parse("key value [key value ...]").expect("the grammar");
        assert!(
            matches!(&mset[..], [Argument { kind: Kind::Block(parts), multiple: true, .. }]
            if parts.len() == 2)
        );
        let eval = parse("script numkeys [key [key ...]]").expect("the grammar");
        assert!(matches!(
            &eval[2],
            Argument {
                optional: true,
                multiple: true,
                ..
            }
        ));
        let list = parse("[TYPE <NORMAL | PUBSUB>] [ID client-id [client-id ...]]");
        let list = list.expect("the grammar");
        assert_eq!(
            (list[0].token, list[0].type_name()),
            (Some("TYPE"), "oneof")
        );
        assert_eq!((list[1].token, list[1].multiple), (Some("ID"), true));
        for wrong in ["[key", "key]", "<a | b", "a >"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
