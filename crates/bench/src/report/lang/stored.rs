//! Comparisons of stored runs, trends, gates and noise; and a published study beside our rows.

use super::texts;

texts! {
    S_ROW = "row" | "hàng";
    S_LOAD = "load/s" | "tải/s";
    S_FIGURE = "figure" | "chỉ số";
    S_INTERVAL = "95 % interval" | "khoảng 95 %";
    S_EFFECT = "effect" | "mức độ";
    S_VERDICT = "verdict" | "kết luận";
    S_RUNS = "runs" | "số lần";
    S_FIRST = "first" | "đầu";
    S_LAST = "last" | "cuối";
    S_CHANGE = "change" | "thay đổi";
    S_PER_RUN = "%/run" | "%/lần";
    S_NOISE = "noise" | "độ nhiễu";
    S_ROWS = "rows" | "số hàng";
    S_AS_IT_RAN = "A/A as it ran" | "A/A khi đo";
    S_CLAIMABLE = "smallest claimable" | "nhỏ nhất có thể khẳng định";
    S_ARM = "{arm} is {label} ({runs})" | "{arm} là {label} ({runs})";
    S_ARM_RUNS = "{arm}: {runs}" | "{arm}: {runs}";
    S_TREND_FEW = "too few runs" | "quá ít lần chạy";
    S_TREND_NONE = "no trend shown" | "chưa thấy xu hướng";
    S_TREND_INTRO = "{n} runs, {first} to {last}. The figures draw each figure of the highest load that all runs have, and the load held by searches, as a ratio to the first run."
        | "{n} lần chạy, từ {first} đến {last}. Hình vẽ từng chỉ số ở tải cao nhất mà mọi lần chạy đều có, và tải mà các phép tìm kiếm giữ được, theo tỉ lệ so với lần đầu.";
    S_RUN = "run" | "lần chạy";
    S_OF_FIRST = "ratio to the first run" | "tỉ lệ so với lần đầu";
    S_OF_RUN = "median of a run's starts" | "trung vị các lần khởi động của một lần chạy";
    S_MIDDLE = "median of the runs" | "trung vị các lần chạy";
    S_LEVELS = "median of the runs between two changes of level" | "trung vị các lần chạy giữa hai lần đổi mức";
    S_SLOPE = "trend: {slope} % per run {interval}" | "xu hướng: {slope} % mỗi lần chạy {interval}";
    S_FIGURES_LEFT = "{n} further figures are in the table and not drawn; --metric chooses." | "Còn {n} chỉ số nữa có trong bảng nhưng không vẽ; chọn bằng --metric.";
    S_FLOOR = "smallest claimable difference: {source}" | "khác biệt nhỏ nhất có thể khẳng định: {source}";
    S_DIFFERS = "{what}: {a} against {b}" | "{what}: {a} so với {b}";
    S_UNEQUAL = "UNEQUAL: {what}" | "KHÔNG NGANG NHAU: {what}";
    S_NONE_MOVED = "No figure is shown to move. A claim needs {needed} runs and p below 0.05."
        | "Chưa thấy số đo nào thay đổi. Muốn khẳng định cần {needed} lần chạy và p dưới 0,05.";
    S_NO_CLAIM = "No difference can be claimed." | "Không thể khẳng định khác biệt nào.";
    S_ARMS_UNEQUAL = "The arms are unequal: what is above may come from their circumstances."
        | "Hai bên không ngang nhau: điều nêu trên có thể do hoàn cảnh đo.";
    S_AGAINST = "{b} against {a}" | "{b} so với {a}";
    S_MORE_RUNS = "{first} and {n} more" | "{first} và {n} lần nữa";
    S_FROM_TO = "{runs}, {first} to {last}" | "{runs}, từ {first} đến {last}";
    S_SPAN = "{first} to {last}" | "từ {first} đến {last}";
    S_TRENDS = "Trends over {n} runs" | "Xu hướng qua {n} lần chạy";
    S_GATE = "Gate {word}: at most {percent} % worse than the baseline" | "Cổng {word}: kém mốc so sánh nhiều nhất {percent} %";
    S_PASSED = "passed" | "ĐẠT";
    S_FAILED = "FAILED" | "KHÔNG ĐẠT";
    S_INVALID = "INVALID" | "KHÔNG HỢP LỆ";
    S_GATE_ARMS = "A is the baseline, B the run to judge" | "A là mốc so sánh, B là lần chạy cần xét";
    S_NOISE_TITLE = "Noise: {target} against itself" | "Độ nhiễu: {target} so với chính nó";
    S_MACHINE = "{cpu}, {cores} cores, {at}" | "{cpu}, {cores} lõi, {at}";
    S_STARTS = "{n} starts on each side, {seconds} s per step" | "mỗi bên khởi động {n} lần, {seconds} s mỗi bậc";
    S_NOISE_MEANS = "A difference below the last column is what this machine does to one and the same program; none below it is claimed, and none below {percent} % either."
        | "Khác biệt dưới cột cuối là điều máy này gây ra cho cùng một chương trình; không khẳng định khác biệt nào nhỏ hơn mức đó, hay nhỏ hơn {percent} %.";
    S_AT_LOAD = "at {load}/s" | "ở {load}/s";
    S_UNDER_GOAL = "under the goal {goal}" | "theo mục tiêu {goal}";
    S_SENTENCE = "{scenario} {place}: {figure} of {b} is {ratio} times that of {a}{interval}{p}, n = {n}: {verdict}"
        | "{scenario} {place}: {figure} của {b} bằng {ratio} lần của {a}{interval}{p}, n = {n}: {verdict}";
    S_COURSE = "{target} · {operation} · {scenario} {place}: {figure}: {slope} % per run over {n} runs ({p}), {noise}"
        | "{target} · {operation} · {scenario} {place}: {figure}: {slope} % mỗi lần qua {n} lần chạy ({p}), {noise}";
    S_STEPPED = "{target} · {operation} · {scenario} {place}: {figure} changed its level with the run of {date}: {before} to {after} ({percent}, {p})"
        | "{target} · {operation} · {scenario} {place}: {figure} đổi mức từ lần chạy {date}: {before} thành {after} ({percent}, {p})";
    V_BETTER = "better" | "tốt hơn";
    V_WORSE = "worse" | "kém hơn";
    V_SAME = "same" | "như nhau";
    V_UNCLEAR = "unclear" | "chưa rõ";
    V_TOO_FEW = "too few starts" | "quá ít lần khởi động";
    N_UNKNOWN = "unknown" | "chưa biết";
    N_STABLE = "stable" | "ổn định";
    N_VARIABLE = "variable" | "dao động";
    N_UNSTABLE = "unstable" | "bất ổn";
    E_NEGLIGIBLE = "negligible" | "không đáng kể";
    E_SMALL = "small" | "nhỏ";
    E_MEDIUM = "medium" | "vừa";
    E_LARGE = "large" | "lớn";
    P_STUDY = "study {number}: {title} ({source})" | "nghiên cứu {number}: {title} ({source})";
    P_REMARKS = "remarks" | "ghi chú";
    P_WHY_NOT = "not comparable, because" | "không thể so sánh trực tiếp, vì";
    P_OURS_IS = "ours: {ours}" | "của ta: {ours}";
    P_LOAD = "load" | "tải";
    P_TEST = "test" | "phép thử";
    P_PAPER_GOOD = "paper good/s" | "gốc: tốt/s";
    P_OURS = "ours" | "của ta";
    P_RATIO = "ratio" | "tỉ số";
    P_PAPER_FAIL = "paper fail %" | "gốc: lỗi %";
    P_OUR_P99 = "our p99 ms" | "của ta: p99 ms";
    P_PAPER_P99 = "paper p99 ms" | "gốc: p99 ms";
    P_PAPER_SAYS = "paper says" | "gốc nói";
    P_OWN_RULES = "by its own rules" | "theo luật của gốc";
    P_BY_OURS = "by ours" | "theo luật của ta";
    P_PRINTED = "printed/s" | "in ra/s";
    P_GOOD = "good/s" | "tốt/s";
    P_WALL = "wall s" | "tổng s";
    P_FAIL = "fail %" | "lỗi %";
    P_AVG = "avg ms" | "tb ms";
    P_PAPER_RATE = "paper/s" | "gốc/s";
    P_PAPER_P999 = "paper p99.9" | "gốc: p99.9";
    P_GOODPUT = "goodput" | "goodput";
    P_ACTUAL = "actual" | "thực tế";
    P_FAILED = "fail" | "lỗi";
    P_MEAN = "avg" | "tb";
    P_STATUS = "status" | "trạng thái";
    P_COMPUTED = "computed" | "tính lại";
    P_OURS_OVER = "ours/paper" | "ta/gốc";
    P_P99_OVER = "P99 ours/paper" | "P99 ta/gốc";
    J_GOOD = "Good" | "Tốt";
    J_WARNING = "Warning" | "Cảnh báo";
    J_CRITICAL = "Critical" | "Nguy cấp";
}
