//! Two systems head to head, criteria and their winners, and what to do at which load.

use super::texts;

texts! {
    D_HEAD_TO_HEAD = "Head to head" | "Đối đầu trực tiếp";
    D_HEAD_INTRO = "The best of each scenario beside the best other system that was set up alike. Of rows of few starts (n) the difference is an indication."
        | "Hệ thống tốt nhất của mỗi kịch bản bên cạnh hệ thống khác tốt nhất được thiết lập như nhau. Với ít lần khởi động (n), khác biệt chỉ là dấu hiệu.";
    D_METRIC = "metric" | "chỉ số";
    D_OTHER = "other" | "hệ thống kia";
    D_BEST = "best" | "tốt nhất";
    D_DIFFERENCE = "difference" | "khác biệt";
    D_MAX = "Max RPS: {scenario}{load}" | "RPS tối đa: {scenario}{load}";
    D_SAFE = "Safe RPS: {scenario}{load}" | "RPS an toàn: {scenario}{load}";
    D_P99 = "P99 latency at {load}/s: {scenario}" | "Độ trễ P99 tại {load}/s: {scenario}";
    D_PATTERN = "Failure pattern: {scenario}{load}" | "Kiểu hỏng: {scenario}{load}";
    D_GAIN = "▲ +{percent} %" | "▲ +{percent} %";
    D_GAIN_SHOWN = "▲ +{percent} % (×{low}–×{high}, n = {n}, p = {p})" | "▲ +{percent} % (×{low}–×{high}, n = {n}, p = {p})";
    D_GAIN_SHOWN_LEAST = "▲ at least +{percent} % (×{low}–×{high}, n = {n}, p = {p})" | "▲ ít nhất +{percent} % (×{low}–×{high}, n = {n}, p = {p})";
    D_GAIN_BETWEEN = "+{low} % to +{high} % by the intervals (n = {n})" | "+{low} % đến +{high} % theo các khoảng (n = {n})";
    D_GAIN_LEAST = "at least +{low} % by the intervals (n = {n})" | "ít nhất +{low} % theo các khoảng (n = {n})";
    D_NOT_SHOWN = "none shown (n = {n})" | "chưa chứng tỏ (n = {n})";
    D_LOWER_SHOWN = "▲ {name} {times} lower (×{low}–×{high}, n = {n}, p = {p})" | "▲ {name} thấp hơn {times} (×{low}–×{high}, n = {n}, p = {p})";
    D_TIMES_INDICATED = "{name} {times} lower by one measurement each (n = {n})" | "{name} thấp hơn {times} theo mỗi bên một lần đo (n = {n})";

    D_VERDICT = "Criteria and winners" | "Tiêu chí và bên thắng";
    D_VERDICT_INTRO = "A criterion has a winner only where at least five fresh starts of both show a difference of 5 % or more whose 95 % interval leaves out none."
        | "Một tiêu chí chỉ có bên thắng khi ít nhất năm lần khởi động lại của cả hai cho thấy khác biệt từ 5 % trở lên và khoảng tin cậy 95 % không chứa mức bằng nhau.";
    D_CRITERION = "criterion" | "tiêu chí";
    D_WINNER = "winner" | "bên thắng";
    D_MEASURED = "measured" | "đo được";
    D_NO_WINNER = "none shown" | "chưa rõ";
    D_C_THROUGHPUT = "Raw throughput" | "Thông lượng thô";
    D_C_LATENCY = "Latency (P99)" | "Độ trễ (P99)";
    D_C_COST = "Server CPU per request" | "CPU máy chủ mỗi yêu cầu";
    D_C_RESILIENCE = "Resilience past the limit" | "Sức chịu đựng khi vượt giới hạn";
    D_C_ACCURACY = "Accuracy of the limits" | "Độ chính xác của giới hạn";
    D_C_MEMORY = "Memory" | "Bộ nhớ";
    D_C_HOT = "Hot key handling" | "Xử lý khóa nóng";
    D_C_OTHERS = "Compatibility, ecosystem, community, operation" | "Tương thích, hệ sinh thái, cộng đồng, vận hành";
    D_NOT_MEASURED = "not measured" | "không đo";
    D_NOT_MEASURED_WHY = "no load test can say; the migration checklist lists what to look at" | "không phép đo tải nào trả lời được; danh sách di chuyển nêu những điều cần xem";
    D_IN_SCENARIO = "{figures} ({scenario})" | "{figures} ({scenario})";
    D_AT_LOAD = "{figures} (at {load}/s)" | "{figures} (tại {load}/s)";
    D_NONE_OVER = "no cell admitted more than its limit" | "không ô đo nào cho qua quá giới hạn";
    D_SOME_OVER = "admitted too much: {names}" | "cho qua quá mức: {names}";
    D_NOT_JUDGED = "not judged" | "chưa xét";
    D_OVERALL = "Overall winner: {name}, ahead in {won} of {of} criteria and behind in none." | "Bên thắng chung cuộc: {name}, hơn ở {won} trên {of} tiêu chí và không thua tiêu chí nào.";
    D_OVERALL_NONE = "No overall winner: no criterion has one that is shown." | "Không có bên thắng chung cuộc: chưa tiêu chí nào chứng tỏ được.";
    D_OVERALL_MIXED = "No overall winner: different systems are ahead in different criteria." | "Không có bên thắng chung cuộc: mỗi hệ thống hơn ở tiêu chí khác nhau.";

    D_DECISION = "What to do" | "Nên làm gì";
    D_SITUATION = "situation" | "tình huống";
    D_ANSWER = "what the run says" | "kết quả đo nói gì";
    D_LESS = "I run {own} and need less than {safe}/s" | "Tôi đang dùng {own} và cần dưới {safe}/s";
    D_NEAR = "I run {own} and need {safe}/s to {held}/s" | "Tôi đang dùng {own} và cần từ {safe}/s đến {held}/s";
    D_MORE = "I run {own} and need more than {held}/s" | "Tôi đang dùng {own} và cần trên {held}/s";
    D_NEW = "I set up anew and expect much traffic" | "Tôi dựng hệ thống mới và dự kiến nhiều lưu lượng";
    D_HOT = "I have a hot key" | "Tôi có khóa nóng";
    D_STAY = "Stay: it is safe there." | "Giữ nguyên: mức đó vẫn an toàn.";
    D_CONSIDER = "It held, without a margin: consider {other}, safe up to {other_safe}/s." | "Vẫn giữ được nhưng không còn dự phòng: cân nhắc {other}, an toàn đến {other_safe}/s.";
    D_ADD = "It held, without a margin: plan a further node." | "Vẫn giữ được nhưng không còn dự phòng: chuẩn bị thêm nút.";
    D_MOVE = "Move to {other}, safe up to {other_safe}/s, or spread the keys over several nodes." | "Chuyển sang {other}, an toàn đến {other_safe}/s, hoặc chia khóa cho nhiều nút.";
    D_MOVE_OR_SPREAD = "Spread the keys over several nodes; {other} alone is safe up to {other_safe}/s." | "Chia khóa cho nhiều nút; riêng {other} an toàn đến {other_safe}/s.";
    D_SPREAD = "Spread the keys over several nodes." | "Chia khóa cho nhiều nút.";
    D_NOT_BOUNDED = "It held; no valid row above bounds it, so its margin is not known." | "Vẫn giữ được; không có dòng hợp lệ nào phía trên để chặn nên chưa biết còn dự phòng bao nhiêu.";
    D_UNKNOWN = "Not known: no valid row lies so high." | "Chưa biết: không có dòng hợp lệ nào cao đến vậy.";
    D_BEGIN_WITH = "{name} is shown to hold more ({scenario})" | "{name} được chứng tỏ giữ được nhiều hơn ({scenario})";
    D_BEGIN_ANY = "No system is shown to hold more: take the one that you can operate." | "Chưa hệ thống nào được chứng tỏ giữ được nhiều hơn: hãy chọn hệ thống mà bạn vận hành được.";
    D_HOT_HELD = "{name} held {held}/s with most of the load on one key{beside}. Beyond that a first stage before the store is needed: tollgate bench mitigations measures which."
        | "{name} giữ được {held}/s khi phần lớn tải vào một khóa{beside}. Quá mức đó cần một tầng đầu trước kho dữ liệu: tollgate bench mitigations đo xem nên chọn tầng nào.";
    D_HOT_BESIDE = ", {ratio} of what it held with keys alike" | ", bằng {ratio} mức giữ được khi các khóa như nhau";

    D_LESSONS = "Lessons of failure" | "Bài học từ cách hỏng";
    D_LESSON = "pattern" | "mẫu";
    D_BREACH = "Threshold breach" | "Vượt ngưỡng";
    D_RECOVERY = "Recovery" | "Hồi phục";
    D_CASCADE = "Cascading" | "Lan truyền";
    D_NOT_PAST = "not taken past its limit" | "chưa bị đẩy quá giới hạn";
    D_NOT_TRIED = "not measured: tollgate bench recovery does" | "chưa đo: dùng tollgate bench recovery";
    D_WITH_RETRIES = "{verdict}; retries of clients: {retries}" | "{verdict}; số lần client thử lại: {retries}";
    D_NO_RETRIES = "not measured: tollgate bench recovery --scenario cascade does" | "chưa đo: dùng tollgate bench recovery --scenario cascade";
    D_AMPLIFIED = "clients that try again make {times} of the load" | "client thử lại làm tải thành {times}";

    D_FAILURES = "Failures over all rows" | "Lỗi trên mọi dòng";
    D_REQUESTS = "requests" | "yêu cầu";
    D_TIMEOUTS = "timeouts" | "quá hạn";
    D_CONNECTION = "connection" | "kết nối";
    D_PROTOCOL = "protocol" | "giao thức";
    D_STORE_ERRORS = "store errors" | "lỗi kho";
    D_LIMITER_ERRORS = "limiter errors" | "lỗi bộ giới hạn";
    D_UNSENT = "unsent" | "chưa gửi";
    D_FAILED_ALL = "failed in all" | "tổng lỗi";

    D_INFRASTRUCTURE = "Infrastructure files" | "Tệp hạ tầng";
    D_INFRASTRUCTURE_FILES = "`deploy/docker-compose.yml` (service, proxy, monitoring), `deploy/envoy/envoy.yaml`, `deploy/prometheus/prometheus.yml`, `deploy/grafana/dashboards/`; alerts and a dashboard with the capacity of this run: `tollgate bench report DIR --format prometheus,grafana`."
        | "`deploy/docker-compose.yml` (dịch vụ, proxy, giám sát), `deploy/envoy/envoy.yaml`, `deploy/prometheus/prometheus.yml`, `deploy/grafana/dashboards/`; cảnh báo và bảng điều khiển theo năng lực đo được: `tollgate bench report DIR --format prometheus,grafana`.";

    D_STORE_CPU = "store CPU" | "CPU kho";
    D_NUMBER_SAFE = "safe" | "an toàn";
    D_NUMBER_KNEE = "P99 at the load held" | "P99 tại tải giữ được";
    D_C_LIMITED = "Denied answers of all systems" | "Câu trả lời từ chối của mọi hệ thống";
    D_C_MEAN = "Mean response time of all systems" | "Thời gian đáp ứng trung bình của mọi hệ thống";
    D_C_CPU = "Server CPU of all systems" | "CPU máy chủ của mọi hệ thống";
    D_C_RSS = "Memory of all systems" | "Bộ nhớ của mọi hệ thống";
    D_Y_DENIED = "denied/s" | "từ chối/s";
    D_Y_RSS = "resident MiB" | "MiB thường trú";
}
