//! From trees of YAML to rules, with the messages of envoyproxy/ratelimit and the line each is about.

use std::collections::hash_map;
use std::fmt;

use crate::envoy_keys;
use crate::found::Found;
use crate::limits::{RATE_LIMIT_KEYS, rate_limit_of};
use crate::metadata;
use crate::pattern::Pattern;
use crate::ruleset::{Level, Limit, Map, Quota, Rule, Ruleset};
use crate::yaml::{self, Kind, Node, YamlError};

/// What is wrong with a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The file's name as it was given.
    pub file: String,
    /// The line, counted from 1; 0 where rules did not come as text.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// One line, also where the reason quotes a text of several.
impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: ", self.file)?,
            line => write!(f, "{}:{line}: ", self.file)?,
        }
        self.reason.chars().try_for_each(|c| match c.is_control() {
            true => write!(f, "{}", c.escape_default()),
            false => write!(f, "{c}"),
        })
    }
}

impl std::error::Error for RuleError {}

const FILE_KEYS: &[&str] = &["domain", "descriptors"];
const DESCRIPTOR_KEYS: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];

/// Conditions that rule files are loaded by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Files of one domain count together; otherwise a second one is an error. A descriptor that two of them have is an
    /// error in any case.
    pub merge_domains: bool,
    /// Limits that the counters of envoyproxy/ratelimit cannot hold are errors.
    pub envoy_counters: bool,
}

/// Most mistakes that are told at once.
pub const MAX_MISTAKES: usize = 100;

/// The first mistake, if there is one.
pub(crate) fn load(files: &[(&str, &str)], options: LoadOptions) -> Result<Ruleset, RuleError> {
    let roots = files.iter().map(|(file, text)| (*file, parse(text)));
    load_all(roots, options)
}

/// All mistakes, or as many as [`MAX_MISTAKES`].
pub(crate) fn check(
    files: &[(&str, &str)],
    options: LoadOptions,
) -> Result<Ruleset, Vec<RuleError>> {
    let roots = files.iter().map(|(file, text)| (*file, parse(text)));
    compile(roots, options, MAX_MISTAKES)
}

/// Compiles trees, each with the name of what it was read from.
pub(crate) fn load_all<'a>(
    roots: impl Iterator<Item = (&'a str, Result<Node, YamlError>)>,
    options: LoadOptions,
) -> Result<Ruleset, RuleError> {
    compile(roots, options, 1).map_err(|mut mistakes| mistakes.swap_remove(0))
}

/// The error holds at least one mistake, and at most `most`.
fn compile<'a>(
    roots: impl Iterator<Item = (&'a str, Result<Node, YamlError>)>,
    options: LoadOptions,
    most: usize,
) -> Result<Ruleset, Vec<RuleError>> {
    let mut ruleset = Ruleset {
        loaded: true,
        ..Ruleset::default()
    };
    let mut found: Vec<RuleError> = Vec::new();
    for (file, root) in roots {
        let room = most - found.len();
        let mut mistakes = Mistakes {
            found: Vec::new(),
            room,
        };
        let first = root.as_ref().ok().and_then(first_unknown_key);
        let added = root.and_then(|root| add_domain(&root, &mut ruleset, options, &mut mistakes));
        mistakes.found.extend(added.err());
        if let (Some(first), false) = (first, mistakes.found.is_empty()) {
            let is_first =
                |other: &YamlError| (other.line, &other.reason) == (first.line, &first.reason);
            mistakes.found.retain(|other| !is_first(other));
            mistakes.found.insert(0, first);
            mistakes.found.truncate(room);
        }
        found.extend(mistakes.found.into_iter().map(|mistake| RuleError {
            file: file.to_owned(),
            line: mistake.line,
            reason: mistake.reason,
        }));
        if found.len() >= most {
            break;
        }
    }
    match found.is_empty() {
        true => Ok(ruleset),
        false => Err(found),
    }
}

/// What is wrong with a file so far.
struct Mistakes {
    found: Vec<YamlError>,
    /// How many there may be in all.
    room: usize,
}

impl Mistakes {
    /// Keeps a mistake beside which others are looked for, or gives back the last there is room for.
    fn note(&mut self, mistake: YamlError) -> Result<(), YamlError> {
        if self.found.len() + 1 >= self.room {
            return Err(mistake);
        }
        self.found.push(mistake);
        Ok(())
    }
}

fn parse(text: &str) -> Result<Node, YamlError> {
    let root = yaml::parse(text)?.filter(|root| !root.is_null());
    root.ok_or_else(|| YamlError::new(1, "config file cannot have empty domain"))
}

fn add_domain(
    root: &Node,
    ruleset: &mut Ruleset,
    options: LoadOptions,
    mistakes: &mut Mistakes,
) -> Result<(), YamlError> {
    let [domain, descriptors] = fields(root, FILE_KEYS, "config file")?;
    let name = domain.map_or(Ok(""), |node| text_of(node, "domain"))?;
    if name.is_empty() {
        let line = domain.map_or(root.line, |node| node.line);
        return Err(YamlError::new(line, "config file cannot have empty domain"));
    }
    let line = domain.map_or(root.line, |node| node.line);
    let level = match ruleset.domains.entry(name.into()) {
        hash_map::Entry::Vacant(place) => place.insert(Level::default()),
        hash_map::Entry::Occupied(place) if options.merge_domains => place.into_mut(),
        hash_map::Entry::Occupied(_) => {
            let reason = format!("duplicate domain '{name}' in config file");
            return Err(YamlError::new(line, reason));
        }
    };
    let mut compiler = Compiler {
        path: name.to_owned(),
        limits: 0,
        helpless: 0,
        sharing: 0,
        by_value: 0,
        envoy_counters: options.envoy_counters,
        mistakes,
    };
    compiler.add_to(level, descriptors)?;
    ruleset.limits += compiler.limits;
    ruleset.helpless += compiler.helpless;
    Ok(())
}

/// Compiles one file; the nesting is bounded by [`yaml::MAX_DEPTH`].
struct Compiler<'m> {
    /// Domain and entries down to the current level, for messages.
    path: String,
    limits: usize,
    /// Limits that are an error without the backend.
    helpless: usize,
    /// Rules on the way down whose values share one counter.
    sharing: usize,
    /// Rules on the way down whose values metrics name.
    by_value: usize,
    /// See [`LoadOptions`].
    envoy_counters: bool,
    mistakes: &'m mut Mistakes,
}

impl Compiler<'_> {
    fn level(&mut self, list: Option<&Node>) -> Result<Level, YamlError> {
        let mut level = Level::default();
        self.add_to(&mut level, list)?;
        Ok(level)
    }

    /// Adds descriptors to those that a level has.
    fn add_to(&mut self, level: &mut Level, list: Option<&Node>) -> Result<(), YamlError> {
        let Some(list) = list.filter(|list| !list.is_null()) else {
            return Ok(());
        };
        let Kind::List(items) = &list.kind else {
            return Err(wrong_type(list, "descriptors", "a list"));
        };
        // `key` and `key_value` name a rule, as in envoyproxy/ratelimit: where two would be one there,
        // the file is refused here too.
        let mut names = names_of(level);
        for item in items {
            let above = (self.path.len(), self.sharing, self.by_value);
            if let Err(mistake) = self.descriptor(item, level, &mut names) {
                self.mistakes.note(mistake)?;
                self.path.truncate(above.0);
                (self.sharing, self.by_value) = (above.1, above.2);
            }
        }
        Ok(())
    }

    fn descriptor(
        &mut self,
        node: &Node,
        level: &mut Level,
        names: &mut Map<()>,
    ) -> Result<(), YamlError> {
        if !matches!(node.kind, Kind::Map(_)) {
            return Err(not_a_map(node));
        }
        let mut found = Found::default();
        let fields = fields_noting(node, DESCRIPTOR_KEYS, "descriptor", &mut found);
        let is_complete = found.is_empty();
        let [
            key,
            value,
            rate_limit,
            descriptors,
            shadow_mode,
            quota_mode,
            detailed_metric,
            value_to_metric,
            share_threshold,
            metadata,
        ] = fields.unwrap_or_default();
        let known = [(key, "key"), (value, "value")].map(|(node, what)| {
            let text = node.map_or(Ok(""), |node| text_of(node, what));
            found.keep(text)
        });
        let [key, value] = known.map(Option::unwrap_or_default);
        let outer = self.path.len();
        let entered = self.enter(node, key, value, names);
        if is_complete && known.iter().all(Option::is_some) {
            found.keep(entered);
        }
        let shared = flag(share_threshold, "share_threshold", &mut found);
        let shadow_mode = flag(shadow_mode, "shadow_mode", &mut found);
        let quota = found.keep(quota_mode.map_or(Ok(Quota::No), quota_of));
        let modes = (shadow_mode, quota.unwrap_or(Quota::No));
        let detailed = flag(detailed_metric, "detailed_metric", &mut found);
        let by_value = flag(value_to_metric, "value_to_metric", &mut found);
        self.note_all(found)?;
        self.sharing += usize::from(shared);
        let stem = stem_of(key, value);
        // What metrics call a rule for several keys depends on the request, too.
        let named_by_request = by_value || !stem.is_empty();
        self.by_value += usize::from(named_by_request);
        let limit = self.good_limit(rate_limit, modes, metadata)?;
        // Of several mistakes envoyproxy/ratelimit tells that of the limit.
        if shared && !value.contains('*') {
            let line = share_threshold.map_or(node.line, |node| node.line);
            self.mistakes
                .note(shares_nothing(line, &self.path[outer + 1..]))?;
        }
        let limit = limit.map(|limit| self.counted(limit, detailed));
        let below = descriptors.map(|list| self.level(Some(list)));
        let children = below.transpose()?.filter(|level| !level.keys.is_empty());
        self.sharing -= usize::from(shared);
        self.by_value -= usize::from(named_by_request);
        self.path.truncate(outer);
        let rule = Rule {
            limit,
            children,
            value: value.into(),
            shared,
            by_value,
            stem: stem.into(),
        };
        put(level, key, value, rule);
        Ok(())
    }

    /// Counts a limit, which has the path as its name in metrics.
    fn counted(&mut self, limit: Limit, detailed: bool) -> Limit {
        let limit = Limit {
            series: (&*self.path).into(),
            by_value: detailed || self.by_value > 0,
            detailed,
            ..limit
        };
        self.limits += 1;
        self.helpless += usize::from(limit.needs_backend());
        limit
    }

    /// Adds a descriptor's name to the path; no other of its level may have it.
    fn enter(
        &mut self,
        node: &Node,
        key: &str,
        value: &str,
        names: &mut Map<()>,
    ) -> Result<(), YamlError> {
        let separator = if value.is_empty() { "" } else { "_" };
        let name = format!("{key}{separator}{value}");
        self.path.push('.');
        self.path.push_str(&name);
        if key.is_empty() {
            return Err(YamlError::new(node.line, "descriptor has empty key"));
        }
        if names.insert(name.into(), ()).is_some() {
            let path = yaml::excerpt(&self.path);
            return Err(YamlError::new(
                node.line,
                format!("duplicate descriptor composite key '{path}'"),
            ));
        }
        Ok(())
    }

    /// The limit of a descriptor; none where it has a mistake beside which others are looked for, as in the rules below it.
    fn good_limit(
        &mut self,
        rate_limit: Option<&Node>,
        modes: (bool, Quota),
        metadata: Option<&Node>,
    ) -> Result<Option<Limit>, YamlError> {
        let mut found = Found::default();
        let limit = self.limit_of(rate_limit, modes, metadata, &mut found);
        let limit = limit.filter(|_| found.is_empty());
        self.note_all(found)?;
        Ok(limit)
    }

    fn note_all(&mut self, found: Found) -> Result<(), YamlError> {
        let mut mistakes = found.into_mistakes();
        mistakes.try_for_each(|mistake| self.mistakes.note(mistake))
    }

    /// The limit of a descriptor, with what stands beside it.
    fn limit_of(
        &self,
        rate_limit: Option<&Node>,
        (shadow_mode, quota): (bool, Quota),
        metadata: Option<&Node>,
        found: &mut Found,
    ) -> Option<Limit> {
        let rate_limit = rate_limit.filter(|limit| !limit.is_null());
        let limit = rate_limit.and_then(|node| {
            let limit = rate_limit_of(node, found)?;
            let obstacle = envoy_keys::obstacle(&limit).filter(|_| self.envoy_counters);
            if let Some(why) = obstacle {
                let path = yaml::excerpt(&self.path);
                let reason =
                    format!("the counters of envoyproxy/ratelimit cannot hold '{path}': {why}");
                found.note(YamlError::new(node.line, reason));
            }
            Some(limit)
        });
        let metadata = metadata.filter(|node| !node.is_null());
        let metadata = metadata.and_then(|node| found.keep(metadata::read(node)));
        limit.map(|limit| Limit {
            shadow_mode,
            quota,
            metadata,
            shared: self.sharing > 0,
            ..limit
        })
    }
}

/// `true` or `false`, as envoyproxy/ratelimit takes it, or `all`.
fn quota_of(node: &Node) -> Result<Quota, YamlError> {
    match &node.kind {
        Kind::Scalar { text, .. } if &**text == "all" => Ok(Quota::DeniesWithAll),
        _ => match bool_of(node, "quota_mode") {
            Ok(true) => Ok(Quota::Tells),
            Ok(false) => Ok(Quota::No),
            Err(_) => Err(wrong_type(node, "quota_mode", "true, false or all")),
        },
    }
}

/// The key, where it ends in a star and there is no value.
fn stem_of<'a>(key: &'a str, value: &str) -> &'a str {
    match value.is_empty() && key.ends_with('*') {
        true => key,
        false => "",
    }
}

/// What the rules of a level are called.
fn names_of(level: &Level) -> Map<()> {
    let mut names = Map::default();
    for (key, rules) in &level.keys {
        let wildcards = rules.wildcards.iter().map(|(_, rule)| &rule.value);
        for value in rules.exact.keys().chain(wildcards) {
            names.insert(format!("{key}_{value}").into(), ());
        }
        if rules.bare.is_some() {
            names.insert(key.clone(), ());
        }
    }
    names
}

/// Whether a key that may be there says yes.
pub(crate) fn flag(node: Option<&Node>, what: &str, found: &mut Found) -> bool {
    let flag = node.map_or(Ok(false), |node| bool_of(node, what));
    found.keep(flag).unwrap_or_default()
}

/// Only the values of a wildcard can share a threshold.
fn shares_nothing(line: usize, key: &str) -> YamlError {
    let key = yaml::excerpt(key);
    YamlError::new(
        line,
        format!(
            "share_threshold can only be used with wildcard values (containing '*'), but found key '{key}'"
        ),
    )
}

/// Puts a rule where requests find it: by its value, by its pattern, or for any value.
fn put(level: &mut Level, key: &str, value: &str, rule: Rule) {
    if !rule.stem.is_empty() {
        level.stems.push(key.into());
    }
    let rules = level.keys.entry(key.into()).or_default();
    if value.is_empty() {
        rules.bare = Some(rule);
    } else if let Some(pattern) = Pattern::parse(value) {
        rules.wildcards.push((pattern, rule));
    } else {
        rules.exact.insert(value.into(), rule);
    }
}

/// The first unknown key of a file, wherever it stands: envoyproxy/ratelimit looks at all keys before it reads any rule, so of
/// several mistakes it tells this one. What rules say freely, or in words of our own, is left out.
fn first_unknown_key(node: &Node) -> Option<YamlError> {
    match &node.kind {
        Kind::Map(pairs) => pairs.iter().find_map(|(key, value)| {
            let Kind::Scalar { text, .. } = &key.kind else {
                return None;
            };
            let known = [FILE_KEYS, DESCRIPTOR_KEYS, RATE_LIMIT_KEYS];
            match &**text {
                "metadata" | "on_error" | "hot_key" => None,
                text if known.iter().any(|known| known.contains(&text)) => first_unknown_key(value),
                _ => Some(unknown_key(key, text)),
            }
        }),
        Kind::List(items) => items.iter().find_map(first_unknown_key),
        Kind::Scalar { .. } => None,
    }
}

fn unknown_key(key: &Node, text: &str) -> YamlError {
    let reason = match metadata::other_than_text(key) {
        Some(found) => format!("config error, key is not of type string: {found}"),
        None => format!("config error, unknown key '{}'", yaml::excerpt(text)),
    };
    YamlError::new(key.line, reason)
}

pub(crate) fn not_a_map(node: &Node) -> YamlError {
    let found = match &node.kind {
        Kind::Scalar { text, .. } => {
            metadata::other_than_text(node).unwrap_or_else(|| yaml::excerpt(text))
        }
        _ => node.describe(),
    };
    YamlError::new(
        node.line,
        format!("config error, yaml file contains list of type other than map: {found}"),
    )
}

/// The values of a map's known keys; any other key is an error.
pub(crate) fn fields<'a, const N: usize>(
    node: &'a Node,
    known: &[&str],
    what: &str,
) -> Result<[Option<&'a Node>; N], YamlError> {
    let mut found = Found::default();
    let values = fields_noting(node, known, what, &mut found);
    match (found.into_mistakes().next(), values) {
        (None, Some(values)) => Ok(values),
        (Some(mistake), _) => Err(mistake),
        (None, None) => Err(wrong_type(node, what, "a map")),
    }
}

/// The same, where other mistakes are looked for beside keys that are wrong; `None` of what is no map.
pub(crate) fn fields_noting<'a, const N: usize>(
    node: &'a Node,
    known: &[&str],
    what: &str,
    found: &mut Found,
) -> Option<[Option<&'a Node>; N]> {
    assert_eq!(known.len(), N, "one value for each known key");
    let Kind::Map(pairs) = &node.kind else {
        found.note(wrong_type(node, what, "a map"));
        return None;
    };
    let mut values = [None; N];
    for (key, value) in pairs {
        let Kind::Scalar { text, .. } = &key.kind else {
            let told = key.describe();
            found.note(YamlError::new(
                key.line,
                format!("config error, key is not of type string: {told}"),
            ));
            continue;
        };
        match known.iter().position(|known| *known == &**text) {
            None => found.note(unknown_key(key, text)),
            Some(index) if values[index].is_none() => values[index] = Some(value),
            Some(_) => found.note(YamlError::new(
                key.line,
                format!("config error, key '{text}' is given twice"),
            )),
        }
    }
    Some(values)
}

/// A scalar's text; numbers and booleans are taken as they are written, nothing as the empty text.
pub(crate) fn text_of<'a>(node: &'a Node, what: &str) -> Result<&'a str, YamlError> {
    match &node.kind {
        _ if node.is_null() => Ok(""),
        Kind::Scalar { text, .. } => Ok(text),
        _ => Err(wrong_type(node, what, "a string")),
    }
}

pub(crate) fn bool_of(node: &Node, what: &str) -> Result<bool, YamlError> {
    match &node.kind {
        _ if node.is_null() => Ok(false),
        // Words only where a truth value is wanted, as the peers' library has it.
        Kind::Scalar { text, plain: true } if matches!(&**text, "y" | "Y") => Ok(true),
        Kind::Scalar { text, plain: true } if matches!(&**text, "n" | "N") => Ok(false),
        Kind::Scalar { text, plain: true } => {
            metadata::truth(text).ok_or_else(|| wrong_type(node, what, "true or false"))
        }
        _ => Err(wrong_type(node, what, "true or false")),
    }
}

pub(crate) fn u32_of(node: &Node, what: &str) -> Result<u32, YamlError> {
    const WANTED: &str = "a whole number from 0 to 4294967295";
    let Kind::Scalar { text, plain: true } = &node.kind else {
        return Err(wrong_type(node, what, WANTED));
    };
    whole_number(text).ok_or_else(|| wrong_type(node, what, WANTED))
}

/// A number of YAML 1.1, which the peers' rule files are written in: `1_000`, `0x10`, `0b11`, and `010` or `0o10` for 8.
fn whole_number(text: &str) -> Option<u32> {
    let text = text.strip_prefix('+').unwrap_or(text).replace('_', "");
    let (digits, base) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', b'o' | b'O', ..] => (&text[2..], 8),
        [b'0', b'b' | b'B', ..] => (&text[2..], 2),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (&*text, 10),
    };
    // A second sign would be read as well.
    let begins = digits.bytes().next()?.is_ascii_hexdigit();
    begins.then(|| u32::from_str_radix(digits, base).ok())?
}

pub(crate) fn wrong_type(node: &Node, what: &str, wanted: &str) -> YamlError {
    YamlError::new(
        node.line,
        format!(
            "config error, {what} must be {wanted}, found {}",
            node.describe()
        ),
    )
}
