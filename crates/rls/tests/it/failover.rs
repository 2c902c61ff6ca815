//! Masters that are killed while the service decides, behind Sentinels and in a cluster, with TLS and without.
//!
//! Replication is asynchronous: what a replica has when it is promoted is counted on, for every algorithm; what the old
//! master had counted and not sent may pass once more, and no more than that.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tollgate_rls::{EnvoyCounters, StoreConfig};
use tollgate_testkit::cluster::RedisCluster;
use tollgate_testkit::process::{free_port, temp_dir};
use tollgate_testkit::{Client as Control, Server, eventually, peers};
use tollgate_wire::resp::Value;
use tollgate_wire::rls::rate_limit_response::Code;

use crate::storm::{BOTH, CLIENTS, KEYS, LIMIT, Place, Until, rules, storm};
use crate::support::{Client, Service, descriptor, patient, request, text, told};
use crate::tls::Files;

/// Rules for what happens meanwhile, and a limit that lasts through it.
const MORE: &str = "
  - {key: closed, rate_limit: {unit: year, requests_per_unit: 1000, on_error: closed}}
  - {key: open, rate_limit: {unit: year, requests_per_unit: 1, on_error: {mode: open, budget: 1h}}}
  - {key: local, rate_limit: {unit: year, requests_per_unit: 10, on_error: {mode: local, share: 30%}}}
  - {key: error, rate_limit: {unit: year, requests_per_unit: 1000}}
  - {key: load, rate_limit: {unit: year, requests_per_unit: 1500}}
";
const LOAD_LIMIT: usize = 1_500;
/// Clients that ask through a failure.
const LOADERS: usize = 20;
/// Passed before the master is killed.
const PASSED_BEFORE: usize = 300;
/// In a cluster this says which node counts a descriptor with it: the first one.
const TAG: &str = "{b}";
/// How long a node of a cluster may be silent. A busy machine must not look like a dead one.
const NODE_TIMEOUT_MS: &str = "5000";

async fn wait_for(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(180);
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Certificates of servers and of the service, made by two authorities, and how servers are told of them.
pub(crate) struct Tls {
    files: Files,
    /// Trusts both authorities: servers are each other's clients too.
    both: PathBuf,
}

impl Tls {
    fn new() -> Self {
        let files = Files::new();
        files.sign("store", "127.0.0.1", false);
        files.sign("own", "service", false);
        let read = |name| std::fs::read_to_string(files.path(name, "ca")).expect("made here");
        let both = files.path("both", "ca");
        std::fs::write(&both, read("store") + &read("own")).expect("the folder is ours");
        Self { files, both }
    }

    /// Names of settings and their values, without the ports.
    fn settings(&self) -> Vec<(&'static str, String)> {
        let path = |kind| self.files.path("store", kind).display().to_string();
        vec![
            ("tls-cert-file", path("cert")),
            ("tls-key-file", path("key")),
            ("tls-ca-cert-file", self.both.display().to_string()),
            ("tls-auth-clients", "yes".to_owned()),
            ("tls-replication", "yes".to_owned()),
        ]
    }

    fn store_config(&self) -> StoreConfig {
        StoreConfig {
            tls_authority: Some(self.files.path("store", "ca")),
            tls_certificate: Some(self.files.path("own", "cert")),
            tls_key: Some(self.files.path("own", "key")),
            ..patient()
        }
    }
}

/// Settings as flags of redis-server.
fn flags(settings: &[(&str, String)]) -> Vec<String> {
    let flags = settings
        .iter()
        .flat_map(|(name, value)| [format!("--{name}"), value.clone()]);
    flags.collect()
}

/// A Sentinel that watches a master under the name `main`.
pub(crate) struct Sentinel {
    process: Child,
    dir: PathBuf,
    /// Where tests ask it.
    addr: SocketAddr,
    /// Where the service asks it.
    pub(crate) port: u16,
}

impl Sentinel {
    pub(crate) fn start(program: PathBuf, master: u16, tls: Option<&Tls>) -> Self {
        let dir = temp_dir().expect("a temporary folder");
        let plain = free_port().expect("a free port");
        let port = tls.map_or(plain, |_| free_port().expect("a free port"));
        let mut text = format!(
            "port {plain}\nbind 127.0.0.1\nprotected-mode no\ndir {}\nsentinel monitor main 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds main 2000\nsentinel failover-timeout main 2000\n",
            dir.display(),
        );
        if let Some(tls) = tls {
            text.push_str(&format!("tls-port {port}\n"));
            for (name, value) in tls.settings() {
                text.push_str(&format!("{name} {value}\n"));
            }
        }
        let file = dir.join("sentinel.conf");
        std::fs::write(&file, text).expect("the folder is ours");
        let process = Command::new(program)
            .arg(&file)
            .arg("--sentinel")
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server starts as a Sentinel");
        let sentinel = Self {
            process,
            dir,
            addr: (Ipv4Addr::LOCALHOST, plain).into(),
            port,
        };
        // The original ends where nobody listens at its start.
        eventually("the Sentinel answers", || sentinel.ask(&["PING"]).is_some());
        sentinel
    }

    fn ask(&self, words: &[&str]) -> Option<Value> {
        Control::connect(self.addr).ok()?.call(words).ok()
    }

    /// What it knows of each replica: names and values in turn.
    fn replicas(&self) -> Vec<Vec<Value>> {
        let Some(Value::Array(replicas)) = self.ask(&["SENTINEL", "REPLICAS", "main"]) else {
            return Vec::new();
        };
        let fields = replicas.into_iter().filter_map(|replica| match replica {
            Value::Array(fields) => Some(fields),
            _ => None,
        });
        fields.collect()
    }

    /// Whether it knows a replica that follows its master.
    fn knows_a_replica(&self) -> bool {
        let up = Value::Bulk(b"ok".to_vec());
        let ready =
            |fields: &Vec<Value>| fields.contains(&up) && !format!("{fields:?}").contains("down");
        self.replicas().iter().any(ready)
    }

    /// Whether it has heard that a replica may be promoted.
    fn may_promote(&self) -> bool {
        let priority = [&b"slave-priority"[..], b"100"].map(|word| Value::Bulk(word.to_vec()));
        let may = |fields: &Vec<Value>| fields.chunks(2).any(|field| field == priority);
        self.replicas().iter().any(may)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

/// A master with a replica that takes its place once it may.
enum Pair {
    Watched {
        master: Option<Server>,
        replica: Server,
        sentinel: Sentinel,
    },
    Cluster {
        cluster: RedisCluster,
        replica: usize,
    },
}

impl Pair {
    /// `None` without redis-server.
    async fn watched(tls: Option<&Tls>) -> Option<Self> {
        Self::watched_with(tls, &[]).await
    }

    /// The same of a master that has flags of its own.
    async fn watched_with(tls: Option<&Tls>, flags_of_master: &[&str]) -> Option<Self> {
        let program = peers::find("redis-server")?;
        let port = || free_port().expect("a free port").to_string();
        let start = |more: &[&str]| {
            let mut all = tls.map_or(Vec::new(), |tls| flags(&tls.settings()));
            if tls.is_some() {
                all.extend(["--tls-port".to_owned(), port()]);
            }
            all.extend(more.iter().map(|&flag| flag.to_owned()));
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            Server::redis(&all).expect("redis-server starts")
        };
        let tls_port = |server: &Server| {
            let mut client = server.connect().expect("it answers");
            match told(&mut client, &["CONFIG", "GET", "tls-port"]) {
                Value::Array(items) => text(&items[1]).parse::<u16>().expect("a port"),
                other => panic!("{other:?}"),
            }
        };
        let master = start(flags_of_master)?;
        let master_port = match tls {
            None => master.addr().port(),
            Some(_) => tls_port(&master),
        };
        let at = master_port.to_string();
        let replica = start(&["--replicaof", "127.0.0.1", &at, "--replica-priority", "0"])?;
        let sentinel = Sentinel::start(program, master_port, tls);
        wait_for("the Sentinel knows the replica", async || {
            sentinel.knows_a_replica()
        })
        .await;
        Some(Self::Watched {
            master: Some(master),
            replica,
            sentinel,
        })
    }

    fn cluster(tls: Option<&Tls>) -> Option<Self> {
        let mut all = vec![
            "--cluster-node-timeout".to_owned(),
            NODE_TIMEOUT_MS.to_owned(),
        ];
        if let Some(tls) = tls {
            all.extend(flags(&tls.settings()));
            all.extend(["--tls-cluster".to_owned(), "yes".to_owned()]);
        }
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut cluster = RedisCluster::start_with(&all).expect("the nodes agree")?;
        let replica = cluster.add_replica(0).expect("a replica");
        let pair = Self::Cluster { cluster, replica };
        told(
            &mut pair.replica(),
            &["CONFIG", "SET", "cluster-replica-no-failover", "yes"],
        );
        let Value::Int(slot) = told(&mut pair.master(), &["CLUSTER", "KEYSLOT", TAG]) else {
            panic!("a slot")
        };
        assert!(slot < 5_000, "{TAG} is not of the first node: {slot}");
        Some(pair)
    }

    fn url(&self, tls: bool) -> String {
        let scheme = if tls { "rediss" } else { "redis" };
        match self {
            Self::Watched { sentinel, .. } => {
                format!("{scheme}+sentinel://127.0.0.1:{}/main", sentinel.port)
            }
            Self::Cluster { cluster, .. } => cluster.url(&format!("{scheme}+cluster")),
        }
    }

    fn service(&self, tls: Option<&Tls>) -> Service {
        self.service_with(tls, |_| ())
    }

    /// The same, which is connected to the store as `change` says.
    fn service_with(&self, tls: Option<&Tls>, change: impl FnOnce(&mut StoreConfig)) -> Service {
        let rules = rules() + MORE;
        Service::on_store(&self.url(tls.is_some()), &rules, |config| {
            config.store = tls.map_or_else(patient, Tls::store_config);
            change(&mut config.store);
        })
    }

    fn master(&self) -> Control {
        let server = match self {
            Self::Watched { master, .. } => master.as_ref().expect("not yet killed"),
            Self::Cluster { cluster, .. } => cluster.node(0),
        };
        server.connect().expect("the master answers")
    }

    fn replica(&self) -> Control {
        let server = match self {
            Self::Watched { replica, .. } => replica,
            Self::Cluster { cluster, replica } => cluster.node(*replica),
        };
        server.connect().expect("the replica answers")
    }

    /// Waits until the replica has all that the master counted so far.
    fn is_in_step(&self) {
        let mut master = self.master();
        let mark = format!("step:{TAG}");
        told(&mut master, &["INCR", &mark]);
        let count = told(&mut master, &["WAIT", "1", "120000"]);
        assert_eq!(count, Value::Int(1), "the replica follows");
    }

    fn kill_the_master(&mut self) {
        match self {
            Self::Watched { master, .. } => drop(master.take()),
            Self::Cluster { cluster, .. } => cluster.kill(0),
        }
    }

    /// From now on the replica may take its master's place.
    fn allow_failover(&self) {
        let setting = match self {
            Self::Watched { .. } => ["CONFIG", "SET", "replica-priority", "100"],
            Self::Cluster { .. } => ["CONFIG", "SET", "cluster-replica-no-failover", "no"],
        };
        told(&mut self.replica(), &setting);
    }
}

/// What becomes of a request for a key: its code, what decided in the store's place.
async fn ask(client: &mut Client, key: &str) -> Result<(Code, Option<String>), String> {
    let asked = request(vec![descriptor(&[&format!("{key}={TAG}")])]);
    let response = client.ask(asked).await;
    let response = response.map_err(|status| status.to_string())?;
    let mut headers = response.response_headers_to_add.iter();
    let by = headers.find(|header| header.key == "x-ratelimit-fallback");
    Ok((response.overall_code(), by.map(|by| by.value.clone())))
}

/// Each rule has its way while there is no master.
async fn answers_by_the_policies(service: &Service) {
    let mut client = service.client().await;
    wait_for("the store is found to be away", async || {
        matches!(ask(&mut client, "closed").await, Ok((_, Some(_))))
    })
    .await;
    let by = |code, mode: &str| Ok((code, Some(mode.to_owned())));
    assert_eq!(
        ask(&mut client, "closed").await,
        by(Code::OverLimit, "closed")
    );
    for _ in 0..3 {
        assert_eq!(ask(&mut client, "open").await, by(Code::Ok, "open"));
    }
    for turn in 0..6 {
        let code = if turn < 3 { Code::Ok } else { Code::OverLimit };
        assert_eq!(ask(&mut client, "local").await, by(code, "local"));
    }
    let error = ask(&mut client, "error").await.expect_err("nobody decides");
    assert!(error.contains("rate limit backend: "), "{error}");
}

/// Waits until the store answers whoever asks, on whatever thread of the service.
async fn decides_again(service: &Service) {
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(service.client().await);
    }
    wait_for("the service decides again by itself", async || {
        for client in &mut clients {
            if !matches!(ask(client, "closed").await, Ok((Code::Ok, None))) {
                return false;
            }
        }
        true
    })
    .await;
}

/// What the replica had is counted on by every algorithm.
async fn every_algorithm_is_counted_on(mut pair: Pair, tls: Option<&Tls>) {
    const FEW: usize = 20;
    let service = pair.service(tls);
    let place = Place::of(&service);
    let once = || Until::Rounds(1);
    let before = storm(place, BOTH, FEW, TAG, once()).await;
    assert_eq!(before.lost, [0; KEYS.len()], "every request is answered");
    assert_eq!(before.passed, [FEW; KEYS.len()]);
    pair.is_in_step();
    pair.kill_the_master();
    answers_by_the_policies(&service).await;
    pair.allow_failover();
    decides_again(&service).await;
    let after = storm(place, BOTH, CLIENTS, TAG, once()).await;
    for (key, name) in KEYS.iter().enumerate() {
        let (passed, lost) = (before.passed[key] + after.passed[key], after.lost[key]);
        assert!(
            passed <= LIMIT && passed + lost >= LIMIT,
            "{name}: {passed} passed, {lost} without an answer"
        );
    }
}

/// What clients of one limit have seen so far.
#[derive(Default)]
struct Load {
    passed: AtomicUsize,
    /// Of those, what passed after the replica was allowed to take over.
    passed_after: AtomicUsize,
    allowed: AtomicBool,
    /// Clients that have seen an error.
    failed: AtomicUsize,
}

/// Asks through errors until it is denied.
async fn loader(service: SocketAddr, load: Arc<Load>) {
    let mut client = Client::connect(service).await;
    let mut has_failed = false;
    loop {
        match ask(&mut client, "load").await {
            Ok((Code::Ok, _)) => {
                load.passed.fetch_add(1, Ordering::SeqCst);
                let after = load.allowed.load(Ordering::SeqCst);
                load.passed_after
                    .fetch_add(usize::from(after), Ordering::SeqCst);
            }
            Ok(_) => return,
            Err(_) => {
                load.failed
                    .fetch_add(usize::from(!has_failed), Ordering::SeqCst);
                has_failed = true;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// Begins to ask, and returns when some have passed.
async fn under_load(service: &Service) -> (Arc<Load>, Vec<JoinHandle<()>>) {
    let load = Arc::new(Load::default());
    let grpc = service.server().grpc_addr().expect("TCP");
    let loaders: Vec<_> = (0..LOADERS)
        .map(|_| tokio::spawn(loader(grpc, load.clone())))
        .collect();
    wait_for("some pass", async || {
        load.passed.load(Ordering::SeqCst) >= PASSED_BEFORE
    })
    .await;
    (load, loaders)
}

async fn all_end(loaders: Vec<JoinHandle<()>>) {
    for loader in loaders {
        let ended = tokio::time::timeout(Duration::from_secs(180), loader).await;
        ended.expect("the limit is met").expect("no panic");
    }
}

/// What the replica counts of the limit of [`Load`].
fn counted(replica: &mut Control, cluster: bool) -> usize {
    if cluster {
        told(replica, &["READONLY"]);
    }
    let Value::Array(keys) = told(replica, &["KEYS", "rl:*load*"]) else {
        panic!("keys are an array")
    };
    let [key] = &keys[..] else {
        panic!("one counter: {keys:?}")
    };
    let value = text(&told(replica, &["GET", &text(key)]));
    let count = value.split(':').next().and_then(|count| count.parse().ok());
    count.unwrap_or_else(|| panic!("no count: {value}"))
}

/// A master that is killed amid requests: at most what it had not sent to its replica passes once more.
async fn at_most_what_was_not_sent_passes_twice(mut pair: Pair) {
    let service = pair.service(None);
    let (load, loaders) = under_load(&service).await;
    pair.kill_the_master();
    // Then no answer of the old master is on its way any more.
    wait_for("everybody hears of it", async || {
        load.failed.load(Ordering::SeqCst) == LOADERS
    })
    .await;
    let passed = load.passed.load(Ordering::SeqCst);
    let mut replica = pair.replica();
    wait_for("the replica has read all there is", async || {
        text(&told(&mut replica, &["INFO", "replication"])).contains("master_link_status:down")
    })
    .await;
    let kept = counted(&mut replica, matches!(pair, Pair::Cluster { .. }));
    load.allowed.store(true, Ordering::SeqCst);
    pair.allow_failover();
    all_end(loaders).await;
    let after = load.passed_after.load(Ordering::SeqCst);
    assert_eq!(
        load.passed.load(Ordering::SeqCst),
        passed + after,
        "nothing passes without a master"
    );
    assert!(after > 0, "the service decides again by itself");
    assert!(
        after <= LOAD_LIMIT - kept,
        "{after} passed where {kept} of {LOAD_LIMIT} were known"
    );
    // Not sent: admitted by the old master and unknown to its replica.
    let not_sent = passed.saturating_sub(kept);
    assert!(passed + after <= LOAD_LIMIT + not_sent);
}

fn skipped<T>(test: &str, started: Option<T>) -> Option<T> {
    if started.is_none() {
        peers::skip(test, "redis-server");
    }
    started
}

#[tokio::test]
async fn a_sentinel_failover_keeps_every_algorithm() {
    let test = "a_sentinel_failover_keeps_every_algorithm";
    if let Some(pair) = skipped(test, Pair::watched(None).await) {
        every_algorithm_is_counted_on(pair, None).await;
    }
}

/// An operator lets the master change places while the old one is well, and it goes on as one: here it refuses for ever to
/// become a replica. Sentinels tell the service at once, and nothing else does.
#[tokio::test]
async fn the_service_goes_with_the_master_that_sentinels_name() {
    let test = "the_service_goes_with_the_master_that_sentinels_name";
    let refuses = [
        "--rename-command",
        "REPLICAOF",
        "",
        "--rename-command",
        "SLAVEOF",
        "",
    ];
    let Some(pair) = skipped(test, Pair::watched_with(None, &refuses).await) else {
        return;
    };
    let Pair::Watched { sentinel, .. } = &pair else {
        panic!("Sentinels watch it");
    };
    let service = pair.service(None);
    let mut client = service.client().await;
    ask(&mut client, "load").await.expect("an answer");
    pair.is_in_step();
    pair.allow_failover();
    wait_for("it may be promoted", async || {
        sentinel.ask(&["SENTINEL", "FAILOVER", "main"]) == Some(Value::Simple(b"OK".to_vec()))
    })
    .await;
    let is_master = |node: &mut Control| {
        format!("{:?}", told(node, &["ROLE"])).contains(&format!("{:?}", b"master"))
    };
    wait_for("it is promoted", async || is_master(&mut pair.replica())).await;
    let before = counted(&mut pair.replica(), false);
    wait_for("the new master counts", async || {
        ask(&mut client, "load").await.expect("no request is lost");
        counted(&mut pair.replica(), false) > before
    })
    .await;
    assert!(is_master(&mut pair.master()), "it refuses to follow");
}

/// Between the promotion of a replica and the Sentinel's word that it is the master about a second passes, in which the old one would
/// count what is lost. Here that word never comes, because the Sentinel cannot see what the replica is.
#[tokio::test]
async fn the_service_goes_with_a_replica_as_it_is_promoted() {
    let test = "the_service_goes_with_a_replica_as_it_is_promoted";
    let Some(pair) = skipped(test, Pair::watched(None).await) else {
        return;
    };
    let Pair::Watched { sentinel, .. } = &pair else {
        panic!("Sentinels watch it");
    };
    let service = pair.service(None);
    let mut client = service.client().await;
    ask(&mut client, "load").await.expect("an answer");
    pair.is_in_step();
    pair.allow_failover();
    let named = || sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"]);
    let before = named();
    // Known first as one that may be promoted, which INFO tells.
    wait_for("it may be promoted", async || sentinel.may_promote()).await;
    told(&mut pair.replica(), &["ACL", "SETUSER", "default", "-info"]);
    let told = sentinel.ask(&["SENTINEL", "FAILOVER", "main"]);
    assert_eq!(told, Some(Value::Simple(b"OK".to_vec())));
    // Its clients are disconnected then.
    wait_for("it is promoted", async || {
        let role = pair.replica().call(&["ROLE"]);
        role.is_ok_and(|role| format!("{role:?}").contains(&format!("{:?}", b"master")))
    })
    .await;
    let mut replica = pair.replica();
    let counts = counted(&mut replica, false);
    wait_for("the promoted one counts", async || {
        ask(&mut client, "load").await.expect("no request is lost");
        counted(&mut replica, false) > counts
    })
    .await;
    assert_eq!(named(), before, "no Sentinel names it");
}

#[tokio::test]
async fn a_sentinel_failover_keeps_every_algorithm_over_tls() {
    let test = "a_sentinel_failover_keeps_every_algorithm_over_tls";
    let tls = Tls::new();
    if let Some(pair) = skipped(test, Pair::watched(Some(&tls)).await) {
        every_algorithm_is_counted_on(pair, Some(&tls)).await;
    }
}

#[tokio::test]
async fn a_cluster_failover_keeps_every_algorithm() {
    let test = "a_cluster_failover_keeps_every_algorithm";
    if let Some(pair) = skipped(test, Pair::cluster(None)) {
        every_algorithm_is_counted_on(pair, None).await;
    }
}

#[tokio::test]
async fn a_cluster_failover_keeps_every_algorithm_over_tls() {
    let test = "a_cluster_failover_keeps_every_algorithm_over_tls";
    let tls = Tls::new();
    if let Some(pair) = skipped(test, Pair::cluster(Some(&tls))) {
        every_algorithm_is_counted_on(pair, Some(&tls)).await;
    }
}

#[tokio::test]
async fn a_sentinel_failover_under_load_loses_only_what_was_not_sent() {
    let test = "a_sentinel_failover_under_load_loses_only_what_was_not_sent";
    if let Some(pair) = skipped(test, Pair::watched(None).await) {
        at_most_what_was_not_sent_passes_twice(pair).await;
    }
}

#[tokio::test]
async fn a_cluster_failover_under_load_loses_only_what_was_not_sent() {
    let test = "a_cluster_failover_under_load_loses_only_what_was_not_sent";
    if let Some(pair) = skipped(test, Pair::cluster(None)) {
        at_most_what_was_not_sent_passes_twice(pair).await;
    }
}

/// Each decision waits for the replica, for half of the time that it may take; longer than a busy machine stands still.
fn wait_for_the_replica(store: &mut StoreConfig) {
    store.wait_replicas = 1;
    store.timeout = Duration::from_secs(6);
}

/// A service that waits for the replica admits no request that the replica does not know of.
#[tokio::test]
async fn what_the_replica_has_not_heard_of_is_not_admitted() {
    let test = "what_the_replica_has_not_heard_of_is_not_admitted";
    let Some(pair) = skipped(test, Pair::watched(None).await) else {
        return;
    };
    pair.is_in_step();
    let service = pair.service_with(None, wait_for_the_replica);
    let mut client = service.client().await;
    assert_eq!(ask(&mut client, "closed").await, Ok((Code::Ok, None)));
    // One that is no replica any more, which its master does not know yet.
    told(&mut pair.replica(), &["REPLICAOF", "NO", "ONE"]);
    let by = Ok((Code::OverLimit, Some("closed".to_owned())));
    assert_eq!(ask(&mut client, "closed").await, by);
    let error = ask(&mut client, "error")
        .await
        .expect_err("too few have it");
    assert!(error.contains("0 of 1 replicas"), "{error}");
    let rules = "domain: test\ndescriptors:\n  - {key: closed, rate_limit: {unit: year, requests_per_unit: 9}}\n";
    let shared = Service::on_store(&pair.url(false), rules, |config| {
        config.envoy_counters = Some(EnvoyCounters::default());
        wait_for_the_replica(&mut config.store);
    });
    let error = ask(&mut shared.client().await, "closed").await;
    let error = error.expect_err("too few have it");
    assert!(error.contains("0 of 1 replicas"), "{error}");
    let port = pair.master().call(&["CONFIG", "GET", "port"]);
    let Ok(Value::Array(port)) = port else {
        panic!("{port:?}");
    };
    let port = text(&port[1]);
    told(&mut pair.replica(), &["REPLICAOF", "127.0.0.1", &port]);
    decides_again(&service).await;
}

/// An operator lets the master change places under load: where the service waits for the replica, no request too many passes.
#[tokio::test]
async fn a_failover_on_demand_is_exact_where_the_replica_is_waited_for() {
    let test = "a_failover_on_demand_is_exact_where_the_replica_is_waited_for";
    let Some(pair) = skipped(test, Pair::watched(None).await) else {
        return;
    };
    let Pair::Watched { sentinel, .. } = &pair else {
        panic!("Sentinels watch it");
    };
    pair.allow_failover();
    wait_for("it may be promoted", async || sentinel.may_promote()).await;
    pair.is_in_step();
    let service = pair.service_with(None, wait_for_the_replica);
    let (load, loaders) = under_load(&service).await;
    let reply = sentinel.ask(&["SENTINEL", "FAILOVER", "main"]);
    assert_eq!(reply, Some(Value::Simple(b"OK".to_vec())));
    all_end(loaders).await;
    let passed = load.passed.load(Ordering::SeqCst);
    assert!(passed <= LOAD_LIMIT, "{passed} passed");
    let mut replica = pair.replica();
    wait_for("it was promoted", async || {
        format!("{:?}", told(&mut replica, &["ROLE"])).contains(&format!("{:?}", b"master"))
    })
    .await;
}

/// TLS is verified on the way to Sentinels and to nodes, and servers ask for the service's certificate.
#[tokio::test]
async fn other_authorities_are_trusted_by_nobody() {
    let tls = Tls::new();
    let test = "other_authorities_are_trusted_by_nobody";
    let Some(watched) = skipped(test, Pair::watched(Some(&tls)).await) else {
        return;
    };
    let cluster = skipped(test, Pair::cluster(Some(&tls))).expect("it was there before");
    for pair in [&watched, &cluster] {
        for (authority, own) in [("own", true), ("store", false)] {
            let service = Service::on_store(&pair.url(true), &rules(), |config| {
                config.store = tls.store_config();
                config.store.tls_authority = Some(tls.files.path(authority, "ca"));
                if !own {
                    (config.store.tls_certificate, config.store.tls_key) = (None, None);
                }
            });
            let error = ask(&mut service.client().await, "gcra")
                .await
                .expect_err("it is refused");
            assert!(error.contains("rate limit backend: "), "{error}");
        }
    }
}
