//! SORT: the elements of a list, set or sorted set in an order, which other keys may give.

use std::cmp::Ordering;

use smallvec::SmallVec;
use tollgate_containers::Container;
use tollgate_containers::hash::Hash;
use tollgate_containers::list::List;
use tollgate_containers::number;
use tollgate_keyspace::{Key, Object, ValueRef};

use super::list::node_limit;
use super::string_edit::bytes_of;
use crate::cx_object::ObjectKind;
use crate::{Args, CmdError, Cx, Event, Origin, Reply};

/// Bytes of an element, or of what a pattern finds for it.
type Text = Box<[u8]>;

/// What BY and GET name for an element.
#[derive(Clone, Copy)]
enum Pattern<'a> {
    /// `#`: the element.
    Element,
    /// No `*`, so it can name nothing.
    Nothing,
    /// A key around the element: a string, or a field of a hash.
    Key {
        before: &'a [u8],
        after: &'a [u8],
        field: Option<&'a [u8]>,
    },
}

impl<'a> Pattern<'a> {
    fn parse(word: &'a [u8]) -> Pattern<'a> {
        if word == b"#" {
            return Pattern::Element;
        }
        let Some(star) = word.iter().position(|&byte| byte == b'*') else {
            return Pattern::Nothing;
        };
        let (before, after) = (&word[..star], &word[star + 1..]);
        let arrow = after.windows(2).position(|pair| pair == b"->");
        let field = arrow.map(|at| (&after[..at], &after[at + 2..]));
        match field.filter(|(_, field)| !field.is_empty()) {
            Some((after, field)) => Pattern::Key {
                before,
                after,
                field: Some(field),
            },
            None => Pattern::Key {
                before,
                after,
                field: None,
            },
        }
    }

    /// What it names for `element`.
    fn find(self, cx: &mut Cx<'_>, element: &[u8]) -> Option<Text> {
        let (before, after, field) = match self {
            Pattern::Element => return Some(element.into()),
            Pattern::Nothing => return None,
            Pattern::Key {
                before,
                after,
                field,
            } => (before, after, field),
        };
        let name = [before, element, after].concat();
        let (key, now) = (cx.seed.key(&name), cx.now_ms());
        let found = cx.read(key)?;
        match (field, found.entry.value()) {
            (Some(field), ValueRef::Object(object)) => {
                let field = Hash::of(object)?.live(now).get(field)?;
                Some(field.value.into())
            }
            (None, value) => {
                let mut digits = [0; number::I64_TEXT_LEN];
                bytes_of(value, &mut digits).ok().map(Into::into)
            }
            _ => None,
        }
    }
}

struct Options<'a> {
    descending: bool,
    alpha: bool,
    /// The first element of the answer, and how many; all when negative.
    limit: (i64, i64),
    by: Option<Pattern<'a>>,
    /// BY a name without `*`: the elements stay in their own order.
    keeps_order: bool,
    gets: SmallVec<[Pattern<'a>; 4]>,
    store: Option<Key<'a>>,
}

impl<'a> Options<'a> {
    /// A node of a cluster has no keys of other slots, which patterns could name.
    fn parse(
        mut args: Args<'a>,
        may_store: bool,
        in_cluster: bool,
    ) -> Result<Options<'a>, CmdError> {
        let mut options = Options {
            descending: false,
            alpha: false,
            limit: (0, -1),
            by: None,
            keeps_order: false,
            gets: SmallVec::new(),
            store: None,
        };
        while !args.is_empty() {
            let follow = args.len() - 1;
            if args.keyword("ASC") {
                options.descending = false;
            } else if args.keyword("DESC") {
                options.descending = true;
            } else if args.keyword("ALPHA") {
                options.alpha = true;
            } else if follow >= 2 && args.keyword("LIMIT") {
                options.limit = (args.int()?, args.int()?);
            } else if follow >= 1 && may_store && args.keyword("STORE") {
                options.store = Some(args.key()?);
            } else if follow >= 1 && args.keyword("BY") {
                let pattern = Pattern::parse(args.next()?);
                if in_cluster && matches!(pattern, Pattern::Key { .. }) {
                    return Err(CmdError::NoSortByInCluster);
                }
                options.keeps_order |= !matches!(pattern, Pattern::Key { .. });
                options.by = Some(pattern);
            } else if follow >= 1 && args.keyword("GET") {
                if in_cluster {
                    return Err(CmdError::NoSortGetInCluster);
                }
                options.gets.push(Pattern::parse(args.next()?));
            } else {
                return Err(CmdError::Syntax);
            }
        }
        Ok(options)
    }

    /// Which of `len` elements the answer has: the first and how many.
    fn range(&self, len: usize) -> (usize, usize) {
        let bounded = |n: i64| usize::try_from(n).unwrap_or(usize::MAX).min(len);
        let start = bounded(self.limit.0.max(0));
        let count = match self.limit.1 {
            ..0 => len,
            count => bounded(count),
        };
        (start, count.min(len - start))
    }
}

/// The word behind the last STORE.
pub(super) fn store_key(words: &[&[u8]]) -> Option<usize> {
    let mut found = None;
    let mut at = 2;
    while let Some(word) = words.get(at) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("STORE") && at + 1 < words.len() {
            found = Some(at + 1);
        }
        at += match () {
            () if is("LIMIT") => 3,
            () if is("GET") || is("BY") || is("STORE") => 2,
            () => 1,
        };
    }
    found
}

/// Whether a call of SORT reads keys that its elements name.
pub(super) fn uses_other_keys(words: &[&[u8]]) -> bool {
    let mut at = 2;
    while let Some(word) = words.get(at) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        at += match words.get(at + 1) {
            Some(pattern) if is("BY") || is("GET") => {
                if matches!(Pattern::parse(pattern), Pattern::Key { .. }) {
                    return true;
                }
                2
            }
            Some(_) if is("STORE") => 2,
            Some(_) if is("LIMIT") => 3,
            // Where the syntax is wrong the command looks at no key.
            _ => 1,
        };
    }
    false
}

/// The first option by which a call of SORT reads keys that no word names; with the ACL that needs a user who may read
/// any key.
pub fn sort_option_for_any_key(words: &[&[u8]]) -> Option<&'static str> {
    let mut at = 2;
    while let Some(word) = words.get(at) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let next = words.get(at + 1);
        at += match next {
            Some(pattern) if is("BY") && pattern.contains(&b'*') => return Some("BY"),
            Some(_) if is("GET") => return Some("GET"),
            Some(_) if is("BY") || is("STORE") => 2,
            Some(_) if is("LIMIT") => 3,
            _ if is("ASC") || is("DESC") || is("ALPHA") => 1,
            // A syntax error, which the command finds.
            _ => return None,
        };
    }
    None
}

/// An element and what decides its place.
struct Item {
    element: Text,
    weight: Weight,
}

enum Weight {
    Score(f64),
    /// Compared by bytes; what BY does not find comes first.
    Text(Option<Text>),
    /// The element itself is compared.
    Own,
}

impl Item {
    fn compare(&self, other: &Item) -> Ordering {
        match (&self.weight, &other.weight) {
            (Weight::Score(a), Weight::Score(b)) => a
                .partial_cmp(b)
                .unwrap_or(Ordering::Equal)
                // So that equal scores have an order too.
                .then_with(|| self.element.cmp(&other.element)),
            (Weight::Text(a), Weight::Text(b)) => a.cmp(b),
            _ => self.element.cmp(&other.element),
        }
    }
}

pub(super) fn sort(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    run(cx, args, true)
}

pub(super) fn sort_ro(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    run(cx, args, false)
}

fn run(cx: &mut Cx<'_>, mut args: Args<'_>, may_store: bool) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let in_cluster = cx.limits.in_cluster() != 0;
    let mut options = Options::parse(args, may_store, in_cluster)?;
    let elements = load(cx, key, &mut options)?;
    let elements = if options.keeps_order {
        elements
    } else {
        in_order(cx, elements, &options)?
    };
    match options.store {
        Some(target) => store(cx, &elements, &options.gets, target),
        None => answer(cx, &elements, &options.gets),
    }
}

/// The elements at `key`; when they keep their order, those of the answer only.
fn load(cx: &mut Cx<'_>, key: Key<'_>, options: &mut Options<'_>) -> Result<Vec<Text>, CmdError> {
    let in_script = cx.origin == Origin::Script;
    let Some(found) = cx.read(key) else {
        return Ok(Vec::new());
    };
    let ValueRef::Object(object) = found.entry.value() else {
        return Err(CmdError::WrongType);
    };
    // A set has no order of its own that a script or a stored list could rely on.
    if matches!(object, Object::Set(_))
        && options.keeps_order
        && (options.store.is_some() || in_script)
    {
        options.by = None;
        options.keeps_order = false;
        options.alpha = true;
    }
    let (start, count) = if options.keeps_order {
        options.range(object.len())
    } else {
        (0, object.len())
    };
    let backwards = options.keeps_order && options.descending;
    Ok(match object {
        Object::List(list) if backwards => {
            let last = list.len().wrapping_sub(1 + start);
            let elements = list.iter_back_from(last).take(count);
            elements.map(Into::into).collect()
        }
        Object::List(list) => {
            let elements = list.iter_from(start).take(count);
            elements.map(Into::into).collect()
        }
        Object::Set(set) => set
            .iter()
            .skip(start)
            .take(count)
            .map(|member| member.with_bytes(|bytes| bytes.into()))
            .collect(),
        Object::SortedSet(set) => {
            let range = if backwards {
                set.range_rev(set.len() - start - count..set.len() - start)
            } else {
                set.range(start..start + count)
            };
            range.map(|(member, _)| member.into()).collect()
        }
        _ => return Err(CmdError::WrongType),
    })
}

/// The elements of the answer, sorted.
fn in_order(
    cx: &mut Cx<'_>,
    elements: Vec<Text>,
    options: &Options<'_>,
) -> Result<Vec<Text>, CmdError> {
    let (start, count) = options.range(elements.len());
    let mut items = Vec::with_capacity(elements.len());
    let mut all_numbers = true;
    for element in elements {
        let weight = match (options.alpha, options.by) {
            (true, None) => Weight::Own,
            (true, Some(by)) => Weight::Text(by.find(cx, &element)),
            (false, None) => Weight::Score(score(&element, &mut all_numbers)),
            (false, Some(by)) => Weight::Score(
                by.find(cx, &element)
                    .map_or(0.0, |text| score(&text, &mut all_numbers)),
            ),
        };
        items.push(Item { element, weight });
    }
    if !all_numbers {
        return Err(CmdError::NotAScore);
    }
    if options.descending {
        items.sort_by(|a, b| b.compare(a));
    } else {
        items.sort_by(Item::compare);
    }
    let items = items.into_iter().skip(start).take(count);
    Ok(items.map(|item| item.element).collect())
}

/// The number that a text is.
fn score(text: &[u8], all_numbers: &mut bool) -> f64 {
    number::parse_c_double_in_range(text).unwrap_or_else(|| {
        *all_numbers = false;
        0.0
    })
}

fn answer(cx: &mut Cx<'_>, elements: &[Text], gets: &[Pattern<'_>]) -> Result<Reply, CmdError> {
    cx.out.array(elements.len() * gets.len().max(1));
    for element in elements {
        if gets.is_empty() {
            cx.out.bulk(element);
        }
        for get in gets {
            match get.find(cx, element) {
                Some(text) => cx.out.bulk(&text),
                None => cx.out.null(),
            }
        }
    }
    Ok(Reply::Written)
}

fn store(
    cx: &mut Cx<'_>,
    elements: &[Text],
    gets: &[Pattern<'_>],
    target: Key<'_>,
) -> Result<Reply, CmdError> {
    let limit = node_limit(cx.limits);
    let mut list = List::new();
    for element in elements {
        if gets.is_empty() {
            list.push_back(element, limit);
        }
        for get in gets {
            let text = get.find(cx, element).unwrap_or_default();
            list.push_back(&text, limit);
        }
    }
    let len = list.len();
    cx.put(target, list, Event::SortStore);
    cx.effects.count(len.saturating_sub(1) as u64);
    Ok(Reply::count(len))
}
