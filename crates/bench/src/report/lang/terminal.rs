//! Short column names of the terminal, where every character counts.

use super::texts;

texts! {
    T_TARGET = "target/s" | "mục tiêu";
    T_SENT = "sent" | "gửi";
    T_DONE = "done" | "xong";
    T_GOODPUT = "goodput" | "goodput";
    T_FAIL = "fail%" | "lỗi%";
    T_P50 = "p50 ms" | "p50 ms";
    T_P99 = "p99 ms" | "p99 ms";
    T_P999 = "p99.9" | "p99.9";
    T_LAG = "lag" | "trễ";
    T_GEN = "gen" | "sinh";
    T_SERVER = "server" | "server";
    T_US_OP = "us/op" | "us/op";
    T_ADMIT = "admit" | "qua";
    T_STATUS = "status" | "trạng thái";
    T_THROUGHPUT_AB = "throughput A/B" | "thông lượng A/B";
    T_P50_BA = "p50 B/A" | "p50 B/A";
    T_P99_BA = "p99 B/A" | "p99 B/A";
    T_CPU_BA = "server CPU B/A" | "CPU máy chủ B/A";
    T_LIVE_LAG = "lag" | "trễ gửi";
    T_LIVE_OPEN = "in flight" | "đang chờ";
    T_LIVE_FAILED = "failed" | "lỗi";
    T_SCREEN_SECONDS = "{n} s of load" | "{n} giây tải";
    T_SCREEN_LOGARITHMS = "logarithmic" | "thang log";
    T_SCREEN_ROWS = "measured" | "đã đo";
    T_SCREEN_REMARKS = "remarks" | "ghi chú";
    T_SCREEN_KEYS = "q stop and keep what was measured   ↑ ↓ scroll   End newest" | "q dừng và giữ phần đã đo   ↑ ↓ cuộn   End mới nhất";
    T_SCREEN_STOPPING = "stopping; what was measured is kept. Ctrl-C ends at once" | "đang dừng; phần đã đo được giữ. Ctrl-C kết thúc ngay";
    T_BUDGET = "budget" | "ngân sách";
    T_MET = "met" | "đạt";
    T_MISSED = "missed" | "hụt";
    T_NOT_JUDGED = "not judged" | "không xét";
    T_COMPARE_TITLE = "A = {a}, B = {b}: above 1 is in favour of A" | "A = {a}, B = {b}: trên 1 là A tốt hơn";
    T_MEMORY_LINE = "  {title}: A {a} B, B {b} B per record: {ratio}" | "  {title}: A {a} B, B {b} B mỗi bản ghi: {ratio}";
    T_OVERLOAD_LINE = "  {title}, deadline {deadline} ms: {name} can do {capacity}/s" | "  {title}, hạn {deadline} ms: {name} đạt {capacity}/s";
    T_OVERLOAD_INVALID = "not valid: the generator was {lag} ms late" | "không hợp lệ: bộ tạo tải trễ {lag} ms";
    T_OVERLOAD_STEP = "{load}x goodput {kept} of its peak, p99 {p99} ms of its decisions" | "{load}x goodput {kept} của đỉnh, p99 các quyết định {p99} ms";
}
