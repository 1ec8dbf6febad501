import TestFixtures
import Testing

/// Everything that measures time or counts threads: one after the other, so that none stands in another's way.
@Suite(.serialized, .byItself) enum OverTheWire {}
