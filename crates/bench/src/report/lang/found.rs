//! Lines about capacity, recovery and cost.

use super::texts;

texts! {
    F_SAFE = "safe up to {safe}/s, because {sustained}/s was sustained and this is {why}; {upper}{trust}"
        | "an toàn đến {safe}/s, vì duy trì được {sustained}/s và đây là {why}; {upper}{trust}";
    F_HEALING_UNKNOWN = "whether it heals after an overload was not tried (tollgate bench recovery)"
        | "chưa thử xem nó có hồi phục sau quá tải không (tollgate bench recovery)";
    F_STARTS_SAFE = "; safe by each start alone: {each}" | "; mức an toàn theo từng lần khởi động: {each}";
    F_WHY_MARGIN = "85 % of it" | "85 % của mức đó";
    F_WHY_HEALING = "the highest load from which it was seen to heal" | "tải cao nhất mà từ đó hệ thống còn tự hồi phục";
    F_WHY_CPU = "where it uses 70 % of its processor time" | "tải mà tại đó nó dùng 70 % thời gian CPU";
    F_TOO_MUCH = "{load}/s is too much" | "{load}/s là quá tải";
    F_NONE_TOO_MUCH = "no load was shown to be too much" | "chưa thấy tải nào là quá tải";
    F_NO_SAFE = "no safe load: no load kept the goal" | "không có tải an toàn: không tải nào giữ được mục tiêu";
    F_NO_SAFE_HOLE = "no safe load: every load that kept the goal lies above one that missed it"
        | "không có tải an toàn: mọi tải giữ được mục tiêu đều cao hơn một tải không giữ được";
    F_REFUSED = "REFUSED: {why}" | "BỊ LOẠI: {why}";
    F_NOT_MONOTONE = "not monotone: {loads}/s failed although a higher load passed"
        | "không đơn điệu: {loads}/s không đạt dù tải cao hơn lại đạt";
    F_LOST = "way down against way up: {percent} % of the goodput lost" | "chiều xuống so với chiều lên: mất {percent} % goodput";
    F_GAINED = "way down against way up: {percent} % of the goodput gained" | "chiều xuống so với chiều lên: thêm {percent} % goodput";
    F_GOAL = "{goal}: {sustains}{goodput}: {remark}" | "{goal}: {sustains}{goodput}: {remark}";
    F_BETWEEN = "sustains [{lower}, {upper}]/s" | "duy trì được [{lower}, {upper}]/s";
    F_AT_LEAST = "sustains at least {lower}/s" | "duy trì được ít nhất {lower}/s";
    F_LESS_THAN = "sustains less than {upper}/s" | "duy trì được dưới {upper}/s";
    F_NOT_KNOWN = "what it sustains is not known" | "chưa biết duy trì được bao nhiêu";
    F_EXPECTED = ", expected goodput {goodput}/s" | ", goodput kỳ vọng {goodput}/s";
    F_NOTHING = "nothing" | "không mức nào";
    F_STARTS = "{goal}: the {n} starts held {each}; median {median}{spread}"
        | "{goal}: {n} lần khởi động lần lượt giữ được {each}; trung vị {median}{spread}";
    F_STARTS_SPREAD = " [{low}–{high}], MAD {mad}" | " [{low}–{high}], MAD {mad}";
    F_STARTS_MAD = ", MAD {mad}" | ", MAD {mad}";
    F_TRIALS = "{n} trials, {spoiled} of them not fully valid; the search {how}: {why}"
        | "{n} lần thử, {spoiled} lần không hợp lệ hoàn toàn; phép tìm {how}: {why}";
    F_ENDED = "ended" | "đã xong";
    F_NO_BUDGET = "ran out of budget" | "hết ngân sách thời gian";
    F_TARGET_LOST = "lost its target" | "mất đích đo";
    F_INTERRUPTED = "was interrupted" | "bị ngắt";
    F_PAST_KNEE = "past the knee at {knee}/s: {class}{kept}; {cliff}; {warning}" | "vượt điểm gối ở {knee}/s: {class}{kept}; {cliff}; {warning}";
    F_KEPT = ", {percent} % of the goodput kept at 1.25 x the knee" | ", còn {percent} % goodput ở 1,25 lần điểm gối";
    F_CLIFF = "cliff {percent} % above the knee" | "vực nằm cao hơn điểm gối {percent} %";
    F_NO_CLIFF = "no cliff seen" | "không thấy vực";
    F_WARNED = "latency warned {percent} % before it" | "độ trễ cảnh báo sớm hơn {percent} %";
    F_NOT_WARNED = "latency did not warn before it" | "độ trễ không cảnh báo trước";
    F_KNEE = "knee {knee}/s ({source})" | "điểm gối {knee}/s ({source})";
    F_DEADLINE = "{ms} ms deadline" | "hạn chờ {ms} ms";
    F_NO_DEADLINE = "no deadline" | "không có hạn chờ";
    F_DRAINED = "backlog gone after {seconds} s" | "hàng chờ hết sau {seconds} s";
    F_NOT_DRAINED = "backlog not gone" | "hàng chờ chưa hết";
    F_VARIANT = "retries {retries}, {deadline}: {verdict}: {sentence}; {drain}; {times} times the load; {grade}"
        | "thử lại {retries}, {deadline}: {verdict}: {sentence}; {drain}; {times} lần tải; {grade}";
    F_RECOVERED = "recovered" | "đã hồi phục";
    F_METASTABLE = "did not recover (metastable)" | "không hồi phục (giả ổn định)";
    F_GENERATOR_LIMITED = "not judged: the generator was at its limit" | "không kết luận: bộ phát đã chạm giới hạn của nó";
    F_UNHARMED = "not harmed by the overload" | "không bị quá tải làm hại";
    F_NOT_HEALTHY = "not healthy before the overload" | "đã không khỏe trước khi quá tải";
    F_UNFINISHED = "ended too early to tell" | "kết thúc quá sớm để kết luận";
    F_AT = "at {load}/s {what}" | "ở {load}/s {what}";
    F_CPU_PER = "; CPU us per decision: {costs}" | "; CPU us mỗi quyết định: {costs}";
    F_PER_MILLION = "; {cost} per million decisions" | "; {cost} mỗi triệu quyết định";
    F_JOULES = "; {joules} J per million" | "; {joules} J mỗi triệu";
    F_BEFORE = "before" | "trước";
    F_OVERLOAD = "overload" | "quá tải";
    F_AFTER = "after" | "sau";
    F_GENERATOR = "generator" | "bộ phát";
    F_SERVICE = "service" | "dịch vụ";
    F_PROXY = "proxy" | "proxy";
    F_STORE = "store" | "kho dữ liệu";
    F_OTHER = "other" | "khác";
    F_SAFE_COST = "a million decisions cost {cost} at the safe load of {load}/s" | "một triệu quyết định tốn {cost} ở tải an toàn {load}/s";
}
