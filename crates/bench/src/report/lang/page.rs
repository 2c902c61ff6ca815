//! Headings, column names and explanations of the pages and tables.

use super::texts;

texts! {
    TITLE = "Tollgate bench" | "Tollgate bench";
    GRADE_VALID = "valid" | "hợp lệ";
    GRADE_INDICATIVE = "indicative" | "tham khảo";
    GRADE_INVALID = "invalid" | "không hợp lệ";
    COMPLETE = "complete" | "trọn vẹn";
    PARTIAL = "partial" | "chưa trọn vẹn";
    CO_LOCATED = "generator and targets on one machine" | "bộ sinh tải và đích đo trên cùng máy";
    THRESHOLDS_OF = "thresholds: {profile}" | "ngưỡng: {profile}";
    KIND_SERVICE = "service" | "dịch vụ";
    LEVEL_OK = "ok" | "đạt";
    LEVEL_NEAR_LIMIT = "near-limit" | "gần giới hạn";
    LEVEL_DEGRADED = "degraded" | "suy giảm";
    LEVEL_FAILED = "failed" | "thất bại";
    LEVEL_COLLAPSED = "collapsed" | "sụp đổ";
    LABEL_EXCELLENT = "Excellent" | "Xuất sắc";
    LABEL_GOOD = "Good" | "Tốt";
    LABEL_STABLE_LIMIT = "Stable Limit" | "Giới hạn ổn định";
    LABEL_NEAR_LIMIT = "Near Limit" | "Gần giới hạn";
    LABEL_DEGRADED = "Degraded" | "Suy giảm";
    LABEL_FAILED = "Failed" | "Thất bại";
    LABEL_COLLAPSED = "Collapsed" | "Sụp đổ";
    LABEL_DEAD = "Dead" | "Chết";

    VERDICT = "Verdict" | "Kết luận";
    SECTIONS = "Sections" | "Các phần";
    CARD_SUMMARY = "Summary" | "Tóm tắt";
    CARD_LADDER = "Ladders" | "Thang tải";
    CARD_THROUGHPUT = "Throughput" | "Thông lượng";
    CARD_LATENCY = "Latency against load" | "Độ trễ theo tải";
    CARD_PERCENTILES = "Percentiles" | "Phân vị";
    CARD_TIME = "Time series" | "Chuỗi thời gian";
    CARD_HEAT = "Latency heat map" | "Bản đồ nhiệt độ trễ";
    CARD_OVERLOAD = "Past the limit" | "Vượt giới hạn";
    CARD_ACCURACY = "Accuracy" | "Độ chính xác";
    CARD_STATISTICS = "Fresh starts" | "Các lần khởi động lại";
    CARD_BOTTLENECK = "Bottleneck and cost" | "Điểm nghẽn và chi phí";
    CARD_USL = "Scalability fit" | "Khớp mô hình mở rộng";
    CARD_SEARCH = "Capacity search" | "Tìm năng lực";
    CARD_PAPER = "Beside the paper" | "Bên cạnh nghiên cứu gốc";
    CARD_OPERATIONS = "Capacity, monitoring, migration" | "Năng lực, giám sát, di chuyển";
    CARD_EVENTS = "Events" | "Sự kiện";
    CARD_VALIDITY = "Validity" | "Tính hợp lệ";
    CARD_METHOD = "Method" | "Phương pháp";
    CARD_MANIFEST = "Manifest" | "Hồ sơ lần chạy";
    CARD_GLOSSARY = "Glossary" | "Thuật ngữ";
    CARD_COMPARE = "Comparison of runs" | "So sánh các lần chạy";
    CARD_TRENDS = "Trends" | "Xu hướng";

    H_TARGET = "target" | "đích đo";
    H_OPERATION = "operation" | "thao tác";
    H_CELL = "cell" | "ô đo";
    H_SCENARIO = "scenario" | "kịch bản";
    H_HELD = "held /s" | "giữ được /s";
    H_NOT_HELD = "not held /s" | "không giữ /s";
    H_SAFE = "safe /s" | "an toàn /s";
    H_KNEE = "knee /s" | "điểm gối /s";
    H_P50_P99 = "p50 / p99 ms" | "p50 / p99 ms";
    H_PEAK = "peak goodput /s" | "goodput đỉnh /s";
    H_MEMORY = "memory" | "bộ nhớ";
    H_OVER = "over-admission" | "cho qua vượt mức";
    H_SERVER_CPU_OP = "server CPU µs/op" | "CPU máy chủ µs/op";
    H_OFFERED_RPS = "target /s" | "mục tiêu /s";
    H_SENT = "sent /s" | "gửi /s";
    H_DONE = "done /s" | "xong /s";
    H_GOODPUT = "goodput /s" | "goodput /s";
    H_FAIL = "fail %" | "lỗi %";
    H_AVG = "avg ms" | "TB ms";
    H_MAX = "max ms" | "max ms";
    H_LAG = "lag ms" | "trễ gửi ms";
    H_GEN_CPU = "gen. CPU" | "CPU sinh tải";
    H_SERVER_CPU = "server CPU" | "CPU máy chủ";
    H_US_PER_OP = "µs/op" | "µs/op";
    H_ADMIT = "admit" | "tỉ lệ qua";
    H_STATUS = "status" | "trạng thái";
    H_LABEL = "label" | "nhãn";
    H_LIMIT = "limit" | "giới hạn";
    H_OFFERED = "offered" | "đã gửi đến";
    H_ADMITTED = "admitted" | "đã cho qua";
    H_ALLOWED = "allowed" | "được phép";
    H_IN_ALLOWED = "admitted in allowed" | "cho qua trong phần được phép";
    H_OVER_UNDER = "over / under %" | "thừa / thiếu %";
    H_WORST = "worst stretch" | "đoạn tệ nhất";
    H_UNKNOWN = "unknown" | "không rõ";
    H_FAIRNESS = "fairness" | "công bằng";
    H_METRIC = "metric" | "chỉ số";
    H_GOOD = "good" | "tốt";
    H_WARNING = "warning" | "cảnh báo";
    H_CRITICAL = "critical" | "nghiêm trọng";
    H_ACTION = "action" | "hành động";
    H_CLASS = "class" | "loại";
    H_RETENTION = "retention" | "mức giữ lại";
    NOT_THE_LIMIT = "not its limit: higher loads were answered" | "chưa phải giới hạn: tải cao hơn vẫn được trả lời";
    KNEE_FROM = "from {load}" | "từ {load}";
    NOT_PAST_KNEE = "not taken past its knee" | "chưa bị đẩy qua điểm gối";
    H_CLIFF = "cliff margin" | "khoảng cách đến vách";
    H_WARNING_MARGIN = "early warning" | "cảnh báo sớm";
    H_TRIAL = "trial" | "lần thử";
    H_LOAD = "load" | "tải";
    H_RATE = "rate /s" | "tải /s";
    H_LENGTH = "length" | "độ dài";
    H_RESULT = "result" | "kết quả";
    H_WHY = "why" | "lý do";
    H_PHASE = "phase" | "pha";
    H_RATIO = "ratio" | "tỉ số";
    H_CI = "95 % CI" | "KTC 95 %";
    H_PAPER = "paper" | "nghiên cứu gốc";
    H_OURS = "ours" | "của ta";
    H_VERDICT = "verdict" | "kết luận";
    H_VALID = "valid" | "hợp lệ";
    H_SUCCESS = "success" | "thành công";
    H_FAILED = "fail" | "lỗi";
    G_REQUESTS = "requests, per second" | "yêu cầu mỗi giây";
    G_RESPONSE = "response time, ms" | "thời gian đáp ứng, ms";
    G_USE = "use" | "tài nguyên";
    G_OUTCOME = "outcome" | "kết cục";
    PAPER_ROW = "paper: {text}" | "nghiên cứu gốc: {text}";

    INFO_SERVER = "INFO server of {target}" | "INFO server của {target}";
    UNLIKE = "{mark}: not set up as {best} was, and so not ranked against it: {odd}."
        | "{mark}: không được thiết lập như {best}, nên không xếp hạng với nó: {odd}.";
    UNLIKE_ALLOWED = "{mark}: not set up as {best} was, and ranked because --allow-unequal asked for it: {odd}."
        | "{mark}: không được thiết lập như {best}, vẫn xếp hạng vì có --allow-unequal: {odd}.";
    LIKE_FOR_LIKE = "like for like" | "cùng yêu cầu";
    LIKE_FOR_LIKE_TIP = "the same request to every target" | "cùng một yêu cầu đến mọi đích đo";
    SUMMARY_INTRO = "Sorted by the load held. Latency, server CPU and memory are those at the highest load that all held, or at least answered: {load}."
        | "Xếp theo tải giữ được. Độ trễ, CPU máy chủ và bộ nhớ lấy tại tải cao nhất mà tất cả giữ được, hoặc ít nhất đã trả lời: {load}.";
    SUMMARY_ALONE = "Sorted by the load held. No load was offered to all of them, so their latency, server CPU and memory are not set side by side."
        | "Xếp theo tải giữ được. Không có tải nào được đưa vào tất cả, nên độ trễ, CPU máy chủ và bộ nhớ không được đặt cạnh nhau.";
    LADDER_STARTS = " Rows of several starts: rates and CPU are medians, counts sums; response times are those of all answers together, so the worst start makes the tail."
        | " Dòng gồm nhiều lần khởi động: tốc độ và CPU là trung vị, số đếm là tổng; thời gian đáp ứng tính trên mọi câu trả lời, nên lần tệ nhất quyết định phần đuôi.";
    SUMMARY_STARTS = " Held, not held and peak are medians over the starts; in brackets the least and the most that a start held."
        | " Giữ được, không giữ và đỉnh là trung vị qua các lần khởi động; trong ngoặc là mức ít nhất và nhiều nhất mà một lần giữ được.";
    HELD_BETWEEN = "{load} ({low}–{high})" | "{load} ({low}–{high})";
    LADDER_INTRO = "Rates are requests per second; response times count from the intended send time. A denied decision is an answer, not a failure. Point at a row for its counts and command."
        | "Tốc độ tính bằng yêu cầu mỗi giây; thời gian đáp ứng tính từ thời điểm dự định gửi. Quyết định từ chối là một câu trả lời, không phải lỗi. Trỏ vào một dòng để xem số đếm và lệnh.";
    LATENCY_INTRO = "Response time over the bands of the P99 thresholds. Whiskers are 95 % confidence intervals over fresh starts, where there are several."
        | "Thời gian đáp ứng trên các dải ngưỡng P99. Râu là khoảng tin cậy 95 % qua nhiều lần khởi động lại, nếu có.";
    PERCENTILES_INTRO = "Response time counts from the intended send time, service time from the actual send; a gap between them is waiting before the send."
        | "Thời gian đáp ứng tính từ lúc dự định gửi, thời gian phục vụ tính từ lúc gửi thật; khoảng cách giữa hai đường là thời gian chờ trước khi gửi.";
    TIME_INTRO = "One point per second of the measured part of each step, in the order the steps ran."
        | "Mỗi điểm là một giây trong phần được đo của từng bậc, theo thứ tự chạy.";
    HEAT_INTRO = "Time runs to the right, response time upwards on a log scale; the darker a tile, the larger the share of the requests of that moment in it."
        | "Thời gian chạy sang phải, thời gian đáp ứng hướng lên theo thang log; ô càng đậm thì càng nhiều yêu cầu của thời điểm đó rơi vào đó.";
    OVERLOAD_INTRO = "What remains past the limit, whether the way down equals the way up, and whether the target heals by itself. The knee is the highest load at which goodput holds; the latency that was asked for may be lost before."
        | "Còn lại gì khi vượt giới hạn, đường xuống có trùng đường lên không, và đích đo có tự hồi phục không. Điểm gối là tải cao nhất mà goodput còn giữ được; độ trễ yêu cầu có thể đã mất trước đó.";
    ACCURACY_INTRO = "What the limiter admitted against the bounds its algorithm sets for the requests offered. The worst stretch is the most that one key was admitted in any stretch of one window's length, in multiples of the limit: a fixed window may reach 2× across an edge without breaking its promise. Unknown are requests whose verdict never arrived. Fairness is Jain's index over keys of equal demand: 1 is perfectly fair."
        | "Bộ giới hạn đã cho qua bao nhiêu so với các chặn mà thuật toán đặt ra cho số yêu cầu gửi đến. Đoạn tệ nhất là số lượt nhiều nhất mà một khóa được cho qua trong một đoạn dài bằng cửa sổ, tính theo bội số của giới hạn: cửa sổ cố định có thể đạt 2× qua mép cửa sổ mà không sai cam kết. Không rõ là yêu cầu mà phán quyết không bao giờ đến. Công bằng là chỉ số Jain trên các khóa có nhu cầu bằng nhau: 1 là hoàn toàn công bằng.";
    NO_ROW = "No row was measured." | "Không đo được dòng nào.";
    NO_ROWS = "no rows" | "không có dòng";
    NO_ANSWERS = "no answers" | "không có câu trả lời";
    CELL_HELD = "held {load}/s" | "giữ được {load}/s";
    CELL_PARTIAL = "{held} · partial" | "{held} · chưa trọn vẹn";
    LOAD_LINE = "{arrivals} arrivals, {connections} connections, at most {depth} requests each in flight, deadline {deadline} ms"
        | "đến theo {arrivals}, {connections} kết nối, mỗi kết nối tối đa {depth} yêu cầu đang chờ, hạn {deadline} ms";
    LIMIT_IN = "{limit} in {window}" | "{limit} trong {window}";
    LOAD_LIMIT = ", limit {limit} in {window} per key" | ", giới hạn {limit} trong {window} cho mỗi khóa";
    LOAD_WINDOW = ", window {window}" | ", cửa sổ {window}";
    LOAD_PROBED = ", probed capacity {load}/s" | ", năng lực thăm dò {load}/s";
    ROW_TIP = "n = {answers} answers in {seconds} s ({starts}){ci}" | "n = {answers} câu trả lời trong {seconds} s ({starts}){ci}";
    STARTS_ONE = "one start, so no interval" | "một lần khởi động, nên không có khoảng tin cậy";
    STARTS_MANY = "{n} fresh starts" | "{n} lần khởi động lại";
    CI_TIP = "; {name} 95 % CI [{low}–{high}] {unit}" | "; {name} KTC 95 % [{low}–{high}] {unit}";

    CELL_TIP = "{n} rows, {starts}; command: {command}" | "{n} dòng, {starts}; lệnh: {command}";
    THROUGHPUT_INTRO = "Goodput and failed requests against the offered load; the ground is green up to the safe load, amber up to the sustained load, red above."
        | "Goodput và yêu cầu lỗi theo tải đưa vào; nền xanh đến tải an toàn, vàng đến tải duy trì, đỏ phía trên.";
    FAIRNESS_TIP = "share of the mean per key: {range}" | "so với trung bình mỗi khóa: {range}";
    H_EXACT_KEYS = "keys judged one by one" | "khóa xét từng quyết định";
    H_EXACT_DECISIONS = "decisions" | "quyết định";
    H_EXACT_LEFT_OUT = "only counted" | "chỉ đếm";
    H_EXACT_OVER = "impossible admissions" | "cho qua sai";
    H_EXACT_UNDER = "impossible denials" | "từ chối sai";
    H_RETRY_CELL = "promised wait (Retry-After)" | "thời gian chờ đã hứa (Retry-After)";
    H_RETRY_CHECKED = "checked" | "đã kiểm";
    H_RETRY_KEPT = "kept" | "đúng";
    H_RETRY_LONG = "too long" | "quá dài";
    H_RETRY_SHORT = "too short" | "quá ngắn";
    H_RETRY_MEAN = "mean error ms" | "sai số TB ms";
    H_RETRY_WORST = "worst ms" | "tệ nhất ms";
    H_RETRY_UNIT = "unit ms" | "đơn vị ms";
    H_PROCESS = "process" | "tiến trình";
    H_CPU_ALL = "CPU (one core = 100 %)" | "CPU (một lõi = 100 %)";
    H_BUSIEST = "busiest thread" | "luồng bận nhất";
    H_VOLUNTARY = "waits /s" | "nhường /s";
    H_INVOLUNTARY = "preempted /s" | "bị ngắt /s";
    H_RUN_QUEUE = "run-queue wait %" | "chờ lõi %";
    PROCESSES = "Processes, step by step" | "Các tiến trình, từng bậc";
    COST_LINE = "{load}/s: {cost} per million decisions at the given price of the machine; {joules} J per million" | "{load}/s: {cost} cho mỗi triệu quyết định theo giá máy đã cho; {joules} J mỗi triệu";
    H_GOAL = "goal" | "mục tiêu";
    H_LOWER = "lower /s" | "cận dưới /s";
    H_UPPER = "upper /s" | "cận trên /s";
    H_CONDITIONAL = "conditional throughput /s" | "thông lượng có điều kiện /s";
    TRIAL_LOG = "Log of {n} trials" | "Nhật ký {n} lần thử";
    NON_MONOTONE = "Not monotone: {loads}/s failed below a load that passed." | "Không đơn điệu: {loads}/s không đạt dù tải cao hơn lại đạt.";
    USL_INTRO = "The Universal Scalability Law fitted to the closed-loop rungs. A crosstalk κ above 0 predicts that throughput falls with more requests in flight."
        | "Định luật mở rộng phổ quát (USL) khớp với các bậc vòng kín. κ trên 0 dự báo thông lượng giảm khi có thêm yêu cầu đang chờ.";
    USL_LINE = "{cell}: contention σ = {sigma}, crosstalk κ = {kappa} (leaving one point out: {low} to {high}), R² = {r2}, peak at {peak} in flight"
        | "{cell}: tranh chấp σ = {sigma}, nhiễu chéo κ = {kappa} (bỏ một điểm: {low} đến {high}), R² = {r2}, đỉnh tại {peak} yêu cầu đang chờ";
    UNEQUAL = "Not equal: {what} is {a} in A and {b} in B." | "Không tương đương: {what} là {a} ở A và {b} ở B.";
    VARIANT = "{retries} retries, deadline {deadline}" | "{retries} lần thử lại, hạn {deadline}";
    H_VARIANT = "client" | "client";
    H_TIME_TO_RECOVER = "time to recover" | "thời gian hồi phục";
    H_DRAIN = "backlog drained after" | "xả hết hàng chờ sau";
    H_AMPLIFICATION = "load by retries" | "tải do thử lại";
    REASONS_MORE = "and {n} more" | "và {n} lý do nữa";
    H_PAPER_ALSO = "the paper prints as well" | "nghiên cứu còn in";
    Y_P99_MS = "P99, ms" | "P99, ms";
    H_CHANGE = "change" | "thay đổi";
    H_NOISE = "noise" | "độ nhiễu";
    NUMBER_OVER = "worst over-admission" | "cho qua vượt mức tệ nhất";
    NUMBER_OVER_NOTE = "admitted above the limit, of all cells" | "cho qua trên giới hạn, trong mọi ô đo";
    NUMBER_CEILING = "generator ceiling" | "trần của bộ sinh tải";
    NUMBER_CEILING_NOTE = "floor P99 {latency}" | "sàn P99 {latency}";
    NUMBER_HELD_NOTE = "most held: {cell}" | "giữ được nhiều nhất: {cell}";
    NUMBER_SUSTAINED_MOSTLY = "sustained [{lower}–{upper}], single trials up to {held}: {cell}" | "duy trì [{lower}–{upper}], lần thử đơn lẻ đến {held}: {cell}";
    NUMBER_SUSTAINED_STARTS = "median of {n} starts [{lower}–{upper}]: {cell}" | "trung vị của {n} lần khởi động [{lower}–{upper}]: {cell}";
    NUMBER_SUSTAINED_NOTE = "sustained [{lower}–{upper}]: {cell}" | "duy trì [{lower}–{upper}]: {cell}";

    C_THROUGHPUT = "Goodput and failures against offered load" | "Goodput và lỗi theo tải đưa vào";
    C_GOODPUT_ALL = "Goodput against offered load" | "Goodput theo tải đưa vào";
    C_P99_ALL = "P99 against offered load" | "P99 theo tải đưa vào";
    C_LATENCY = "Response time against offered load" | "Thời gian đáp ứng theo tải đưa vào";
    C_PERCENTILES_AT = "Percentiles at {load}/s" | "Phân vị tại {load}/s";
    C_VERDICTS_AT = "Allowed against denied at {load}/s" | "Cho qua so với từ chối tại {load}/s";
    C_TIME = "Second by second" | "Từng giây";
    C_HEAT = "Response time by step" | "Thời gian đáp ứng theo bậc";
    C_FAILURES = "Failed share against offered load" | "Tỉ lệ lỗi theo tải đưa vào";
    C_HYSTERESIS = "Goodput on the way up and down" | "Goodput khi tăng và khi giảm tải";
    C_RECOVERY = "Recovery: {name}" | "Hồi phục: {name}";
    C_TRIALS = "Trials of the search" | "Các lần thử của phép tìm";
    C_TRIALS_OF = "Trials of the search in start {start}, whose result is nearest to the median" | "Các lần thử của phép tìm ở lần khởi động {start}, có kết quả gần trung vị nhất";
    C_USL = "Throughput against concurrency" | "Thông lượng theo mức đồng thời";
    X_LOAD = "offered load, requests/s" | "tải đưa vào, yêu cầu/s";
    X_PERCENTILE = "percentile" | "phân vị";
    X_TIME = "measured seconds, steps in the order they ran" | "số giây được đo, các bậc theo thứ tự chạy";
    STEP_TIP = "{load}/s offered: goodput {goodput}/s, {answers} answers in {seconds} s, {failed} % failed"
        | "đưa vào {load}/s: goodput {goodput}/s, {answers} câu trả lời trong {seconds} s, {failed} % lỗi";
    LATENCY_TIP = "{name} {value} at {load}/s, n = {answers}, {failed} % failed"
        | "{name} {value} ở {load}/s, n = {answers}, {failed} % lỗi";
    SECOND_TIP = "second {at} of the step at {load}/s: {good} good, {failed} failed, P99 {p99}, {in_flight} in flight"
        | "giây {at} của bậc {load}/s: {good} tốt, {failed} lỗi, P99 {p99}, {in_flight} đang chờ";
    COLUMN_TIP = "{load}/s, second {from} to {to}: n = {answers}, P50 {p50}, P99 {p99}, longest {max}"
        | "{load}/s, giây {from} đến {to}: n = {answers}, P50 {p50}, P99 {p99}, lâu nhất {max}";
    TRIAL_RANGE = "range" | "dò khoảng";
    TRIAL_NARROW = "narrow" | "thu hẹp";
    TRIAL_CONFIRM = "confirm" | "xác nhận";
    TRIAL_ABOVE = "above" | "phía trên";
    TRIAL_CHECK = "check" | "kiểm tra";
    TRIAL_UP = "up" | "đi lên";
    TRIAL_DOWN = "down" | "đi xuống";
    TRIAL_TIP = "trial {n}: {load}/s for {seconds} s ({purpose}): goodput {goodput}/s, {failed} % failed{rule}"
        | "lần thử {n}: {load}/s trong {seconds} s ({purpose}): goodput {goodput}/s, {failed} % lỗi{rule}";
    C_PRESSURE = "What tasks waited for" | "Các tác vụ phải chờ gì";
    Y_PRESSURE = "share of the second in which a task waited, %" | "phần của giây có tác vụ phải chờ, %";
    L_PRESSURE_CPU = "a processor" | "CPU";
    L_PRESSURE_IO = "a disk" | "đĩa";
    L_PRESSURE_MEMORY = "memory" | "bộ nhớ";
    C_LAG = "How late the generator itself was" | "Bản thân bộ sinh tải trễ bao lâu";
    Y_LAG = "taken up later than due" | "bắt đầu xử lý muộn hơn lịch";
    L_LAG_MEAN = "mean" | "trung bình";
    L_LAG_MAX = "longest" | "lâu nhất";
    EACH_SYSTEM = "each system by itself" | "từng hệ thống";
    X_RATIO = "ratio B / A" | "tỉ số B / A";
    X_PHASE_TIME = "seconds since the start of the recovery run" | "giây từ đầu lần đo hồi phục";
    X_TRIAL = "trial" | "lần thử";
    X_CONCURRENCY = "concurrency" | "mức đồng thời";
    Y_RPS = "requests/s" | "yêu cầu/s";
    Y_GOOD = "good answers/s" | "câu trả lời tốt/s";
    Y_RESPONSE = "response time" | "thời gian đáp ứng";
    Y_LATENCY = "latency" | "độ trễ";
    Y_P99 = "P99 of each second" | "P99 từng giây";
    Y_CPU = "CPU, % of a core" | "CPU, % của một lõi";
    Y_IN_FLIGHT = "in flight" | "đang chờ";
    Y_FAILED = "failed, %" | "lỗi, %";
    L_GOOD = "good answers" | "câu trả lời tốt";
    L_FAILED = "failed" | "lỗi";
    L_IDEAL = "ideal" | "lý tưởng";
    L_RESPONSE_TIME = "response time" | "thời gian đáp ứng";
    L_SERVICE_TIME = "service time" | "thời gian phục vụ";
    L_ALLOWED = "allowed" | "cho qua";
    L_DENIED = "denied" | "từ chối";
    L_HOLLOW = "hollow: over 1 % failed, latency of the answered only" | "rỗng: hơn 1 % lỗi, độ trễ chỉ của phần đã trả lời";
    L_KNEEDLE = "where P99 bends (Kneedle): it describes the curve and is no limit" | "chỗ P99 gãy (Kneedle): chỉ mô tả đường cong, không phải giới hạn";
    L_FAINT = "faint: the row is invalid" | "mờ: dòng không hợp lệ";
    L_CROSS = "cross at the top: no answers" | "dấu chéo trên cùng: không có câu trả lời";
    L_WHISKER = "whisker: 95 % CI over fresh starts" | "râu: KTC 95 % qua các lần khởi động lại";
    L_SENT = "sent" | "đã gửi";
    L_UP = "way up" | "khi tăng tải";
    L_DOWN = "way down" | "khi giảm tải";
    L_PASS = "passed" | "đạt";
    L_FAIL = "failed" | "không đạt";
    L_DOUBT = "invalid" | "không hợp lệ";
    L_MEASURED = "measured" | "đo được";
    L_FIT = "fit" | "đường khớp";
    L_SHARE = "share of answers: {low} to {high}" | "tỉ lệ câu trả lời: {low} đến {high}";
    ZONE_SAFE = "safe" | "an toàn";
    ZONE_AMBER = "amber" | "vàng";
    ZONE_RED = "red" | "đỏ";
    BAND_GOOD = "Good" | "Tốt";
    BAND_WARNING = "Warning" | "Cảnh báo";
    BAND_CRITICAL = "Critical" | "Nguy cấp";

    RUN_IS = "The run is {grade} and {whole}{why}. The grade counts the rows that the findings rest on: those up to the first that was not held."
        | "Lần chạy {grade} và {whole}{why}. Mức hợp lệ tính trên các dòng làm căn cứ cho kết luận: đến dòng đầu tiên không giữ được.";
    NOT_MEASURED = "Not measured: {name} ({why})" | "Không đo: {name} ({why})";
    METHOD_OPEN_LOOP = "Open loop: requests follow a seeded schedule whether or not the target keeps up. Response time counts from the moment the schedule wanted the request sent, so that waiting in the generator is not hidden; service time counts from the actual send. A request without a good answer within the deadline is a failure. One without an answer in time counts in the response times with what its late answer took, else with how long it was waited for, which is the deadline at least. A denied decision is an answer."
        | "Vòng hở: yêu cầu đi theo lịch có hạt giống, bất kể đích đo có theo kịp hay không. Thời gian đáp ứng tính từ lúc lịch muốn gửi yêu cầu, nên thời gian chờ trong bộ sinh tải không bị giấu; thời gian phục vụ tính từ lúc gửi thật. Yêu cầu không có câu trả lời tốt trong hạn là lỗi. Yêu cầu không được trả lời kịp hạn vẫn tính vào thời gian đáp ứng: bằng thời gian của câu trả lời muộn, nếu không có thì bằng thời gian đã chờ, ít nhất là hạn chờ. Quyết định từ chối là một câu trả lời.";
    METHOD_CLOSED_LOOP = "Closed loop where a cell says so: every connection sends its next request when the last is answered, so latency there is service time and the offered load follows the target."
        | "Vòng kín ở những ô đo có ghi: mỗi kết nối gửi yêu cầu tiếp theo khi yêu cầu trước đã được trả lời, nên độ trễ ở đó là thời gian phục vụ và tải đưa vào phụ thuộc đích đo.";
    METHOD_TESTS = "Closed loop, as in the study: every connection sends its next request when the last is answered, so latency is service time, a stall of the target delays the questions instead of the answers (coordinated omission), and the load follows the target."
        | "Vòng kín, như trong nghiên cứu: mỗi kết nối gửi yêu cầu tiếp theo khi yêu cầu trước đã được trả lời, nên độ trễ là thời gian phục vụ, đích đo ngừng thì câu hỏi bị chậm chứ không phải câu trả lời (coordinated omission), và tải phụ thuộc đích đo.";
    METHOD_LEVELS = "ok: every metric good. near-limit: the worst at warning. degraded: a latency or the throughput critical. failed: failures critical. collapsed: less than half of the offered load answered well. A load is held if its row is ok or near-limit. The level of a row of several starts is that of the median start; its latencies are those of all answers together."
        | "đạt: mọi chỉ số tốt. gần giới hạn: chỉ số tệ nhất ở mức cảnh báo. suy giảm: độ trễ hoặc thông lượng nghiêm trọng. thất bại: tỉ lệ lỗi nghiêm trọng. sụp đổ: chưa đến một nửa tải được trả lời tốt. Một mức tải được giữ nếu dòng của nó đạt hoặc gần giới hạn. Mức của dòng gồm nhiều lần khởi động là mức của lần trung vị; độ trễ của nó tính trên mọi câu trả lời.";
    THRESHOLD_GOODPUT = "goodput of the offered load" | "goodput trên tải đưa vào";
    THRESHOLD_FAIL = "failed requests" | "yêu cầu lỗi";
    THRESHOLD_MEAN = "mean response time" | "thời gian đáp ứng trung bình";
    THRESHOLD_FROM = "from {value} %" | "từ {value} %";
    THRESHOLD_BELOW = "below {value} %" | "dưới {value} %";
    THRESHOLD_UP_TO = "up to {value} {unit}" | "đến {value} {unit}";
    THRESHOLD_ABOVE = "above {value} {unit}" | "trên {value} {unit}";
    M_CPU = "CPU" | "CPU";
    M_MEMORY = "Memory" | "Bộ nhớ";
    M_SYSTEM = "System" | "Hệ điều hành";
    M_CLOCK = "Clock source" | "Nguồn đồng hồ";
    M_GOVERNOR = "Governor" | "Bộ điều tốc";
    M_HYPERVISOR = "Hypervisor" | "Trình ảo hóa";
    M_LOAD_BEFORE = "Load average before" | "Tải trung bình trước đó";
    M_PINNING = "Pinning" | "Ghim lõi";
    M_TOOL = "Tollgate" | "Tollgate";
    M_COMPILER = "Compiler" | "Trình biên dịch";
    M_SEED = "Seed" | "Hạt giống";
    M_STARTED = "Started" | "Bắt đầu";
    M_COMMAND = "Command" | "Lệnh";
    MINUTES = "min" | "phút";
    M_GENERATOR = "Generator" | "Bộ sinh tải";
    M_DRIFT = "Machine meanwhile" | "Máy trong lúc đo";
    M_DRIFTED = "looked at {n} times: the generator's ceiling moved between {low}/s and {high}/s ({ratio}×), the floor's P99 between {best} and {worst}"
        | "xem {n} lần: trần của bộ phát dao động từ {low}/s đến {high}/s ({ratio}×), P99 của sàn từ {best} đến {worst}";
    M_IDLE_GOVERNOR = "Idle governor" | "Bộ điều phối khi nhàn rỗi";
    M_CPU_IS = "{model} ({cores} cores, {arch})" | "{model} ({cores} nhân, {arch})";
    M_NOT_PINNED = "not pinned" | "không ghim";
    M_CORE = "core {core}" | "nhân {core}";
    M_CORES = "cores {cores}" | "các nhân {cores}";
    M_PINNED = "generator {generator}, targets {targets}" | "bộ phát: {generator}, đích đo: {targets}";
    M_PINNED_TOGETHER = "generator {generator}, targets {targets}, on one machine" | "bộ phát: {generator}, đích đo: {targets}, trên cùng máy";
    M_GENERATOR_CPU = ", {us} µs of CPU a request" | ", {us} µs CPU mỗi yêu cầu";
    M_REUSED = "; measured at {when}, {age} before this run, on the same machine by the same program ({binary})"
        | "; đo lúc {when}, {age} trước lần chạy này, trên cùng máy bằng cùng chương trình ({binary})";
    M_CALIBRATED = "ceiling {ceiling}/s over {connections} connections{cpu}; floor P50 {p50}, P99 {p99}; one clock read {clock} ns{reused}"
        | "trần {ceiling}/s qua {connections} kết nối{cpu}; sàn P50 {p50}, P99 {p99}; một lần đọc đồng hồ {clock} ns{reused}";
    M_TARGET_AT = "{what} at {url}" | "{what} tại {url}";
    M_ONE_THREAD = "1 thread" | "1 luồng";
    M_THREADS = "{n} threads" | "{n} luồng";
    M_FIRST_REPLY = "first reply after {ms} ms" | "trả lời đầu tiên sau {ms} ms";
    M_IDLE = "{memory} idle" | "{memory} khi rảnh";
    M_STARTED_AS = "started as {command}" | "khởi động bằng {command}";
    M_DURATION = "Duration" | "Thời lượng";
    DATA_NOTE = "The data of this report are embedded in it as JSON, those of a long run with shortened figures and histograms; `tollgate bench report --from FILE` reads them. `results.json` has everything in full."
        | "Dữ liệu của báo cáo được nhúng sẵn dưới dạng JSON, với lần chạy dài thì số liệu và biểu đồ phân bố được rút gọn; `tollgate bench report --from FILE` đọc lại được. `results.json` giữ đầy đủ.";
    RECORDED_WORDS = "Reasons, events and notes stand as they were recorded." | "Lời của máy chủ và hệ điều hành được giữ nguyên văn như khi ghi.";
    COPY = "copy" | "sao chép";
    COPIED = "copied" | "đã chép";
    ENLARGE = "enlarge" | "phóng to";
    CLOSE = "close" | "đóng";
    ZOOM_HINT = "wheel or pinch: zoom · drag: move · double click: reset" | "cuộn: phóng to · kéo: di chuyển · nhấp đúp: đặt lại";

    G_T_OFFERED = "offered load, target" | "tải đưa vào, mục tiêu";
    G_D_OFFERED = "requests per second that the schedule held" | "số yêu cầu mỗi giây theo lịch";
    G_T_GOODPUT = "goodput" | "goodput";
    G_D_GOODPUT = "right answers within the deadline, per second" | "số câu trả lời đúng trong hạn, mỗi giây";
    G_T_HELD = "held, sustained" | "giữ được, duy trì";
    G_D_HELD = "the highest load such that it and every lower one met the thresholds" | "tải cao nhất mà nó và mọi mức thấp hơn đều đạt ngưỡng";
    G_T_SAFE = "safe" | "an toàn";
    G_D_SAFE = "85 % of the held load, or the load at which a server thread passes 70 % of its core, whichever is less; with a recovery run, not above the load from which the target heals by itself"
        | "85 % tải giữ được, hoặc tải mà một luồng máy chủ vượt 70 % lõi, lấy giá trị nhỏ hơn; nếu có đo hồi phục thì không vượt mức tải mà đích đo còn tự hồi phục";
    G_T_P99 = "P99" | "P99";
    G_D_P99 = "99 % of the requests were answered at least this fast; what got no answer in time counts with how long it was waited for" | "99 % yêu cầu được trả lời nhanh ít nhất bằng mức này; yêu cầu không được trả lời kịp hạn tính bằng thời gian đã chờ";
    G_T_LAG = "lag" | "trễ gửi";
    G_D_LAG = "how much later than intended the generator sent" | "bộ sinh tải gửi muộn hơn dự định bao nhiêu";
    G_T_ADMIT = "admit" | "tỉ lệ qua";
    G_D_ADMIT = "share of the decisions that allowed the request" | "tỉ lệ quyết định cho yêu cầu đi qua";
    G_T_HOT = "hot key" | "khóa nóng";
    G_D_HOT = "a key that takes far more requests than the others" | "khóa nhận nhiều yêu cầu hơn hẳn các khóa khác";
    G_T_RETENTION = "retention" | "mức giữ lại";
    G_D_RETENTION = "goodput past the limit as a share of the goodput at it: graceful from 0.9, collapse below 0.5" | "goodput khi vượt giới hạn so với tại giới hạn: suy giảm êm từ 0.9, sụp đổ dưới 0.5";
    G_T_CI = "95 % CI" | "KTC 95 %";
    G_D_CI = "confidence interval of the median over fresh starts" | "khoảng tin cậy của trung vị qua các lần khởi động lại";
    G_T_OVER = "over-admission" | "cho qua vượt mức";
    G_D_OVER = "requests admitted beyond what limit and algorithm allow" | "số yêu cầu được cho qua quá mức giới hạn và thuật toán cho phép";

    MD_TITLE = "Rate limit benchmark" | "Báo cáo benchmark giới hạn tốc độ";
    MD_CONTENTS = "Contents" | "Mục lục";
    MD_SUMMARY = "Executive summary" | "Tóm tắt";
    MD_OVERVIEW = "Overview" | "Tổng quan";
    MD_TESTBED = "Architecture and testbed" | "Kiến trúc và môi trường đo";
    MD_METHOD = "Method" | "Phương pháp";
    MD_DETAILS = "Detailed results: {target}" | "Kết quả chi tiết: {target}";
    MD_COMPARISON = "Direct comparison" | "So sánh trực tiếp";
    MD_ANALYSIS = "Analysis" | "Phân tích";
    MD_RECOMMENDATION = "Production recommendation" | "Khuyến nghị vận hành";
    MD_CONCLUSION = "Conclusion" | "Kết luận";
    MD_APPENDIX = "Appendix" | "Phụ lục";
    MD_TEST_DATE = "Test date" | "Ngày đo";
    MD_MODE = "Mode" | "Chế độ";
    MD_STEP = "Duration per step" | "Thời lượng mỗi bậc";
    MD_RANGE = "RPS range" | "Dải RPS";
    MD_RUN = "Run" | "Lần chạy";
    MD_KEY_METRICS = "Key results" | "Kết quả chính";
    MD_RECOMMENDED_MAX = "Recommended max RPS" | "RPS tối đa khuyến nghị";
    MD_STABILITY = "Stability limit" | "Giới hạn ổn định";
    MD_BREAKING = "Breaking point" | "Điểm gãy";
    MD_OPTIMAL_P99 = "Optimal P99 latency" | "P99 tối ưu";
    MD_ACCEPTABLE_P99 = "Acceptable P99 latency" | "P99 chấp nhận được";
    MD_AT = "{value} (at {load}/s)" | "{value} (tại {load}/s)";
    MD_WITH_FAILURES = "{load}/s ({percent} % failed)" | "{load}/s ({percent} % lỗi)";
    MD_RECOVERY = "Recovery after overload" | "Hồi phục sau quá tải";
    MD_FAILURE_PATTERN = "Failure pattern" | "Kiểu hỏng";
    MD_QUESTIONS = "Questions" | "Câu hỏi nghiên cứu";
    MD_Q_MAX = "What throughput can each system handle?" | "Thông lượng tối đa mỗi hệ thống xử lý được?";
    MD_Q_PATTERN = "How does it react to different traffic patterns?" | "Hệ thống phản ứng thế nào với các mẫu lưu lượng khác nhau?";
    MD_Q_SAFE = "What load is safe in production?" | "Đâu là ngưỡng an toàn khi vận hành?";
    MD_Q_BETTER = "Which holds more, and by how much?" | "Hệ thống nào giữ được nhiều hơn, và hơn bao nhiêu?";
    MD_ANSWERED = "answered by" | "trả lời ở";
    MD_SCENARIOS = "Scenarios" | "Kịch bản";
    MD_KEYS = "keys" | "số khóa";
    MD_DISTRIBUTION = "distribution" | "phân bố";
    MD_THRESHOLDS = "Metrics and thresholds" | "Chỉ số và ngưỡng";
    MD_OBSERVATIONS = "Observations" | "Nhận xét";
    MD_P99_AT_COMMON = "P99 at comparable load" | "P99 tại tải tương đương";
    MD_FAILURE_COMPARISON = "Failure pattern comparison" | "So sánh kiểu hỏng";
    MD_CONFIGURATION = "Test configuration" | "Cấu hình đo";
    MD_COMPONENT = "Component" | "Thành phần";
    MD_SETTING = "Configuration" | "Cấu hình";
    MD_ARTIFACTS = "Artifacts" | "Tệp kết quả";
    MD_REPRODUCE = "Reproduce" | "Tái lập";
    MD_INSIGHTS = "Key insights" | "Điểm đáng chú ý";
    MD_RECOMMENDATIONS = "Recommendations" | "Khuyến nghị";
    MD_SAFE_ZONE = "Safe zone: up to {safe}/s for {cell}." | "Vùng an toàn: đến {safe}/s cho {cell}.";
    MD_RED_ZONE = "Red zone: above {load}/s for {cell}." | "Vùng đỏ: trên {load}/s cho {cell}.";
    MD_LATENCY_NOTE = "Latencies are response times in ms, from the intended send time. `lag` is the P99 of the generator's delay. CPU is in percent of one core. A denied decision is an answer, not a failure."
        | "Độ trễ là thời gian đáp ứng tính bằng ms, từ thời điểm dự định gửi. Cột trễ gửi là P99 độ trễ của bộ sinh tải. CPU tính theo phần trăm một lõi. Quyết định từ chối là một câu trả lời, không phải lỗi.";
    MD_FILES = "`report.html` holds the charts, `results.json` every number with its histogram, `summary.csv` one line per row in the columns of ratelimit_bench (latencies in ms, `ReqPerSec` in requests, `MemoryUsage` in MiB, CPU in percent of one core), `rows.csv` every number with its unit in the column's name."
        | "`report.html` có các biểu đồ, `results.json` có mọi con số kèm histogram, `summary.csv` mỗi dòng một bậc theo các cột của ratelimit_bench (độ trễ ms, `ReqPerSec` là số yêu cầu, `MemoryUsage` MiB, CPU phần trăm một lõi), `rows.csv` có mọi con số với đơn vị trong tên cột.";
    TERMINAL_SCENARIO = "{scenario} (p99, CPU and memory at {load}/s)" | "{scenario} (p99, CPU và bộ nhớ tại {load}/s)";
    TERMINAL_GRADE = "{grade}, {whole}, thresholds `{profile}`" | "{grade}, {whole}, ngưỡng `{profile}`";
    TERMINAL_MORE = "and {n} more, in README.md" | "và {n} mục nữa, xem README.md";
}
