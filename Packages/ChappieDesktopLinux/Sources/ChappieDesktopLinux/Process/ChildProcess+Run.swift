import CSpawn
import FoundationEssentials

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

extension ChildProcess {
    /// Starts the program and waits until it ends, at most for the limit.
    ///
    /// It runs in a session of its own, without a terminal: an interrupt from the keyboard does not reach it, and it
    /// can't read what the person types. Its output goes to /dev/null. Whenever it ends, it is reaped.
    func run() async -> ChildOutcome {
        let (child, words): (pid_t, FileDescriptor)
        do throws(StartFailure) {
            (child, words) = try start()
        } catch {
            return .notStarted(String(cString: strerror(error.code)))
        }
        let watch = ChildWatch(child, atLimit: atLimit)
        let limit = limit
        let timer = Task.detached {
            // A sleep that was cut short means that the program has ended.
            guard (try? await Task.sleep(for: limit, clock: .continuous)) != nil else { return }
            watch.reachedLimit()
        }
        defer { timer.cancel() }
        let code = await withTaskCancellationHandler {
            await withCheckedContinuation { watch.await($0) }
        } onCancel: {
            watch.reachedLimit()
        }
        guard let code else { return .stillRunning }
        return .exited(code: code, words: words.text(limit: 4096))
    }

    private struct StartFailure: Error {
        let code: Int32
    }

    private func start() throws(StartFailure) -> (pid_t, FileDescriptor) {
        let null = FileDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC))
        // Files without a name instead of pipes: no end to wait for when a grandchild keeps its copy open, and no
        // signal when the program does not read.
        let words = FileDescriptor(cspawn_memory_file())
        guard null.isOpen, words.isOpen else { throw StartFailure(code: errno) }
        let source: FileDescriptor
        if let input {
            source = FileDescriptor(cspawn_memory_file())
            guard source.isOpen, source.writeAll(input), lseek(source.number, 0, SEEK_SET) == 0 else {
                throw StartFailure(code: errno)
            }
        } else {
            source = null
        }
        var child: pid_t = 0
        let variables = environment.map { "\($0.key)=\($0.value)" }.sorted()
        let status = Self.withCStrings([path] + arguments) { argumentPointers in
            Self.withCStrings(variables) { variablePointers in
                cspawn_start(
                    path, argumentPointers, variablePointers, source.number, null.number, words.number, &child)
            }
        }
        guard status == 0 else { throw StartFailure(code: status) }
        return (child, words)
    }

    /// Lends `texts` as an array of C strings with a null pointer at its end.
    private static func withCStrings<Output>(
        _ texts: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Output
    ) -> Output {
        var pointers = texts.map { strdup($0) }
        pointers.append(nil)
        defer { for pointer in pointers { free(pointer) } }
        return pointers.withUnsafeBufferPointer { buffer in
            guard let start = buffer.baseAddress else {
                preconditionFailure("An array with an element has an address.")
            }
            return body(start)
        }
    }
}
