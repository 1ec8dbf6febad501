// The tests of this folder as a program, as SwiftPM makes one of a test target. A target for tests needs an index of this
// whole package (`swift build --build-tests`), which nobody reads. It takes the options of `swift test`.
import Testing

await Testing.__swiftPMEntryPoint() as Never
