//! Runs the tests one after the other.

use std::io::Read;
use std::time::Duration;

use super::output::{CSV_HEAD, Measured, Setting};
use super::tests::{RANDOM, Test, chosen, of_command};
use crate::cli::{Pins, RedisArgs};
use crate::load::address::{Address, Endpoint};
use crate::load::closed::{Feed, Pool, Slice};
use crate::load::connection::{Connection, Framing};
use crate::load::rng::Rng;
use crate::load::tally::Verdict;
use crate::os::{cpu, interrupt};
use crate::target::Store;
use crate::target::client::Client;
use crate::target::program::Program;
use crate::target::url::TargetUrl;

/// Rounds of `-l`.
const ROUNDS_MAX: u32 = 10_000;
/// Most bytes read from standard input with `-x`.
const STDIN_MAX: u64 = 64 * 1024 * 1024;
/// Most bytes of requests that may wait to be written over all connections.
const UNWRITTEN_MAX: u64 = 1 << 30;
/// Longest sleep in idle mode: how soon an interrupt is noticed.
const IDLE_LOOK: Duration = Duration::from_millis(50);

/// The server measured; one that was started here ends with it.
struct Server {
    endpoint: Endpoint,
    /// Kept for its process.
    _store: Option<Store>,
}

/// Runs what `args` ask for; text goes to `print` as soon as it is there.
pub fn run(
    args: &RedisArgs,
    print: &mut dyn FnMut(&str),
    warn: &mut dyn FnMut(&str),
) -> Result<(), String> {
    refuse(args)?;
    let pins = pins(args)?;
    let tests = if args.command.is_empty() {
        chosen(&args.tests, args.size, args.range.is_some())?
    } else {
        vec![of_command(&command(args)?)]
    };
    check_size(args, &tests)?;
    if args.errors {
        warn("warning: -e has no effect: the first error ends the run");
    }
    let server = server(args, pins, warn)?;
    if args.idle {
        return idle(args, &server.endpoint, print);
    }
    let setting = setting(args, &server.endpoint, warn);
    if args.csv {
        print(CSV_HEAD);
    }
    let rounds = if args.repeat { ROUNDS_MAX } else { 1 };
    for _ in 0..rounds {
        for test in &tests {
            if interrupt::asked() {
                return Err("interrupted".into());
            }
            let measured = measure(args, pins, test, &server.endpoint)?;
            if interrupt::asked() && measured.answers < args.requests {
                return Err(format!("interrupted in {}", test.title));
            }
            match (args.csv, args.quiet) {
                (true, _) => print(&measured.csv()),
                (_, true) => print(&measured.quiet()),
                _ => print(&measured.whole(&setting)),
            }
        }
    }
    Ok(())
}

fn refuse(args: &RedisArgs) -> Result<(), String> {
    if args.cluster {
        return Err(
            "--cluster is not supported: give the address of one node and keys with its {tag}"
                .into(),
        );
    }
    if args.tls {
        return Err("--tls is not supported: measure the plain port".into());
    }
    if args.stdin && args.command.is_empty() {
        return Err("-x reads the last argument of a command: give the command".into());
    }
    if let Some(threads) = args.threads.filter(|threads| *threads > args.clients) {
        return Err(format!(
            "{threads} threads cannot share {} connections",
            args.clients
        ));
    }
    Ok(())
}

/// One thread per core needs the cores that pinning would take away.
fn pins(args: &RedisArgs) -> Result<Pins, String> {
    match (args.pin, args.threads) {
        (None, Some(_)) => Ok(Pins {
            generator: None,
            target: None,
        }),
        (pin, _) => crate::cli::cores(pin),
    }
}

fn command(args: &RedisArgs) -> Result<Vec<String>, String> {
    let mut words = args.command.clone();
    if args.stdin {
        let mut text = String::new();
        let mut input = std::io::stdin().lock().take(STDIN_MAX + 1);
        input
            .read_to_string(&mut text)
            .map_err(|error| format!("standard input: {error}"))?;
        if text.len() as u64 > STDIN_MAX {
            return Err(format!("standard input has more than {STDIN_MAX} bytes"));
        }
        words.push(text);
    }
    Ok(words)
}

fn check_size(args: &RedisArgs, tests: &[Test]) -> Result<(), String> {
    let longest = tests
        .iter()
        .map(|test| test.request.len())
        .max()
        .unwrap_or(0) as u64;
    let bytes = longest
        .saturating_mul(u64::from(args.pipeline))
        .saturating_mul(u64::from(args.clients));
    if bytes > UNWRITTEN_MAX {
        return Err(format!(
            "{} connections with {} requests each would hold {} MiB: give less of -c, -P or -d",
            args.clients,
            args.pipeline,
            bytes >> 20
        ));
    }
    Ok(())
}

fn server(args: &RedisArgs, pins: Pins, warn: &mut dyn FnMut(&str)) -> Result<Server, String> {
    let anywhere =
        args.host.is_some() || args.port.is_some() || args.socket.is_some() || args.uri.is_some();
    let (mut endpoint, store) = if let Some(path) = &args.socket {
        (Endpoint::plain(Address::Unix(path.into())), None)
    } else if anywhere {
        let url = match &args.uri {
            Some(uri) => TargetUrl::parse(uri)?,
            None => {
                let host = args.host.as_deref().unwrap_or("127.0.0.1");
                let port = args.port.unwrap_or(6379);
                let host = if host.contains(':') {
                    format!("[{host}]")
                } else {
                    host.into()
                };
                TargetUrl::parse(&format!("redis://{host}:{port}"))?
            }
        };
        crate::cli::own(&url, args.i_own_this_target)?;
        (url.endpoint, None)
    } else {
        let threads = if pins.target.is_some() {
            1
        } else {
            cpu::count() as u32
        };
        let store = Store::start(Program::Tollgate, threads, pins.target)?;
        warn(&format!(
            "started {} with {threads} thread{} on {}",
            store.record.name,
            if threads == 1 { "" } else { "s" },
            store.endpoint.address
        ));
        (store.endpoint.clone(), Some(store))
    };
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect::<Vec<_>>()
    };
    if let Some(password) = &args.password {
        endpoint.greeting.push(match &args.user {
            Some(user) => words(&["AUTH", user, password]),
            None => words(&["AUTH", password]),
        });
    }
    if args.resp3 {
        endpoint.greeting.push(words(&["HELLO", "3"]));
    }
    if let Some(db) = args.dbnum {
        endpoint.greeting.push(words(&["SELECT", &db.to_string()]));
    }
    if args.enable_tracking {
        endpoint.greeting.push(words(&["CLIENT", "TRACKING", "ON"]));
    }
    Ok(Server {
        endpoint,
        _store: store,
    })
}

fn setting(args: &RedisArgs, endpoint: &Endpoint, warn: &mut dyn FnMut(&str)) -> Setting {
    let value = |name: &str| -> Result<String, String> {
        let reply = Client::connect(endpoint)?.ask(&[b"CONFIG", b"GET", name.as_bytes()])?;
        // An array in RESP2; RESP3's map is read as its pairs.
        let pair = reply.as_array().unwrap_or_default();
        let value = pair.get(1).and_then(|value| value.as_bytes());
        value
            .map(|value| String::from_utf8_lossy(value).into_owned())
            .ok_or_else(|| "no such setting".into())
    };
    let configuration = if args.quiet || args.csv {
        None
    } else {
        match (value("save"), value("appendonly")) {
            (Ok(save), Ok(appendonly)) => Some((save, appendonly)),
            _ => {
                warn("warning: could not fetch the server's CONFIG");
                None
            }
        }
    };
    Setting {
        clients: args.clients,
        value_bytes: args.size,
        keep_alive: args.keep_alive == 1,
        configuration,
        threads: args.threads,
    }
}

fn idle(args: &RedisArgs, endpoint: &Endpoint, print: &mut dyn FnMut(&str)) -> Result<(), String> {
    print(&format!(
        "Creating {} idle connections and waiting forever (Ctrl+C when done)",
        args.clients
    ));
    let pool = open(endpoint, args.clients as usize)?;
    while !interrupt::asked() {
        std::thread::sleep(IDLE_LOOK);
    }
    drop(pool);
    Ok(())
}

fn open(endpoint: &Endpoint, count: usize) -> Result<Pool, String> {
    Pool::speaking(Framing::Resp, endpoint, count)
        .map_err(|error| format!("cannot connect to {}: {error}", endpoint.address))
}

fn measure(
    args: &RedisArgs,
    pins: Pins,
    test: &Test,
    endpoint: &Endpoint,
) -> Result<Measured, String> {
    let threads = args.threads.unwrap_or(1);
    let share = |of: u64, thread: u32| {
        let (each, rest) = (of / u64::from(threads), of % u64::from(threads));
        each + u64::from(u64::from(thread) < rest)
    };
    let job = |thread: u32| -> Result<Slice, String> {
        if let Some(core) = pins.generator {
            // Not pinned is worse, not wrong.
            drop(cpu::pin(core));
        }
        let connections = share(u64::from(args.clients), thread) as usize;
        let mut pool = open(endpoint, connections)?;
        if args.keep_alive == 0 {
            pool.renew_connections();
        }
        let mut feed = Requests {
            request: &test.request,
            places: places(&test.request, args.range),
            range: args.range.unwrap_or(1),
            left: share(args.requests, thread),
            rng: Rng::new(args.seed.wrapping_add(u64::from(thread))),
        };
        let depth = args.pipeline as usize;
        let slice = pool.run(&mut feed, depth, u64::MAX / 2, interrupt::flag())?;
        match slice.first_error {
            Some(text) => Err(format!("error from server: {text}")),
            None => Ok(slice),
        }
    };
    let slices: Vec<Result<Slice, String>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || job(thread)))
            .collect();
        running
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("a generator thread failed".into()))
            })
            .collect()
    });
    let mut whole: Option<Slice> = None;
    for slice in slices {
        let slice = slice.map_err(|why| format!("{}: {why}", test.title))?;
        match &mut whole {
            None => whole = Some(slice),
            Some(sum) => {
                sum.answers += slice.answers;
                sum.elapsed_ns = sum.elapsed_ns.max(slice.elapsed_ns);
                sum.latency
                    .add(&slice.latency)
                    .map_err(|error| error.to_string())?;
            }
        }
    }
    let whole = whole.ok_or("no thread was started")?;
    let seconds = whole.elapsed_ns as f64 / 1e9;
    Ok(
        Measured::new(&test.title, whole.answers, seconds, &whole.latency)
            .with_precision(args.precision.unwrap_or(3)),
    )
}

/// Where random numbers go in `request`; nowhere without a range.
fn places(request: &[u8], range: Option<u64>) -> Vec<usize> {
    if range.is_none() {
        return Vec::new();
    }
    let marks = request.windows(RANDOM.len()).enumerate();
    marks
        .filter(|(_, window)| *window == RANDOM.as_bytes())
        .map(|(at, _)| at)
        .collect()
}

/// The same request again and again, with new random numbers in it.
struct Requests<'a> {
    request: &'a [u8],
    places: Vec<usize>,
    range: u64,
    left: u64,
    rng: Rng,
}

impl Feed for Requests<'_> {
    fn push(&mut self, connection: &mut Connection) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let mut from = 0;
        for &at in &self.places {
            connection.push(&self.request[from..at]);
            let mut digits = [b'0'; RANDOM.len()];
            // Twelve digits, as redis-benchmark writes them: a range has no more.
            let mut number = self.rng.next_u64() % self.range;
            for digit in digits.iter_mut().rev() {
                *digit += (number % 10) as u8;
                number /= 10;
            }
            connection.push(&digits);
            from = at + RANDOM.len();
        }
        connection.push(&self.request[from..]);
        true
    }

    fn verdict(&self, frame: &[u8]) -> Verdict {
        match frame.first() {
            Some(b'-' | b'!') => Verdict::Error,
            _ => Verdict::Allowed,
        }
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn random_numbers_have_their_places_only_with_a_range() {
        let test = of_command(&[
            "SET".into(),
            "k:__rand_int__:__rand_int__".into(),
            "v".into(),
        ]);
        assert!(places(&test.request, None).is_empty());
        let places = places(&test.request, Some(10));
        assert_eq!(places.len(), 2);
        assert!(
            places
                .iter()
                .all(|at| test.request[*at..].starts_with(RANDOM.as_bytes()))
        );
    }
}
