//! The list of all runs in a folder.

use super::texts;

texts! {
    IX_TITLE = "Runs of tollgate bench" | "Các lần chạy của tollgate bench";
    IX_INTRO = "Runs in this folder: {n}, the newest first." | "{n} lần chạy trong thư mục này, mới nhất trước.";
    IX_MORE = "{n} older ones are not listed." | "{n} lần chạy cũ hơn không được liệt kê.";
    IX_STARTED = "started" | "bắt đầu";
    IX_WHAT = "what" | "loại";
    IX_MEASURED = "measured" | "đã đo";
    IX_FOUND = "found" | "kết quả";
    IX_FILES = "files" | "tệp";
    IX_UNKNOWN = "no overview is kept of it: 'tollgate bench report {folder} --index' makes one"
        | "không có phần tóm lược: 'tollgate bench report {folder} --index' sẽ tạo";
}
