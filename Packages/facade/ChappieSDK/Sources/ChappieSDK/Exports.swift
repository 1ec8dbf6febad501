// `import ChappieSDK` makes the values, the session and the client available by their names. All names begin with
// Chappie, except the older name of the sign-in button, `SignInWithChatGPTButton`. Ports, transports, decoders and
// stores are available from the modules that declare them. Only ChappieClient is exported completely, because it
// declares nothing else.

@_exported import ChappieClient

@_exported import struct ChappieAuth.ChappieAccountInfo
@_exported import enum ChappieAuth.ChappieAuthError
@_exported import class ChappieAuth.ChappieAuthSession
@_exported import enum ChappieAuth.ChappieAuthState
@_exported import struct ChappieAuth.ChappieClientRegistration
@_exported import struct ChappieAuth.ChappieDeviceCode
@_exported import enum ChappieAuth.ChappieDeviceLinkState
@_exported import struct ChappieAuth.ChappieEndpoints
@_exported import enum ChappieAuth.ChappieGrant
@_exported import enum ChappieAuth.ChappieKeychainAccessibility
@_exported import enum ChappieAuth.ChappiePlanUse
@_exported import struct ChappieAuth.ChappieRegistration
@_exported import enum ChappieAuth.ChappieVersion
@_exported import enum ChappieCore.ChappieApprovalDecision
@_exported import struct ChappieCore.ChappieApprovalRequest
@_exported import enum ChappieCore.ChappieAttachmentError
@_exported import enum ChappieCore.ChappieAttemptReason
@_exported import protocol ChappieCore.ChappieClock
@_exported import struct ChappieCore.ChappieDeadlines
@_exported import protocol ChappieCore.ChappieError
@_exported import enum ChappieCore.ChappieFact
@_exported import struct ChappieCore.ChappieFile
@_exported import enum ChappieCore.ChappieFinishReason
@_exported import struct ChappieCore.ChappieGeneratedImage
@_exported import struct ChappieCore.ChappieImage
@_exported import struct ChappieCore.ChappieInputMessage
@_exported import enum ChappieCore.ChappieJSON
@_exported import struct ChappieCore.ChappieJSONError
@_exported import struct ChappieCore.ChappieJSONNumber
@_exported import struct ChappieCore.ChappieJSONObject
@_exported import typealias ChappieCore.ChappieJSONValue
@_exported import struct ChappieCore.ChappieMessageOptions
@_exported import struct ChappieCore.ChappieMessagePhase
@_exported import struct ChappieCore.ChappieModel
@_exported import protocol ChappieCore.ChappieModelCache
@_exported import struct ChappieCore.ChappieModelFilter
@_exported import struct ChappieCore.ChappieModelUpgrade
@_exported import struct ChappieCore.ChappieModelUsage
@_exported import struct ChappieCore.ChappieNetworkPolicy
@_exported import struct ChappieCore.ChappieNotice
@_exported import protocol ChappieCore.ChappieObservation
@_exported import struct ChappieCore.ChappieObservedAnswer
@_exported import enum ChappieCore.ChappieObservedConnection
@_exported import enum ChappieCore.ChappieObservedDecision
@_exported import enum ChappieCore.ChappieObservedGrant
@_exported import enum ChappieCore.ChappieObservedOutcome
@_exported import struct ChappieCore.ChappieObservedRequest
@_exported import enum ChappieCore.ChappieObservedTier
@_exported import struct ChappieCore.ChappieObservedTool
@_exported import enum ChappieCore.ChappieObservedWindow
@_exported import protocol ChappieCore.ChappieObserver
@_exported import enum ChappieCore.ChappieOperation
@_exported import enum ChappieCore.ChappieOperationDetail
@_exported import struct ChappieCore.ChappieOutputItem
@_exported import enum ChappieCore.ChappiePlan
@_exported import enum ChappieCore.ChappiePostgresRetryReason
@_exported import struct ChappieCore.ChappieReasoningEffort
@_exported import enum ChappieCore.ChappieRenewalReason
@_exported import enum ChappieCore.ChappieReplayOutcome
@_exported import struct ChappieCore.ChappieResponse
@_exported import struct ChappieCore.ChappieResponseError
@_exported import struct ChappieCore.ChappieResponseStatus
@_exported import enum ChappieCore.ChappieServiceStep
@_exported import struct ChappieCore.ChappieServiceTier
@_exported import struct ChappieCore.ChappieSource
@_exported import struct ChappieCore.ChappieSpendControl
@_exported import enum ChappieCore.ChappieStreamEvent
@_exported import enum ChappieCore.ChappieThreadStoreKind
@_exported import struct ChappieCore.ChappieTokenUsage
@_exported import struct ChappieCore.ChappieToolArgumentsDelta
@_exported import struct ChappieCore.ChappieToolCall
@_exported import struct ChappieCore.ChappieToolExecutionRequest
@_exported import struct ChappieCore.ChappieToolExecutionResult
@_exported import struct ChappieCore.ChappieToolPolicy
@_exported import struct ChappieCore.ChappieToolResult
@_exported import struct ChappieCore.ChappieTransportError
@_exported import enum ChappieCore.ChappieTransportEvent
@_exported import struct ChappieCore.ChappieUsageCredits
@_exported import struct ChappieCore.ChappieUsageCrossing
@_exported import struct ChappieCore.ChappieUsageLimit
@_exported import struct ChappieCore.ChappieUsageLimitSnapshot
@_exported import struct ChappieCore.ChappieUsageWindow
@_exported import struct ChappieCore.ChappieVerbosity
@_exported import struct ChappieCore.ChappieWebSearch
@_exported import protocol ChappieCore.ChappieWebSocketNotes
@_exported import struct ChappieFiles.ChappieFileModelCache
@_exported import struct ChappieFiles.ChappieFileWebSocketNotes
@_exported import struct ChappieJSONSchema.ChappieJSONSchema
@_exported import struct ChappieJSONSchema.ChappieJSONSchemaError
@_exported import protocol ChappieJSONSchema.ChappieJSONSchemaProviding
@_exported import struct ChappieJSONSchema.ChappieSchemaViolation
@_exported import struct ChappieJSONSchema.ChappieStrictSchema

#if canImport(SwiftUI)
    // The sign-in button, its texts and its model, on the platforms on which the manifest depends on the module.
    @_exported import ChappieSignInUI
#endif
