/// Text as a backend streams it.
enum Sample {
    /// One event of about 170 bytes, or a longer text of such events.
    static func text(size: Int, number: Int) -> String {
        var text = ""
        var index = number
        while text.utf8.count < size {
            text +=
                #"{"type":"response.output_text.delta","item_id":"msg_0b8a6c3e5f9d2174ac00e6b1d89f5527c3aa04","output_index":0,"#
            text +=
                #""content_index":0,"delta":" word\#(1000 + index &* 7919 % 9000)","sequence_number":\#(1000 + index % 9000)}"#
            index += 1
        }
        return text
    }

    static func texts(size: Int, total: Int) -> [String] {
        (0..<max(1, total / size)).map { text(size: size, number: $0 * 1000) }
    }
}
