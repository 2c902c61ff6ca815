//! Words of the capacity matrix, the thresholds and the migration checklist.

use super::texts;

texts! {
    METRIC_LOAD = "Load of capacity" | "Tải so với năng lực";
    METRIC_P99 = "P99 latency" | "Độ trễ P99";
    METRIC_ERRORS = "Error rate" | "Tỉ lệ lỗi";
    METRIC_CPU = "CPU (backend)" | "CPU (backend)";
    METRIC_MEMORY = "Memory" | "Bộ nhớ";
    METRIC_CONNECTIONS = "Connections" | "Kết nối";
    ACTION_SCALE = "Scale" | "Mở rộng";
    ACTION_INVESTIGATE = "Investigate" | "Điều tra";
    ACTION_ALERT = "Alert" | "Báo động";
    ACTION_TTL = "Check expiry and eviction" | "Kiểm tra TTL và trục xuất";
    ACTION_POOL = "Increase the pool" | "Tăng pool";

    FIT_COMFORTABLE = "comfortable" | "thoải mái";
    FIT_SAFE = "safe" | "an toàn";
    FIT_NEAR_LIMIT = "near limit" | "gần giới hạn";
    FIT_UNKNOWN = "not known" | "chưa biết";
    FIT_BEYOND = "needs several nodes" | "cần nhiều nút";
    BAND_UP_TO = "up to {to}" | "đến {to}";
    BAND_ABOVE = "above {from}" | "trên {from}";
    DO_ENOUGH = "{name} is enough" | "{name} là đủ";
    DO_MONITOR = "{name} with monitoring" | "{name} kèm giám sát";
    DO_MOVE = "{name}; {from} has no margin" | "{name}; {from} không còn dự phòng";
    DO_ADD = "no margin left on {names}: plan a further node" | "{names} không còn dự phòng: chuẩn bị thêm nút";
    DO_UNLIKE = "no choice by these rows: the systems were not set up alike" | "không chọn được từ các dòng này: các hệ thống không được thiết lập như nhau";
    DO_UNKNOWN = "not known of {names}: no valid row lies so high" | "chưa biết với {names}: không có dòng hợp lệ nào cao đến vậy";
    DO_SHARD = "several nodes, keys spread over them; {name} holds most per node" | "nhiều nút, chia khóa cho các nút; {name} giữ được nhiều nhất mỗi nút";

    MATRIX_TITLE = "Capacity matrix: {scenario}" | "Bảng năng lực: {scenario}";
    MATRIX_INTRO = "Bands of load in requests per second and how each measured system stands to them, by its best operation: comfortable is up to half of the safe load, near limit up to what was held."
        | "Các dải tải (yêu cầu mỗi giây) và vị thế của từng hệ thống đã đo, theo thao tác tốt nhất: thoải mái là đến một nửa tải an toàn, gần giới hạn là đến mức giữ được.";
    MATRIX_LOAD = "load /s" | "tải /s";
    MATRIX_DO = "recommendation" | "khuyến nghị";
    WATCH_TITLE = "Monitoring thresholds of {target} ({profile})" | "Ngưỡng giám sát của {target} ({profile})";
    WATCH_INTRO = "Capacity is {sustained}/s: what {cell} held, the scenario in which the target holds least; safe is {safe}/s."
        | "Năng lực là {sustained}/s: mức {cell} giữ được, kịch bản mà đích đo giữ được ít nhất; an toàn là {safe}/s.";
    RULES_TITLE = "Prometheus rules" | "Luật Prometheus";
    RULES_INTRO = "Set the job label to that of your exporter (`--job`)." | "Đặt nhãn job theo exporter của bạn (`--job`).";
    TIERS_TITLE = "Tiers" | "Các bậc kiến trúc";
    TIER_1 = "Up to {load}/s: one node. A limiter in front of the application, limits in one store, monitoring as above."
        | "Đến {load}/s: một nút. Bộ giới hạn trước ứng dụng, giới hạn trong một store, giám sát như trên.";
    TIER_2 = "{from}/s to {to}/s: one node with a replica, a local first stage for hot keys (denials cached until their reset, leases of tokens), alerts on the load."
        | "{from}/s đến {to}/s: một nút có bản sao, tầng cục bộ cho khóa nóng (nhớ lệnh từ chối đến lúc đặt lại, cấp phát token theo lô), báo động theo tải.";
    TIER_3 = "Above {from}/s: several nodes with keys spread by hash; a hot key still lives on one node, so keep the local stage."
        | "Trên {from}/s: nhiều nút, chia khóa theo băm; khóa nóng vẫn nằm trên một nút nên giữ tầng cục bộ.";

    MIGRATE_TITLE = "Migration: {from} → {to}" | "Di chuyển: {from} → {to}";
    MIGRATE_MADE = "Made by `{command}`." | "Tạo bởi `{command}`.";
    MIGRATE_BASIS_RUN = "Numbers are those of the run of {date} ({grade})." | "Các con số lấy từ lần chạy ngày {date} ({grade}).";
    MIGRATE_BASIS_NONE = "No run was given (`--run DIR`), so every number is left open." | "Không có lần chạy nào (`--run DIR`), nên mọi con số để trống.";
    MIGRATE_BOX = "Boxes are ticked where a run or a check of Tollgate's answers them; the others are yours."
        | "Ô được đánh dấu là những mục mà lần chạy hoặc phép kiểm của Tollgate trả lời được; các ô còn lại là của bạn.";
    MIGRATE_MORE = "The table of differences, the settings, the steps of the switch and the criteria for going back are printed by `{command}`."
        | "Bảng khác biệt, các thiết lập, các bước chuyển và tiêu chí quay lui được in bởi `{command}`.";
    MIGRATE_PREPARATION = "Preparation" | "Chuẩn bị";
    MIGRATE_CONFIGURATION = "Configuration" | "Cấu hình";
    MIGRATE_DEPLOYMENT = "Deployment" | "Triển khai";
    MIGRATE_VALIDATION = "Validation" | "Kiểm chứng";
    MIGRATE_DIFFERENCES = "Differences that matter to a rate limiter" | "Khác biệt quan trọng với bộ giới hạn tốc độ";
    MIGRATE_SETTINGS = "Settings by their names" | "Tên các thiết lập";
    MIGRATE_CUTOVER = "Cutover" | "Các bước chuyển";
    MIGRATE_ROLLBACK = "Rollback criteria" | "Tiêu chí quay lui";
    MIGRATE_THRESHOLDS = "Thresholds of {to}" | "Ngưỡng của {to}";
    MIGRATE_MEASURED = "Measured" | "Kết quả đo";
    COL_TOPIC = "topic" | "mục";
    COL_SETTING = "setting" | "thiết lập";
    COL_MEASURED = "measured" | "chỉ số";
    COL_FROM = "{name} now" | "{name} hiện tại";
    COL_TO = "{name} then" | "{name} sau này";

    BOX_COMPATIBILITY = "Compatibility: run your test suite against {to}, and look up the commands and scripts that you use in the table of differences."
        | "Tương thích: chạy bộ kiểm thử của bạn với {to}, và tra các lệnh, script bạn dùng trong bảng khác biệt.";
    BOX_BENCHMARK = "Benchmark: {from} and {to} measured side by side on one machine ({detail})." | "Benchmark: {from} và {to} đo cạnh nhau trên cùng máy ({detail}).";
    BOX_BENCHMARK_INVALID = "Benchmark: the run is invalid; measure both again on a quiet machine: `{command}`." | "Benchmark: lần chạy không hợp lệ; hãy đo lại cả hai trên máy rảnh: `{command}`.";
    BOX_BENCHMARK_OPEN = "Benchmark: measure both on your hardware: `{command}`." | "Benchmark: đo cả hai trên phần cứng của bạn: `{command}`.";
    BOX_DOCUMENTATION = "Documentation: read the table of differences and the release notes of your version of {to}." | "Tài liệu: đọc bảng khác biệt và ghi chú phát hành của phiên bản {to} bạn dùng.";
    BOX_BACKUP = "Backup: keep a copy of rules and settings of {from}; counters need none, they live one window."
        | "Sao lưu: giữ bản sao luật và thiết lập của {from}; bộ đếm không cần, chúng chỉ sống một cửa sổ.";
    BOX_POOL = "Connection pool: {detail}." | "Connection pool: {detail}.";
    BOX_POOL_MEASURED = "the run used {connections} connections with up to {depth} requests each in flight; start there" | "lần chạy dùng {connections} kết nối, mỗi kết nối tối đa {depth} yêu cầu đang chờ; bắt đầu từ đó";
    BOX_POOL_OPEN = "begin with that of {from} and watch the waits for a connection" | "bắt đầu như {from} và theo dõi thời gian chờ kết nối";
    BOX_TIMEOUTS = "Timeouts: {detail}." | "Timeout: {detail}.";
    BOX_TIMEOUTS_MEASURED = "P99.9 at {load}/s is {latency}; a timeout below three times that turns slow answers into failures" | "P99.9 tại {load}/s là {latency}; timeout nhỏ hơn ba lần mức đó sẽ biến câu trả lời chậm thành lỗi";
    BOX_TIMEOUTS_OPEN = "keep those of {from} until P99.9 of {to} is known" | "giữ như {from} cho đến khi biết P99.9 của {to}";
    BOX_PERSISTENCE = "Persistence: counters may start empty, but then every key gets one window's limit again; decide whether that is acceptable."
        | "Độ bền: bộ đếm có thể bắt đầu rỗng, nhưng khi đó mỗi khóa được lại giới hạn của một cửa sổ; hãy quyết định có chấp nhận được không.";
    BOX_EVICTION = "Eviction: set {to} so that counters are never evicted before they expire; an evicted counter admits too much."
        | "Trục xuất: cấu hình {to} để bộ đếm không bị trục xuất trước khi hết hạn; bộ đếm bị trục xuất sẽ cho qua quá nhiều.";
    BOX_MONITORING = "Monitoring: load the rules (`{command}`) before the first request." | "Giám sát: nạp các luật (`{command}`) trước yêu cầu đầu tiên.";
    BOX_ROLLBACK = "Rollback plan: {from} keeps running, the switch is one setting, and the criteria for going back are agreed on."
        | "Kế hoạch quay lui: {from} vẫn chạy, việc chuyển chỉ là một thiết lập, và các tiêu chí quay lui đã được thống nhất.";
    BOX_CANARY = "Canary: 5 % of the traffic for 24 hours." | "Canary: 5 % lưu lượng trong 24 giờ.";
    BOX_ROLLOUT = "Rollout: 5 % → 25 % → 50 % → 100 %, each step through one daily peak." | "Mở rộng dần: 5 % → 25 % → 50 % → 100 %, mỗi bước qua một giờ cao điểm trong ngày.";
    BOX_PERFORMANCE = "Throughput and latency: {detail}." | "Thông lượng và độ trễ: {detail}.";
    BOX_PERFORMANCE_MEASURED = "expect {sustained}/s held and {safe}/s safe ({cell}); compare with what the canary shows" | "kỳ vọng giữ được {sustained}/s và an toàn {safe}/s ({cell}); so với những gì canary cho thấy";
    BOX_PERFORMANCE_OPEN = "meet what you expect; state it before the canary" | "đạt kỳ vọng; hãy ghi rõ kỳ vọng trước khi canary";
    BOX_ACCURACY = "Accuracy: {detail}." | "Độ chính xác: {detail}.";
    BOX_ACCURACY_RIGHT = "no cell of {to} admitted more than its limit in the run; check the share of denials in the canary too" | "không ô đo nào của {to} cho qua vượt giới hạn trong lần chạy; kiểm tra thêm tỉ lệ từ chối ở canary";
    BOX_ACCURACY_WRONG = "{to} admitted {percent} % more than allowed in the run: do not migrate before that is understood" | "{to} cho qua nhiều hơn mức cho phép {percent} % trong lần chạy: đừng di chuyển trước khi hiểu rõ";
    BOX_ACCURACY_OPEN = "the share of denials stays the same for the same traffic" | "tỉ lệ từ chối không đổi với cùng lưu lượng";
    BOX_STABILITY = "Stability: no growth of memory or connections over 48 hours." | "Ổn định: bộ nhớ và kết nối không tăng trong 48 giờ.";

    STEP_SHADOW = "Start {to} beside {from} with the same limits and an empty store." | "Khởi động {to} cạnh {from} với cùng giới hạn và store rỗng.";
    STEP_MIRROR = "Mirror a share of the decisions to {to}, ignore its verdicts, and compare the share of denials per rule." | "Sao một phần quyết định sang {to}, bỏ qua phán quyết của nó, và so tỉ lệ từ chối theo từng luật.";
    STEP_SWITCH_CLIENTS = "Point the canary's clients at {to}: {how}." | "Trỏ client canary sang {to}: {how}.";
    STEP_WINDOW = "Expect that each key may be admitted up to twice its limit in the window of the switch, because both systems count from zero; switch outside the peak, or halve the limits for one window."
        | "Trong cửa sổ chuyển đổi mỗi khóa có thể được cho qua đến hai lần giới hạn vì hai hệ thống đếm riêng từ 0; chuyển ngoài giờ cao điểm, hoặc giảm nửa giới hạn trong một cửa sổ.";
    STEP_WIDEN = "Widen by the rollout steps; after each, wait one window and compare load, P99, errors and denials." | "Mở rộng theo các bước; sau mỗi bước chờ một cửa sổ rồi so tải, P99, lỗi và tỉ lệ từ chối.";
    STEP_RETIRE = "Keep {from} for 48 hours after 100 %, then retire it." | "Giữ {from} thêm 48 giờ sau khi đạt 100 %, rồi ngừng.";
    BACK_ERRORS = "Errors above 1 % for a minute." | "Lỗi trên 1 % trong một phút.";
    BACK_P99 = "P99 above {bound} for five minutes." | "P99 trên {bound} trong năm phút.";
    BACK_DENIALS = "The share of denials of a rule differs by more than 5 % from {from} under the same traffic." | "Tỉ lệ từ chối của một luật lệch quá 5 % so với {from} với cùng lưu lượng.";
    BACK_LOAD = "The load on a node exceeds the safe {safe}/s before the rollout is at 100 %." | "Tải trên một nút vượt mức an toàn {safe}/s trước khi đạt 100 %.";
    BACK_HOW = "To go back, point the clients at {from}; its counters are one window old at most, so nothing must be copied." | "Để quay lui, trỏ client về {from}; bộ đếm của nó cũ nhiều nhất một cửa sổ nên không cần sao chép gì.";
    NOT_THERE = "not there" | "không có";
}
