// Only this file chooses between FoundationEssentials, which keeps programs small on Linux, and Foundation, the only
// choice on Apple platforms. Every file of this module, and every file that imports ChappieCore, gets it from here.
#if canImport(FoundationEssentials) && !CHAPPIE_FULL_FOUNDATION
    @_exported public import FoundationEssentials
#else
    @_exported public import Foundation
#endif

// Every product leads here, so that this is the only place that refuses a platform.
#if os(tvOS) || os(watchOS)
    #error("Chappie supports iOS, macOS, visionOS and Linux. It does not support tvOS and watchOS.")
#endif
