//! Lua: whatever a script or a library says, it gets exactly one whole reply within its time, and the scripts after it find everything as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_commands::{CmdError, NodeCommand, Reply};
use tollgate_engine::{Engine, EngineConfig, Node, NodeCx, Session};
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::{Protocol, ReplyBuf, Value, frame_len, read_value};

/// Milliseconds that one script may take.
const SCRIPT_LIMIT_MS: i64 = 50;

/// Words of the input's own have up to so many bytes.
const WORD_MAX: usize = 24;

/// Pieces of programs, which meet in forms that a generator of valid ones would not find.
const PIECES: &[&str] = &[
    "local x = ", "local t = {} ", "x", "t", "t[1]", "t[#t + 1] = ", "KEYS[1]", "ARGV[1]", "KEYS", "ARGV", "_G", "nil", "true", "0", "1", "-1",
    "1e308", "2^53", "0/0", "'text'", "\"\\0\"", "[[long]]", "{}", "{1, 2, 3}", "{a = 1}", "{[t] = t}", "(", ")", "{", "}", "[", "]", ",", ";",
    ".", ":", "..", "=", "==", "~=", "<", "+", "-", "*", "/", "%", "^", "#", "not ", " and ", " or ", "return ", "do ", " end ", "if ", " then ",
    " else ", "while ", "for i = 1, 10 do ", "for k, v in pairs(", ") do ", "repeat ", " until ", "break ", "function f(...) ",
    "local function f(a, b) ", "f(", "function() ", "...", "pcall(", "xpcall(", "error(", "error({err = ", "assert(", "select('#', ", "unpack(",
    "tostring(", "tonumber(", "type(", "next(", "rawset(", "rawget(", "rawequal(", "setmetatable(", "getmetatable(", "setfenv(", "getfenv(",
    "loadstring(", "load(", "collectgarbage(", "newproxy(", "coroutine.wrap(", "coroutine.yield(", "string.rep(", "string.format(",
    "string.gsub(", "string.find(", "string.byte(", "string.dump(", "table.concat(", "table.sort(", "table.insert(", "table.remove(",
    "math.random(", "math.floor(", "bit.band(", "bit.tohex(", "cjson.encode(", "cjson.decode(", "cmsgpack.pack(", "cmsgpack.unpack(",
    "struct.pack(", "struct.unpack(", "struct.size(", "redis.call(", "redis.pcall(", "server.call(", "'GET', ", "'SET', ", "'INCR', ", "'KEYS', ",
    "'EVAL', ", "redis.sha1hex(", "redis.setresp(", "redis.error_reply(", "redis.status_reply(", "redis.log(", "redis.set_repl(",
    "redis.acl_check_cmd(", "redis.register_function(", "redis.register_function{function_name = 'f', callback = ", "flags = ", "{map = ",
    "{set = ", "{double = ", "{big_number = ", "{verbatim_string = ", "{format = 'txt', string = ", "{ok = ", "--[[", "--", "\n", " ",
];

/// First lines.
const HEADS: &[&str] = &["", "", "", "#!lua\n", "#!lua flags=no-writes\n", "#!lua name=lib\n", "#!lua name=lib flags=x\n", "#!"];

/// What a script finds, to be the same before and after any other.
const PROBE: &[u8] = b"local names = {} for name in pairs({a = 1}) do names[#names + 1] = name end \
    return {type(redis.call), type(server.call), cjson.encode({1, 'a'}), string.rep('a', 2), tostring(1e15), #KEYS, type(rawget(_G, 'x')), \
    type(getmetatable('')), names[1], redis.pcall('nosuch').err}";

/// What the server would answer.
struct Server;

impl Node for Server {
    fn run(&mut self, _: NodeCommand, _: NodeCx<'_>) -> Result<Reply, CmdError> {
        Ok(Reply::Ok)
    }
}

/// A program of pieces and of the input's own words.
fn program(data: &[u8]) -> Vec<u8> {
    let Some((&head, mut rest)) = data.split_first() else {
        return Vec::new();
    };
    let mut text = HEADS[usize::from(head) % HEADS.len()].as_bytes().to_vec();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if let Some(piece) = PIECES.get(usize::from(byte)) {
            text.extend_from_slice(piece.as_bytes());
        } else {
            let len = rest.len().min(WORD_MAX).min(usize::from(byte % 32));
            let (word, tail) = rest.split_at(len);
            text.extend_from_slice(word);
            rest = tail;
        }
    }
    text
}

fn run(engine: &Engine, protocol: Protocol, words: &[&[u8]]) -> Vec<u8> {
    let mut session = Session::new(1, true);
    session.protocol = protocol;
    let mut out = ReplyBuf::new(protocol);
    engine.execute(&mut session, words, Timestamp::from_millis(1_700_000_000_000), &mut out, &mut Server);
    let shown = || words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!(frame_len(out.bytes()), Ok(Some(out.len())), "{}: {}", shown(), out.bytes().escape_ascii());
    assert!(matches!(read_value(out.bytes()), Ok(Some(_))), "{}: {}", shown(), out.bytes().escape_ascii());
    out.bytes().to_vec()
}

fuzz_target!(|data: &[u8]| {
    let engine = Engine::new(EngineConfig { shards: 4, seed: 11, max_bulk_len: 1 << 16 });
    engine.set_script_time_limit(SCRIPT_LIMIT_MS);
    let probe = |engine: &Engine| run(engine, Protocol::Resp2, &[b"EVAL", PROBE, b"1", b"key"]);
    let before = probe(&engine);
    let text = program(data);
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        run(&engine, protocol, &[b"EVAL", &text, b"2", b"a", b"b", b"5", b"word"]);
        run(&engine, protocol, &[b"EVAL_RO", &text, b"1", b"a"]);
        run(&engine, protocol, &[b"FUNCTION", b"LOAD", b"REPLACE", &text]);
        run(&engine, protocol, &[b"FCALL", b"f", b"1", b"a", b"5"]);
        run(&engine, protocol, &[b"FUNCTION", b"RESTORE", data, b"REPLACE"]);
    }
    let payload = run(&engine, Protocol::Resp2, &[b"FUNCTION", b"DUMP"]);
    let Ok(Some((Value::Bulk(payload), _))) = read_value(&payload) else {
        panic!("FUNCTION DUMP gives a payload")
    };
    assert_eq!(run(&engine, Protocol::Resp2, &[b"FUNCTION", b"RESTORE", &payload, b"FLUSH"]), b"+OK\r\n");
    assert_eq!(probe(&engine), before);
});
