//! What follows from the rows of a repeated study: its own summary beside ours, and what a run of commands comes to.

use super::texts;

texts! {
    ST_P6 = "P6: the study's own summary" | "P6: bảng tổng hợp của chính nghiên cứu";
    ST_IN_FLIGHT = "in flight" | "đang chờ";
    ST_ITEM = "item" | "mục";
    ST_REDIS = "Redis, printed" | "Redis, in trong bài";
    ST_DRAGONFLY = "Dragonfly, printed" | "Dragonfly, in trong bài";
    ST_GAIN = "printed gain" | "mức hơn in trong bài";
    ST_OWN_RULES = "all Good up to, by its own rules (Redis | Dragonfly)" | "mọi chỉ số Tốt đến, theo quy tắc của chính bài (Redis | Dragonfly)";
    ST_MAX = "Max RPS, {scenario}" | "RPS tối đa, {scenario}";
    ST_SAFE = "Safe RPS, {scenario}" | "RPS an toàn, {scenario}";
    ST_P99 = "P99 at {load}/s, {scenario}" | "P99 tại {load}/s, {scenario}";
    ST_FAILS = "Fail % from {load}/s on, {scenario}" | "Lỗi % từ {load}/s trở lên, {scenario}";
    ST_UNIFORM = "uniform" | "phân bố đều";
    ST_HOT = "hot key" | "khóa nóng";
    ST_SAME = "about the same" | "gần bằng nhau";
    ST_COLLAPSED = "COLLAPSED" | "SỤP ĐỔ";
    ST_AT_LEAST = "{load} or more" | "từ {load}";

    ST_EXECUTIVE = "Summary of the commands" | "Tóm tắt các lệnh";
    ST_SYSTEM = "system · generator" | "hệ thống · bộ phát";
    ST_TESTS = "tests" | "phép thử";
    ST_LEAST = "least /s" | "ít nhất /s";
    ST_MEDIAN = "median /s" | "trung vị /s";
    ST_MOST = "most /s" | "nhiều nhất /s";
    ST_SPREAD = "CV / MAD" | "CV / MAD";
    ST_TYPES = "By type, median /s" | "Theo kiểu, trung vị /s";
    ST_STRINGS = "strings" | "chuỗi";
    ST_LISTS = "lists" | "danh sách";
    ST_SETS = "sets" | "tập hợp";
    ST_HASHES = "hashes" | "bảng băm";
    ST_SORTED = "sorted sets" | "tập có thứ tự";
    ST_AGAINST = "Beside redis-server, measured here: {driver}" | "Bên cạnh redis-server, đo tại đây: {driver}";
    ST_TEST = "test" | "phép thử";
    ST_RATIO = "{name}, of redis-server" | "{name}, so với redis-server";
    ST_CLIENT_BOUND = "{name}: every test lies within {percent} % of the median whatever a command costs, which is the sign of a run that its generator bounds."
        | "{name}: mọi phép thử nằm trong {percent} % quanh trung vị bất kể lệnh tốn bao nhiêu, dấu hiệu bộ phát là điểm nghẽn.";
    ST_BEHIND = "{name} is behind redis-server by more than a tenth in: {tests}." | "{name} kém redis-server hơn một phần mười ở: {tests}.";
    ST_NOT_BEHIND = "{name} is behind redis-server by more than a tenth in no test." | "{name} không kém redis-server hơn một phần mười ở phép thử nào.";
    ST_GOAL = "The study's goal of 50,000/s: {name} reached it in {n} of {of} tests." | "Mục tiêu 50,000/s của bài: {name} đạt ở {n} trên {of} phép thử.";
}
