//! A RESP store under test: started or found, asked who it is and what it can do.

use std::time::{Duration, Instant};

use tollgate_wire::resp::Value;

use super::child::ServerProcess;
use super::client::Client;
use super::further::Further;
use super::program::Program;
use super::url::TargetUrl;
use super::{Way, remains, started};
use crate::load::address::Endpoint;
use crate::load::operation::{self, Op};
use crate::load::tally::Verdict;
use crate::load::workload::{Ask, FIXED_WINDOW_SCRIPT, Rule, Workload};
use crate::os::proc;
use crate::record::{Setting, TargetKind, TargetRecord};

/// Slots of a cluster.
const SLOTS: u32 = 16_384;
/// Longest wait for a cluster of one node. Redis lets two seconds pass before it is up.
const CLUSTER_PATIENCE: Duration = Duration::from_secs(20);
/// Key on which operations are tried out.
const PROBE_KEY: &str = "tollgate-bench-probe:";
/// Limit under which they are.
const PROBE_RULE: Rule = Rule {
    limit: 10,
    window_s: 60,
};

/// Settings recorded because they decide whether a comparison is fair.
const SETTINGS: [&str; 6] = [
    "save",
    "appendonly",
    "appendfsync",
    "maxmemory",
    "maxmemory-policy",
    "io-threads",
];

/// Fields of `INFO server` that say nothing of what was measured: times, ids, and where files lie.
const PASSING: [&str; 12] = [
    "run_id",
    "process_id",
    "tcp_port",
    "server_time_usec",
    "uptime_in_seconds",
    "uptime_in_days",
    "lru_clock",
    "executable",
    "config_file",
    "availability_zone",
    "server_time_in_usec",
    "listener0",
];
/// Most of them that are kept.
const INFO_FIELDS_MAX: usize = 60;
/// Longest value that is kept, in characters.
const INFO_VALUE_MAX: usize = 200;

/// Loads the script that all stores run alike.
const LOAD_SCRIPT: [&[u8]; 3] = [b"SCRIPT", b"LOAD", FIXED_WINDOW_SCRIPT.as_bytes()];

/// A store ready to be measured.
#[derive(Debug)]
pub struct Store {
    /// How it appears in the report.
    pub record: TargetRecord,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its process, when it runs on this machine.
    pub pid: Option<u32>,
    /// Keys that it held when it was found; `None` if it was started here, or does not tell.
    pub keys_before: Option<u64>,
    process: Option<ServerProcess>,
    has_take: bool,
    has_throttle: bool,
    script: Option<String>,
    /// Operations chosen by name, with the SHA-1 of their scripts.
    chosen: Option<Vec<(Op, Option<String>)>>,
}

impl Store {
    /// Starts `program` with `threads` threads, on processor `core` if one is given.
    pub fn start(program: Program, threads: u32, core: Option<usize>) -> Result<Store, String> {
        Store::start_with(program, threads, core, &Further::default())
    }

    /// The same with `further` settings.
    pub(crate) fn start_with(
        program: Program,
        threads: u32,
        core: Option<usize>,
        further: &Further,
    ) -> Result<Store, String> {
        let started = started::start(program, threads, core, further, answers)?;
        let pid = started.process.pid();
        Store::ask_around(
            started.record,
            started.endpoint,
            Some(pid),
            Some(started.process),
        )
    }

    /// Takes a store that is running already.
    pub fn attach(url: &TargetUrl) -> Result<Store, String> {
        let mut client = Client::connect(&url.endpoint)?;
        // First, so that a server that says nothing is found out by one question.
        client.ask(&[b"PING"])?;
        let local = url.endpoint.address.is_local();
        let pid = match client.info("server") {
            Ok(facts) if local => fact(&facts, "process_id").and_then(|text| text.parse().ok()),
            _ => None,
        };
        // A process id from inside a container names some other process here, or none.
        let pid = pid.filter(|pid| proc::cpu_ns(*pid).is_some());
        let record = TargetRecord {
            name: url.name.clone(),
            url: url.shown.clone(),
            co_located: local,
            idle_rss_bytes: pid.and_then(proc::rss_bytes),
            ..TargetRecord::default()
        };
        let keys_before = match client.call(&[b"DBSIZE"]) {
            Ok(Value::Int(keys)) => u64::try_from(keys).ok(),
            _ => None,
        };
        let mut store = Store::ask_around(record, url.endpoint.clone(), pid, None)?;
        store.keys_before = keys_before;
        Ok(store)
    }

    /// Deletes all that it holds, in all of its databases.
    ///
    /// # Errors
    /// If it cannot, or may not.
    pub(crate) fn flush(&mut self) -> Result<(), String> {
        Client::connect(&self.endpoint)?.ask(&[b"FLUSHALL"])?;
        self.keys_before = self.keys_before.map(|_| 0);
        // Some stores forget their scripts with their keys.
        self.load_again()
    }

    /// Deletes keys by their names.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub(crate) fn delete(&self, keys: &[String]) -> Result<u64, String> {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        remains::delete(&mut Client::connect(&self.endpoint)?, &keys)
    }

    fn ask_around(
        mut record: TargetRecord,
        endpoint: Endpoint,
        pid: Option<u32>,
        process: Option<ServerProcess>,
    ) -> Result<Store, String> {
        let mut client = Client::connect(&endpoint)?;
        record.kind = TargetKind::Store;
        let facts = client.info("server").unwrap_or_default();
        record.info_server = told(&facts);
        name_server(&mut record, &facts);
        for name in SETTINGS {
            let Ok(reply) = client.ask(&[b"CONFIG", b"GET", name.as_bytes()]) else {
                continue;
            };
            if let Some([_, value]) = reply
                .as_array()
                .map(|pair| pair.get(..2).unwrap_or_default())
            {
                let value =
                    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned();
                record.settings.push(Setting {
                    name: name.into(),
                    value,
                });
            }
        }
        if record.server_name == "dragonfly" {
            memory_as_others_tell_it(&mut record, proc::memory_bytes());
        }
        let script = client
            .ask(&LOAD_SCRIPT)
            .ok()
            .and_then(|sha| Some(String::from_utf8_lossy(sha.as_bytes()?).into_owned()));
        let (has_take, has_throttle) = (
            client.has_command("RL.TAKE"),
            client.has_command("CL.THROTTLE"),
        );
        // Last, so that a server whose answers do not fit its questions is found out before it is measured.
        if client.ask(&[b"PING"])?.as_bytes() != Some(b"PONG") {
            return Err("it does not answer PING with PONG: is it a RESP store?".into());
        }
        Ok(Store {
            record,
            endpoint,
            pid,
            keys_before: None,
            process,
            has_take,
            has_throttle,
            script,
            chosen: None,
        })
    }

    /// Makes a node of a cluster serve all slots, if it serves none yet, and waits until it does.
    pub(crate) fn serve_all_slots(&mut self) -> Result<(), String> {
        let mut client = Client::connect(&self.endpoint)?;
        if cluster_is_up(&mut client)? {
            return Ok(());
        }
        let last = SLOTS - 1;
        let range = client.call(&[
            b"CLUSTER",
            b"ADDSLOTSRANGE",
            b"0",
            last.to_string().as_bytes(),
        ])?;
        if range.as_error().is_some() {
            // Older than the command for ranges.
            let slots: Vec<String> = (0..SLOTS).map(|slot| slot.to_string()).collect();
            let mut words: Vec<&[u8]> = vec![b"CLUSTER", b"ADDSLOTS"];
            words.extend(slots.iter().map(String::as_bytes));
            client.ask(&words)?;
        }
        let asked = Instant::now();
        while !cluster_is_up(&mut client)? {
            if asked.elapsed() > CLUSTER_PATIENCE {
                return Err("its cluster of one node did not come up".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Asks for `ops` from now on instead of what the store does best. Each is tried once on a key of its own; returns
    /// those that the store cannot do, with its reason.
    pub fn choose(&mut self, ops: &[Op]) -> Result<Vec<(Op, String)>, String> {
        let mut client = Client::connect(&self.endpoint)?;
        let (mut chosen, mut missing) = (Vec::new(), Vec::new());
        for (at, &op) in ops.iter().enumerate() {
            if ops[..at].contains(&op) {
                continue;
            }
            match self.try_out(op, &mut client) {
                Ok(sha) => chosen.push((op, sha)),
                Err(why) => missing.push((op, why)),
            }
        }
        self.chosen = Some(chosen);
        Ok(missing)
    }

    /// Asks once; returns the SHA-1 of the script, if there is one.
    fn try_out(&self, op: Op, client: &mut Client) -> Result<Option<String>, String> {
        let row = match op {
            Op::Native if self.has_native() => return Ok(None),
            Op::Native => return Err("it has no rate limit command of its own".into()),
            Op::Script if self.script.is_some() => return Ok(None),
            Op::Script => return Err("it does not run scripts".into()),
            Op::Command(_) => None,
            Op::Decide(row) => Some(row),
        };
        let mut sha = None;
        if let Some(words) = row.and_then(operation::Operation::preparation) {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let answer = client.ask(&words)?;
            sha = Some(String::from_utf8_lossy(answer.as_bytes().unwrap_or_default()).into_owned());
        }
        let ask = self
            .render(op, sha.as_deref(), PROBE_RULE)
            .ok_or("it is asked of memcached only")?;
        let key = format!("{PROBE_KEY}{}:", std::process::id());
        let workload = Workload::render(&ask, &key, 1);
        let frame = client.ask_rendered(workload.request(0))?;
        let verdict = workload.verdict(&frame);
        let cleaned = client.call(&[b"DEL", format!("{key}0").as_bytes()]);
        match verdict {
            Verdict::Allowed | Verdict::Denied => cleaned.map(|_| sha),
            Verdict::Error | Verdict::Unexpected => {
                let text = String::from_utf8_lossy(&frame);
                let line: String = text
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .chars()
                    .take(200)
                    .collect();
                Err(format!("it answers {line:?}"))
            }
        }
    }

    /// What is asked for `op`; `None` where it is not an operation of RESP stores.
    fn render(&self, op: Op, sha: Option<&str>, rule: Rule) -> Option<Ask> {
        match op {
            Op::Native => self.native(rule),
            Op::Script => self.scripted(rule),
            Op::Decide(row) => Some(row.ask(rule, sha)),
            Op::Command(name) => operation::command(name),
        }
    }

    /// The ways in which it is asked: those chosen, or its own command and the script.
    #[must_use]
    pub(crate) fn ways(&self) -> Vec<Way> {
        if let Some(chosen) = &self.chosen {
            return chosen.iter().map(|(op, _)| Way::of(*op)).collect();
        }
        let mut ways = Vec::new();
        if self.has_native() {
            ways.push(Way::Native);
        }
        if self.script.is_some() {
            ways.push(Way::Script);
        }
        ways
    }

    /// What is asked in a way chosen by name.
    #[must_use]
    pub(crate) fn chosen(&self, op: Op, rule: Rule) -> Option<Ask> {
        let chosen = self.chosen.as_deref().unwrap_or_default();
        let (_, sha) = chosen.iter().find(|(other, _)| *other == op)?;
        self.render(op, sha.as_deref(), rule)
    }

    /// The fastest decision that the server offers.
    #[must_use]
    pub(crate) fn native(&self, rule: Rule) -> Option<Ask> {
        if self.has_take {
            Some(Ask::RlTake(rule))
        } else if self.has_throttle {
            Some(Ask::ClThrottle(rule))
        } else {
            self.scripted(rule)
        }
    }

    /// The script that all stores run alike.
    #[must_use]
    pub(crate) fn scripted(&self, rule: Rule) -> Option<Ask> {
        self.script.clone().map(|sha| Ask::Evalsha { sha, rule })
    }

    /// Whether [`Store::native`] is something else than the script.
    #[must_use]
    pub(crate) fn has_native(&self) -> bool {
        self.has_take || self.has_throttle
    }

    /// Its process, if it was started here: whoever takes it ends it.
    pub(super) fn take_process(&mut self) -> Option<ServerProcess> {
        self.process.take()
    }

    /// Starts it anew in place of the process that was started here, with the scripts that it had. `None` if it was not.
    pub(crate) fn restart(&mut self) -> Option<Result<(), String>> {
        let process = self.process.as_mut()?;
        let endpoint = &self.endpoint;
        let done = process.restart(|| answers(endpoint));
        self.pid = Some(process.pid());
        Some(done.and_then(|()| self.load_again()))
    }

    fn load_again(&mut self) -> Result<(), String> {
        if self.script.is_some() {
            Client::connect(&self.endpoint)?.ask(&LOAD_SCRIPT)?;
        }
        let chosen = self.chosen.take().unwrap_or_default();
        if chosen.is_empty() {
            return Ok(());
        }
        let ops: Vec<Op> = chosen.iter().map(|(op, _)| *op).collect();
        match self.choose(&ops)?.first() {
            Some((_, why)) => Err(why.clone()),
            None => Ok(()),
        }
    }

    /// How the process ended, if it was started here and has ended.
    pub(crate) fn obituary(&mut self) -> Option<String> {
        self.process.as_mut().and_then(ServerProcess::obituary)
    }
}

/// Who the server says it is.
fn name_server(record: &mut TargetRecord, facts: &[(String, String)]) {
    let versions = [
        ("tollgate", "tollgate_version"),
        ("dragonfly", "dragonfly_version"),
        ("garnet", "garnet_version"),
        ("valkey", "valkey_version"),
        ("redis", "redis_version"),
    ];
    if let Some((name, version)) = versions
        .iter()
        .find_map(|(name, key)| Some((*name, fact(facts, key)?)))
    {
        record.server_name = name.into();
        record.server_version = version.into();
    }
    // It gives itself out as the release of Redis that it comes from; only the file it runs from tells.
    if fact(facts, "executable").is_some_and(|path| path.ends_with("keydb-server")) {
        record.server_name = "keydb".into();
    }
}

/// Whether a node serves its cluster.
fn cluster_is_up(client: &mut Client) -> Result<bool, String> {
    let told = client.ask(&[b"CLUSTER", b"INFO"])?;
    let text = String::from_utf8_lossy(told.as_bytes().unwrap_or_default()).into_owned();
    Ok(text.contains("cluster_state:ok"))
}

/// Share of the machine's memory from which on a limit that Dragonfly tells counts as the one that it takes by itself, which
/// is four fifths of what is free at its start. It bounds nothing that the machine does not bound.
const OWN_CHOICE: f64 = 0.4;

/// Writes Dragonfly's memory limit as other stores do: in bytes, and 0 where nobody set one.
fn memory_as_others_tell_it(record: &mut TargetRecord, machine_bytes: Option<u64>) {
    let started = record.started_by_bench;
    let asked = |word: &String| word.starts_with("--maxmemory");
    let given = record.command_line.iter().any(asked);
    for setting in &mut record.settings {
        if setting.name != "maxmemory" {
            continue;
        }
        let Some(bytes) = readable_bytes(&setting.value) else {
            continue;
        };
        let own = machine_bytes.is_some_and(|all| bytes as f64 >= OWN_CHOICE * all as f64);
        setting.value = match (started, given) {
            (true, false) => "0".into(),
            (false, _) if own => "0".into(),
            _ => bytes.to_string(),
        };
    }
}

/// `1073741824`, `1.00GiB` or `850.97MiB` as bytes.
fn readable_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let scale = match unit.to_ascii_lowercase().trim() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" => 1_024.0,
        "m" | "mb" | "mib" => 1_048_576.0,
        "g" | "gb" | "gib" => 1_073_741_824.0,
        "t" | "tb" | "tib" => 1_099_511_627_776.0,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * scale;
    (bytes.is_finite() && bytes >= 0.0).then_some(bytes as u64)
}

/// Whether a store answers there.
fn answers(endpoint: &Endpoint) -> bool {
    let pinged = Client::connect(endpoint).and_then(|mut client| client.ask(&[b"PING"]));
    pinged.is_ok()
}

/// The fields of `INFO server` that are kept: no times, which are different in every run, and no ids or places.
fn told(facts: &[(String, String)]) -> Vec<Setting> {
    let kept = facts
        .iter()
        .filter(|(name, _)| !PASSING.contains(&name.as_str()));
    let kept = kept.take(INFO_FIELDS_MAX);
    kept.map(|(name, value)| Setting {
        name: name.clone(),
        value: value.chars().take(INFO_VALUE_MAX).collect(),
    })
    .collect()
}

fn fact<'a>(facts: &'a [(String, String)], key: &str) -> Option<&'a str> {
    facts
        .iter()
        .find(|(name, _)| name == key)
        .map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_limit_that_nobody_set_is_none() {
        let told = |value: &str, words: &[&str], started: bool| {
            let mut record = TargetRecord {
                command_line: words.iter().map(|word| (*word).to_owned()).collect(),
                started_by_bench: started,
                settings: vec![Setting {
                    name: "maxmemory".into(),
                    value: value.into(),
                }],
                ..TargetRecord::default()
            };
            memory_as_others_tell_it(&mut record, Some(16 << 30));
            record.settings[0].value.clone()
        };
        assert_eq!(told("12.23GiB", &["dragonfly", "--port=1"], true), "0");
        let given = ["dragonfly", "--maxmemory=1gb"];
        assert_eq!(told("1.00GiB", &given, true), "1073741824");
        assert_eq!(told("12.23GiB", &[], false), "0");
        assert_eq!(told("2147483648", &[], false), "2147483648");
        assert_eq!(told("many", &[], false), "many");
    }
}
