//! Pages of paired comparisons of two servers.

use super::texts;

texts! {
    PC_TITLE = "{a} against {b}" | "{a} so với {b}";
    PC_DATE = "Test date" | "Ngày đo";
    PC_COMMAND = "Command" | "Lệnh";
    PC_METHOD = "Short slices of the same load, A and B in turns. Each ratio is taken within a pair of neighbouring slices: median [lower–upper quartile] (smallest–largest). Above 1 is in favour of A."
        | "Những lát ngắn cùng một tải, A và B luân phiên. Mỗi tỉ số lấy trong một cặp lát kề nhau: trung vị [tứ phân vị dưới–trên] (nhỏ nhất–lớn nhất). Trên 1 là A tốt hơn.";
    PC_LOAD = "Load" | "Tải";
    PC_THROUGHPUT = "Throughput A/B" | "Thông lượng A/B";
    PC_P50 = "P50 B/A" | "P50 B/A";
    PC_P99 = "P99 B/A" | "P99 B/A";
    PC_CPU = "Server CPU B/A" | "CPU máy chủ B/A";
    PC_BUDGET = "Budget" | "Ngân sách";
    PC_PAIRS = "Pairs" | "Số cặp";
    PC_VALID = "Valid" | "Hợp lệ";
    PC_MET = "met" | "đạt";
    PC_MISSED = "**missed**" | "**hụt**";
    PC_UNEQUAL = "not judged: not set up alike" | "không xét: thiết lập không giống nhau";
    PC_MEMORY = "Memory" | "Bộ nhớ";
    PC_RECORDS = "Records" | "Số bản ghi";
    PC_A_BYTES = "A bytes/record" | "A byte/bản ghi";
    PC_B_BYTES = "B bytes/record" | "B byte/bản ghi";
    PC_KEEPS = " A keeps ≥ {least} of its peak past its capacity, P99 of its decisions within the deadline: {verdict}."
        | " A giữ ≥ {least} đỉnh của nó khi quá sức chứa, P99 các quyết định nằm trong hạn: {verdict}.";
    PC_OVERLOAD = "{title}: steps of {step} ms, each server at shares of its own capacity, deadline {deadline} ms.{remark}{budget}"
        | "{title}: các bậc {step} ms, mỗi máy chủ ở những phần sức chứa của chính nó, hạn {deadline} ms.{remark}{budget}";
    PC_ONE_DESCRIPTOR = " throttlecrab takes one descriptor a request, so that the two capacities are not to be compared."
        | " throttlecrab nhận mỗi yêu cầu một descriptor, nên không so sánh được hai sức chứa.";
    PC_SERVER = "Server" | "Máy chủ";
    PC_OFFERED = "Offered/s" | "Đặt ra/s";
    PC_GOODPUT = "Goodput/s" | "Goodput/s";
    PC_OF_PEAK = "Of peak" | "So với đỉnh";
    PC_P99_DECIDED_MS = "P99 of decisions, ms" | "P99 các quyết định, ms";
    PC_P99_ALL_MS = "with unanswered, ms" | "kể cả không trả lời, ms";
    PC_REFUSED = "Refused" | "Từ chối";
    PC_LATE = "Late" | "Trễ";
    PC_UNSENT = "Unsent" | "Chưa gửi";
    PC_LAG = "Generator late ms" | "Bộ phát trễ ms";
}
