@_spi(ChappieInternals) import ChappieFiles
import Glibc
import SystemPackage
import TestFixtures
import Testing

@Suite struct DescriptorTests {
    @Test func `a writer waits until its reader has taken everything`() async throws {
        let (reader, writer) = try Descriptor.socketPair()
        writer.stopBlocking()
        reader.stopBlocking()
        #expect(try reader.readArrived() == nil && !reader.wait(for: POLLIN, limit: .zero))
        // More than a socket takes at once.
        let much = [UInt8](repeating: 7, count: 1 << 20)
        async let isWritten: Void = onOwnThread { try writer.write(much) }
        let bytes = try await onOwnThread {
            var bytes: [UInt8] = []
            while bytes.count < much.count { bytes += try reader.read() }
            return bytes
        }
        try await isWritten
        #expect(bytes == much)
    }

    @Test func `a failed call throws the reason`() throws {
        #expect(throws: Errno.badFileDescriptor) { try Descriptor(close(-1)) }
        #expect(throws: Errno.noSuchFileOrDirectory) { try Descriptor("/dev/null\0suffix") }
        #expect(throws: Errno.badFileDescriptor) { try Descriptor("/dev/null").write([1]) }
        #expect(throws: Errno.noSpace) { try Descriptor("/dev/full", .writeOnly).write([1]) }
        try Descriptor("/dev/null").write([])
    }

    @Test func `no program inherits a file`() throws {
        let file = try Descriptor("/dev/null")
        #expect(fcntl(file.number, F_GETFD) == FD_CLOEXEC)
    }

    @Test func `the last owner closes a file`() throws {
        // The other end has no owner.
        let reader = try Descriptor.socketPair().0
        reader.stopBlocking()
        #expect(try reader.readArrived() == [])
    }
}
