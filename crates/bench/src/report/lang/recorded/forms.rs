//! The forms of recorded sentences with their translation, by what they are about.

use super::super::Text;

macro_rules! forms {
    ($($en:literal | $vi:literal;)*) => {
        /// The forms; of several that fit, the first counts. `{n}` and what begins with an `n` takes numbers only, any
        /// other placeholder takes what is there, which is translated in turn.
        pub(crate) const FORMS: &[Text] = &[$(Text { en: $en, vi: $vi }),*];
    };
}

forms! {
    "{what} in the first start, whose loads the others repeat" | "{what} ở lần khởi động đầu, các lần sau lặp lại các mức tải đó";
    "the starts found {n}/s to {n2}/s, each by itself" | "các lần khởi động tự tìm được từ {n}/s đến {n2}/s";
    "{what} (recovery run of {date})" | "{what} (lần chạy hồi phục {date})";
    // What is odd about study 002.
    "The column printed as requests per second holds bytes: printed figure times duration by denied answers is 286.6 to 286.7 in every row, the size of one such answer. The rates here are denied answers by the duration; ratios between rows survive."
        | "Cột in là số yêu cầu mỗi giây thật ra là byte: số in nhân thời lượng chia cho số câu từ chối bằng 286.6 đến 286.7 ở mọi dòng, đúng cỡ một câu từ chối. Tốc độ ở đây là số câu từ chối chia cho thời lượng; tỉ lệ giữa các dòng vẫn đúng.";
    "One key, 100 a minute: more than 99.9 % of the answers denied, so the rejection path alone was measured, and the heavy workload behind the limiter ran about 100 times a minute."
        | "Một khóa, 100 mỗi phút: hơn 99.9 % câu trả lời là từ chối, nên chỉ đo đường từ chối, và phần tải nặng sau bộ giới hạn chỉ chạy khoảng 100 lần mỗi phút.";
    "Its CPU and memory columns are those of the load generator." | "Cột CPU và bộ nhớ của nó là của bộ sinh tải.";
    "Latencies are whole milliseconds: 2 and 3 ms are as fine as they get." | "Độ trễ là mili giây tròn: 2 và 3 ms là mức mịn nhất.";
    "Each client has a store of its own kind, so client and store cannot be told apart." | "Mỗi client có một loại kho riêng, nên không tách được client với kho.";
    "Node clients of a rate limiter on Redis and Valkey" | "Các client Node của bộ giới hạn tốc độ trên Redis và Valkey";
    "ratelimit_bench's README, 16 April 2025" | "README của ratelimit_bench, 16/4/2025";
    // Loads of paired comparisons.
    "GET beside a script of {n} s" | "GET bên một script dài {n} s";
    "limiter records, 16-byte keys, {what}, resident memory" | "bản ghi của bộ giới hạn, khóa 16 byte, {what}, bộ nhớ thường trú";
    "limiter records, 16-byte keys, {what}, used_memory" | "bản ghi của bộ giới hạn, khóa 16 byte, {what}, used_memory";
    "counters of {n} digits" | "bộ đếm {n} chữ số";
    "counters below {n}" | "bộ đếm dưới {n}";
    "overload, {n} connections x {n2}, {n3} descriptors" | "quá tải, {n} kết nối x {n2}, {n3} descriptor";
    "limiter {a} | {b}, depth {n}" | "bộ giới hạn {a} | {b}, độ sâu {n}";
    "limiter {a} | {b}, 1 connection" | "bộ giới hạn {a} | {b}, 1 kết nối";
    "same EVALSHA, depth {n}" | "cùng EVALSHA, độ sâu {n}";
    "{a} of {n}, depth {n2}" | "{a} {n} phần, độ sâu {n2}";
    "{a}, depth {n}" | "{a}, độ sâu {n}";
    "{a}, 1 connection" | "{a}, 1 kết nối";
    "{a}, {n} connections" | "{a}, {n} kết nối";
    // Whether a row may be believed.
    "the generator's own ceiling is only {n} times the offered load" | "trần của chính bộ phát chỉ gấp {n} lần tải đặt ra";
    "only {n} answers: too few for a P99" | "chỉ có {n} câu trả lời: quá ít cho P99";
    "connections were lost when {n} % of the schedule was sent" | "mất kết nối khi đã gửi {n} % lịch";
    "the generator sent only {n} % of its schedule" | "bộ phát chỉ gửi được {n} % lịch của nó";
    "P99 of the send lag is {n} ms, tolerated are {n2} ms" | "P99 của độ trễ gửi là {n} ms, mức cho phép là {n2} ms";
    "the generator used {n} % of its core" | "bộ phát dùng {n} % nhân CPU của nó";
    "the generator waited for a core {n} % of the time" | "bộ phát phải chờ nhân CPU {n} % thời gian";
    "{who} used {n} % of a core: the generator set the pace, so compare CPU and not throughput"
        | "{who} dùng {n} % một nhân: bộ phát quyết định nhịp, nên hãy so CPU chứ không so thông lượng";
    "P99 {n} ms of {a} and {n2} ms of {b}, of {n3} requests a second" | "P99 {n} ms của {a} và {n2} ms của {b}, với {n3} yêu cầu mỗi giây";
    "the hypervisor took away {n} % of the CPU time" | "hypervisor lấy mất {n} % thời gian CPU";
    "{n} % more was admitted than the limit allows, so its speed does not count" | "cho qua nhiều hơn giới hạn {n} %, nên tốc độ không được tính";
    "{n} % of what the limit allows was denied" | "{n} % mức được phép đã bị từ chối";
    "each test ran once, in a closed loop: differences between systems are indications" | "mỗi phép thử chỉ chạy một lần, theo vòng kín: khác biệt giữa các hệ thống chỉ để tham khảo";
    "n={n}: a claim needs {n2} fresh starts of every target (--starts)" | "n={n}: muốn khẳng định cần {n2} lần khởi động mới của mỗi đích đo (--starts)";
    "the machine was not the same throughout: against a server that does nothing the generator reached {n}/s at one time and {n2}/s at another, {n3} times as much"
        | "máy không giữ nguyên trong suốt lần đo: với một máy chủ không làm gì, bộ phát đạt {n}/s lúc này và {n2}/s lúc khác, gấp {n3} lần";
    "the machine could not be looked at: {why}" | "không xem được tình trạng máy: {why}";
    "set here, but not for the servers that the bench starts: {which} (--server-args gives them settings and records these)"
        | "được đặt ở đây nhưng không áp dụng cho các máy chủ mà bench khởi động: {which} (--server-args đưa thiết lập cho chúng và ghi lại)";
    "not installed; --only NAME tells where to get one" | "chưa cài; --only TÊN cho biết lấy ở đâu";
    "the generator stays awake before every due request (--spin): on a machine of so few cores this takes time from the target's part of the kernel, so rates and CPU of the target may be worse than without"
        | "bộ phát thức trước mỗi yêu cầu đến hạn (--spin): trên máy ít nhân như thế này, việc đó lấy thời gian của phần nhân hệ điều hành phục vụ đích đo, nên tốc độ và CPU của đích đo có thể kém hơn khi không dùng";
    "no more samples are kept: {why}" | "không giữ thêm mẫu nào: {why}";
    "nothing was denied: does the service have the rules that tollgate bench rules prints?" | "không câu nào bị từ chối: dịch vụ có các luật mà tollgate bench rules in ra không?";
    "it is asked of memcached only" | "chỉ hỏi được memcached";
    "{name} has no such operation" | "{name} không có thao tác đó";
    "it answers {what}" | "nó trả lời {what}";
    "left out: {why}" | "bỏ qua: {why}";
    "it holds {n} keys already, which stay as they are (--flush deletes them)" | "nó đang giữ sẵn {n} khóa, để nguyên (--flush xóa chúng)";
    "keys that begin with {what} may still be there: {why}" | "các khóa bắt đầu bằng {what} có thể vẫn còn: {why}";
    "a deciding trial: {why}" | "một lần thử quyết định: {why}";
    "{cell}: a deciding trial: {why}" | "{cell}: một lần thử quyết định: {why}";
    "{cell}: start {n}: {why}" | "{cell}: lần khởi động {n}: {why}";
    "{cell}: at {n}/s {why}" | "{cell}: ở {n}/s {why}";
    "{cell}: a deciding trial at {n}/s: {why}" | "{cell}: một lần thử quyết định ở {n}/s: {why}";
    "{cell}: recovery with {n} retries and a deadline of {n2} ms: {why}" | "{cell}: hồi phục với {n} lần thử lại và hạn {n2} ms: {why}";
    "{cell}: recovery with {n} retries and no deadline: {why}" | "{cell}: hồi phục với {n} lần thử lại và không có hạn: {why}";
    "{cell}: recovery with {n} retries: {why}" | "{cell}: hồi phục với {n} lần thử lại: {why}";
    "{cell}: the limit may lie higher, because at {n}/s, the first load that was not held, {why}"
        | "{cell}: giới hạn có thể cao hơn, vì ở {n}/s, tải đầu tiên không giữ được, {why}";
    "{cell}: the lowest row was not held, though higher ones were, and is {grade}; at {n}/s {why}"
        | "{cell}: không giữ được dòng thấp nhất dù giữ được dòng cao hơn, và dòng đó {grade}; ở {n}/s {why}";
    "{cell}: no load was held, and the lowest row is {grade}; at {n}/s {why}" | "{cell}: không giữ được tải nào, và dòng thấp nhất {grade}; ở {n}/s {why}";
    "{cell}: 1 of {n} rows that count is {grade}; at {n2}/s {why}" | "{cell}: 1 trong {n} dòng được tính là {grade}; ở {n2}/s {why}";
    "{cell}: {n} of {n2} rows that count are not fully valid; at {n3}/s {why}" | "{cell}: {n} trong {n2} dòng được tính không hợp lệ hoàn toàn; ở {n3}/s {why}";
    "{cell}: 1 of {n} rows that were held is {grade}; at {n2}/s {why}" | "{cell}: 1 trong {n} dòng giữ được tải là {grade}; ở {n2}/s {why}";
    "{cell}: {n} of {n2} rows that were held are not fully valid; at {n3}/s {why}" | "{cell}: {n} trong {n2} dòng giữ được tải không hợp lệ hoàn toàn; ở {n3}/s {why}";
    "{cell}: 1 of {n} rows is {grade}; at {n2}/s {why}" | "{cell}: 1 trong {n} dòng là {grade}; ở {n2}/s {why}";
    "{cell}: {n} of {n2} rows are not fully valid; at {n3}/s {why}" | "{cell}: {n} trong {n2} dòng không hợp lệ hoàn toàn; ở {n3}/s {why}";
    "recovery with {n} retries and a deadline of {n2} ms: {why}" | "hồi phục với {n} lần thử lại và hạn {n2} ms: {why}";
    "recovery with {n} retries and no deadline: {why}" | "hồi phục với {n} lần thử lại và không có hạn: {why}";
    "the lowest row was not held, though higher ones were, and is {grade}; at {n}/s {why}"
        | "không giữ được dòng thấp nhất dù giữ được dòng cao hơn, và dòng đó {grade}; ở {n}/s {why}";
    "no load was held, and the lowest row is {grade}; at {n}/s {why}" | "không giữ được tải nào, và dòng thấp nhất {grade}; ở {n}/s {why}";
    "1 of {n} rows that count is {grade}; at {n2}/s {why}" | "1 trong {n} dòng được tính là {grade}; ở {n2}/s {why}";
    "{n} of {n2} rows that count are not fully valid; at {n3}/s {why}" | "{n} trong {n2} dòng được tính không hợp lệ hoàn toàn; ở {n3}/s {why}";
    "1 of {n} rows that were held is {grade}; at {n2}/s {why}" | "1 trong {n} dòng giữ được tải là {grade}; ở {n2}/s {why}";
    "{n} of {n2} rows that were held are not fully valid; at {n3}/s {why}" | "{n} trong {n2} dòng giữ được tải không hợp lệ hoàn toàn; ở {n3}/s {why}";
    "at {n}/s {why} ({n2} of {n3} trials)" | "ở {n}/s {why} ({n2} trong {n3} lần thử)";
    "valid" | "hợp lệ";
    "indicative" | "tham khảo";
    "invalid" | "không hợp lệ";
    // The status of a row, and what a trial was found to be.
    "goodput is {n} % of the offered load, below {n2} %" | "goodput bằng {n} % tải đặt ra, dưới {n2} %";
    "goodput is {n} % of the offered load, needed are {n2} %" | "goodput bằng {n} % tải đặt ra, cần {n2} %";
    "{n} % failed, more than {n2} %" | "{n} % thất bại, hơn {n2} %";
    "{n} % failed, not below {n2} %" | "{n} % thất bại, không dưới {n2} %";
    "{n} % failed, allowed are {n2} %" | "{n} % thất bại, cho phép {n2} %";
    "mean {n} ms is above {n2} ms" | "trung bình {n} ms vượt {n2} ms";
    "{name} {n} ms is above {n2} ms" | "{name} {n} ms vượt {n2} ms";
    // What limits.
    "limited by {what}: {why}" | "bị giới hạn bởi {what}: {why}";
    "nothing that was watched is at its limit; nearest is {what}: {why}" | "không thứ gì được theo dõi chạm giới hạn; gần nhất là {what}: {why}";
    "nothing that was watched is at its limit; the target's process is not known" | "không thứ gì được theo dõi chạm giới hạn; không rõ tiến trình của đích đo";
    "nothing that was watched is at its limit" | "không thứ gì được theo dõi chạm giới hạn";
    "the machine" | "máy";
    "the generator" | "bộ phát";
    "the service" | "dịch vụ";
    "the proxy" | "proxy";
    "the store" | "kho dữ liệu";
    "the generator ({name})" | "bộ phát ({name})";
    "the service ({name})" | "dịch vụ ({name})";
    "the proxy ({name})" | "proxy ({name})";
    "the store ({name})" | "kho dữ liệu ({name})";
    "its thread {name} used {n} % of a core" | "luồng {name} của nó dùng {n} % một nhân";
    "it used {n} % of a core" | "nó dùng {n} % một nhân";
    "{n} % of the {n2} cores it may use" | "{n} % của {n2} nhân mà nó được dùng";
    "thread {name} of {what} ran {n} % of the time and waited {n2} % for a core" | "luồng {name} của {what} chạy {n} % thời gian và chờ nhân CPU {n2} %";
    "the hypervisor took {n} % of the processor time" | "hypervisor lấy {n} % thời gian CPU";
    "software interrupts (network) took {n} % of all cores" | "ngắt mềm (mạng) chiếm {n} % tổng số nhân";
    "all cores were busy ({n} %); the watched processes used {n2} % of them" | "mọi nhân đều bận ({n} %); các tiến trình được theo dõi dùng {n2} % trong đó";
    "all cores were busy ({n} %)" | "mọi nhân đều bận ({n} %)";
    "all {n} cores were busy ({n2} %); the watched processes used {n3} % of them" | "cả {n} nhân đều bận ({n2} %); các tiến trình được theo dõi dùng {n3} % trong đó";
    "all {n} cores were busy ({n2} %)" | "cả {n} nhân đều bận ({n2} %)";
    "tasks waited for memory {n} % of the time" | "các tác vụ chờ bộ nhớ {n} % thời gian";
    "tasks waited for disks {n} % of the time" | "các tác vụ chờ đĩa {n} % thời gian";
    // The search for capacity.
    "trial {n} of the search is shown, the one that decided: {n2} of {n3} trials at this load held it"
        | "dòng này là lần thử {n} của phép tìm, lần đã quyết định: {n2} trong {n3} lần thử ở tải này giữ được";
    "trial {n}, a single one on the way up, did not hold this load: {why}" | "lần thử {n}, lần đơn lẻ trên đường lên, không giữ được tải này: {why}";
    "trial {n}, a single one on the way down, did not hold this load: {why}" | "lần thử {n}, lần đơn lẻ trên đường xuống, không giữ được tải này: {why}";
    "not well at once after {n} of the trials that were too much, and given up to {n2} s to recover"
        | "không khỏe lại ngay sau {n} lần thử quá tải, được chờ tối đa {n2} s để hồi phục";
    "started anew {n} times, because it did not become well by itself" | "khởi động lại {n} lần vì không tự khỏe lại";
    "not well again {n} s after a trial at {n2}/s: {what}" | "vẫn chưa khỏe lại {n} s sau lần thử ở {n2}/s: {what}";
    "it is started anew" | "đích đo được khởi động lại";
    "it was not started here, so that later trials may pay for this one" | "đích đo không do bench khởi động, nên các lần thử sau có thể chịu ảnh hưởng của lần này";
    "the interval is as narrow as asked" | "khoảng đã hẹp như yêu cầu";
    "the search ended before the interval was narrow" | "phép tìm kết thúc trước khi khoảng đủ hẹp";
    "the median of {n} starts, in {n2} of which the interval is not as narrow as asked"
        | "trung vị của {n} lần khởi động, trong đó {n2} lần khoảng chưa hẹp như yêu cầu";
    "{n} of {n2} starts healed and {n3} say nothing of it; the median start: {why}" | "{n} trong {n2} lần khởi động tự hồi phục, {n3} lần không nói lên điều gì; lần trung vị: {why}";
    "{n} of {n2} starts healed; the median start: {why}" | "{n} trong {n2} lần khởi động tự hồi phục; lần trung vị: {why}";
    "the median of {n} starts: {why}" | "trung vị của {n} lần khởi động: {why}";
    "that of the first start" | "của lần khởi động đầu";
    "the median of {n} starts; over all of them {why}" | "trung vị của {n} lần khởi động; tính chung tất cả thì {why}";
    "the median of {n} starts" | "trung vị của {n} lần khởi động";
    "held up to {n}/s, the highest load tried" | "giữ được đến {n}/s, tải cao nhất đã thử";
    "no load was shown to be too much" | "chưa thấy tải nào là quá tải";
    "a lower bound: the trials ended before a load was shown to be too much" | "một cận dưới: hết lượt thử trước khi thấy tải nào là quá tải";
    "rungs added above the ladder, because the probe measured too low: {n}" | "số bậc thêm phía trên thang tải, vì lần dò đo quá thấp: {n}";
    "the highest rung that may be added still held, {n}/s: a lower bound" | "bậc cao nhất được phép thêm vẫn giữ được, {n}/s: một cận dưới";
    "not held at {n}/s, the lowest load tried" | "không giữ được ở {n}/s, tải thấp nhất đã thử";
    "no load was shown to be held" | "chưa thấy tải nào giữ được";
    "not one load was decided" | "chưa kết luận được tải nào";
    "{n} trials were run" | "đã chạy {n} lần thử";
    "{n} s of trials were run" | "đã chạy {n} s lần thử";
    "every goal has its answer" | "mọi mục tiêu đều có câu trả lời";
    "a signal asked for it" | "do nhận tín hiệu dừng";
    "not one answer in {n} trials in a row" | "không có câu trả lời nào trong {n} lần thử liên tiếp";
    "each load was tried once in each of {n} starts, and the interval is the distance of two rungs"
        | "mỗi tải chỉ thử một lần trong mỗi lần của {n} lần khởi động, khoảng là khoảng cách giữa hai bậc";
    "each load was tried once in each of {n} starts, and the highest rung still held"
        | "mỗi tải chỉ thử một lần trong mỗi lần của {n} lần khởi động, và bậc cao nhất vẫn giữ được";
    "each load was tried once in each of {n} starts, and the lowest rung that did not hold is invalid"
        | "mỗi tải chỉ thử một lần trong mỗi lần của {n} lần khởi động, và bậc thấp nhất không giữ được thì không hợp lệ";
    "each load was tried once, and the lowest rung that did not hold is invalid" | "mỗi tải chỉ thử một lần, và bậc thấp nhất không giữ được thì không hợp lệ";
    "each load was tried once, and the interval is the distance of two rungs" | "mỗi tải chỉ thử một lần, khoảng là khoảng cách giữa hai bậc";
    "each load was tried once, and the highest rung still held" | "mỗi tải chỉ thử một lần, và bậc cao nhất vẫn giữ được";
    "the lowest rung did not hold" | "bậc thấp nhất không giữ được";
    "the ladder ended early" | "thang tải kết thúc sớm";
    "the ladder ended" | "thang tải đã hết";
    "a higher load passed where a lower one failed" | "tải cao hơn đạt trong khi tải thấp hơn không đạt";
    "at {n}/s it admitted {n2} % more than its limit allows, so no load of it counts as held"
        | "ở {n}/s nó cho qua nhiều hơn giới hạn {n2} %, nên không tải nào được tính là giữ được";
    "it admitted {n} % more than its limit allows, so no load of it counts as held" | "nó cho qua nhiều hơn giới hạn {n} %, nên không tải nào được tính là giữ được";
    "safe up to {n}/s, because {n2}/s was sustained and this is {why}" | "an toàn đến {n}/s, vì duy trì được {n2}/s và đây là {why}";
    "85 % of it" | "85 % của mức đó";
    "the highest load from which it was seen to heal" | "tải cao nhất mà từ đó hệ thống còn tự hồi phục";
    "where it uses 70 % of its processor time" | "tải mà tại đó nó dùng 70 % thời gian CPU";
    "{n}/s is too much" | "{n}/s là quá tải";
    "do not rely on it: {why}" | "đừng dựa vào mức này: {why}";
    // Overload and recovery.
    "good again at {n}/s {n2} s after {n3} s at {n4}/s" | "tốt trở lại ở {n}/s sau {n2} s kể từ {n3} s quá tải ở {n4}/s";
    "not good again within {n} s at {n2}/s, a load that it held before the {n3} s at {n4}/s"
        | "chưa tốt trở lại trong {n} s ở {n2}/s, mức tải giữ được trước {n3} s quá tải ở {n4}/s";
    "good throughout, also at {n}/s: nothing had to recover" | "tốt suốt, cả ở {n}/s: không có gì phải hồi phục";
    "{n}/s was not held before the overload, so that nothing follows" | "{n}/s đã không giữ được trước khi quá tải nên không kết luận được gì";
    "the run ended before {n} good seconds in a row were seen, or could be missed" | "lần chạy kết thúc trước khi thấy {n} giây tốt liên tiếp, hoặc trước khi có thể kết luận là không có";
    "not broken any more at {n}/s, but {n2} good seconds in a row were not seen within {n3} s"
        | "không còn hỏng ở {n}/s, nhưng chưa thấy {n2} giây tốt liên tiếp trong {n3} s";
    "not good again within {n} s at {n2}/s, but the generator used {n3} % of its core meanwhile: what the target would have done is not known"
        | "chưa tốt trở lại trong {n} s ở {n2}/s, nhưng khi đó bộ phát dùng {n3} % nhân CPU của nó: không biết đích đo sẽ ra sao";
    "repetitions included, clients asked {n}/s of it, more than its knee of {n2}/s" | "tính cả lần thử lại, các client đòi {n}/s, nhiều hơn điểm gối {n2}/s của nó";
    "repetitions included, clients asked {n}/s of it, less than its knee of {n2}/s" | "tính cả lần thử lại, các client đòi {n}/s, ít hơn điểm gối {n2}/s của nó";
    "at most {n} requests were with the target at a time, {n2} % of the open ones waited in the clients"
        | "mỗi lúc nhiều nhất {n} yêu cầu nằm ở đích đo, {n2} % số đang mở nằm chờ trong client";
    "at {n}/s the generator was at its limit" | "ở {n}/s bộ phát đã chạm giới hạn của nó";
    "{sentence}; {n} % of the open requests waited in the clients' queue, not in the target" | "{sentence}; {n} % yêu cầu đang mở nằm chờ trong hàng đợi của client, không phải ở đích đo";
    "after {n}/s it healed from no load tried, down to {n2}/s" | "sau {n}/s nó không hồi phục từ tải nào đã thử, xuống tới {n2}/s";
    "whether it heals after {n}/s was not found out" | "chưa biết được sau {n}/s nó có hồi phục không";
    "after {n}/s it was not seen to heal" | "sau {n}/s chưa thấy nó hồi phục";
    "after {n}/s it heals by itself from {n2}/s, and not from {n3}/s" | "sau {n}/s nó tự hồi phục từ {n2}/s, nhưng không từ {n3}/s";
    "after {n}/s it heals by itself from {n2}/s" | "sau {n}/s nó tự hồi phục từ {n2}/s";
    "{n}/s was not held before it either" | "{n}/s vốn cũng không giữ được trước đó";
    "given on the command line" | "cho trên dòng lệnh";
    "lower bound of a capacity search" | "cận dưới của phép tìm năng lực";
    "highest load that a capacity search found held: no load was shown to be too much, so the knee may lie higher"
        | "tải cao nhất mà phép tìm năng lực thấy giữ được: chưa thấy tải nào là quá tải, nên điểm gãy có thể còn cao hơn";
    "no recovery run: no load was sustained that could be exceeded" | "không chạy hồi phục: không có tải nào duy trì được để vượt qua";
    // How a row was measured, and how a run ended.
    "the limit of each step is near half of what its most wanted key is offered, so that both allowed and denied answers occur"
        | "giới hạn của mỗi bậc gần một nửa tải vào khóa được hỏi nhiều nhất, để có cả câu cho qua lẫn câu từ chối";
    "the limit of each step is the one that comes nearest to admitting {n}% of what is offered" | "giới hạn của mỗi bậc là mức gần nhất để cho qua {n}% tải đặt ra";
    "closed loop: a connection asks again only when it has been answered, so a stall of the target delays the questions instead of the answers (coordinated omission); latencies must not be compared with those of an open loop"
        | "vòng kín: kết nối chỉ hỏi tiếp khi đã được trả lời, nên khi đích đo khựng lại thì câu hỏi bị hoãn chứ không phải câu trả lời (coordinated omission); không được so độ trễ này với vòng mở";
    "limit {n}: {n2} of the offered load expected to be admitted, {n3} seen" | "giới hạn {n}: dự kiến cho qua {n2} tải đặt ra, thực tế {n3}";
    "limit {n}: {n2} of the offered load expected to be admitted, nothing decided" | "giới hạn {n}: dự kiến cho qua {n2} tải đặt ra, chưa có quyết định nào";
    "not steady after a warm-up of {n} s: {why}" | "chưa ổn định sau {n} s khởi động nóng: {why}";
    "only {n} buckets of {n2}" | "chỉ có {n} trong {n2} đoạn";
    "the {name} of the last {n} buckets varies by {n2} %" | "{name} của {n} đoạn cuối dao động {n2} %";
    "the {name} of the last {n} buckets still rises" | "{name} của {n} đoạn cuối vẫn tăng";
    "the {name} of the last {n} buckets still falls" | "{name} của {n} đoạn cuối vẫn giảm";
    "ended {n} s into the step: {why}" | "kết thúc khi bậc chạy được {n} s: {why}";
    "gRPC status {n} ({what}): {why}" | "trạng thái gRPC {n} ({what}): {why}";
    "the service answered with a gRPC error instead of a decision" | "dịch vụ trả lỗi gRPC thay vì một quyết định";
    "the service answered with a decision that is neither OK nor OVER_LIMIT" | "dịch vụ trả một quyết định không phải OK cũng không phải OVER_LIMIT";
    "first complaint: {what}" | "lỗi đầu tiên: {what}";
    "measured again, because {why}" | "đo lại, vì {why}";
    "not one answer within the deadline" | "không có câu trả lời nào trong hạn";
    "every answer was an error; first {what}" | "mọi câu trả lời đều là lỗi; lỗi đầu tiên {what}";
    "no answer was one to what was asked; first {what}" | "không câu trả lời nào đúng với điều đã hỏi; câu đầu tiên {what}";
    "no answer was one to what was asked" | "không câu trả lời nào đúng với điều đã hỏi";
    "every answer was an error" | "mọi câu trả lời đều là lỗi";
    "{why}; the rest of its ladder is left out" | "{why}; bỏ phần còn lại của thang tải";
    "the capacity probe failed: {why}" | "phép dò năng lực thất bại: {why}";
    "it has neither rate limit commands nor scripts" | "nó không có lệnh giới hạn tốc độ lẫn script";
    "interrupted" | "bị ngắt";
    "nothing was measured" | "không đo được gì";
    "the run has not ended" | "lần chạy chưa kết thúc";
    "start {n} of {n2}: {why}" | "lần khởi động {n} trong {n2}: {why}";
    "{n} of {n2} starts were measured" | "đã đo {n} trong {n2} lần khởi động";
    "start {n}: {why}" | "lần khởi động {n}: {why}";
    "all connections were lost: {why}" | "mất mọi kết nối: {why}";
    "connections that the server ended and that were opened anew: {n}" | "số kết nối bị máy chủ đóng và được mở lại: {n}";
    "the server closed the connection, and no other can be opened: {why}" | "máy chủ đóng kết nối, và không mở được kết nối khác: {why}";
    "the server closed the connection" | "máy chủ đóng kết nối";
    "{n}/s: {why}" | "{n}/s: {why}";
    "the limit may lie higher, because at {n}/s, the first load that was not held, {why}" | "giới hạn có thể cao hơn, vì ở {n}/s, tải đầu tiên không giữ được, {why}";
    "{why} ({n} of {n2} trials)" | "{why} ({n} trong {n2} lần thử)";
    "{n} of {n2} trials, one because {why}" | "{n} trong {n2} lần thử, một lần vì {why}";
    // A study beside ours.
    "Redis and Dragonfly behind a rate limiter" | "Redis và Dragonfly sau bộ giới hạn tốc độ";
    "Redis behind a rate limiter, 100 keys" | "Redis sau bộ giới hạn tốc độ, 100 khóa";
    "Dragonfly, Redis and Memcached under memtier_benchmark" | "Dragonfly, Redis và Memcached dưới memtier_benchmark";
    "redis-rust under redis-benchmark" | "redis-rust dưới redis-benchmark";
    "{store}, one key, {n} s a step" | "{store}, một khóa, {n} s mỗi bậc";
    "{store}, 100 keys, {n} s a step" | "{store}, 100 khóa, {n} s mỗi bậc";
    "{store}, 100 keys, hot 90/10, {n} s a step" | "{store}, 100 khóa, nóng 90/10, {n} s mỗi bậc";
    "The study states no thresholds for its signs and words; the computed status follows its table of metrics (section 3.3), which applies to \"Actual RPS\" and so counts failures as throughput."
        | "Nghiên cứu không nêu ngưỡng cho dấu và từ của nó; trạng thái tính lại theo bảng chỉ số của nó (mục 3.3), bảng này dựa vào \"Actual RPS\" nên tính cả thất bại là thông lượng.";
    "The study's steps here last 1 s, those of its other tables 30 to 60 s: nine seconds of load in total."
        | "Các bậc của nghiên cứu ở đây dài 1 s, ở các bảng khác 30 đến 60 s: tổng cộng chín giây tải.";
    "The status signs of this table were lost in the published text." | "Dấu trạng thái của bảng này đã mất trong bản công bố.";
    "At {n}/s the study accounts for {n2} of {n3} planned requests." | "Ở {n}/s nghiên cứu chỉ tính được {n2} trong {n3} yêu cầu dự kiến.";
    "The study's ladder is not monotone: rows that failed lie below rows that did not." | "Thang tải của nghiên cứu không đơn điệu: có dòng thất bại nằm dưới dòng không thất bại.";
    "Our ladder has no load of the study's, so no row stands beside its own." | "Thang tải của chúng tôi không có mức tải nào của nghiên cứu nên không có dòng nào để đặt cạnh.";
    "Our steps last {n} s, the study's {n2} s (shortened)." | "Bậc của chúng tôi dài {n} s, của nghiên cứu {n2} s (rút ngắn).";
    "Our steps last {n} s, the study's {n2} s." | "Bậc của chúng tôi dài {n} s, của nghiên cứu {n2} s.";
    "The study's store was {theirs}; ours is {ours}." | "Kho dữ liệu của nghiên cứu là {theirs}; của chúng tôi là {ours}.";
    "The study's path was a Java gRPC client, Envoy, Spring Boot and the store; ours is the generator and one service process with its store inside."
        | "Đường đi của nghiên cứu là client gRPC Java, Envoy, Spring Boot và kho dữ liệu; của chúng tôi là bộ phát và một tiến trình dịch vụ có kho bên trong.";
    "The study's path was a Java gRPC client, Envoy, Spring Boot and the store; ours asks directly, by {operation}."
        | "Đường đi của nghiên cứu là client gRPC Java, Envoy, Spring Boot và kho dữ liệu; của chúng tôi hỏi trực tiếp, bằng {operation}.";
    "The study does not state its limit; ours is set so that {n} to {n2} of the decisions admit."
        | "Nghiên cứu không nêu giới hạn của nó; của chúng tôi đặt sao cho {n} đến {n2} số quyết định là cho qua.";
    "Our ladder is not complete." | "Thang tải của chúng tôi chưa trọn vẹn.";
    "Hardware: the study ran {theirs}; this run on {cpu} with {n} cores, {os}." | "Phần cứng: nghiên cứu chạy {theirs}; lần này chạy trên {cpu} với {n} nhân, {os}.";
    "on an Apple M4 with 10 cores under Docker on macOS, all parts on one host" | "trên Apple M4 10 nhân, Docker trên macOS, mọi thành phần trên một máy";
    "under macOS on a machine that it does not name" | "dưới macOS trên một máy không nêu tên";
    "between two AWS machines, with as many generator threads as gave the highest rate" | "giữa hai máy AWS, với số luồng bộ phát cho tốc độ cao nhất";
    "an unknown processor" | "bộ xử lý không rõ";
    "Build: this program is not optimised; its own servers and generator are slower than released ones." | "Bản dựng: chương trình này chưa được tối ưu; máy chủ và bộ phát của nó chậm hơn bản phát hành.";
    "Deadline: the study had none, late answers count as latency up to minutes; here an answer after {n} ms is a failure."
        | "Hạn chờ: nghiên cứu không có, câu trả lời trễ tính là độ trễ tới hàng phút; ở đây trả lời sau {n} ms là thất bại.";
    "Arrivals: {name} here; the study does not say, its counts fit constant ones." | "Nhịp đến: ở đây là {name}; nghiên cứu không nêu, số đếm của nó khớp với nhịp đều.";
    "Latency: from the intended send time here; the study does not say from when." | "Độ trễ: ở đây tính từ lúc dự định gửi; nghiên cứu không nêu tính từ lúc nào.";
    "Throughput: goodput is good answers by the step's length on both sides; the study's \"Actual RPS\" counts failures and divides by a time that includes the drain."
        | "Thông lượng: cả hai bên goodput là số câu trả lời tốt chia cho độ dài bậc; \"Actual RPS\" của nghiên cứu tính cả thất bại và chia cho thời gian gồm cả lúc xả hàng chờ.";
    "The study sets 60 s steps on Redis against 1 s steps on Dragonfly (100 keys uniform): its +37.5 % is not a comparison of equals."
        | "Nghiên cứu so bậc 60 s trên Redis với bậc 1 s trên Dragonfly (100 khóa đều): +37,5 % của nó không phải so sánh ngang bằng.";
    "Keys: study 000 calls the 100-key run uniform, study 001 the same run round robin." | "Khóa: nghiên cứu 000 gọi lần chạy 100 khóa là đều, nghiên cứu 001 gọi cùng lần chạy đó là xoay vòng.";
    "This run is partial: {why}." | "Lần chạy này chưa trọn vẹn: {why}.";
    "Shortened to {n} requests a test; the study sent {n2}." | "Rút ngắn còn {n} yêu cầu mỗi phép thử; nghiên cứu gửi {n2}.";
    "Stack: the study's server ran in cluster mode with AOF and RDB on; here persistence is off and there is no cluster."
        | "Cấu hình: máy chủ của nghiên cứu chạy chế độ cluster, bật AOF và RDB; ở đây tắt lưu trữ và không có cluster.";
    "Generator: the study used redis-benchmark 4.0.11; here its present version, and ours, which sends exactly the number of requests asked for."
        | "Bộ phát: nghiên cứu dùng redis-benchmark 4.0.11; ở đây dùng phiên bản hiện tại của nó, và bộ phát của chúng tôi gửi đúng số yêu cầu đã đặt.";
    "The study's rows all lie between 66,000 and 69,000/s whatever a command costs (LRANGE_600 above LRANGE_100): the sign of a run that its client bounds."
        | "Mọi dòng của nghiên cứu nằm giữa 66.000 và 69.000/s bất kể chi phí của lệnh (LRANGE_600 cao hơn LRANGE_100): dấu hiệu client là nút thắt.";
    "The study's figures for Redis itself are its estimates and are left out; here Redis is measured where it is installed."
        | "Số liệu về Redis trong nghiên cứu là ước lượng nên được bỏ; ở đây Redis được đo khi có cài đặt.";
    "A closed loop: figures compare servers, they say nothing about latency under a given load." | "Vòng kín: số liệu để so các máy chủ, không nói gì về độ trễ ở một mức tải cho trước.";
    "Generator: memtier_benchmark on a machine of its own there; here one thread of ours beside the store, which bounds what many cores could serve."
        | "Bộ phát: ở nghiên cứu là memtier_benchmark trên máy riêng; ở đây là một luồng của chúng tôi cạnh kho dữ liệu, nên giới hạn những gì nhiều nhân có thể phục vụ.";
    "Keys: {n} here, drawn uniformly, to fit the memory; memtier_benchmark draws from ten million. GET asks for keys in the order in which SET wrote them, so most are found."
        | "Khóa: ở đây {n} khóa, rút đều, cho vừa bộ nhớ; memtier_benchmark rút từ mười triệu. GET hỏi khóa theo thứ tự SET đã ghi nên phần lớn tìm thấy.";
    "Length: a test lasts {n} s here (shortened), {n2} s in the study." | "Độ dài: một phép thử ở đây {n} s (rút ngắn), trong nghiên cứu {n2} s.";
    "While the snapshot was written, the store's process had at most {n} of resident memory." | "Khi ghi ảnh chụp, tiến trình kho dữ liệu dùng nhiều nhất {n} bộ nhớ thường trú.";
    "The process is not known, so its memory during the snapshot was not seen." | "Không rõ tiến trình nên không thấy được bộ nhớ của nó khi ghi ảnh chụp.";
    "No snapshot: {why}." | "Không có ảnh chụp: {why}.";
    "the store does not say when it is written" | "kho dữ liệu không cho biết khi nào ghi xong";
    "not written within {n} s" | "không ghi xong trong {n} s";
    "constant" | "đều";
    "poisson" | "Poisson";
    // What was asked.
    "{scenario}, {n} connections" | "{scenario}, {n} kết nối";
    "single key" | "một khóa";
    "{n} keys uniform" | "{n} khóa đều";
    "{n} keys, hot 90/10" | "{n} khóa, nóng 90/10";
    "attack: one of {n} keys asks for {n2} %, {n3} % admitted" | "tấn công: một trong {n} khóa chiếm {n2} % yêu cầu, cho qua {n3} %";
    "noisy neighbour: one of {n} keys asks for half" | "láng giềng ồn ào: một trong {n} khóa chiếm một nửa yêu cầu";
    "quota: {n} keys alike, {n2} % admitted" | "hạn ngạch: {n} khóa như nhau, cho qua {n2} %";
    "{n} keys roundrobin" | "{n} khóa xoay vòng";
    "{n} keys in turn" | "{n} khóa xoay vòng";
    "{n} keys {spreading}" | "{n} khóa {spreading}";
    "{scenario}, {n}% admitted" | "{scenario}, cho qua {n}%";
    "at the common load: {why}" | "ở tải chung: {why}";
    "at its peak: {why}" | "ở đỉnh của nó: {why}";
    "the services on a shared store: {why}" | "các dịch vụ trên kho dùng chung: {why}";
    "a service is compared with services: give grpc:// or http://" | "dịch vụ chỉ so với dịch vụ: hãy cho grpc:// hoặc http://";
    // Runs beside runs.
    "{n} rows were tested at 5 % each: of rows without any difference, one in twenty may look different by chance"
        | "{n} dòng được kiểm định ở mức 5 % mỗi dòng: trong các dòng không khác nhau, cứ hai mươi dòng có thể một dòng trông khác do ngẫu nhiên";
    "measurements that the validity rules rejected, and that were left out: {n}" | "bỏ {n} phép đo: quy tắc hợp lệ đã loại chúng";
    "{n} loads of searches left out: where a search goes follows from what it finds, and what both held is compared"
        | "bỏ {n} mức tải của các phép tìm: phép tìm đi qua đâu tùy vào điều nó tìm thấy, nên so mức mà hai bên giữ được";
    "{scenario}: no load was too high in {n} of {n2} starts of A and {n3} of {n4} of B, which may hold more"
        | "{scenario}: không có tải nào quá cao trong {n} trên {n2} lần khởi động của A và {n3} trên {n4} của B, nên có thể giữ được nhiều hơn";
    "only in A and left out: {what} and {n} more" | "chỉ có ở A nên bị bỏ: {what} và {n} dòng khác";
    "only in A and left out: {what}" | "chỉ có ở A nên bị bỏ: {what}";
    "only in B and left out: {what} and {n} more" | "chỉ có ở B nên bị bỏ: {what} và {n} dòng khác";
    "only in B and left out: {what}" | "chỉ có ở B nên bị bỏ: {what}";
    "{n} %, because the noise of this machine was not measured (tollgate bench noise)" | "{n} %, vì chưa đo độ nhiễu của máy này (tollgate bench noise)";
    "the noise of this machine of {when} ({file}), and {n} % at least" | "độ nhiễu của máy này ngày {when} ({file}), và ít nhất {n} %";
    "the run of {when} differs from the first in {what}: {a} instead of {b}" | "lần chạy {when} khác lần đầu về {what}: {a} thay vì {b}";
    // What two runs differ in.
    "keys" | "số khóa";
    "key distribution" | "phân bố khóa";
    "operation" | "thao tác";
    "algorithm" | "thuật toán";
    "limit" | "giới hạn";
    "window in ms" | "cửa sổ (ms)";
    "arrivals" | "nhịp đến";
    "connections" | "kết nối";
    "pipeline depth" | "độ sâu pipeline";
    "deadline in ms" | "hạn chờ (ms)";
    "backlog" | "hàng chờ";
    "generator awake before due requests, in us" | "bộ phát thức trước yêu cầu đến hạn (us)";
    "warm-up in s" | "khởi động nóng (s)";
    "pause in s" | "nghỉ (s)";
    "step length" | "độ dài bậc";
    "generator's cores" | "nhân của bộ phát";
    "targets' cores" | "nhân của các đích đo";
    "build profile" | "kiểu bản dựng";
    "seed" | "hạt giống";
    "processor" | "bộ xử lý";
    "cores" | "số nhân";
    "instruction set" | "tập lệnh";
    "kernel" | "nhân hệ điều hành";
    "memory in bytes" | "bộ nhớ (byte)";
    "clock source" | "nguồn đồng hồ";
    "governor" | "bộ điều tần";
    "hypervisor" | "hypervisor";
    "target's threads" | "số luồng của đích đo";
    "target's cores" | "nhân của đích đo";
    "transport" | "đường truyền";
    "target on the generator's machine" | "đích đo trên máy của bộ phát";
    "allowed failures" | "mức thất bại cho phép";
    "least goodput" | "goodput tối thiểu";
    "largest mean in ms" | "trung bình lớn nhất (ms)";
    "largest P95 in ms" | "P95 lớn nhất (ms)";
    "largest P99 in ms" | "P99 lớn nhất (ms)";
    "exceed ratio" | "tỉ lệ vượt";
    "length of a full trial" | "độ dài một lần thử đầy đủ";
    "length of the trials at a load" | "độ dài các lần thử ở một tải";
    "width of the search" | "độ hẹp của phép tìm";
    "order (all runs of one arm before all of the other)" | "thứ tự (mọi lần chạy của một bên trước bên kia)";
    "date (more than an hour apart)" | "ngày (cách nhau hơn một giờ)";
    "setting {name}" | "thiết lập {name}";
    "{row}: {n} runs are too few for a trend." | "{row}: {n} lần chạy là quá ít để nói về xu hướng.";
    // What a gate says.
    "none of {n} rows shows a regression of more than {n2} %" | "không dòng nào trong {n} dòng cho thấy sụt giảm hơn {n2} %";
    "{cell}: worse: the {figure} of {b} is {n} times that of {a} [{n2}, {n3}], p = {n4}, A12 = {n5} ({effect})."
        | "{cell}: kém hơn: {figure} của {b} bằng {n} lần của {a} [{n2}, {n3}], p = {n4}, A12 = {n5} ({effect}).";
    "{cell} admitted more than its limit allows" | "{cell} cho qua nhiều hơn giới hạn";
    "the run {file} is incomplete: {why}" | "lần chạy {file} chưa trọn vẹn: {why}";
    "the baseline {file} is incomplete: {why}" | "mốc so sánh {file} chưa trọn vẹn: {why}";
    "the run {file} is invalid by its own rules" | "lần chạy {file} không hợp lệ theo quy tắc của chính nó";
    "the baseline {file} is invalid by its own rules" | "mốc so sánh {file} không hợp lệ theo quy tắc của chính nó";
    "{n} of {n2} rows have fewer than {n3} starts on a side: measure both with --starts {n4}"
        | "{n} trong {n2} dòng có ít hơn {n3} lần khởi động ở một bên: hãy đo cả hai với --starts {n4}";
    "in {n} of {n2} rows no load was too high for the run: give its search a higher range (--ladder)"
        | "ở {n} trong {n2} dòng không có tải nào quá cao với lần chạy: hãy cho phép tìm khoảng cao hơn (--ladder)";
    "in {n} of {n2} rows a figure of the baseline is 0 in a start, so that nothing can fall behind it: measure the baseline again"
        | "ở {n} trong {n2} dòng, mốc so sánh có số 0 trong một lần khởi động nên không gì có thể kém hơn nó: hãy đo lại mốc so sánh";
    "the run has no row for: {what} and {n} more" | "lần chạy không có dòng cho: {what} và {n} dòng khác";
    "the run has no row for: {what}" | "lần chạy không có dòng cho: {what}";
    "the baseline has no row for: {what} and {n} more" | "mốc so sánh không có dòng cho: {what} và {n} dòng khác";
    "the baseline has no row for: {what}" | "mốc so sánh không có dòng cho: {what}";
    "no figure that was asked for was measured on both sides" | "không có chỉ số nào được hỏi mà cả hai bên đều đo";
    "the allowed regression of {n} %, or {source}" | "mức sụt giảm cho phép {n} %, hoặc {source}";
    "the allowed regression of {n} %" | "mức sụt giảm cho phép {n} %";
    "it did not end" | "nó chưa kết thúc";
    "goodput of {row}" | "goodput của {row}";
    "p50 of {row}" | "p50 của {row}";
    "p99 of {row}" | "p99 của {row}";
    "cpu of {row}" | "cpu của {row}";
    "held of {row}" | "held của {row}";
    // What a run says while it goes on.
    "calibrating the generator" | "đang hiệu chuẩn bộ phát";
    "looking at the machine" | "đang xem tình trạng máy";
    "generator: ceiling {n}/s at {n2} connections x {n3}, floor p50 {n4} us p99 {n5} us, clock {n6} ns"
        | "bộ phát: trần {n}/s ở {n2} kết nối x {n3}, sàn p50 {n4} us p99 {n5} us, đồng hồ {n6} ns";
    "generator (measured {n} s before; --calibration-age 0s measures it anew): ceiling {n2}/s at {n3} connections x {n4}, floor p50 {n5} us p99 {n6} us, clock {n7} ns"
        | "bộ phát (đo {n} s trước; --calibration-age 0s đo lại): trần {n2}/s ở {n3} kết nối x {n4}, sàn p50 {n5} us p99 {n6} us, đồng hồ {n7} ns";
    "reading the clock takes {n} ns (clock source {what}): latencies include that" | "đọc đồng hồ mất {n} ns (nguồn đồng hồ {what}): độ trễ có tính cả phần đó";
    "CPU use of other processes: {n} of {n2}; what is measured meanwhile may come out invalid"
        | "CPU do các tiến trình khác dùng: {n} trong {n2}; những gì đo trong lúc đó có thể không hợp lệ";
    "start {n} of {n2}" | "lần khởi động {n} trong {n2}";
    "start {n}/{n2}" | "lần khởi động {n}/{n2}";
    "step {n}/{n2}" | "bậc {n}/{n2}";
    "finding the capacity" | "đang tìm sức chứa";
    "starting {name}" | "đang khởi động {name}";
    "waiting until it is well again after {n}/s" | "đang chờ nó bình thường lại sau {n}/s";
    "{what} (again, {n} of at most {n2}: the machine spoiled the row)" | "{what} (đo lại, {n} trong nhiều nhất {n2} lần: máy làm hỏng dòng này)";
    "goodput {n}/s, p99 {p99}, fail {n2} %, {level}, {grade}" | "goodput {n}/s, p99 {p99}, lỗi {n2} %, {level}, {grade}";
    "goodput {n}/s, p99 {p99}, fail {n2} % ({kinds}), {level}, {grade}" | "goodput {n}/s, p99 {p99}, lỗi {n2} % ({kinds}), {level}, {grade}";
    "{what}: goodput {n}/s, p99 {p99}, fail {n2} %, {level}, {grade}" | "{what}: goodput {n}/s, p99 {p99}, lỗi {n2} %, {level}, {grade}";
    "{what}: goodput {n}/s, p99 {p99}, fail {n2} % ({kinds}), {level}, {grade}" | "{what}: goodput {n}/s, p99 {p99}, lỗi {n2} % ({kinds}), {level}, {grade}";
    "{what}: goodput {n}/s, {kept}, {grade}" | "{what}: goodput {n}/s, {kept}, {grade}";
    "trial {n}" | "lần thử {n}";
    "{n}/s (range)" | "{n}/s (dò khoảng)";
    "{n}/s (narrow)" | "{n}/s (thu hẹp)";
    "{n}/s (confirm)" | "{n}/s (xác nhận)";
    "{n}/s (check)" | "{n}/s (kiểm tra)";
    "{n}/s (up)" | "{n}/s (đi lên)";
    "{n}/s (down)" | "{n}/s (đi xuống)";
    "held" | "giữ được";
    "near-limit" | "gần giới hạn";
    "degraded" | "suy giảm";
    "failed" | "lỗi";
    "collapsed" | "sụp đổ";
    "{n} searches, at most {n2} minutes" | "{n} lần tìm kiếm, nhiều nhất {n2} phút";
    "{n} recovery runs, about {n2} minutes" | "{n} lần đo hồi phục, khoảng {n2} phút";
    "{n} strategies, about {n2} minutes" | "{n} chiến lược, khoảng {n2} phút";
    "{n} steps (--step shortens them), about {n2} minutes" | "{n} bậc (--step rút ngắn), khoảng {n2} phút";
    "not measured: {name}: {why}" | "không đo: {name}: {why}";
    "error: {why}" | "lỗi: {why}";
    "warning: {why}" | "cảnh báo: {why}";
    "note: {why}" | "ghi chú: {why}";
    "{who}: it holds {n} keys already, which stay as they are (--flush deletes them)" | "{who}: nó đang giữ sẵn {n} khóa, để nguyên (--flush xóa chúng)";
    "{who}: cannot connect to {where}: {why}" | "{who}: không kết nối được tới {where}: {why}";
    "cannot connect to {where}: {why}" | "không kết nối được tới {where}: {why}";
    "{who}: all connections were lost: {why}" | "{who}: mất mọi kết nối: {why}";
    "{who}: not one answer within the deadline" | "{who}: không câu trả lời nào trong hạn";
    "figures for Prometheus: {where}" | "số liệu cho Prometheus: {where}";
    "report: {where}" | "báo cáo: {where}";
    "record: {where}" | "bản ghi: {where}";
    "median response time" | "trung vị thời gian đáp ứng";
    "P99 response time" | "P99 thời gian đáp ứng";
    "CPU per request" | "CPU mỗi yêu cầu";
    "load held" | "tải giữ được";
    "negligible" | "không đáng kể";
    "small" | "nhỏ";
    "medium" | "vừa";
    "large" | "lớn";
    "{target} · {operation}: {scenario} at {n}/s" | "{target} · {operation}: {scenario} ở {n}/s";
    "{target} · {operation}: {scenario} under the goal {goal}" | "{target} · {operation}: {scenario} theo mục tiêu {goal}";
    "{scenario} under the goal {goal}" | "{scenario} theo mục tiêu {goal}";
    "{scenario} at {n}/s" | "{scenario} ở {n}/s";
    // General enough to fit what others say more closely.
    "at {n}/s {why}" | "ở {n}/s {why}";
}
