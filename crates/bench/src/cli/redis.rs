//! `tollgate bench redis`: the options of redis-benchmark, as its users type them.

use clap::{ArgAction, Args};

/// Run the command lists of redis-benchmark with its own options and output.
///
/// A closed loop: every client waits for its answers before it asks again. The figures compare servers and versions; they
/// say nothing about the latency of users, who do not wait for each other. Without -h, -p, -s and -u this program is
/// started as the server.
#[derive(Args, Clone, Debug)]
#[command(disable_help_flag = true)]
pub struct RedisArgs {
    /// Server host [default: 127.0.0.1]
    #[arg(short = 'h', value_name = "HOSTNAME")]
    pub host: Option<String>,
    /// Server port [default: 6379; without any address this program is started]
    #[arg(short = 'p', value_name = "PORT")]
    pub port: Option<u16>,
    /// Server socket, instead of host and port
    #[arg(short = 's', value_name = "SOCKET", conflicts_with_all = ["host", "port", "uri"])]
    pub socket: Option<String>,
    /// Server URI: redis://[USER:PASSWORD@]HOST[:PORT][/DB]
    #[arg(short = 'u', value_name = "URI", conflicts_with_all = ["host", "port"])]
    pub uri: Option<String>,
    /// Password
    #[arg(short = 'a', value_name = "PASSWORD")]
    pub password: Option<String>,
    /// User name; needs -a
    #[arg(long, value_name = "USERNAME", requires = "password")]
    pub user: Option<String>,
    /// Number of parallel connections
    #[arg(short = 'c', value_name = "CLIENTS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// Total number of requests of each test
    #[arg(short = 'n', value_name = "REQUESTS", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000_000))]
    pub requests: u64,
    /// Size of values in bytes
    #[arg(short = 'd', value_name = "SIZE", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub size: u32,
    /// Database
    #[arg(long, value_name = "DB")]
    pub dbnum: Option<u32>,
    /// Speak RESP3
    #[arg(short = '3')]
    pub resp3: bool,
    /// Number of generator threads
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: Option<u32>,
    /// Send CLIENT TRACKING ON before each test
    #[arg(long)]
    pub enable_tracking: bool,
    /// 1 = keep connections, 0 = connect anew for every batch
    #[arg(short = 'k', value_name = "BOOLEAN", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub keep_alive: u8,
    /// Replace __rand_int__ by a number below this, in each request anew, and let the tests use random keys
    #[arg(short = 'r', value_name = "KEYSPACELEN", value_parser = clap::value_parser!(u64).range(1..=999_999_999_999))]
    pub range: Option<u64>,
    /// Requests that a connection sends at once
    #[arg(short = 'P', value_name = "NUMREQ", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub pipeline: u32,
    /// Just show requests per second
    #[arg(short = 'q')]
    pub quiet: bool,
    /// Decimal places of latencies in milliseconds [default: 3]
    #[arg(long, value_name = "DIGITS", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub precision: Option<u8>,
    /// Output as CSV
    #[arg(long, conflicts_with = "quiet")]
    pub csv: bool,
    /// Show errors; has no effect: the first error ends the run, as in redis-benchmark 7
    #[arg(short = 'e')]
    pub errors: bool,
    /// Run the tests again and again until interrupted, at most 10,000 times
    #[arg(short = 'l')]
    pub repeat: bool,
    /// Only run these tests; comma separated
    #[arg(short = 't', value_name = "TESTS", value_delimiter = ',')]
    pub tests: Vec<String>,
    /// Idle mode: open the connections and wait until interrupted
    #[arg(short = 'I')]
    pub idle: bool,
    /// Read the last argument of the command from standard input
    #[arg(short = 'x')]
    pub stdin: bool,
    /// Not supported: give the address of one node
    #[arg(long, hide = true)]
    pub cluster: bool,
    /// Not supported: measure the plain port
    #[arg(long, hide = true)]
    pub tls: bool,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Cores of generator and server: gen=CORE,sut=CORE or none [default: the first and the last, and none with --threads]
    #[arg(long, value_parser = super::values::pins)]
    pub pin: Option<super::Pins>,
    /// Allow targets on other machines
    #[arg(long)]
    pub i_own_this_target: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
    /// A command to run instead of the tests, with __rand_int__ where random numbers are wanted
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND ARGS"
    )]
    pub command: Vec<String>,
}
