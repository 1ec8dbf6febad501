@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles

/// The pictures and other files next to a conversation in ChatGPT's export. A message names one by its id, as in
/// `sediment://file_0012ab` and `file-service://file-Ab12`, and the file's own name begins with the id. A file is read
/// when a message names it.
final class ChatGPTAssets {
    /// Returns the content of a file, or `nil` if it cannot be read or is larger than ``pictureLimit``.
    private typealias Contents = () -> [UInt8]?

    private let list: () -> [(name: String, contents: Contents)]
    private lazy var files = Dictionary(
        list().compactMap { file in Self.id(in: file.name).map { ($0, file.contents) } }
    ) { first, _ in first }

    /// The largest picture that is imported, in bytes.
    static let pictureLimit = 20 << 20

    /// Uses no files.
    init() { list = { [] } }

    /// Uses the files in a folder.
    init(inFolder path: String, _ names: [String]) {
        list = {
            names.map { name in
                (name, { try? WholeFile.contents(of: path + "/" + name, limit: ChatGPTAssets.pictureLimit) })
            }
        }
    }

    /// Uses the files in a zip archive, which is read once for the places of its files.
    init(inArchive path: String) {
        let open = { (start: Int) in
            (try? FilePieces(path, from: start, limit: ChappieThreadImport.byteLimit)).map { ZipArchive($0) }
        }
        list = {
            guard let archive = open(0) else { return [] }
            var files: [(name: String, contents: Contents)] = []
            while let name = try? archive.nextEntry() {
                let start = archive.headerStart
                files.append((name, { open(start)?.firstFile }))
            }
            return files
        }
    }

    /// Returns the file that an address or the metadata of a message names.
    func bytes(of reference: String) -> [UInt8]? { Self.id(in: reference).flatMap { files[$0] }?() }

    /// Returns the id in an address, or in the path of a file, or `nil` if it has none.
    static func id(in text: String) -> String? {
        let name = text.split(separator: "/").last ?? ""
        guard name.hasPrefix("file-") || name.hasPrefix("file_") else { return nil }
        let id = name.utf8.dropFirst(5).prefix { $0.isASCIIAlphanumeric }
        return id.isEmpty ? nil : "\(name.prefix(5))\(Substring(id))"
    }
}

extension ZipArchive {
    /// The first file, or `nil` if it is damaged or larger than a picture may be.
    fileprivate var firstFile: [UInt8]? {
        guard (try? nextEntry()) != nil else { return nil }
        var bytes: [UInt8] = []
        while let piece = try? nextPiece() {
            if piece.isEmpty { return bytes }
            bytes += piece
            guard bytes.count <= ChatGPTAssets.pictureLimit else { return nil }
        }
        return nil
    }
}
