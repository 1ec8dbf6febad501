@_spi(ChappieInternals) import ChappieFiles
import ChappieRuntime
import FoundationEssentials

/// The files in a folder and below, or in a zip archive, as one source of threads. A file that gives no thread is named.
struct SeveralFiles: ThreadForm {
    /// A file's name, and a function that opens the file.
    private typealias File = (name: String, form: () throws(ThreadFault) -> any ThreadForm)

    private let nextFile: () throws(ThreadFault) -> File?
    private var current: (name: String, form: any ThreadForm, count: Int)?
    private var leftOutBefore = LeftOut()
    private(set) var source = ChappieThreadImport.Source.chatGPT

    var leftOut: LeftOut {
        var all = leftOutBefore
        if let current { all.add(current.form.leftOut) }
        return all
    }

    /// Reads files in the order of their names. The names of sessions begin with their dates.
    init(inFolder path: String, skipping skips: @escaping (String) -> Bool) {
        let names = (try? FileManager.default.subpathsOfDirectory(atPath: path)) ?? []
        var rest = names.sorted()[...]
        let assets = ChatGPTAssets(inFolder: path, names)
        nextFile = { () throws(ThreadFault) in
            while let name = rest.popFirst() {
                var isFolder = false
                let file = path + "/" + name
                if FileManager.default.fileExists(atPath: file, isDirectory: &isFolder), isFolder || skips(file) {
                    continue
                }
                return (name, { () throws(ThreadFault) in try ChappieThreadReader.form(ofFile: file, assets) })
            }
            return nil
        }
    }

    /// Reads the files of a zip archive. ChatGPT sends its export in this form.
    ///
    /// - Parameter path: the archive's path, from which its pictures are read.
    init(inArchive file: FilePieces, at path: String, fileDate: Date) {
        let archive = ZipArchive(file)
        let assets = ChatGPTAssets(inArchive: path)
        nextFile = { () throws(ThreadFault) in
            let name = try ThreadFault.reading { () throws(WholeFile.Failure) in try archive.nextEntry() }
            guard let name else { return nil }
            return (
                name,
                { () throws(ThreadFault) in
                    let lines = try ImportLines { () throws(ThreadFault) in
                        try ThreadFault.reading { () throws(WholeFile.Failure) in try archive.nextPiece() }
                    }
                    return try ChappieThreadReader.form(of: lines, fileName: name, fileDate: fileDate, assets)
                }
            )
        }
    }

    mutating func next() throws(ThreadFault) -> ChappieThread? {
        while true {
            if let thread = nextOfCurrentFile() { return thread }
            guard let file = try nextFile() else { return nil }
            do throws(ThreadFault) {
                current = (file.name, try file.form(), 0)
            } catch {
                leaveOut(file.name, error)
            }
        }
    }

    private mutating func nextOfCurrentFile() -> ChappieThread? {
        // The form is not copied, because it may have a large buffer.
        guard let name = current?.name else { return nil }
        do throws(ThreadFault) {
            if let thread = try current?.form.next() {
                current?.count += 1
                source = current?.form.source ?? source
                return thread
            }
            leftOutBefore = leftOut
            if current?.count == 0 { leftOutBefore.add("file without threads \(name)") }
        } catch {
            if error.code != .unknownForm { leftOutBefore = leftOut }
            leaveOut(name, error)
        }
        current = nil
        return nil
    }

    /// Counts a file that cannot be read. Pictures and other files next to an export are no damage, but a session or an
    /// export has a known name.
    private mutating func leaveOut(_ path: String, _ fault: ThreadFault) {
        let name = path.split(separator: "/").last ?? ""
        guard fault.code == .unknownForm, !name.hasPrefix("rollout-"), !name.hasPrefix("conversations") else {
            let reason = fault.code == .unknownForm ? "its form is unknown" : fault.reason
            return leftOutBefore.add(damage: "unreadable file \(path), because \(reason)")
        }
        let ending = name.split(separator: ".").dropFirst().last ?? ""
        let isNamed = ["json", "jsonl", "zst", "db", "zip", ""].contains(ending)
        // The messages that have these files count those that they leave out.
        guard isNamed || ChatGPTAssets.id(in: path) == nil else { return }
        leftOutBefore.add("file of another kind \(isNamed ? path : "*.\(ending)")")
    }
}
