//! What stands under the options in the help: examples and exit codes.

/// Of the main run; the variables of the environment follow.
pub(super) const BENCH: &str = "\
Examples:
  tollgate bench                                      all systems installed, three scenarios, about three minutes
  tollgate bench --only tollgate,redis-server --starts 5
                                                      five fresh starts each: differences that can be claimed
  tollgate bench --target mine=redis://127.0.0.1:6379 --op get,set --ladder 10000:50000:10000 --step 10s
                                                      a server that runs already, at rates of your own
  tollgate bench --target edge=http://127.0.0.1:8080/check --http-header 'x-user: {key}' --keys 1000 --dist zipf:1.1
                                                      any HTTP endpoint that answers 200 or 429
  tollgate bench report results/latest --format all   every form of the last run: page, Markdown, CSV, alerts, .hlog

Exit codes: 0 measured, 1 error or partial, 3 measured but invalid by the run's own rules.
";

pub(super) const CAPACITY: &str = "\
Examples:
  tollgate bench capacity                             all systems installed, 100 keys, a second per trial
  tollgate bench capacity --only tollgate --step 60s --width 2
                                                      as long and as narrow as a published figure needs
  tollgate bench capacity --target svc=grpc://127.0.0.1:8081 --profile bench --goals slo,ndr
                                                      a service behind a proxy; it needs the rules of 'tollgate bench rules'
";

pub(super) const RECOVERY: &str = "\
Examples:
  tollgate bench recovery --only tollgate,redis-server --op script
  tollgate bench recovery --only tollgate-grpc --retries 0,3 --deadlines 100ms,1s,inf --phase 60s,30s,120s
";

pub(super) const COMPARE: &str = "\
Examples:
  tollgate bench compare tollgate redis-server                       CPU per request, in interleaved slices
  tollgate bench compare tollgate-grpc throttlecrab-grpc             decisions, and goodput past saturation
  tollgate bench compare results/20260101_120000 results/latest      two stored runs, with a test of significance

Exit codes: 0 compared, 1 error or partial, 3 invalid by its own rules.
";

pub(super) const GATE: &str = "\
Example, in CI (exit code 0 passed, 1 error, 2 failed, 3 not to be judged):
  tollgate bench noise                                               once per machine: how much a figure moves by itself
  tollgate bench --only tollgate --starts 5 --out results
  tollgate bench gate results/latest --baseline baseline --max-regression 5%
";

pub(super) const REPORT: &str = "\
Examples:
  tollgate bench report                                              the last run again: page, Markdown, CSV
  tollgate bench report results/latest --format prometheus,grafana --job ratelimit
                                                                     alerts and dashboard with the measured capacity
  tollgate bench report results --trends --lang vi                   how figures moved over all runs there, in Vietnamese
  tollgate bench report --from report.html --format json --out .     the record out of a page
";

pub(super) const PAPER: &str = "\
Examples:
  tollgate bench paper 000 --replay                                  the study's rows judged again, without measuring
  tollgate bench paper 000 --only redis-server,tollgate --step 2s    its ladders, shortened and marked so
  tollgate bench paper 004                                           its redis-benchmark command lines
";

pub(super) const MIGRATE: &str = "\
Example:
  tollgate bench migrate --from redis --to tollgate --run results/latest
";
