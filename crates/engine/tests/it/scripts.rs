//! Scripts answer byte for byte as redis-server does.

use tollgate_testkit::peers::skip;
use tollgate_testkit::process::Server;
use tollgate_wire::resp::Protocol;

use super::{Client, engine};

/// Runs the same commands here and on redis-server, and lists the replies that differ.
fn compare(test: &str, resp3: bool, commands: &[Vec<&str>]) {
    let Some(server) = Server::redis(&[]).expect("redis-server starts") else {
        return skip(test, "redis-server");
    };
    let mut remote = server.connect().expect("a connection");
    let mut local = Client::new(&engine(64));
    if resp3 {
        remote.call(&["HELLO", "3"]).expect("HELLO");
        local.out.set_protocol(Protocol::Resp3);
        local.session.protocol = Protocol::Resp3;
    }
    let mut differences = String::new();
    for command in commands {
        let args: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
        let mut request = Vec::new();
        tollgate_wire::resp::write_command(&mut request, &args);
        remote.send(&request).expect("a connection");
        let theirs = remote
            .frame()
            .unwrap_or_else(|error| panic!("{command:?}: {error}\n{}", server.log()));
        let ours = local.bytes(&args);
        if ours != theirs {
            let (theirs, ours) = (theirs.escape_ascii(), ours.escape_ascii());
            differences +=
                &format!("{command:?}\n  redis-server: {theirs}\n  here:         {ours}\n");
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

/// Each script with two keys and two arguments.
fn bodies(test: &str, resp3: bool, scripts: &[&str]) {
    let commands: Vec<Vec<&str>> = scripts
        .iter()
        .map(|body| vec!["EVAL", body, "2", "k1", "k2", "10", "text"])
        .collect();
    compare(test, resp3, &commands);
}

const VALUES: &[&str] = &[
    "return 1",
    "return",
    "return nil",
    "return true",
    "return false",
    "return 3.99",
    "return -1.9",
    "return 'x'",
    "return ''",
    "return {}",
    "return {1,2,{3,nil,4},'a',true,false,3.99,-1.9,{a=1}}",
    "return {1,nil,3}",
    "return {{{{}}}}",
    "return function() end",
    "return math.huge",
    "return -math.huge",
    "return 0/0",
    "return 2^53",
    "return 2^63",
    "return -(2^63)",
    "return {double=3.14}",
    "return {double=1e300}",
    "return {double='x'}",
    "return {map={a=1}}",
    "return {map={a={1,2}}}",
    "return {set={a=true}}",
    "return {big_number='123'}",
    "return {verbatim_string={format='txt',string='abc'}}",
    "return {verbatim_string={format='txt'}}",
    "return {ok='fine'}",
    "return {ok='a\\r\\nb'}",
    "return {err='My Err'}",
    "return {err='a\\r\\nb'}",
    "return {err=''}",
    "return {ok=1}",
    "return {err=1}",
    "return {err={}}",
    "return redis.error_reply('My Err')",
    "return redis.error_reply('-My Err')",
    "return redis.error_reply('-My')",
    "return redis.error_reply('bad')",
    "return redis.error_reply()",
    "return redis.error_reply(1)",
    "return redis.status_reply('GOOD')",
    "return redis.status_reply(1)",
    "return {KEYS[1],KEYS[2],KEYS[3],ARGV[1]}",
    "return {#KEYS,#ARGV,ARGV[2]}",
    "return _G.KEYS[1]",
    "KEYS[1]='zz' return KEYS[1]",
    "return _VERSION",
    "return {tostring(1e15), tostring(0.1), tostring(2^53), tostring(100), tostring(1e100)}",
    "return {tostring(1/0), tostring(-1/0), tostring(0/0)}",
    "redis.setresp(3) return true",
    "redis.setresp(3) return {true,false}",
    "redis.setresp(3) return {double=0.5}",
    "local a = {} for i=1,300 do a = {a} end return a",
];

const CALLS: &[&str] = &[
    "return redis.call('set', KEYS[1], ARGV[1])",
    "return redis.call('get', KEYS[1])",
    "return redis.call('GET', KEYS[2])",
    "return redis.call('incr', KEYS[1])",
    "return redis.call('incrby', KEYS[1], 5)",
    "return redis.call('incrby', KEYS[1], 5.5)",
    "return redis.pcall('incrby', KEYS[1], 5.5)",
    "return redis.call('append', KEYS[1], 'x')",
    "return redis.call('incr', KEYS[1])",
    "return redis.call('mset', KEYS[1], 1, KEYS[2], 2.5)",
    "return redis.call('mget', KEYS[1], KEYS[2], 'nokey')",
    "return redis.call('set', 'undeclared', 'y')",
    "return redis.call('del', 'undeclared', KEYS[1])",
    "return redis.call('dbsize')",
    "return redis.call('keys', '*')",
    "return redis.call('exists', KEYS[1], KEYS[2])",
    "return redis.call('type', KEYS[2])",
    "return redis.call('type', KEYS[2]).ok",
    "return type(redis.call('set', KEYS[1], 'v'))",
    "return redis.call('set', KEYS[1], 'v').ok",
    "return redis.call('ping')",
    "return redis.call('echo', 'hello')",
    "return redis.call('select', 3)",
    "redis.call('select', 3) redis.call('set', KEYS[1], 'three') return redis.call('dbsize')",
    "return redis.call('dbsize')",
    "return redis.call('select', 99)",
    "return redis.call('select', 'x')",
    "return tostring(redis.call('get','nokey'))",
    "return redis.call('set', KEYS[1], 'v', 'nx')",
    "return type(redis.call('set', KEYS[1], 'v', 'nx'))",
    "return redis.call('incr','a','b')",
    "return redis.call('nope')",
    "return redis.call()",
    "return redis.call({})",
    "return redis.call('set','x',{})",
    "return redis.call('set','x',true)",
    "return redis.call('auth','x')",
    "return redis.pcall('nope')",
    "return redis.pcall('nope').err",
    "return redis.pcall()",
    "local t={} for k,v in pairs(redis.pcall('nope')) do t[#t+1]=k..'='..tostring(v) end table.sort(t) return t",
    "local ok, e = pcall(redis.call, 'nope') return {tostring(ok), type(e), e}",
    "local ok, e = pcall(redis.call, 'incr', 'undeclared', 'x') return e.err",
    "return redis.call('config','get','maxmemory')",
    "return redis.call('client','id')",
    "return redis.call('eval','return 1',0)",
    "return redis.call('script','exists','x')",
    "return redis.call('object','nope','x')",
    "return redis.call('object')",
    "return redis.call('object', 'encoding', KEYS[1])",
    "return redis.call('hello')",
    "return redis.call('shutdown')",
    "return redis.call('flushall')",
    "return redis.call('randomkey')",
    "redis.call('set','n',0.1) redis.call('set','m',3) redis.call('set','k',2^60) redis.call('set','j',1e300) \
     redis.call('set','o',-0.0) redis.call('set','p',2^53) redis.call('set','q',1e15+0.5) redis.call('set', 'r', -17) \
     return redis.call('mget','n','m','k','j','o','p','q','r')",
    "redis.call('set', KEYS[1], 'v', 'px', 100000) return redis.call('pttl', KEYS[1]) > 99000",
    "redis.setresp(3) return type(redis.call('get', 'nokey'))",
    "redis.setresp(3) return redis.call('get', 'nokey')",
    "redis.call('set', KEYS[1], 3) return redis.call('incrbyfloat', KEYS[1], '0.1')",
    "local t = redis.call('time') return {#t, type(t[1])}",
    "return redis.call('getrange', KEYS[1], 0, -1)",
    "local r = redis.call('scan', 0, 'count', 1000) return {type(r[1]), r[1], #r[2]}",
    "return cjson.encode(redis.call('mget', KEYS[1], 'nokey'))",
];

const ERRORS: &[&str] = &[
    "error('boom')",
    "error({err='E boom'})",
    "error()",
    "error(nil)",
    "error(12)",
    "error(true)",
    "return nosuch",
    "x=1",
    "redis.call=1",
    "string.x=1",
    "math.pi=3",
    "rawset(_G,'x',1)",
    "rawset(redis,'x',1)",
    "setmetatable(_G,{})",
    "setmetatable(string,{})",
    "KEYS={} return 1",
    "return 1 +",
    "return (",
    "local function f() return f() + 1 end return f()",
    "local a = nil; return a.b",
    "local a = 'x' return a + 1",
    "return #nil",
    "return {} .. 'x'",
    "return {} < 1",
    "return redis.sha1hex()",
    "return redis.sha1hex('abc')",
    "return redis.sha1hex(12)",
    "return redis.log(1)",
    "return redis.log(10,'x')",
    "return redis.log('a','x')",
    "return redis.log(redis.LOG_WARNING,'x', 'y', {})",
    "return redis.setresp(4)",
    "return redis.setresp()",
    "return redis.set_repl(99)",
    "return redis.set_repl()",
    "return redis.acl_check_cmd('get','x')",
    "return redis.acl_check_cmd('nope','x')",
    "return redis.acl_check_cmd()",
    "return redis.debug('a', {1,2})",
    "return {redis.replicate_commands(), tostring(redis.breakpoint())}",
    "return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM, redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, \
     redis.LOG_WARNING, redis.REPL_NONE,redis.REPL_AOF,redis.REPL_SLAVE,redis.REPL_REPLICA,redis.REPL_ALL}",
    "local ok, e = pcall(function() error('x') end) return {tostring(ok), type(e), e}",
    "return xpcall(function() error('x') end, function(e) return 'h:'..tostring(e) end)",
    "local ok, e = pcall(error, {err='E x'}) return {tostring(ok), e.err}",
    "local ok, e = pcall(error, {err='E x'}) return e",
    "local c = coroutine.wrap(function() return redis.call('ping') end) return c()",
    "local c = coroutine.wrap(function() error('in') end) return c()",
    "local function f() redis.call('nope') end\n\nf()",
    "local function f()\n error('deep')\nend\nlocal x = f()\nreturn x",
    "return print('x')",
    "return os.time()",
    "return io",
    "return require('x')",
    "return getfenv()",
    "return dofile('x')",
    "return newproxy()",
    "return debug.getinfo(1)",
    "return os.clock()",
    "return tostring(_G)==tostring(_G._G)",
    "return getmetatable('').__index == nil",
];

const LIBRARIES: &[&str] = &[
    "return loadstring('return 5')()",
    "return {tostring(loadstring('return +'))}",
    "return select(2, loadstring('return +'))",
    "return select(2, loadstring('return +', '@name'))",
    "local t = {'return ', '5'} local i = 0 return load(function() i = i + 1 return t[i] end)()",
    "return load('x')",
    "return tostring(loadstring(string.dump(function() return 5 end)))",
    "return string.rep('x', 10)",
    "return string.format('%5.2f|%d|%s|%q|%x', 3.14159, 42, 'hi', 'a\"b', 255)",
    "return {string.find('hello world', 'o w'), string.match('key:123', '(%a+):(%d+)')}",
    "return string.gsub('hello', 'l', 'L')",
    "return table.concat({1,2,3}, ',')",
    "local t = {3,1,2} table.sort(t) return t",
    "local t = {1,2} table.insert(t, 3) table.insert(t, 1, 0) table.remove(t) return t",
    "return {unpack({1,2,3})}",
    "return select('#', 1, nil, nil)",
    "math.randomseed(42) return {math.random(100),math.random(100),math.random(5,9),tostring(math.random())}",
    "math.randomseed(-1) return {math.random(100),math.random(1000000)}",
    "return math.random(0)",
    "return math.random(1,2,3)",
    "return {math.floor(3.7), math.ceil(3.2), math.max(1,5,3), math.fmod(7,3), math.abs(-2)}",
    "return {bit.tobit(0xffffffff), bit.tobit(0xffffffff + 1), bit.tobit(2^40 + 1234)}",
    "return {bit.bnot(0), bit.bnot(-1), bit.band(12, 10, 8), bit.bor(1,2,4), bit.bxor(255, 15)}",
    "return {bit.lshift(1, 31), bit.lshift(1, 32), bit.rshift(-1, 1), bit.arshift(-8, 1), bit.rshift(-1, 33)}",
    "return {bit.rol(0x12345678, 12), bit.ror(0x12345678, 12), bit.bswap(0x12345678)}",
    "return {bit.tohex(1), bit.tohex(-1), bit.tohex(0xffff, 4), bit.tohex(0xabcd, -8), bit.tohex(255, 2), bit.tohex(1, 20)}",
    "return {bit.tobit(1.5), bit.tobit(2.5), bit.tobit(-1.5), bit.tobit(0.7)}",
    "return bit.band()",
    "return bit.band('x')",
    "return bit.band('12', 4)",
    "return collectgarbage('count') > 0",
    "return collectgarbage('nope')",
    "return gcinfo() > 0",
];

const JSON: &[&str] = &[
    "return cjson.encode({})",
    "return cjson.encode({1,2,3})",
    "return cjson.encode({a=1})",
    "return cjson.encode({1,nil,3})",
    "return cjson.encode({[1]=1,[2]=2,[11]=3})",
    "return cjson.encode({[1]=1,[2]=2,[5]=3,[10]=4})",
    "return cjson.encode({[0]=1})",
    "return cjson.encode({[1.5]=1})",
    "return cjson.encode({[-1]=1})",
    "return cjson.encode({[true]=1})",
    "return cjson.encode({1,2,a=3})",
    "return cjson.encode(nil)",
    "return cjson.encode(cjson.null)",
    "return cjson.encode({cjson.null})",
    "return cjson.encode('a\"b\\\\c/d\\b\\f\\n\\r\\t\\0\\1\\127\\200')",
    "return cjson.encode(true)",
    "return cjson.encode(1)",
    "return cjson.encode(1.5)",
    "return cjson.encode(1e14)",
    "return cjson.encode(1e15)",
    "return cjson.encode(123456789012345678)",
    "return cjson.encode(0.1)",
    "return cjson.encode(1/3)",
    "return cjson.encode(-0.0)",
    "return cjson.encode(1/0)",
    "return cjson.encode(0/0)",
    "return cjson.encode(function() end)",
    "return cjson.encode({function() end})",
    "return cjson.encode(coroutine.create(function() end))",
    "return cjson.encode()",
    "return cjson.encode(1, 2)",
    "local t = {} t[1] = t return cjson.encode(t)",
    "local t = {} for i = 1, 1001 do t = {t} end return cjson.encode(t)",
    "local t = {} for i = 1, 998 do t = {t} end return #cjson.encode(t)",
    "return cjson.encode({{a={b={1,{c=2}}}}})",
    "return cjson.encode({x='y', n=1, t={1,2}, f=false})",
    "return cjson.decode('1')",
    "return cjson.decode('\"x\"')",
    "return cjson.decode('[1,2,[3,\"a\"]]')",
    "return cjson.decode('{\"a\":{\"b\":7}}').a.b",
    "return tostring(cjson.decode('null'))",
    "return cjson.decode('null') == cjson.null",
    "return cjson.decode('[null]')[1] == cjson.null",
    "return {cjson.decode('true'), tostring(cjson.decode('false'))}",
    "return cjson.decode('\"\\\\u0041\\\\u00e9\\\\u20ac\\\\ud83d\\\\ude00\\\\n\\\\/\"')",
    "return cjson.decode('\"\\\\ud83d\"')",
    "return cjson.decode('\"\\\\udc00\\\\ud800\"')",
    "return cjson.decode('\"\\\\u00g0\"')",
    "return cjson.decode('\"\\\\x\"')",
    "return cjson.decode('\"abc')",
    "return cjson.decode('\"ab\\\\')",
    "return cjson.decode('')",
    "return cjson.decode('[')",
    "return cjson.decode('[1')",
    "return cjson.decode('[1,')",
    "return cjson.decode('[1,]')",
    "return cjson.decode('[1 2]')",
    "return cjson.decode('{')",
    "return cjson.decode('{1:2}')",
    "return cjson.decode('{\"a\" 2}')",
    "return cjson.decode('{\"a\":2,}')",
    "return cjson.decode('{\"a\":2 \"b\":3}')",
    "return cjson.decode('1 2')",
    "return cjson.decode('nul')",
    "return cjson.decode('tru')",
    "return cjson.decode('x')",
    "return cjson.decode('-')",
    "return cjson.decode('+1')",
    "return cjson.decode('.5')",
    "return cjson.decode('01')",
    "return cjson.decode('0x10')",
    "return cjson.decode('1e3')",
    "return cjson.decode('1e')",
    "return cjson.decode('1.5.5')",
    "return tostring(cjson.decode('-0'))",
    "return tostring(cjson.decode('12345678901234567890'))",
    "return tostring(cjson.decode('Infinity'))",
    "return tostring(cjson.decode('-inf'))",
    "return tostring(cjson.decode('NaN'))",
    "return cjson.decode(' [ 1 , 2 ] ')",
    "return cjson.decode('[1]\\0x')",
    "return cjson.decode('\\0\\0')",
    "return cjson.decode(string.rep('[', 1001))",
    "return cjson.decode(12)",
    "return cjson.decode()",
    "return cjson.decode({})",
    "return #cjson.decode('[' .. string.rep('1,', 999) .. '1]')",
    "return {cjson.encode_max_depth(), cjson.decode_max_depth(), cjson.encode_number_precision()}",
    "return {tostring(cjson.encode_sparse_array()), select(2, cjson.encode_sparse_array()), tostring(cjson.encode_keep_buffer())}",
    "cjson.encode_sparse_array(true) local r = cjson.encode({[1]=1,[100]=2}) cjson.encode_sparse_array(false) return r",
    "cjson.encode_number_precision(3) local r = cjson.encode(1/3) cjson.encode_number_precision(14) return r",
    "cjson.encode_invalid_numbers('null') local r = cjson.encode(0/0) cjson.encode_invalid_numbers(false) return r",
    "cjson.encode_invalid_numbers(true) local r = cjson.encode({0/0, 1/0, -1/0}) cjson.encode_invalid_numbers(false) return r",
    "cjson.decode_invalid_numbers(false) local ok, e = pcall(cjson.decode, '0x10') cjson.decode_invalid_numbers(true) return e",
    "cjson.encode_max_depth(2) local ok, e = pcall(cjson.encode, {{{}}}) cjson.encode_max_depth(1000) return e",
    "return cjson.encode_max_depth(0)",
    "return cjson.encode_number_precision(99)",
    "return {cjson._NAME, cjson._VERSION}",
    "return cjson.encode(cjson.decode('{\"a\":[],\"b\":{}}').a)",
];

const PACKED: &[&str] = &[
    "return cmsgpack.pack({1,2,3})",
    "return cmsgpack.pack({})",
    "return cmsgpack.pack({a=1})",
    "return cmsgpack.pack({1,nil,3})",
    "return cmsgpack.pack({[2]=1})",
    "return cmsgpack.pack({[1.5]=1})",
    "return cmsgpack.pack({[0]=1})",
    "return cmsgpack.pack({[true]=1})",
    "return cmsgpack.pack(0, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296, 2^53, 2^62)",
    "return cmsgpack.pack(-1, -32, -33, -128, -129, -32768, -32769, -2147483648, -2147483649, -2^53)",
    "return cmsgpack.pack(0.5, 0.1, 1e300, -0.0, 2^63, 2^64, -(2^63), 1/0, -1/0)",
    "return cmsgpack.pack('', 'x', string.rep('x', 31), string.rep('x', 32), string.rep('x', 255), string.rep('x', 256))",
    "return #cmsgpack.pack(string.rep('x', 65535)) + #cmsgpack.pack(string.rep('x', 65536))",
    "return cmsgpack.pack(true, false, nil, cjson.null, function() end)",
    "local t = {} for i = 1, 20 do t = {t} end return cmsgpack.pack(t)",
    "local t = {} for i = 1, 15 do t[i] = i end local a = cmsgpack.pack(t) t[16] = 1 return {a, cmsgpack.pack(t)}",
    "local t = {} for i = 1, 70000 do t[i] = 1 end return string.sub(cmsgpack.pack(t), 1, 10)",
    "local t = {} for i = 2, 17 do t[i] = 1 end return string.sub(cmsgpack.pack(t), 1, 3)",
    "return cmsgpack.pack()",
    "return cmsgpack.unpack(cmsgpack.pack({1,{a='b'},true,false,-7,0.25}))",
    "return {cmsgpack.unpack(cmsgpack.pack(1, 'two', {3}))}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 'two', {3}))}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 'two', {3}), 1)}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1))}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 9, 1)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 0)}",
    "return cmsgpack.unpack_limit(cmsgpack.pack(1), -1)",
    "return cmsgpack.unpack_one(cmsgpack.pack(1), -1)",
    "return cmsgpack.unpack_one(cmsgpack.pack(1), 9)",
    "return cmsgpack.unpack('')",
    "return cmsgpack.unpack('\\193')",
    "return cmsgpack.unpack('\\217')",
    "return cmsgpack.unpack('\\217\\5abc')",
    "return cmsgpack.unpack('\\146\\1')",
    "return cmsgpack.unpack('\\129\\1')",
    "return cmsgpack.unpack('\\129\\192\\1')",
    "return cmsgpack.unpack('\\212\\1\\1')",
    "return cmsgpack.unpack('\\196\\3abc')",
    "return tostring(cmsgpack.unpack('\\207\\255\\255\\255\\255\\255\\255\\255\\255'))",
    "return tostring(cmsgpack.unpack('\\211\\255\\255\\255\\255\\255\\255\\255\\254'))",
    "return tostring(cmsgpack.unpack('\\202\\63\\192\\0\\0'))",
    "return cmsgpack.unpack(12)",
    "return cmsgpack.unpack()",
    "return {cmsgpack._NAME, cmsgpack._VERSION, cmsgpack._COPYRIGHT, cmsgpack._DESCRIPTION}",
];

const STRUCTS: &[&str] = &[
    "return struct.pack('>I2', 258)",
    "return struct.pack('<I2', 258)",
    "return struct.pack('bBhHlLTiI', -1, 255, -2, 65535, -3, 4, 5, -6, 7)",
    "return struct.pack('>bBhHlLTiI', -1, 255, -2, 65535, -3, 4, 5, -6, 7)",
    "return struct.pack('fd', 1.5, 0.1)",
    "return struct.pack('>fd', 1.5, 0.1)",
    "return struct.pack('s', 'hello')",
    "return struct.pack('c3', 'hello')",
    "return struct.pack('c9', 'hello')",
    "return struct.pack('c0', 'hello')",
    "return struct.pack('Bc0', 5, 'hello')",
    "return struct.pack('!4bi', 1, 2)",
    "return struct.pack('!bd', 1, 2)",
    "return struct.pack('!3b', 1)",
    "return struct.pack('bxb', 1, 2)",
    "return struct.pack('i3', -2)",
    "return struct.pack('>i9', 5)",
    "return struct.pack('i33', 1)",
    "return struct.pack('i99999999999', 1)",
    "return struct.pack('z', 1)",
    "return struct.pack('b')",
    "return struct.pack('b', 'x')",
    "return struct.pack('')",
    "return struct.pack('b b', 1, 2)",
    "return struct.pack('L', 2^60)",
    "return {struct.unpack('>I2', '\\1\\2')}",
    "return {struct.unpack('<I2i1', '\\1\\2\\255')}",
    "return {struct.unpack('bBhH', '\\255\\255\\254\\255\\254\\255')}",
    "return {struct.unpack('>i4', '\\255\\255\\255\\250')}",
    "local a, b = struct.unpack('fd', struct.pack('fd', 1.5, 0.1)) return {tostring(a), tostring(b)}",
    "return {struct.unpack('s', 'hello\\0rest')}",
    "return {struct.unpack('s', 'hello')}",
    "return {struct.unpack('c3', 'hello')}",
    "return {struct.unpack('Bc0', '\\3hello')}",
    "return {struct.unpack('c0', 'hello')}",
    "return {struct.unpack('Bc0', '\\9hello')}",
    "return {struct.unpack('i4', 'ab')}",
    "return {struct.unpack('b', 'abc', 3)}",
    "return {struct.unpack('b', 'abc', 4)}",
    "return {struct.unpack('b', 'abc', 0)}",
    "return {struct.unpack('bxb', 'abc')}",
    "return {struct.unpack('!4bi', struct.pack('!4bi', 1, 2))}",
    "return {struct.unpack('>i9', struct.pack('>i9', 5))}",
    "return {struct.size('bhil'), struct.size('!bhil'), struct.size('c7'), struct.size('>i3')}",
    "return struct.size('s')",
    "return struct.size('c0')",
    "return struct.size('?')",
    "return struct.size()",
];

#[test]
fn structs_are_the_same() {
    bodies("structs_are_the_same", false, STRUCTS);
}

#[test]
fn packed_values_are_the_same() {
    bodies("packed_values_are_the_same", false, PACKED);
}

#[test]
fn values_become_replies() {
    bodies("values_become_replies", false, VALUES);
}

#[test]
fn values_become_resp3_replies() {
    bodies("values_become_resp3_replies", true, VALUES);
}

#[test]
fn commands_answer_scripts() {
    bodies("commands_answer_scripts", false, CALLS);
}

#[test]
fn commands_answer_scripts_of_resp3_clients() {
    bodies("commands_answer_scripts_of_resp3_clients", true, CALLS);
}

#[test]
fn errors_have_the_same_text_and_place() {
    bodies("errors_have_the_same_text_and_place", false, ERRORS);
}

#[test]
fn libraries_compute_the_same() {
    bodies("libraries_compute_the_same", false, LIBRARIES);
}

#[test]
fn json_is_the_same() {
    bodies("json_is_the_same", false, JSON);
}

#[test]
fn the_commands_themselves_answer_the_same() {
    const SHA: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    const UPPER: &str = "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB";
    let commands: &[&[&str]] = &[
        &["EVAL", "return 1", "-1"],
        &["EVAL", "return 1", "2", "a"],
        &["EVAL", "return 1", "x"],
        &["EVAL", "return 1"],
        &["EVALSHA", "abc", "0"],
        &["EVALSHA", "abc", "x"],
        &["EVALSHA", SHA, "0"],
        &["EVALSHA", SHA, "-1"],
        &["SCRIPT", "FLUSH"],
        &["SCRIPT", "LOAD", "return 1"],
        &["EVALSHA", SHA, "0"],
        &["EVALSHA", UPPER, "0"],
        &["EVALSHA_RO", SHA, "0"],
        &["SCRIPT", "EXISTS", SHA, "abc", UPPER],
        &["SCRIPT", "FLUSH", "FOO"],
        &["SCRIPT", "FLUSH", "ASYNC", "X"],
        &["SCRIPT", "FLUSH", "async"],
        &["SCRIPT", "EXISTS", SHA],
        &["EVALSHA", SHA, "0"],
        &["EVALSHA_RO", SHA, "0"],
        &["EVAL", "return 1", "0"],
        &["SCRIPT", "EXISTS", SHA],
        &["SCRIPT", "LOAD", "return 1 +"],
        &["SCRIPT", "LOAD", "#!lua flags=nope\nreturn 1"],
        &["SCRIPT", "LOAD"],
        &["SCRIPT", "NOPE"],
        &["SCRIPT"],
        &["EVAL_RO", "return redis.call('set','a','b')", "0"],
        &["EVAL_RO", "return redis.call('get','a')", "0"],
        &["EVAL_RO", "return redis.pcall('del','a')", "1", "a"],
        &[
            "EVAL",
            "#!lua flags=no-writes\nreturn redis.call('set','a','b')",
            "0",
        ],
        &[
            "EVAL",
            "#!lua flags=no-writes\nreturn redis.call('get','a')",
            "0",
        ],
        &["EVAL", "#!lua flags=nope\nreturn 1", "0"],
        &["EVAL", "#!js\nreturn 1", "0"],
        &["EVAL", "#!lua bad=1\nreturn 1", "0"],
        &[
            "EVAL",
            "#!lua flags=no-writes,allow-stale flags=allow-oom\nreturn 1",
            "0",
        ],
        &["EVAL", "#!lua\nreturn nosuch", "0"],
        &["EVAL", "#!lua\n\nreturn 1 +", "0"],
        &["EVAL", "#!lua", "0"],
        &["EVAL", "#!lua\n", "0"],
        &["EVAL", "", "0"],
        &["EVAL", "return KEYS[1] .. ARGV[1]", "1", "a\0b", "c\r\nd"],
    ];
    let commands: Vec<Vec<&str>> = commands.iter().map(|words| words.to_vec()).collect();
    compare("the_commands_themselves_answer_the_same", false, &commands);
}

/// They live in the Lua state of a thread, which is given up otherwise.
#[test]
fn variables_of_libraries_outlive_script_flush() {
    const LIBRARY: &str = "#!lua name=l\nlocal n = 0 \
        redis.register_function('next', function() n = n + 1 return n end)";
    let mut client = Client::new(&engine(1));
    client.bytes(&[&b"FUNCTION"[..], b"LOAD", LIBRARY.as_bytes()]);
    for call in 1..3 {
        assert_eq!(client.int(&["FCALL", "next", "0"]), call);
        client.bytes(&[&b"SCRIPT"[..], b"FLUSH"]);
        tollgate_engine::give_up_flushed();
    }
}
