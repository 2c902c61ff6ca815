//! Strategies for hot keys.

use super::texts;

texts! {
    CARD_MITIGATIONS = "Strategies for hot keys" | "Các chiến lược cho khóa nóng";
    MI_INTRO = "The same load on the same services and store ({store}, {services} services), under rules that differ in the strategy alone. What each saves stands beside how far it admits too much or too little: measured by the oracle over all its steps, and the most that the strategy states (docs/rules.md). One that admits more than it states is marked and cannot win. Cost and latency are medians at {load}/s, which all were offered; goodput is the highest of all loads."
        | "Cùng một tải trên cùng các dịch vụ và kho dữ liệu ({store}, {services} dịch vụ), dưới những luật chỉ khác nhau ở chiến lược. Mức tiết kiệm đứng cạnh độ lệch: cho qua quá nhiều hay quá ít, do trọng tài đo trên mọi bậc, cùng mức tối đa mà chiến lược công bố (docs/rules.md). Chiến lược nào cho qua nhiều hơn mức công bố thì bị đánh dấu và không thể thắng. Chi phí và độ trễ là trung vị ở {load}/s, mức tải chung; goodput là mức cao nhất trong mọi tải.";
    MI_STRATEGY = "strategy" | "chiến lược";
    MI_OF_EXACT = "of exact" | "so với exact";
    MI_CPU = "CPU µs/decision" | "CPU µs/quyết định";
    MI_CPU_OF_EXACT = "of exact" | "so với exact";
    MI_SERVICES_CPU = "services" | "dịch vụ";
    MI_STORE_CPU = "store" | "kho dữ liệu";
    MI_QUESTIONS = "asked of the store" | "hỏi kho";
    MI_OVER = "too much % (stated)" | "thừa % (công bố)";
    MI_UNDER = "too little % (stated)" | "thiếu % (công bố)";
    MI_ERROR = "error" | "sai số";
    MI_STUDY = "study 000 says: accuracy, gain" | "nghiên cứu 000 nói: chính xác, lợi";
    MI_STUDY_ABOUT = "about" | "khoảng";
    MI_STUDY_LINEAR = "linear" | "tuyến tính";
    MI_WITHIN = "within" | "trong mức";
    MI_OVER_BEYOND = "TOO MUCH" | "THỪA QUÁ MỨC";
    MI_UNDER_BEYOND = "too little" | "thiếu quá mức";
    MI_NOT_JUDGED = "not judged" | "chưa xét";
    MI_GOODPUT_CHART = "Goodput against accuracy" | "Goodput theo độ chính xác";
    MI_CPU_CHART = "CPU per decision against accuracy" | "CPU mỗi quyết định theo độ chính xác";
    MI_X = "too little ← admissions beside the limit, % → too much" | "thiếu ← số cho qua so với giới hạn, % → thừa";
    MI_Y_CPU = "services and store, µs per decision" | "dịch vụ và kho, µs mỗi quyết định";
    MI_L_WITHIN = "within its stated error; larger: asks the store more often" | "trong sai số công bố; to hơn: hỏi kho nhiều hơn";
    MI_L_BEYOND = "admitted more than it states" | "cho qua nhiều hơn mức công bố";
    MI_L_STATED = "stated error, as far as it fits" | "sai số công bố, phần vừa khung";
    MI_TIP = "{name}: {goodput}/s at most ({of_exact} of exact); {cpu} µs per decision, {questions} questions to the store; too much {over} % (stated {stated_over} %), too little {under} % (stated {stated_under} %): {verdict}"
        | "{name}: nhiều nhất {goodput}/s ({of_exact} so với exact); {cpu} µs mỗi quyết định, {questions} lần hỏi kho; thừa {over} % (công bố {stated_over} %), thiếu {under} % (công bố {stated_under} %): {verdict}";
    MI_S_GOODPUT = "{scenario}: of the strategies within their stated error {name} had the highest goodput, {goodput}/s, which is {times} of exact, with {over} % too much and {under} % too little admitted."
        | "{scenario}: trong các chiến lược giữ đúng sai số công bố, {name} có goodput cao nhất, {goodput}/s, bằng {times} so với exact, cho qua thừa {over} % và thiếu {under} %.";
    MI_S_CPU = "{scenario}: at {load}/s {name} used the least CPU of services and store, {cpu} µs per decision, against {exact} µs of exact ({times})."
        | "{scenario}: ở {load}/s, {name} dùng ít CPU của dịch vụ và kho nhất, {cpu} µs mỗi quyết định, so với {exact} µs của exact ({times}).";
    MI_S_WITHIN = "Every strategy that was judged stayed within the error that it states."
        | "Mọi chiến lược được xét đều nằm trong sai số mà nó công bố.";
    MI_S_OVER = "{names} admitted MORE than stated: fast because wrong, so left out of every ranking."
        | "{names} cho qua NHIỀU HƠN mức công bố: nhanh vì sai, nên bị loại khỏi mọi xếp hạng.";
    MI_S_UNDER = "{names} denied more than stated." | "{names} từ chối nhiều hơn mức công bố.";
    MI_S_TIED = " Its starts cannot be told apart from those of {others}: among these {name} is not shown to be the best."
        | " Các lần khởi động của nó không phân biệt được với {others}: giữa chúng chưa chứng tỏ {name} là tốt nhất.";
    MI_S_STARTS = "Medians of {n} fresh starts of all services and their store, the strategies in turn forwards and backwards; [–] are 95 % bootstrap intervals of the ratio, and two strategies are told apart by Mann and Whitney's test at 5 %."
        | "Trung vị của {n} lần khởi động mới toàn bộ dịch vụ và kho dữ liệu, các chiến lược lần lượt xuôi rồi ngược; [–] là khoảng bootstrap 95 % của tỉ lệ, và hai chiến lược được phân biệt bằng kiểm định Mann-Whitney ở mức 5 %.";
    MI_S_FEW_STARTS = "Medians of {n} fresh starts: a claim needs {needed}, so read differences as indications."
        | "Trung vị của {n} lần khởi động mới: muốn khẳng định cần {needed}, vì vậy hãy đọc các khác biệt như chỉ dấu.";
    MI_S_ONE_START = "Each process was started once, with {rounds} rounds at the common load: read differences as indications."
        | "Mỗi tiến trình chỉ khởi động một lần, với {rounds} vòng ở tải chung: hãy đọc các khác biệt như chỉ dấu.";
}
