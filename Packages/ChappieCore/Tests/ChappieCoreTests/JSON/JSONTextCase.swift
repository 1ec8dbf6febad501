@_spi(ChappieInternals) import ChappieCore
import Testing

/// One text, and what it comes out as when it is parsed and written again; `nil` where it is to be refused.
struct JSONTextCase: Sendable, CustomTestStringConvertible {
    let name: String
    let input: [UInt8]
    let output: String?

    var testDescription: String { name }

    static func accepts(_ input: String, as output: String? = nil, _ name: String? = nil) -> JSONTextCase {
        JSONTextCase(name: name ?? input.debugDescription, input: Array(input.utf8), output: output ?? input)
    }

    static func refuses(_ input: String, _ name: String? = nil) -> JSONTextCase {
        JSONTextCase(name: name ?? input.debugDescription, input: Array(input.utf8), output: nil)
    }

    static func refuses(_ name: String, bytes: [UInt8]) -> JSONTextCase {
        JSONTextCase(name: name, input: bytes, output: nil)
    }

    static func acceptsString(_ name: String, bytes: [UInt8]) -> JSONTextCase {
        let quoted = [UInt8(ascii: "\"")] + bytes + [UInt8(ascii: "\"")]
        return JSONTextCase(name: name, input: quoted, output: String(decoding: quoted, as: UTF8.self))
    }

    static func refusesString(_ name: String, bytes: [UInt8]) -> JSONTextCase {
        refuses(name, bytes: [UInt8(ascii: "\"")] + bytes + [UInt8(ascii: "\"")])
    }
}
