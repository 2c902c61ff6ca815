//! Sentences of the verdict and of the observations.

use super::texts;

texts! {
    STUDY_REPEATED = "Study {study} was repeated in a closed loop: {n} rows of {systems} stand beside its own. Each test ran once, so differences between systems are indications and not claims; no load was offered, so no safe load follows."
        | "Nghiên cứu {study} đã được lặp lại theo vòng kín: {n} dòng của {systems} đặt cạnh dòng của nó. Mỗi phép thử chỉ chạy một lần nên khác biệt giữa các hệ thống chỉ để tham khảo; không đưa vào tải định trước nên không suy ra tải an toàn.";
    NOTHING_MEASURED = "Nothing was measured, so nothing can be said." | "Không đo được gì nên không thể kết luận.";
    RUN_INVALID = "The run is invalid by its own rules ({why}): read the rows as orientation, not as results."
        | "Lần chạy không hợp lệ theo chính các quy tắc của nó ({why}): chỉ đọc các dòng để định hướng, không phải kết quả.";
    CELLS_INVALID = "Invalid by the bench's own rules, and to be read as orientation, not as results: {names}."
        | "Không hợp lệ theo chính các quy tắc của bench, chỉ đọc để định hướng chứ không phải kết quả: {names}.";
    AND_MORE = "and {n} more" | "và {n} mục nữa";
    AFTER_OVERLOAD = "{cell}, back at {after}/s after {seconds} s of overload at {load}/s: {clients}{healing}."
        | "{cell}, trở lại {after}/s sau {seconds} s quá tải ở {load}/s: {clients}{healing}.";
    CLIENTS_NEVER_AGAIN = "with clients that never ask again ({deadline}) {became}" | "với client không thử lại ({deadline}) {became}";
    CLIENTS_AGAIN = "with clients that ask again up to {retries} times ({deadline}) {became}" | "với client thử lại tối đa {retries} lần ({deadline}) {became}";
    CLIENTS_DEADLINE = "deadline {ms} ms" | "hạn {ms} ms";
    CLIENTS_PATIENT = "no deadline" | "không có hạn";
    BACK_AFTER = "good again after {seconds} s" | "tốt trở lại sau {seconds} s";
    FEW_STARTS = "Every row is from few starts (n={n}), so differences between systems are indications and not claims: --starts {needed} measures what can be claimed."
        | "Mỗi dòng chỉ từ ít lần khởi động (n={n}), nên khác biệt giữa các hệ thống chỉ để tham khảo: --starts {needed} mới đủ để khẳng định.";
    NONE_KEPT_LIMIT = "{scenario}: every cell admitted more than its limit allows, so none is ranked."
        | "{scenario}: mọi ô đo đều cho qua nhiều hơn giới hạn nên không xếp hạng.";
    NEVER_OVER = "No cell admitted more than its limit allows." | "Không ô đo nào cho qua nhiều hơn giới hạn.";
    ADMITTED_OVER = "Admitted more than the limit allows: {names}. Their speed does not count."
        | "Cho qua nhiều hơn giới hạn: {names}. Tốc độ của chúng không được tính.";
    DENIED_TOO_MUCH = "Denied part of what the limit allows: {names}."
        | "Từ chối một phần những gì giới hạn cho phép: {names}.";
    PROMISES_BROKEN = "Promised waits (Retry-After) that did not hold: {names}."
        | "Thời gian chờ đã hứa (Retry-After) không đúng: {names}.";
    PROMISES_OF = "{cell} ({short} too short and {long} too long of {n} checked, by up to {worst} ms)"
        | "{cell} ({short} quá ngắn và {long} quá dài trong {n} đã kiểm, lệch đến {worst} ms)";
    PARTIAL_EMPTY = "The run is partial: {why}." | "Lần chạy chưa trọn vẹn: {why}.";
    PARTIAL_RUN = "The run is partial: {why}. What was measured is kept." | "Lần chạy chưa trọn vẹn: {why}. Những gì đã đo vẫn được giữ.";
    ENDED_EARLY = "it ended early" | "kết thúc sớm";
    WITH = "{target} with {operation}" | "{target} với {operation}";
    HELD = "{scenario}: {cell} held {load}/s{not} within the {profile} thresholds{end}"
        | "{scenario}: {cell} giữ được {load}/s{not} trong ngưỡng {profile}{end}";
    MEDIAN_BETWEEN = " (the median of {n} starts, which held {low} to {high}/s)" | " (trung vị của {n} lần khởi động, giữ được từ {low} đến {high}/s)";
    MEDIAN_OF = " (the median of {n} starts)" | " (trung vị của {n} lần khởi động)";
    AND_NOT = " (and not {load}/s)" | " (và không giữ được {load}/s)";
    AND_NOT_MOSTLY = " (and not {load}/s, though single trials held up to {held}/s)" | " (và không giữ được {load}/s, dù có lần thử đơn lẻ giữ được đến {held}/s)";
    NOT_BOUNDED = ", with no valid row above to bound it" | ", không có dòng hợp lệ nào phía trên để chặn";
    TOP_OF_LADDER = ", a lower bound: the highest load tried still held" | ", một cận dưới: tải cao nhất đã thử vẫn giữ được";
    SUSTAINS = "{scenario}: {cell} sustains [{lower}–{upper}]/s by the capacity search, within the {profile} thresholds"
        | "{scenario}: {cell} duy trì được [{lower}–{upper}]/s theo phép tìm năng lực, trong ngưỡng {profile}";
    SUSTAINS_FROM = "{scenario}: {cell} sustains at least {lower}/s by the capacity search, within the {profile} thresholds"
        | "{scenario}: {cell} duy trì được ít nhất {lower}/s theo phép tìm năng lực, trong ngưỡng {profile}";
    HELD_NONE_VALID = "{scenario}: no valid row shows what any cell holds." | "{scenario}: không có dòng hợp lệ nào cho thấy ô đo nào giữ được tải.";
    HELD_NONE = "{scenario}: no cell held its load, not even {load}/s, within the {profile} thresholds."
        | "{scenario}: không ô đo nào giữ được tải, kể cả {load}/s, trong ngưỡng {profile}.";
    HELD_NONE_FROM_BOTTOM = "{scenario}: no cell held its load from the bottom of the ladder on, within the {profile} thresholds; {what}."
        | "{scenario}: không ô đo nào giữ được tải từ đáy thang trở lên, trong ngưỡng {profile}; {what}.";
    WHAT_HELD_ALONE = "{cell} did not hold {load}/s, the lowest valid row of its ladder, though single rows above it held up to {held}/s (not monotone)"
        | "{cell} không giữ được {load}/s, dòng hợp lệ thấp nhất của thang tải, dù có dòng đơn lẻ phía trên giữ được đến {held}/s (không đơn điệu)";
    ASKED_THE_SAME = "; asked the same ({operation}), {one} and {other}" | "; với cùng một yêu cầu ({operation}), {one} và {other}";
    ONE_HELD = "{target} held {load}" | "{target} giữ được {load}";
    HELD_NOTHING = "nothing" | "không mức nào";
    HELD_NOTHING_FROM_BOTTOM = "nothing from the bottom of its ladder on" | "không mức nào từ đáy thang trở lên";
    HELD_NOTHING_SHOWN = "no load that its search could show" | "không mức nào mà phép tìm chứng tỏ được";
    OTHER_NONE_SHOWN = "; the search ended before it could show a load that {cell} held"
        | "; phép tìm kết thúc trước khi chứng tỏ được mức tải nào mà {cell} giữ được";
    OTHER_HELD_NO_ROW = "; {cell} held no row of its ladder" | "; {cell} không giữ được bậc nào của thang tải";
    OTHER_HELD_NO_VALID_ROW = "; {cell} held no valid row of its ladder" | "; {cell} không giữ được bậc hợp lệ nào của thang tải";
    WHAT_HELD = "{cell} held ({load}/s)" | "{cell} giữ được ({load}/s)";
    TIMES_BETWEEN = "; that is {low} to {high} times what {what}" | "; tức gấp {low} đến {high} lần mức {what}";
    TIMES_AT_LEAST = "; that is at least {low} times what {what}" | "; tức ít nhất gấp {low} lần mức {what}";
    TIMES_SHOWN = "; that is {ratio} times [{low}–{high}] what {what} ({n} starts each, p = {p})"
        | "; tức gấp {ratio} lần [{low}–{high}] mức {what} (mỗi bên {n} lần khởi động, p = {p})";
    CANNOT_RANK = "; {what} and no valid row bounds it, so the ladders cannot rank the two"
        | "; {what} và không có dòng hợp lệ nào chặn trên, nên hai thang tải không xếp hạng được";
    NO_DIFFERENCE = "; against {cell} ({load}/s) the ladders show no difference" | "; so với {cell} ({load}/s) các thang tải không cho thấy khác biệt";
    UNLIKE_HELD = "; {what}, which is not compared, since the two were not set up alike ({why})"
        | "; {what}, không so sánh được vì hai bên không được thiết lập như nhau ({why})";
    UNLIKE_HELD_NOTHING = "; {cell} held nothing that was shown, and would not be compared, since the two were not set up alike ({why})"
        | "; {cell} không giữ được mức nào chứng tỏ được, và cũng không so sánh được vì hai bên không được thiết lập như nhau ({why})";
    UNLIKE_MARK = " (NOT SET UP ALIKE: {why})" | " (KHÔNG ĐƯỢC THIẾT LẬP NHƯ NHAU: {why})";
    CPU_COST = "; at {load}/s they cost {mine} against {theirs} µs of server CPU per request"
        | "; tại {load}/s chúng tốn {mine} so với {theirs} µs CPU máy chủ cho mỗi yêu cầu";
    CPU_COST_APART = "; at {load}/s and {apart}/s they cost {mine} against {theirs} µs of server CPU per request"
        | "; tại {load}/s và {apart}/s chúng tốn {mine} so với {theirs} µs CPU máy chủ cho mỗi yêu cầu";
    PAIRS_UNLIKE = "The two were not set up alike ({why}): what follows may come from that, and is no claim about the systems."
        | "Hai bên không được thiết lập như nhau ({why}): điều sau đây có thể do đó, không phải kết luận về các hệ thống.";
    PAIRS_NONE = "No pair of slices was measured, so nothing can be said." | "Không đo được cặp lát nào nên không thể kết luận.";
    PAIRS_NO_DIFFERENCE = "{load}: the spread of {what} shows no difference between {a} and {b} ({n} pairs)."
        | "{load}: độ phân tán của {what} không cho thấy khác biệt giữa {a} và {b} ({n} cặp).";
    PAIRS_TAKES = "{load}: {slower} takes {ratio} the {what} of {faster} ({n} pairs)."
        | "{load}: {slower} tốn {ratio} {what} của {faster} ({n} cặp).";
    ROW_NOTE = "{load}: {note}." | "{load}: {note}.";
    SERVER_CPU_PER_REQUEST = "server CPU per request" | "CPU máy chủ cho mỗi yêu cầu";
    MEDIAN_LATENCY = "median latency" | "độ trễ trung vị";
    P99_LATENCY = "P99 latency" | "độ trễ P99";

    SUSTAINED = "Sustained load: {load}/s, safe up to {safe}/s{why}." | "Tải duy trì được: {load}/s, an toàn đến {safe}/s{why}.";
    SAFE_BECAUSE = " ({why})" | " ({why})";
    CONTRARY_ROW = "The row at {load}/s is a single trial that did not hold; the search decided by its own trials at this load, of which {held} of {n} held."
        | "Dòng tại {load}/s là một lần thử đơn lẻ không giữ được; phép tìm quyết định bằng các lần thử của nó ở tải này, {held} trong {n} lần giữ được.";
    SEARCHED_LIMIT = "Capacity search: sustained [{lower}–{upper}]/s in {n} trials." | "Tìm năng lực: duy trì được [{lower}–{upper}]/s qua {n} lần thử.";
    EARLY_WARNING = "Early warning: not ok from {load}/s on, {margin} % of load before the limit."
        | "Cảnh báo sớm: không còn đạt từ {load}/s, sớm hơn giới hạn {margin} % tải.";
    PEAK = "Peak performance: {load} good answers per second." | "Hiệu năng đỉnh: {load} câu trả lời tốt mỗi giây.";
    DOUBTFUL_ROW = "The row at {load}/s is invalid and was not held; it proves nothing against the target."
        | "Dòng tại {load}/s không hợp lệ và không giữ được; nó không chứng minh điều gì về đích đo.";
    ANOMALY = "Anomaly: {loads} not held although a higher load was; unexplained."
        | "Bất thường: {loads} không giữ được dù tải cao hơn lại giữ được; chưa giải thích được.";
    ANOMALY_BECAUSE = "Anomaly: {load} not held although a higher load was; most likely {why}."
        | "Bất thường: {load} không giữ được dù tải cao hơn giữ được; khả năng nhất là {why}.";
    BECAUSE_EVICTED = "the store ran out of memory: it evicted {n} keys" | "kho dữ liệu hết bộ nhớ: nó loại bỏ {n} khóa";
    BECAUSE_REFUSED = "broken connections: {n} requests were lost with their connections" | "kết nối đứt: {n} yêu cầu mất cùng kết nối của chúng";
    BECAUSE_STEAL = "the machine: the hypervisor took {here} % of its CPU time, and {there} % in the rows around it that held"
        | "do máy: hypervisor lấy {here} % thời gian CPU, so với {there} % ở các dòng lân cận giữ được";
    BECAUSE_LATE = "the generator: it was late by up to {here}, and by {there} in the rows around it that held"
        | "do bộ phát: nó trễ đến {here}, so với {there} ở các dòng lân cận giữ được";
    BECAUSE_GENERATOR = "the machine: the generator waited for a core {here} % of the time, and {there} % in the rows around it that held"
        | "do máy: bộ phát phải chờ nhân CPU {here} % thời gian, so với {there} % ở các dòng lân cận giữ được";
    BECAUSE_DISK = "a disk: tasks waited for a disk {here} % of the time, and {there} % in the rows around it that held"
        | "do đĩa: các tác vụ chờ đĩa {here} % thời gian, so với {there} % ở các dòng lân cận giữ được";
    BECAUSE_MEMORY = "want of memory: tasks waited for memory {here} % of the time, and {there} % in the rows around it that held"
        | "do thiếu bộ nhớ: các tác vụ chờ bộ nhớ {here} % thời gian, so với {there} % ở các dòng lân cận giữ được";
    BECAUSE_TARGET_WAITED = "other work on the machine: the target stood ready without a core {here} % of the time, and {there} % in the rows around it that held"
        | "do việc khác trên máy: đích đo sẵn sàng mà không có nhân CPU {here} % thời gian, so với {there} % ở các dòng lân cận giữ được";
    BECAUSE_PREEMPTED = "other work on the machine: the target was taken off its core {here} times a second, and {there} in the rows around it that held"
        | "do việc khác trên máy: đích đo bị lấy khỏi nhân CPU {here} lần mỗi giây, so với {there} ở các dòng lân cận giữ được";
    BECAUSE_DEARER = "work of the target's own: it spent {here} µs of CPU on a request, and {there} in the rows around it that held"
        | "do việc riêng của đích đo: nó tốn {here} µs CPU mỗi yêu cầu, so với {there} ở các dòng lân cận giữ được";
    BECAUSE_PAUSE = "that the target paused: from {at} s on it gave {least} good answers a second, where {median} are the median"
        | "đích đo bị ngừng: từ giây {at} nó chỉ cho {least} câu trả lời tốt mỗi giây, trong khi trung vị là {median}";
    AGAIN_BECAUSE = "measured again, because " | "đo lại, vì ";
    MEASURED_AGAIN = "Measured again, because the generator was late or the machine busy (results.json has each reason): {loads}" | "Đo lại, vì bộ sinh tải trễ hoặc máy bận (results.json có từng lý do): {loads}";
    AT_LOAD = "At {load}/s: {note}" | "Tại {load}/s: {note}";
    BREAKING = "Breaking point: {load}/s with {percent} % failed ({kinds})." | "Điểm gãy: {load}/s với {percent} % thất bại ({kinds}).";
    COLLAPSE_AT = "Collapse: {percent} % above the sustained load." | "Sụp đổ: cao hơn tải duy trì được {percent} %.";
    PAST_LIMIT = "Past the limit: at {times} times the sustained load {percent} % of the peak goodput remain ({class})."
        | "Vượt giới hạn: ở {times} lần tải duy trì được còn {percent} % goodput đỉnh ({class}).";
    GRACEFUL = "graceful" | "suy giảm êm";
    DEGRADING = "degrading" | "suy giảm";
    COLLAPSING = "collapse" | "sụp đổ";
    ALLOW_AGAINST_DENY = "At the lowest load the median of an allowed answer is {allow}, of a denied one {deny}."
        | "Ở tải thấp nhất, trung vị của câu trả lời cho qua là {allow}, của câu từ chối là {deny}.";
    MEAN_BEYOND_QUEUE = "At {load}/s ({percent} % of the sustained load) the mean response is {mean}, {times} times what a single queue of {service} would give: something besides queueing adds latency."
        | "Tại {load}/s ({percent} % tải duy trì) đáp ứng trung bình là {mean}, gấp {times} lần một hàng đợi đơn với {service}: có nguyên nhân ngoài hàng đợi làm tăng độ trễ.";
}
