/// A file that is being written beside the one whose place it will take; locked for as long as it is open.
struct TemporaryFile: ~Copyable {
    let descriptor: FileDescriptor
    let name: String

    /// Said in so many words, since the lock has to last until the file has its place.
    consuming func close() {}
}
