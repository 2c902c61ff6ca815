//! What stands under the options in the help: examples and exit codes, in lines that are not broken.

/// Of the main run; the variables of the environment follow.
pub(super) const BENCH: &str = "\
Examples:
  # all systems installed, three scenarios, about three minutes
  tollgate bench
  # five fresh starts each: differences that can be claimed
  tollgate bench --only tollgate,redis-server --starts 5
  # a server that runs already, at rates of your own
  tollgate bench --target mine=redis://127.0.0.1:6379 --op get,set --ladder 10000:50000:10000
  # any HTTP endpoint that answers 200 or 429
  tollgate bench --target edge=http://127.0.0.1:8080/check --http-header 'x-user: {key}' --keys 1000
  # every form of the last run: page, Markdown, CSV, alerts, .hlog, .hgrm, Bencher's JSON
  tollgate bench report results/latest --format all

Exit codes: 0 measured, 1 error or partial, 3 measured but invalid by the run's own rules.
";

pub(super) const CAPACITY: &str = "\
Examples:
  # all systems installed, 100 keys, a second per trial
  tollgate bench capacity
  # as long and as narrow as a published figure needs
  tollgate bench capacity --only tollgate --step 60s --width 2
  # a service behind a proxy; it needs the rules that 'tollgate bench rules' prints
  tollgate bench capacity --target svc=grpc://127.0.0.1:8081 --profile bench --goals slo,ndr
";

pub(super) const RECOVERY: &str = "\
Examples:
  tollgate bench recovery --only tollgate,redis-server --op script
  # phases as long as a report wants them
  tollgate bench recovery --only tollgate-grpc --retries 0,3 --phase 60s,30s,120s
";

pub(super) const MITIGATIONS: &str = "\
Examples:
  # all strategies, two services on one redis-server, 90 % of the load on one key
  tollgate bench mitigations
  # the same with five fresh starts of everything: differences that can be claimed
  tollgate bench mitigations --starts 5 --rounds 1
  # three services on Tollgate's own store, some strategies
  tollgate bench mitigations --store tollgate --services 3 --strategies exact,local:20,shards:4
  # a service of your own beside them, held to its limits, with what 'bench rules' prints
  tollgate bench mitigations --strategies exact --target mine=grpc://127.0.0.1:8081
";

pub(super) const COMPARE: &str = "\
Examples:
  # CPU per request, in interleaved slices
  tollgate bench compare tollgate redis-server
  # one program under two settings, which the record keeps
  tollgate bench compare tollgate tollgate --server-args 'b=--io-backend epoll'
  # decisions of two services, and goodput past saturation
  tollgate bench compare tollgate-grpc throttlecrab-grpc
  # two stored runs, with a test of significance
  tollgate bench compare results/20260101_120000 results/latest

Exit codes: 0 compared, 1 error or partial, 3 invalid by its own rules.
";

pub(super) const GATE: &str = "\
Example, in CI (exit code 0 passed, 1 error, 2 failed, 3 not to be judged):
  # once per machine: how much a figure moves by itself
  tollgate bench noise
  tollgate bench --only tollgate --starts 5
  tollgate bench gate results/latest --baseline baseline --max-regression 5% --html gate.html
";

pub(super) const REPORT: &str = "\
Examples:
  # the last run again: page, Markdown, CSV
  tollgate bench report
  # alerts and a dashboard with the measured capacity
  tollgate bench report results/latest --format prometheus,grafana --job ratelimit
  # how figures moved over all runs there, in Vietnamese
  tollgate bench report results --trends --lang vi
  # the record out of a page
  tollgate bench report --from report.html --format json --out .
";

pub(super) const PAPER: &str = "\
Examples:
  # the study's rows judged again, without measuring
  tollgate bench paper 000 --replay
  # its ladders, shortened and marked so
  tollgate bench paper 000 --only redis-server,tollgate --step 2s
  # five fresh starts of each, with medians and intervals
  tollgate bench paper 000 --only redis-server,tollgate --step 2s --starts 5
  # its redis-benchmark command lines
  tollgate bench paper 004
";

pub(super) const RAW: &str = "\
Examples:
  # every request of a short run, one line each
  tollgate bench --only tollgate --ladder 2000 --step 5s --raw
  tollgate bench raw results/latest --out requests.csv
  # one in a hundred of a long one; the first step on standard output
  tollgate bench --only tollgate --step 60s --raw=100
  tollgate bench raw results/latest --step 1
";

pub(super) const MIGRATE: &str = "\
Example:
  tollgate bench migrate --from redis --to tollgate --run results/latest
";

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command};

    use super::*;

    const TEXTS: [&str; 10] = [
        BENCH,
        CAPACITY,
        RECOVERY,
        MITIGATIONS,
        COMPARE,
        GATE,
        REPORT,
        PAPER,
        RAW,
        MIGRATE,
    ];
    /// A line that is broken is no command to copy.
    const WIDTH: usize = 100;

    #[test]
    fn lines_are_short_enough_to_stay_whole() {
        for line in TEXTS.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    /// The words of a command line; quotes hold several together.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut open, mut quoted) = (Vec::new(), None::<String>, false);
        for c in line.chars() {
            match c {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.extend(open.take()),
                c => open.get_or_insert_default().push(c),
            }
        }
        words.extend(open);
        words
    }

    #[test]
    fn every_example_is_a_command_line() {
        let lines = TEXTS.iter().flat_map(|text| text.lines());
        let commands = lines.filter_map(|line| line.trim().strip_prefix("tollgate "));
        let mut count = 0;
        for line in commands {
            let bench = crate::cli::BenchArgs::augment_args(Command::new("bench"));
            let read = bench.try_get_matches_from(words(line));
            assert!(read.is_ok(), "{line}: {}", read.unwrap_err());
            count += 1;
        }
        assert_eq!(count, 34);
    }
}
