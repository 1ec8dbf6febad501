// Somebody else's program: decodes a Responses stream with ChappieCore, and links nothing else of Chappie.
import ChappieCore

let stream = """
    data: {"type":"response.output_text.delta","item_id":"msg_1","delta":"it "}

    data: {"type":"response.output_text.delta","item_id":"msg_1","delta":"works"}

    data: {"type":"response.completed","response":{"id":"resp_1","status":"completed"}}


    """

var decoder = ResponsesEventDecoder()
var text = ""
for event in try decoder.receivedBytes(Array(stream.utf8)) {
    if case .outputTextDelta(let delta, _) = event { text += delta }
}
print(decoder.isFinished ? text : "unfinished")
