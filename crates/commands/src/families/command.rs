//! COMMAND and its sub-commands: the table describes itself.

use tollgate_containers::glob;
use tollgate_wire::resp::ReplyBuf;

use crate::keyspec::{BeginSearch, FindKeys, KeyFlags, KeyPositions, KeySpec};
use crate::names::{resolve_by, rows_by};
use crate::row::{at_least, exactly, row};
use crate::syntax::{self, Argument, Kind};
use crate::{
    Acl, Args, Arity, CmdError, Cx, Flags, Group, Handler, Names, Reply, Row, Run, by_full_name_of,
};

const SAFE: Flags = Flags::LOADING.or(Flags::STALE);
const UNORDERED: &[&str] = &["nondeterministic_output_order"];
const PER_COMMAND: &str = "O(N) in the commands asked for";

pub(super) const SUBS: &[Row] = &[
    command("COMMAND|COUNT", exactly(2), count).docs("Counts the commands.", "2.8.13", "O(1)"),
    command("COMMAND|DOCS", at_least(2), docs)
        .takes("[command-name [command-name ...]]")
        .docs(
            "Returns the documentation of commands.",
            "7.0.0",
            PER_COMMAND,
        )
        .tips(UNORDERED),
    command("COMMAND|GETKEYS", at_least(4), getkeys)
        .takes("command arg [arg ...]")
        .docs(
            "Returns the keys of a call.",
            "2.8.13",
            "O(N) in the words of the call",
        ),
    command("COMMAND|GETKEYSANDFLAGS", at_least(4), getkeysandflags)
        .takes("command arg [arg ...]")
        .docs(
            "Returns the keys of a call and what happens to them.",
            "7.0.0",
            "O(N) in the words",
        ),
    command("COMMAND|HELP", exactly(2), help).docs("Describes the sub-commands.", "5.0.0", "O(1)"),
    command("COMMAND|INFO", at_least(2), info)
        .takes("[command-name [command-name ...]]")
        .docs("Describes commands.", "2.8.13", PER_COMMAND)
        .tips(UNORDERED),
    command("COMMAND|LIST", at_least(2), list)
        .takes("[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]")
        .docs(
            "Returns the names of the commands.",
            "7.0.0",
            "O(N) in the commands",
        )
        .tips(UNORDERED),
];

const fn command(name: &'static str, arity: Arity, run: Handler) -> Row {
    row(name, arity, SAFE, Run::Local(run)).acl(Group::Server, Acl::CONNECTION)
}

pub(super) fn all(cx: &mut Cx<'_>, _: Args<'_>) -> Result<Reply, CmdError> {
    let rows: Vec<&Row> = rows_by(cx.limits.names()).collect();
    cx.out.array(rows.len());
    rows.into_iter().for_each(|row| write_info(row, cx.out));
    Ok(Reply::Written)
}

fn count(cx: &mut Cx<'_>, _: Args<'_>) -> Result<Reply, CmdError> {
    Ok(Reply::count(rows_by(cx.limits.names()).count()))
}

fn info(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    if args.is_empty() {
        return all(cx, args);
    }
    cx.out.array(args.len());
    for name in args.rest() {
        match by_full_name_of(cx.limits.names(), name) {
            Some(row) => write_info(row, cx.out),
            None => cx.out.null(),
        }
    }
    Ok(Reply::Written)
}

/// Key positions in the older form: first, last (negative: from the end), step.
fn legacy_range(row: &Row) -> (i64, i64, i64) {
    let mut ranges = row
        .keys
        .iter()
        .filter_map(|spec| match (spec.begin, spec.find) {
            (BeginSearch::Index(first), FindKeys::Range { last, step }) => {
                let first = i64::from(first);
                let last = i64::from(last);
                Some((
                    first,
                    if last >= 0 { first + last } else { last },
                    i64::from(step),
                ))
            }
            _ => None,
        });
    let Some((first, mut last, step)) = ranges.next() else {
        return (0, 0, 0);
    };
    for (_, next_last, _) in ranges {
        last = next_last;
    }
    (first, last, step)
}

fn write_info(row: &Row, out: &mut ReplyBuf) {
    out.array(10);
    out.bulk(row.name.to_ascii_lowercase().as_bytes());
    out.int(row.arity.wire());
    let flags = named(Flags::NAMES, |flag| row.flags.contains(flag));
    write_names(out, &flags);
    let (first, last, step) = legacy_range(row);
    out.int(first);
    out.int(last);
    out.int(step);
    let categories = named(Acl::NAMES, |category| row.acl.contains(category));
    out.set(categories.len());
    categories
        .iter()
        .for_each(|name| out.simple(&format!("@{name}")));
    out.set(row.tips.len());
    row.tips.iter().for_each(|tip| out.bulk(tip.as_bytes()));
    out.set(row.keys.len());
    row.keys.iter().for_each(|spec| write_spec(spec, out));
    out.set(row.subs.len());
    row.subs.iter().for_each(|sub| write_info(sub, out));
}

/// The names of those members that `has` reports.
fn named<T: Copy>(names: &[(T, &'static str)], has: impl Fn(T) -> bool) -> Vec<&'static str> {
    names
        .iter()
        .filter(|(member, _)| has(*member))
        .map(|(_, name)| *name)
        .collect()
}

fn write_names(out: &mut ReplyBuf, names: &[&str]) {
    out.set(names.len());
    names.iter().for_each(|name| out.simple(name));
}

fn write_spec(spec: &KeySpec, out: &mut ReplyBuf) {
    out.map(3 + usize::from(!spec.notes.is_empty()));
    if !spec.notes.is_empty() {
        out.bulk(b"notes");
        out.bulk(spec.notes.as_bytes());
    }
    out.bulk(b"flags");
    write_key_flags(spec.flags, out);
    out.bulk(b"begin_search");
    match spec.begin {
        BeginSearch::Index(index) => write_search(out, "index", &[("index", index.into())]),
        BeginSearch::Keyword { word, from }
        | BeginSearch::Options { word, from, .. }
        | BeginSearch::LastOption { word, from, .. } => {
            let word = SearchFact::Word(word);
            write_search(
                out,
                "keyword",
                &[("keyword", word), ("startfrom", from.into())],
            );
        }
        BeginSearch::Unknown => write_search(out, "unknown", &[]),
    }
    out.bulk(b"find_keys");
    match spec.find {
        FindKeys::Range { last, step } => write_search(
            out,
            "range",
            &[
                ("lastkey", last.into()),
                ("keystep", step.into()),
                ("limit", 0.into()),
            ],
        ),
        FindKeys::KeyNum { step } => {
            write_search(
                out,
                "keynum",
                &[
                    ("keynumidx", 0.into()),
                    ("firstkey", 1.into()),
                    ("keystep", step.into()),
                ],
            );
        }
        FindKeys::Part { of } => write_search(
            out,
            "range",
            &[
                ("lastkey", (-1).into()),
                ("keystep", 1.into()),
                ("limit", of.into()),
            ],
        ),
        FindKeys::Unknown => write_search(out, "unknown", &[]),
    }
}

/// A detail of a key spec.
enum SearchFact {
    Number(i64),
    Word(&'static str),
}

impl<N: Into<i64>> From<N> for SearchFact {
    fn from(number: N) -> SearchFact {
        SearchFact::Number(number.into())
    }
}

fn write_search(out: &mut ReplyBuf, kind: &str, spec: &[(&str, SearchFact)]) {
    out.map(2);
    out.bulk(b"type");
    out.bulk(kind.as_bytes());
    out.bulk(b"spec");
    out.map(spec.len());
    for (name, value) in spec {
        out.bulk(name.as_bytes());
        match value {
            SearchFact::Number(number) => out.int(*number),
            SearchFact::Word(word) => out.bulk(word.as_bytes()),
        }
    }
}

fn write_key_flags(flags: KeyFlags, out: &mut ReplyBuf) {
    write_names(out, &named(KeyFlags::NAMES, |flag| flags.contains(flag)));
}

fn docs(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let names = cx.limits.names();
    let wanted: Vec<&Row> = match args.rest() {
        [] => rows_by(names).collect(),
        words => {
            let called = words.iter().map(|word| by_full_name_of(names, word));
            called.flatten().collect()
        }
    };
    cx.out.map(wanted.len());
    for row in wanted {
        cx.out.bulk(row.name.to_ascii_lowercase().as_bytes());
        write_docs(row, cx.out);
    }
    Ok(Reply::Written)
}

fn write_docs(row: &Row, out: &mut ReplyBuf) {
    let arguments = syntax::parse(row.syntax).unwrap_or_default();
    let groups = [!arguments.is_empty(), !row.subs.is_empty()];
    let groups = groups.into_iter().filter(|there| *there).count();
    out.map(4 + 3 * usize::from(row.deprecated.is_some()) + groups);
    for (name, text) in [
        ("summary", row.summary),
        ("since", row.since),
        ("group", row.group.name()),
        ("complexity", row.complexity),
    ] {
        out.bulk(name.as_bytes());
        out.bulk(text.as_bytes());
    }
    if let Some(deprecation) = row.deprecated {
        out.bulk(b"doc_flags");
        write_names(out, &["deprecated"]);
        out.bulk(b"deprecated_since");
        out.bulk(deprecation.since.as_bytes());
        out.bulk(b"replaced_by");
        out.bulk(deprecation.instead.as_bytes());
    }
    if !arguments.is_empty() {
        out.bulk(b"arguments");
        write_arguments(&arguments, &mut 0, out);
    }
    if !row.subs.is_empty() {
        out.bulk(b"subcommands");
        out.map(row.subs.len());
        for sub in row.subs {
            out.bulk(sub.name.to_ascii_lowercase().as_bytes());
            write_docs(sub, out);
        }
    }
}

/// Writes arguments; `keys` counts the keys met so far, each of which has a key spec of its own.
fn write_arguments(arguments: &[Argument], keys: &mut i64, out: &mut ReplyBuf) {
    out.array(arguments.len());
    for argument in arguments {
        let is_key = argument.type_name() == "key";
        let flags = [
            (argument.optional, "optional"),
            (argument.multiple, "multiple"),
        ];
        let flags = named(&flags, |set| set);
        let parts = match &argument.kind {
            Kind::OneOf(parts) | Kind::Block(parts) => &parts[..],
            Kind::Word | Kind::Value => &[],
        };
        let there = [
            is_key,
            argument.token.is_some(),
            !flags.is_empty(),
            !parts.is_empty(),
        ];
        out.map(2 + there.into_iter().filter(|there| *there).count());
        out.bulk(b"name");
        out.bulk(argument.name.as_bytes());
        out.bulk(b"type");
        out.bulk(argument.type_name().as_bytes());
        if is_key {
            out.bulk(b"key_spec_index");
            out.int(*keys);
            *keys += 1;
        }
        if let Some(token) = argument.token {
            out.bulk(b"token");
            out.bulk(token.as_bytes());
        }
        if !flags.is_empty() {
            out.bulk(b"flags");
            write_names(out, &flags);
        }
        if !parts.is_empty() {
            out.bulk(b"arguments");
            write_arguments(parts, keys, out);
        }
    }
}

fn list(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let keep: Filter<'_> = if args.is_empty() {
        Box::new(|_| true)
    } else {
        filter(&mut args)?
    };
    let place = cx.out.defer_array();
    let mut listed = 0;
    for row in rows_by(cx.limits.names()).flat_map(|row| std::iter::once(row).chain(row.subs)) {
        if keep(row) {
            cx.out.bulk(row.name.to_ascii_lowercase().as_bytes());
            listed += 1;
        }
    }
    cx.out.close_array(place, listed);
    Ok(Reply::Written)
}

/// Which commands COMMAND LIST names.
type Filter<'a> = Box<dyn Fn(&Row) -> bool + 'a>;

/// The filter of COMMAND LIST.
fn filter<'a>(args: &mut Args<'a>) -> Result<Filter<'a>, CmdError> {
    if args.len() != 3 || !args.keyword("FILTERBY") {
        return Err(CmdError::Syntax);
    }
    if args.keyword("MODULE") {
        args.next()?;
        return Ok(Box::new(|_| false));
    }
    if args.keyword("ACLCAT") {
        let category = Acl::by_name(args.next()?);
        return Ok(Box::new(move |row| {
            category.is_some_and(|it| row.acl.contains(it))
        }));
    }
    if args.keyword("PATTERN") {
        let pattern = args.next()?;
        return Ok(Box::new(move |row| {
            glob::matches(pattern, row.name.as_bytes(), true)
        }));
    }
    Err(CmdError::Syntax)
}

/// The row and key positions of the call in `words`.
fn call_keys(
    names: Option<&Names>,
    words: &[&[u8]],
) -> Result<(&'static Row, KeyPositions), CmdError> {
    let row = resolve_by(names, words).map_err(|_| CmdError::InvalidCommand)?;
    if row.keys.iter().all(KeySpec::is_no_key) {
        return Err(CmdError::NoKeysInCommand);
    }
    if !row.arity.accepts(words.len()) {
        return Err(CmdError::InvalidArity);
    }
    // A list of keys that is empty, though the call may be made without: Redis finds none in it at all.
    let lacks_key = row.keys.iter().any(|spec| spec.begins_behind(words));
    match crate::keys_of(row, words) {
        Ok(keys) if !keys.is_empty() && !lacks_key => Ok((row, keys)),
        _ if row.flags.contains(Flags::NO_MANDATORY_KEYS) => Ok((row, KeyPositions::new())),
        _ => Err(CmdError::InvalidArguments),
    }
}

fn getkeys(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let words = args.rest();
    let (_, keys) = call_keys(cx.limits.names(), words)?;
    cx.out.array(keys.len());
    keys.iter().for_each(|at| cx.out.bulk(words[*at as usize]));
    Ok(Reply::Written)
}

fn getkeysandflags(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let words = args.rest();
    let (row, keys) = call_keys(cx.limits.names(), words)?;
    cx.out.array(keys.len());
    // An empty result has no spec to ask; else every spec can be evaluated.
    for spec in row.keys.iter().filter(|_| !keys.is_empty()) {
        let mut found = KeyPositions::new();
        spec.collect(words, &mut found)?;
        for at in found {
            cx.out.array(2);
            cx.out.bulk(words[at as usize]);
            // What the spec lacks is not lacking in this call.
            write_key_flags(spec.flags_in(words).without(KeyFlags::INCOMPLETE), cx.out);
        }
    }
    Ok(Reply::Written)
}

fn help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "(no subcommand)",
        "    Return details about all Redis commands.",
        "COUNT",
        "    Return the total number of commands in this Redis server.",
        "LIST",
        "    Return a list of all commands in this Redis server.",
        "INFO [<command-name> ...]",
        "    Return details about multiple Redis commands.",
        "    If no command names are given, documentation details for all",
        "    commands are returned.",
        "DOCS [<command-name> ...]",
        "    Return documentation details about multiple Redis commands.",
        "    If no command names are given, documentation details for all",
        "    commands are returned.",
        "GETKEYS <full-command>",
        "    Return the keys from a full Redis command.",
        "GETKEYSANDFLAGS <full-command>",
        "    Return the keys and the access flags from a full Redis command.",
    ];
    Ok(super::help(cx, &args, &lines))
}
