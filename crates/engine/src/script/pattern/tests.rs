//! The string functions beside those of Lua's own library, in a state that has both.

use std::ffi::CStr;

use proptest::prelude::*;

use super::super::beside::Both;

/// Calls a function of both libraries with the same arguments; what they give, errors included, must be the same.
const SAME: &CStr = c"
local function flat(...)
    local all = {...}
    for i = 1, select('#', ...) do all[i] = type(all[i]) .. ':' .. tostring(all[i]) end
    return table.concat(all, '|')
end
-- Lua's own `pcall` may give back no more than a few values where its interface is checked.
local function tried(call, ...)
    return select(2, pcall(function(...) return flat(call(...)) end, ...))
end
local function each(library, ...)
    local found, steps = {}, 0
    for a, b, c in library.gmatch(...) do
        steps = steps + 1
        found[steps] = flat(a, b, c)
        if steps == 50 then break end
    end
    return table.concat(found, ' ')
end
local function seen(name, replacement, ...)
    local words = {}
    local function call(a, b)
        words[#words + 1] = flat(a, b)
        if b then return b end
        return a == 'a' and 'X' or nil
    end
    local table_ = {a = 'x', b = false, ['1'] = 2, ab = '%1'}
    return ({text = replacement, call = call, table = table_, number = 12.5})[name], words
end
local function run(library, subject, pattern, replacement, from)
    local all = {
        tried(library.find, subject, pattern, from),
        tried(library.find, subject, pattern, from, true),
        tried(library.match, subject, pattern, from),
        tried(each, library, subject, pattern),
    }
    for _, kind in ipairs({'text', 'call', 'table', 'number'}) do
        for _, most in ipairs({false, from}) do
            local with, words = seen(kind, replacement)
            local got = most and tried(library.gsub, subject, pattern, with, most)
                or tried(library.gsub, subject, pattern, with)
            all[#all + 1] = kind .. ' ' .. got .. ' ' .. table.concat(words, ',')
        end
    end
    return table.concat(all, '\\n')
end
function same(subject, pattern, replacement, from)
    from = tonumber(from)
    local theirs, own = run(string, subject, pattern, replacement, from), run(ours, subject, pattern, replacement, from)
    if theirs ~= own then return theirs .. '\\n\\n--- ours:\\n' .. own end
end
";

#[derive(Debug, Clone)]
struct Case {
    subject: Vec<u8>,
    pattern: Vec<u8>,
    replacement: Vec<u8>,
    from: i64,
}

/// What differs, if anything does.
fn difference(both: &Both, case: &Case) -> Option<String> {
    let from = case.from.to_string();
    both.ask(&[
        &case.subject,
        &case.pattern,
        &case.replacement,
        from.as_bytes(),
    ])
}

/// Pieces of patterns, right and wrong.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&[u8]] = &[
        b"a", b"b", b"c", b".", b"%a", b"%d", b"%s", b"%w", b"%A", b"%z", b"%.", b"%%", b"[ab]",
        b"[^a]", b"[a-c]", b"[%w_]", b"[]]", b"[^]]", b"[a-]", b"[%a-z]", b"*", b"+", b"-", b"?",
        b"(", b")", b"()", b"^", b"$", b"%1", b"%2", b"%0", b"%bab", b"%b()", b"%f[a]", b"%f[^%w]",
        b"%f", b"[", b"]", b"%", b"\0", b"1", b" ", b"\xe9", b"%p", b"%x", b"%u",
    ];
    prop::collection::vec(prop::sample::select(PIECES), 0..9).prop_map(|pieces| pieces.concat())
}

fn case() -> impl Strategy<Value = Case> {
    let bytes = b"aaabbbc1 .()[]%\0_A\xe9\n".to_vec();
    let subject = prop::collection::vec(prop::sample::select(bytes), 0..14);
    let words: &[&[u8]] = &[b"x", b"%1", b"%0", b"%2", b"%%", b"%", b"%a", b"\0", b"yy"];
    let replacement =
        prop::collection::vec(prop::sample::select(words), 0..4).prop_map(|words| words.concat());
    (subject, pieces(), replacement, -4i64..18).prop_map(|(subject, pattern, replacement, from)| {
        Case {
            subject,
            pattern,
            replacement,
            from,
        }
    })
}

/// Cases of this test, unless `PROPTEST_CASES` says otherwise.
const CASES: u32 = 5_000;

#[test]
fn all_functions_are_as_those_of_lua() {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    let both = Both::new(SAME);
    proptest!(ProptestConfig::with_cases(cases.unwrap_or(CASES)), |(case in case())| {
        prop_assert_eq!(difference(&both, &case), None);
    });
}

#[test]
fn long_ones_are_as_those_of_lua() {
    let both = Both::new(SAME);
    let check = |subject: &[u8], pattern: &[u8]| {
        let case = Case {
            subject: subject.to_vec(),
            pattern: pattern.to_vec(),
            replacement: b"<%0>".to_vec(),
            from: 1,
        };
        assert_eq!(difference(&both, &case), None, "{case:?}");
    };
    let text = b"key=value, other = 17;\n".repeat(700);
    for pattern in [
        &b"(%w+)%s*=%s*(%w+)"[..],
        b"[^\n]*\n",
        b"%d",
        b".-;",
        b"nothing",
        b"",
        b"()(%S)%2*()",
        b"^.*$",
    ] {
        check(&text, pattern);
    }
    check(b"abc", &b"(".repeat(33));
    check(b"abc", &b"()".repeat(32));
    check(b"abc", &b"()".repeat(33));
    check(&b"a".repeat(3_000), &b"a?".repeat(3_000));
    check(b"", &b"a*".repeat(10_000));
    check(&[b'('; 5_000], b"%b()");
}
