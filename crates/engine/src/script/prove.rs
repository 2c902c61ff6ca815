//! What the source of a script proves: that it touches declared keys only, and that it leaves everything else alone.
//!
//! A script that touches declared keys only needs no gate: the shards of its keys are locked before it starts, and it asks for no other. The proof
//! is by the source alone and gives up early: everything it does not understand counts as "may touch other keys",
//! which costs concurrency between such scripts and nothing else. Understood are the forms in everyday use:
//! `redis.call('NAME', KEYS[i], ...)` with the name as a literal, and locals that are set once, to `KEYS[i]`.

use tollgate_commands::{BeginSearch, FindKeys, KeySpec, Row, Run, keys_of, resolve};

use super::lexer::{Token, tokens};

/// Members of `redis` that touch no key.
const HARMLESS: &[&str] = &[
    "error_reply",
    "status_reply",
    "sha1hex",
    "log",
    "setresp",
    "set_repl",
    "replicate_commands",
    "breakpoint",
    "debug",
    "acl_check_cmd",
    "LOG_DEBUG",
    "LOG_VERBOSE",
    "LOG_NOTICE",
    "LOG_WARNING",
    "REPL_NONE",
    "REPL_AOF",
    "REPL_SLAVE",
    "REPL_REPLICA",
    "REPL_ALL",
    "REDIS_VERSION",
    "REDIS_VERSION_NUM",
];

/// Names by which a script could reach `redis` or `KEYS` unseen.
const HIDDEN_WAYS: &[&str] = &["_G", "load", "loadstring", "getfenv", "setfenv"];

/// Functions that read a table they are given and hand out its elements.
const READERS: &[&str] = &["unpack", "ipairs", "pairs"];

/// Tables whose members a tame script reads and calls and does nothing else with.
const LIBRARIES: &[&str] = &[
    "redis",
    "server",
    "string",
    "table",
    "math",
    "coroutine",
    "bit",
    "cjson",
    "cmsgpack",
    "struct",
];

/// The other globals, which a tame script does not assign.
const FUNCTIONS: &[&str] = &[
    "_VERSION",
    "assert",
    "collectgarbage",
    "error",
    "gcinfo",
    "getmetatable",
    "ipairs",
    "next",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawset",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "xpcall",
];

/// Words by which a script can do something again and again.
const REPEATING: &[&str] = &[
    "while",
    "for",
    "repeat",
    "function",
    "rep",
    "find",
    "match",
    "gmatch",
    "gsub",
    "sort",
    "coroutine",
];

/// Commands that no script may call and count as brief.
const UNBOUNDED: &[&str] = &["KEYS", "SORT", "SORT_RO", "FLUSHALL", "FLUSHDB"];

/// Tokens of a script that is worth the analysis.
const TOKENS_MAX: usize = 8_192;

/// Locals that are followed.
const ALIASES_MAX: usize = 32;

/// What the source shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// The script uses no key outside `KEYS`.
    pub(super) declared_only: bool,
    /// The script changes neither a global, nor a library, nor `KEYS` and `ARGV`, and cannot reach them but by their
    /// names, so it needs no protected copies.
    pub(super) tame: bool,
    /// The script has no loop and calls nothing whose work has no bound of its own: it cannot be long unless the values
    /// it works on are large.
    pub(super) brief: bool,
}

/// Looks at a script.
pub(super) fn analyse(source: &[u8]) -> Facts {
    match tokens(source) {
        Some(tokens) if tokens.len() <= TOKENS_MAX => {
            let proof = Proof::new(&tokens);
            let tame = proof.is_tame();
            Facts {
                declared_only: proof.keeps_to_keys(),
                tame,
                brief: proof.is_brief(),
            }
        }
        _ => Facts::default(),
    }
}

/// Commands whose work grows with what is stored.
fn is_unbounded(name: &[u8]) -> bool {
    UNBOUNDED
        .iter()
        .any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

fn is_one_of(names: &[&str], word: &[u8]) -> bool {
    names.iter().any(|name| name.as_bytes() == word)
}

struct Proof<'t, 's> {
    tokens: &'t [Token<'s>],
    /// For a bracket the position of its partner.
    partner: Vec<usize>,
    /// The innermost bracket that is open at a token, unless a function's body lies between.
    around: Vec<Option<u8>>,
    /// Locals that hold a declared key wherever they occur.
    aliases: Vec<&'s [u8]>,
}

impl<'t, 's> Proof<'t, 's> {
    fn new(tokens: &'t [Token<'s>]) -> Proof<'t, 's> {
        let mut proof = Proof {
            tokens,
            partner: vec![usize::MAX; tokens.len()],
            around: Vec::with_capacity(tokens.len()),
            aliases: Vec::new(),
        };
        let mut open: Vec<(usize, Option<u8>)> = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            if let Token::Sign(b")" | b"]" | b"}") = token
                && let Some((from, _)) = open.pop()
            {
                (proof.partner[from], proof.partner[at]) = (at, from);
            }
            proof
                .around
                .push(open.last().and_then(|(_, bracket)| *bracket));
            match token {
                Token::Sign(sign @ (b"(" | b"[" | b"{")) => open.push((at, Some(sign[0]))),
                Token::Word(b"function") => {
                    if let Some((_, bracket)) = open.last_mut() {
                        *bracket = None;
                    }
                }
                _ => {}
            }
        }
        proof.aliases = proof.find_aliases();
        proof
    }

    fn keeps_to_keys(&self) -> bool {
        (0..self.tokens.len()).all(|at| match self.tokens[at] {
            Token::Word(b"redis" | b"server") => self.redis_is_known(at),
            Token::Word(b"KEYS") => self.is_only_read(at, "KEYS"),
            Token::Word(word) if is_one_of(READERS, word) => {
                self.sign(at + 1, "(") && !self.word(at.wrapping_sub(1), "function")
            }
            Token::Word(word) => !is_one_of(HIDDEN_WAYS, word),
            _ => true,
        })
    }

    fn is_brief(&self) -> bool {
        (0..self.tokens.len()).all(|at| match self.tokens[at] {
            Token::Word(word) if is_one_of(REPEATING, word) => false,
            Token::Word(word) if is_one_of(HIDDEN_WAYS, word) => false,
            // The name of a command that is not written out could be any.
            Token::Word(b"call" | b"pcall") if self.sign(at.wrapping_sub(1), ".") => {
                self.sign(at + 1, "(")
                    && matches!(self.tokens.get(at + 2), Some(Token::Text(name)) if !is_unbounded(name))
            }
            _ => true,
        })
    }

    fn is_tame(&self) -> bool {
        (0..self.tokens.len()).all(|at| {
            let Token::Word(word) = self.tokens[at] else {
                return true;
            };
            let before = at.wrapping_sub(1);
            if self.sign(before, ".") || self.sign(before, ":") {
                return true;
            }
            match word {
                b"KEYS" => self.is_only_read(at, "KEYS"),
                b"ARGV" => self.is_only_read(at, "ARGV"),
                _ if is_one_of(HIDDEN_WAYS, word) => false,
                _ if is_one_of(LIBRARIES, word) => {
                    // `redis.call` read, and not the beginning of `redis.call, x = ...` or of `redis.call.x = ...`.
                    self.sign(at + 1, ".")
                        && matches!(self.tokens.get(at + 2), Some(Token::Word(_)))
                        && !self.sign(at + 3, ".")
                        && !self.sign(at + 3, "[")
                        && !self.may_be_assigned(at, at + 3)
                        && !self.word(before, "function")
                }
                _ if is_one_of(FUNCTIONS, word) => {
                    let field = self.around[at] == Some(b'{') && self.sign(at + 1, "=");
                    let declares = ["local", "for", "function"]
                        .iter()
                        .any(|word| self.word(before, word));
                    field || (!declares && !self.may_be_assigned(at, at + 1))
                }
                _ => true,
            }
        })
    }

    /// True when the variable from `start` to before `after` may stand on the left of an assignment.
    fn may_be_assigned(&self, start: usize, after: usize) -> bool {
        self.sign(after, "=") || (self.sign(after, ",") && self.around[start].is_none())
    }

    fn sign(&self, at: usize, sign: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(sign))
    }

    fn word(&self, at: usize, word: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is_word(word))
    }

    /// Position after the bracket that closes the one at `at`.
    fn after_bracket(&self, at: usize) -> Option<usize> {
        Some(self.partner[at])
            .filter(|&close| close != usize::MAX)
            .map(|close| close + 1)
    }

    /// Position after `name[...]` at `at`.
    fn after_element(&self, at: usize, name: &str) -> Option<usize> {
        (self.word(at, name) && self.sign(at + 1, "[")).then(|| self.after_bracket(at + 1))?
    }

    /// Position after `KEYS[...]` at `at`.
    fn after_key(&self, at: usize) -> Option<usize> {
        self.after_element(at, "KEYS")
    }

    /// The table `name` at `at` is read there and not changed or handed on.
    fn is_only_read(&self, at: usize, name: &str) -> bool {
        let before = at.wrapping_sub(1);
        if let Some(after) = self.after_element(at, name) {
            // `KEYS[1], x = ...` at the beginning of a statement would be an assignment.
            let listed =
                self.sign(after, ",") && self.around[at].is_none() && !self.in_value_list(at, name);
            return !self.sign(after, "=") && !listed;
        }
        if self.sign(before, "#") {
            return true;
        }
        let alone = self.sign(before, "(") && self.sign(at + 1, ")");
        let reader = at.wrapping_sub(2);
        // `in ipairs(KEYS) do`: elsewhere the functions that iterate hand out the table.
        let iterates = (self.word(reader, "ipairs") || self.word(reader, "pairs"))
            && self.word(reader.wrapping_sub(1), "in")
            && self.word(at + 2, "do");
        alone && (self.word(reader, "unpack") || iterates)
    }

    /// True when `name[...]` at `at` stands in a list of such after `=` or `return`.
    fn in_value_list(&self, mut at: usize, name: &str) -> bool {
        while let Some(before) = at.checked_sub(1) {
            if self.sign(before, "=") || self.word(before, "return") {
                return true;
            }
            let Some(close) = before.checked_sub(1).filter(|_| self.sign(before, ",")) else {
                return false;
            };
            match self.partner[close].checked_sub(1) {
                Some(start) if self.after_element(start, name) == Some(before) => at = start,
                _ => return false,
            }
        }
        false
    }

    /// Locals of `local a, b = KEYS[1], KEYS[2]` that occur in no other declaration or assignment.
    fn find_aliases(&self) -> Vec<&'s [u8]> {
        let mut declared = Vec::new();
        let mut names = Vec::new();
        for at in 0..self.tokens.len() {
            if self.word(at, "local")
                && let Some((positions, _)) = self.alias_declaration(at)
            {
                for position in positions {
                    declared.push(position);
                    if let Token::Word(name) = self.tokens[position] {
                        names.push(name);
                    }
                }
            }
        }
        names.truncate(ALIASES_MAX);
        names.retain(|&name| {
            (0..self.tokens.len()).all(|at| {
                self.tokens[at] != Token::Word(name)
                    || declared.contains(&at)
                    || self.is_plain_use(at)
            })
        });
        names
    }

    /// `local a, b = KEYS[..], KEYS[..]` at `at`: the positions of the names, and where the statement ends.
    fn alias_declaration(&self, at: usize) -> Option<(Vec<usize>, usize)> {
        let mut names = Vec::new();
        let mut at = at + 1;
        loop {
            let Token::Word(_) = self.tokens.get(at)? else {
                return None;
            };
            names.push(at);
            at += 1;
            if self.sign(at, ",") {
                at += 1;
                continue;
            }
            break;
        }
        if !self.sign(at, "=") {
            return None;
        }
        for number in 0..names.len() {
            if number > 0 && !self.sign(at, ",") {
                return None;
            }
            at = self.after_key(at + 1)?;
        }
        // The value must end here: an operator or a call would make it another one.
        let ends = match self.tokens.get(at) {
            None => true,
            Some(Token::Word(word)) => !matches!(*word, b"and" | b"or"),
            Some(Token::Sign(sign)) => *sign == b";",
            _ => false,
        };
        ends.then_some((names, at))
    }

    /// True when the name at `at` is a field of something else, or is read where no declaration or assignment can be.
    fn is_plain_use(&self, at: usize) -> bool {
        let before = at.wrapping_sub(1);
        if self.sign(before, ".") || self.sign(before, ":") {
            return true;
        }
        let declares = ["local", "for", "function"]
            .iter()
            .any(|word| self.word(before, word));
        let assigned = self.sign(at + 1, "=");
        let listed =
            (self.sign(before, ",") || self.sign(at + 1, ",")) && self.around[at].is_none();
        !declares && !assigned && !listed && !self.is_parameter(at)
    }

    /// True when the name at `at` is in the parameter list of a function.
    fn is_parameter(&self, at: usize) -> bool {
        let mut start = at;
        while start > 0
            && matches!(
                self.tokens[start - 1],
                Token::Word(_) | Token::Sign(b"," | b"...")
            )
        {
            start -= 1;
        }
        if start == 0 || !self.sign(start - 1, "(") {
            return false;
        }
        // Before the parenthesis: `function`, or a name that follows it.
        let mut before = start - 1;
        while before > 0
            && matches!(
                self.tokens[before - 1],
                Token::Word(_) | Token::Sign(b"." | b":")
            )
        {
            before -= 1;
            if self.word(before, "function") {
                return true;
            }
        }
        false
    }

    /// `redis` occurs only as a harmless member, or as a call that keeps to declared keys.
    fn redis_is_known(&self, at: usize) -> bool {
        if !self.sign(at + 1, ".") {
            return false;
        }
        let Some(Token::Word(member)) = self.tokens.get(at + 2) else {
            return false;
        };
        if is_one_of(HARMLESS, member) {
            return !self.sign(at + 3, "=");
        }
        matches!(*member, b"call" | b"pcall")
            && self.sign(at + 3, "(")
            && self.call_is_proven(at + 3) == Some(true)
    }

    /// The call whose opening parenthesis is at `open` keeps to declared keys.
    fn call_is_proven(&self, open: usize) -> Option<bool> {
        let args = self.arguments(open)?;
        let words: Vec<&[u8]> = args
            .iter()
            .map(|&(start, end)| match self.tokens[start..end] {
                [Token::Text(text)] => text,
                _ => b"",
            })
            .collect();
        let [Token::Text(_)] = self.tokens[args.first()?.0..args.first()?.1] else {
            return Some(false);
        };
        let row = resolve(&words).ok()?;
        match row.run {
            Run::Local(_) => return Some(true),
            Run::Keys(_) => {}
            _ => return Some(false),
        }
        // Which word is the keyword, and which keys the data name, is known only when the script runs.
        let behind_keyword = |spec: &KeySpec| !matches!(spec.begin, BeginSearch::Index(_));
        if row.keys.iter().any(behind_keyword) {
            return Some(false);
        }
        let &(start, end) = args.last()?;
        // `unpack(KEYS)` after the name: declared keys, however many, where all words are keys.
        let only_keys = matches!(
            self.tokens[start..end],
            [
                Token::Word(b"unpack"),
                Token::Sign(b"("),
                Token::Word(b"KEYS"),
                Token::Sign(b")")
            ]
        ) && row
            .keys
            .iter()
            .all(|spec| matches!(spec.find, FindKeys::Range { last: -1, step: 1 }));
        if self.may_be_many(start, end) && !self.keys_are_fixed(row) && !only_keys {
            return Some(false);
        }
        let positions = keys_of(row, &words).ok()?;
        Some(positions.iter().all(|&position| {
            let (start, end) = args[position as usize];
            self.is_declared_key(start, end) || (only_keys && position as usize == args.len() - 1)
        }))
    }

    /// True when the positions of the keys do not depend on how many words there are.
    fn keys_are_fixed(&self, row: &Row) -> bool {
        row.keys
            .iter()
            .all(|spec| matches!(spec.find, FindKeys::Range { last: 0.., .. }))
    }

    /// True when the expression can stand for any number of values: it ends with a call, or is `...`.
    fn may_be_many(&self, start: usize, end: usize) -> bool {
        matches!(
            self.tokens[start..end].last(),
            Some(Token::Sign(b")" | b"..."))
        ) || {
            // A call with a single string or table needs no parentheses: `f"x"`, `f{}`.
            let expression = &self.tokens[start..end];
            expression.len() > 1
                && matches!(
                    expression.last(),
                    Some(Token::Text(_) | Token::Literal | Token::Sign(b"}"))
                )
        }
    }

    fn is_declared_key(&self, start: usize, end: usize) -> bool {
        if self.after_key(start) == Some(end) {
            return true;
        }
        matches!(self.tokens[start..end], [Token::Word(name)] if self.aliases.contains(&name))
    }

    /// The arguments of a call as ranges of tokens.
    fn arguments(&self, open: usize) -> Option<Vec<(usize, usize)>> {
        let close = self.after_bracket(open)? - 1;
        let mut found = Vec::new();
        let mut depth = 0;
        let mut start = open + 1;
        for at in open + 1..close {
            match self.tokens[at] {
                Token::Sign(b"(" | b"[" | b"{") => depth += 1,
                Token::Sign(b")" | b"]" | b"}") => depth -= 1,
                // A function as an argument holds statements, whose commas are not of this list.
                Token::Word(b"function") => return None,
                Token::Sign(b",") if depth == 0 => {
                    found.push((start, at));
                    start = at + 1;
                }
                _ => {}
            }
        }
        if start < close {
            found.push((start, close));
        }
        found
            .iter()
            .all(|(start, end)| start < end)
            .then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIASES_MAX, Facts, TOKENS_MAX, analyse};

    #[track_caller]
    fn proven(source: &str) {
        assert!(
            analyse(source.as_bytes()).declared_only,
            "not proven: {source}"
        );
        tame(source);
    }

    #[track_caller]
    fn unproven(source: &str) {
        assert!(
            !analyse(source.as_bytes()).declared_only,
            "wrongly proven: {source}"
        );
    }

    #[track_caller]
    fn tame(source: &str) {
        assert!(analyse(source.as_bytes()).tame, "not tame: {source}");
    }

    #[track_caller]
    fn wild(source: &str) {
        assert!(!analyse(source.as_bytes()).tame, "wrongly tame: {source}");
    }

    #[test]
    fn everyday_limiters_are_proven() {
        proven(
            "local n = redis.call('INCR', KEYS[1])\nif n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end return n",
        );
        proven(
            "local key = KEYS[1] local v = tonumber(redis.call('get', key) or '0') redis.call('set', key, v + 1)",
        );
        proven("local a, b = KEYS[1], KEYS[2]; return redis.call('mget', a, b)");
        proven("redis.call('INCRBY', KEYS[1], tonumber(ARGV[1])) return redis.status_reply('OK')");
        proven("return redis.call('DEL', unpack(KEYS))");
        proven("for i = 1, #KEYS do redis.call('INCR', KEYS[i]) end");
        proven("local t = redis.call('TIME') return {t[1], redis.call('PTTL', KEYS[1])}");
        proven("return redis.call('set', KEYS[tonumber(ARGV[1])], 'x')");
        proven(
            "local key = KEYS[1] local function f(n) return n end redis.call('set', key, f(1), 'px', 100)",
        );
        proven("return 1");
        proven("return redis.call('get')");
        proven("-- redis.call('get', 'x')\nreturn redis.call('get', KEYS[1])");
    }

    #[test]
    fn other_keys_are_found() {
        unproven("return redis.call('get', 'x')");
        unproven("return redis.call('get', KEYS[1] .. ':x')");
        unproven("return redis.call('get', ARGV[1])");
        unproven("local key = KEYS[1] .. 'x' return redis.call('get', key)");
        unproven("local key = KEYS[1] and 'x' return redis.call('get', key)");
        unproven("local key = KEYS[1] key = 'x' return redis.call('get', key)");
        unproven(
            "local key = KEYS[1] local function f(key) return redis.call('get', key) end return f('x')",
        );
        unproven("local key = KEYS[1] for _, key in ipairs(ARGV) do redis.call('get', key) end");
        unproven("local key = KEYS[1] for key = 1, 2 do redis.call('get', key) end");
        unproven("local key = KEYS[1] local x, key = 1, 'x' return redis.call('get', key)");
        unproven("local key, x = KEYS[1], 'x' x, key = key, x return redis.call('get', key)");
        unproven("return redis.call('del', KEYS[1], unpack(ARGV))");
        unproven("return redis.call('mset', KEYS[1], 1, f())");
        unproven("return redis.call('del', KEYS[1], f'x')");
        unproven("return redis.call('get', unpack(ARGV))");
        unproven("return redis.call('get', f())");
    }

    #[test]
    fn hidden_ways_are_found() {
        unproven("local call = redis.call return call('get', KEYS[1])");
        unproven("local r = redis return r.call('get', 'x')");
        unproven("return redis['call']('get', 'x')");
        unproven("return pcall(redis.call, 'get', 'x')");
        unproven("return _G.redis.call('get', 'x')");
        unproven("return loadstring('return 1')()");
        unproven("KEYS[1] = 'x' return redis.call('get', KEYS[1])");
        unproven("KEYS[1], KEYS[2] = 'x', 'y' return redis.call('get', KEYS[1])");
        unproven(
            "local f = function() KEYS[1], KEYS[2] = 'x', 'y' end f() return redis.call('get', KEYS[1])",
        );
        unproven("table.insert(KEYS, 'x') return redis.call('get', KEYS[2])");
        unproven("local k = KEYS k[1] = 'x' return redis.call('get', KEYS[1])");
        unproven(
            "local unpack = function(t) t[1] = 'x' end unpack(KEYS) return redis.call('get', KEYS[1])",
        );
        unproven("local function ipairs(t) t[1] = 'x' end ipairs(KEYS)");
        unproven("redis.call(ARGV[1], KEYS[1])");
        unproven("redis.call('dbsize')");
        unproven("redis.call('randomkey')");
        unproven("return redis.call('sort', KEYS[1], 'by', 'w_*')");
        unproven("return redis.call('sort_ro', KEYS[1], 'get', ARGV[1])");
        unproven("return redis.call('sort', KEYS[1], 'store', KEYS[2])");
        unproven("redis.call 'ping'");
    }

    #[test]
    fn scripts_that_change_what_others_see_are_wild() {
        wild("redis = 1");
        wild("redis.call = 1");
        wild("redis.call, x = 1, 2");
        wild("x, redis.call = 1, 2");
        wild("local x x, redis.call = 1, 2");
        wild("local r = redis r.call = 1");
        wild("(redis).call = 1");
        wild("redis['call'] = 1");
        wild("redis.call.x = 1");
        wild("function redis.call() end");
        wild("function string.upper() end");
        wild("tonumber = 1");
        wild("function tonumber() end");
        wild("tonumber, x = 1, 2");
        wild("x = {} x.y, tonumber = 1, 2");
        wild("for redis = 1, 2 do end");
        wild("KEYS = {}");
        wild("KEYS[1] = 2");
        wild("KEYS.x = 2");
        wild("ARGV[1] = 2");
        wild("ARGV[1], x = 2, 3");
        wild("table.insert(ARGV, 1)");
        wild("rawset(redis, 'x', 1)");
        wild("local _, t = ipairs(KEYS) t[1] = 'x'");
        wild("for k, v in pairs(redis) do end");
        wild("local t = {redis} t[1].call = 1");
        wild("f(string).x = 1");
        wild("_G.x = 1");
        wild("loadstring('x = 1')()");
        wild("setmetatable(KEYS, {})");
        wild("local f = function() redis.call, x = 1, 2 end");
        wild("g(function() tonumber, x = 1, 2 end)");
    }

    #[test]
    fn scripts_that_only_use_what_is_there_are_tame() {
        tame("return redis.call(ARGV[1], 'x')");
        tame("local call = redis.call return call('get', 'x')");
        tame("for i, v in ipairs(ARGV) do redis.call('set', v, i) end");
        tame("return cjson.encode({type = 1, next = 2})");
        tame("local t = {} t.type = string.format('%d', 1) return t");
        tame("local a, b = ARGV[1], ARGV[2] return {a, b, redis.status_reply('x')}");
        tame("return string.rep('x', 3), math.floor(2.5)");
        tame("local s = ('x'):rep(3) return tonumber(s) or type(s)");
        tame("g = 1");
    }

    /// What [`super::super::sandbox`] offers and this file knows are two lists.
    #[test]
    fn every_global_is_known() {
        let names = super::super::vm::with_vm(|vm| vm.global_names()).expect("a state");
        assert!(names.len() > 30);
        for name in names {
            wild(&format!("{name} = 1"));
            wild(&format!("x, {name} = 1, 2"));
            wild(&format!("function {name}() end"));
            if super::LIBRARIES.contains(&name.as_str()) {
                wild(&format!("f({name})"));
                wild(&format!("{name}.x = 1"));
                tame(&format!("return {name}.x(1)"));
            }
        }
    }

    #[test]
    fn long_scripts_are_not_analysed() {
        assert_eq!(
            analyse("return 1 ".repeat(TOKENS_MAX).as_bytes()),
            Facts::default()
        );
        let many: String = (0..=ALIASES_MAX)
            .map(|n| format!("local a{n} = KEYS[1] redis.call('get', a{n}) "))
            .collect();
        assert!(!analyse(many.as_bytes()).declared_only);
    }
}
