//! What a RESP store says of itself, before and after a step.

use std::collections::HashMap;

use crate::load::address::Endpoint;
use crate::record::attribution::{CommandUse, StoreAttribution};
use crate::target::client::Client;

/// Sections of INFO that are asked for.
const SECTIONS: [&str; 4] = ["memory", "stats", "clients", "commandstats"];
/// Commands listed, the most called ones.
const COMMANDS_MAX: usize = 8;
/// The bench's own question, not part of the load.
const OWN: &str = "info";

/// The store's counters at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Account {
    used_memory: Option<u64>,
    evicted_keys: Option<u64>,
    expired_keys: Option<u64>,
    connected_clients: Option<u64>,
    /// Calls and microseconds by command.
    commands: HashMap<String, (u64, Option<f64>)>,
}

/// Asks the store at `endpoint`; `None` if it cannot be asked, or knows no INFO.
pub(super) fn ask(endpoint: &Endpoint) -> Option<Account> {
    let mut client = Client::connect(endpoint).ok()?;
    let mut facts = Vec::new();
    for section in SECTIONS {
        // A store without one of the sections says what it has.
        facts.extend(client.info(section).unwrap_or_default());
    }
    (!facts.is_empty()).then(|| account(facts.iter().map(|(k, v)| (k.as_str(), v.as_str()))))
}

fn account<'a>(facts: impl Iterator<Item = (&'a str, &'a str)>) -> Account {
    let mut found = Account::default();
    for (name, value) in facts {
        let number = value.parse().ok();
        match name {
            "used_memory" => found.used_memory = number,
            "evicted_keys" => found.evicted_keys = number,
            "expired_keys" => found.expired_keys = number,
            "connected_clients" => found.connected_clients = number,
            _ => {
                if let Some((command, used)) = name
                    .strip_prefix("cmdstat_")
                    .and_then(|command| Some((command, command_use(value)?)))
                {
                    found.commands.insert(command.to_ascii_lowercase(), used);
                }
            }
        }
    }
    found
}

/// Calls and microseconds of `calls=3,usec=17,usec_per_call=5.67,...`.
fn command_use(value: &str) -> Option<(u64, Option<f64>)> {
    let field = |name: &str| {
        value
            .split(',')
            .filter_map(|pair| pair.split_once('='))
            .find_map(|(key, value)| (key == name).then_some(value))
    };
    let usec = field("usec").and_then(|text| text.parse::<f64>().ok());
    Some((
        field("calls")?.parse().ok()?,
        usec.filter(|usec| usec.is_finite() && *usec >= 0.0),
    ))
}

/// Growth between two accounts.
pub(super) fn between(before: &Account, after: &Account) -> StoreAttribution {
    let grown = |from: Option<u64>, to: Option<u64>| Some(to?.saturating_sub(from?));
    let mut commands: Vec<CommandUse> = after
        .commands
        .iter()
        .filter(|(name, _)| *name != OWN)
        .filter_map(|(name, (calls, usec))| {
            let (calls_before, usec_before) =
                before.commands.get(name).copied().unwrap_or((0, Some(0.0)));
            let calls = calls.saturating_sub(calls_before);
            let spent = usec.zip(usec_before).map(|(to, from)| (to - from).max(0.0));
            (calls > 0).then(|| CommandUse {
                name: name.clone(),
                calls,
                us_per_call: spent.map(|usec| usec / calls as f64),
            })
        })
        .collect();
    commands.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.name.cmp(&b.name)));
    commands.truncate(COMMANDS_MAX);
    StoreAttribution {
        used_memory_before_bytes: before.used_memory,
        used_memory_after_bytes: after.used_memory,
        evicted_keys: grown(before.evicted_keys, after.evicted_keys),
        expired_keys: grown(before.expired_keys, after.expired_keys),
        connected_clients: after.connected_clients,
        commands,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::proc_text::pairs;

    const BEFORE: &str = "# Memory\r\nused_memory:1000\r\nused_memory_human:1000B\r\n# Stats\r\nexpired_keys:1\r\nevicted_keys:0\r\n\
        # Commandstats\r\ncmdstat_evalsha:calls=10,usec=50,usec_per_call=5.00,rejected_calls=0,failed_calls=0\r\ncmdstat_info:calls=4,usec=1\r\n";
    const AFTER: &str = "used_memory:1500\r\nexpired_keys:4\r\nevicted_keys:2\r\nconnected_clients:51\r\n\
        cmdstat_evalsha:calls=110,usec=650,usec_per_call=5.9\r\ncmdstat_incr:calls=100,usec=20\r\ncmdstat_info:calls=8,usec=2\r\ncmdstat_config|get:calls=x\r\n";

    #[test]
    fn growth_over_the_step_is_told() {
        let told = between(&account(pairs(BEFORE)), &account(pairs(AFTER)));
        assert_eq!(told.used_memory_before_bytes, Some(1000));
        assert_eq!(told.used_memory_after_bytes, Some(1500));
        assert_eq!((told.expired_keys, told.evicted_keys), (Some(3), Some(2)));
        assert_eq!(told.connected_clients, Some(51));
        let names: Vec<(&str, u64)> = told
            .commands
            .iter()
            .map(|used| (used.name.as_str(), used.calls))
            .collect();
        assert_eq!(names, [("evalsha", 100), ("incr", 100)]);
        assert_eq!(told.commands[0].us_per_call, Some(6.0));
        assert_eq!(told.commands[1].us_per_call, Some(0.2));
    }

    #[test]
    fn a_store_that_says_little_gives_little() {
        let odd = "used_memory:many\r\ncmdstat_get:calls=-1\r\ncmdstat_set:usec=1\r\ncmdstat_incr:calls=2,usec=NaN\r\n";
        let told = between(&Account::default(), &account(pairs(odd)));
        assert_eq!(told.used_memory_after_bytes, None);
        assert_eq!(told.evicted_keys, None);
        assert_eq!(told.commands.len(), 1);
        assert_eq!(
            (told.commands[0].calls, told.commands[0].us_per_call),
            (2, None)
        );
    }
}
