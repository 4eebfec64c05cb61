package mcp

import "slices"

// Version names a protocol revision. Support is an exact match against a known
// list, never "same or newer".
type Version string

// The revisions.
const (
	V2024_11_05 Version = "2024-11-05"
	V2025_03_26 Version = "2025-03-26"
	V2025_06_18 Version = "2025-06-18"
	V2025_11_25 Version = "2025-11-25"
	V2026_07_28 Version = "2026-07-28"
)

// Latest is the newest revision, LatestLegacy the newest that opens with initialize.
const (
	Latest       = V2026_07_28
	LatestLegacy = V2025_11_25
)

var versions = []Version{V2026_07_28, V2025_11_25, V2025_06_18, V2025_03_26, V2024_11_05}

// Versions returns all revisions, newest first. The caller owns the slice.
func Versions() []Version { return slices.Clone(versions) }

// LegacyVersions returns the revisions that open with initialize, newest first.
func LegacyVersions() []Version { return slices.Clone(versions[1:]) }

// Newest returns the newest version that both lists have; order does not matter.
func Newest(a, b []Version) (Version, bool) {
	for _, v := range versions {
		if slices.Contains(a, v) && slices.Contains(b, v) {
			return v, true
		}
	}
	return "", false
}

// Era is one of the two ways in which a connection works.
type Era uint8

const (
	// EraUnknown is the era of a version we do not know.
	EraUnknown Era = iota
	// EraLegacy opens with initialize and has sessions; both sides send requests.
	EraLegacy
	// EraModern is stateless; only the client sends requests.
	EraModern
)

// String returns "legacy", "modern" or "unknown".
func (e Era) String() string {
	switch e {
	case EraLegacy:
		return "legacy"
	case EraModern:
		return "modern"
	}
	return "unknown"
}

// Side is one end of a connection.
type Side uint8

const (
	// Client is the host's side.
	Client Side = 1 << iota
	// Server is the side that offers tools.
	Server
)

// Feature is something that only some revisions have.
type Feature uint8

// The features, with the revisions that have them (tables 1 to 7).
const (
	FeatureBatch                Feature = iota // arrays of messages: 2025-03-26
	FeatureToolAnnotations                     // 2025-03-26 on
	FeatureAudioBlocks                         // audio blocks: 2025-03-26 on
	FeatureCompletions                         // the completions capability: 2025-03-26 on
	FeatureProgressMessage                     // message in progress notifications: 2025-03-26 on
	FeatureElicitation                         // form mode: 2025-06-18 on
	FeatureStructuredContent                   // structuredContent and outputSchema, objects: 2025-06-18 on
	FeatureResourceLinks                       // resource_link blocks: 2025-06-18 on
	FeatureTitles                              // title and _meta on the data types: 2025-06-18 on
	FeatureCompletionContext                   // context in completion/complete: 2025-06-18 on
	FeatureURLElicitation                      // url mode: 2025-11-25 on
	FeatureElicitationIDs                      // elicitationId, its completion notice, -32042: 2025-11-25
	FeatureSamplingTools                       // tools and several blocks in sampling: 2025-11-25 on
	FeatureIcons                               // 2025-11-25 on
	FeatureCoreTasks                           // experimental tasks in the core: 2025-11-25
	FeatureAnyStructuredContent                // structured content of any JSON type: 2026-07-28
	FeatureResultType                          // resultType in every result: 2026-07-28
	FeatureCacheHints                          // ttlMs and cacheScope: 2026-07-28
	FeatureInputRequired                       // input_required results: 2026-07-28
	FeatureListen                              // subscriptions/listen: 2026-07-28
	FeatureHandshake                           // initialize, sessions, ping, server requests: legacy
)

// revision is everything we know about one revision.
type revision struct {
	era      Era
	features uint64
	methods  map[string]Side // which side may send it
}

const (
	features24 = 1 << FeatureHandshake
	features03 = features24 | 1<<FeatureToolAnnotations | 1<<FeatureAudioBlocks | 1<<FeatureCompletions |
		1<<FeatureProgressMessage
	features06 = features03 | 1<<FeatureElicitation | 1<<FeatureStructuredContent | 1<<FeatureResourceLinks |
		1<<FeatureTitles | 1<<FeatureCompletionContext
	features11 = features06 | 1<<FeatureURLElicitation | 1<<FeatureSamplingTools | 1<<FeatureIcons
	features26 = features11&^(1<<FeatureHandshake) | 1<<FeatureAnyStructuredContent | 1<<FeatureResultType |
		1<<FeatureCacheHints | 1<<FeatureInputRequired | 1<<FeatureListen
)

var (
	unknownRevision revision
	revision24      = revision{EraLegacy, features24, methodsOf(in24)}
	revision03      = revision{EraLegacy, features03 | 1<<FeatureBatch, methodsOf(in03)}
	revision06      = revision{EraLegacy, features06, methodsOf(in06)}
	revision11      = revision{EraLegacy, features11 | 1<<FeatureElicitationIDs | 1<<FeatureCoreTasks, methodsOf(in11)}
	revision26      = revision{EraModern, features26, methodsOf(in26)}
)

func (v Version) revision() *revision {
	switch v {
	case V2026_07_28:
		return &revision26
	case V2025_11_25:
		return &revision11
	case V2025_06_18:
		return &revision06
	case V2025_03_26:
		return &revision03
	case V2024_11_05:
		return &revision24
	}
	return &unknownRevision
}

// Known reports whether v is one of the five revisions.
func (v Version) Known() bool { return v.Era() != EraUnknown }

// Era returns the era of v; EraUnknown when v is not known.
func (v Version) Era() Era { return v.revision().era }

// Has reports whether v has the feature.
func (v Version) Has(f Feature) bool { return v.revision().features&(1<<f) != 0 }

// Method reports whether side from may send this request or notification in
// revision v. Capabilities come on top. For 2026-07-28 the methods of the Tasks
// extension count as allowed, everywhere those of the Skills extension: it is data to
// every revision, and hosts of all of them use it; notifications/cancelled is allowed to both sides,
// and to the server only for a listen stream.
func (v Version) Method(method string, from Side) bool {
	return v.revision().methods[method]&from != 0
}

// InputMethod reports whether method may stand in an input_required result of
// revision v.
func (v Version) InputMethod(method string) bool {
	switch method {
	case MethodElicit, MethodCreateMessage, MethodListRoots:
		return v.Has(FeatureInputRequired)
	}
	return false
}

// Sets of revisions, for the method table.
const (
	in24 = 1 << iota
	in03
	in06
	in11
	in26

	legacy = in24 | in03 | in06 | in11
	all    = legacy | in26
	both   = Client | Server
)

// methodTable is tables 1 and 2 of the protocol reference: who may send what, where.
// A method may have several rows.
var methodTable = []struct {
	method string
	from   Side
	in     uint8
}{
	{MethodInitialize, Client, legacy},
	{MethodDiscover, Client, in26},
	{MethodPing, both, legacy},
	{MethodListTools, Client, all},
	{MethodCallTool, Client, all},
	{MethodListResources, Client, all},
	{MethodListResourceTemplates, Client, all},
	{MethodReadResource, Client, all},
	{MethodSubscribe, Client, legacy},
	{MethodUnsubscribe, Client, legacy},
	{MethodListPrompts, Client, all},
	{MethodGetPrompt, Client, all},
	{MethodComplete, Client, all},
	{MethodSetLevel, Client, legacy},
	{MethodListen, Client, in26},
	{MethodListRoots, Server, legacy},
	{MethodCreateMessage, Server, legacy},
	{MethodElicit, Server, in06 | in11},
	{MethodGetTask, both, in11},
	{MethodGetTask, Client, in26},
	{MethodTaskResult, both, in11},
	{MethodListTasks, both, in11},
	{MethodCancelTask, both, in11},
	{MethodCancelTask, Client, in26},
	{MethodUpdateTask, Client, in26},
	{MethodListSkills, Client, all},
	{MethodGetSkill, Client, all},
	{MethodReadDirectory, Client, all},

	{NotificationInitialized, Client, legacy},
	{NotificationCancelled, both, all},
	{NotificationProgress, both, legacy},
	{NotificationProgress, Server, in26},
	{NotificationMessage, Server, all},
	{NotificationToolsChanged, Server, all},
	{NotificationPromptsChanged, Server, all},
	{NotificationResourcesChanged, Server, all},
	{NotificationResourceUpdated, Server, all},
	{NotificationRootsChanged, Client, legacy},
	{NotificationElicitationComplete, Server, in11},
	{NotificationTaskStatus, both, in11},
	{NotificationTask, Server, in26},
	{NotificationListenAcknowledged, Server, in26},
}

func methodsOf(in uint8) map[string]Side {
	m := make(map[string]Side, len(methodTable))
	for _, row := range methodTable {
		if row.in&in != 0 {
			m[row.method] |= row.from
		}
	}
	return m
}
