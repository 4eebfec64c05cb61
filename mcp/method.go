package mcp

// Requests. Which side may send which of them in which revision is
// [Version.Method].
const (
	MethodInitialize            = "initialize"
	MethodDiscover              = "server/discover"
	MethodPing                  = "ping"
	MethodListTools             = "tools/list"
	MethodCallTool              = "tools/call"
	MethodListResources         = "resources/list"
	MethodListResourceTemplates = "resources/templates/list"
	MethodReadResource          = "resources/read"
	MethodSubscribe             = "resources/subscribe"
	MethodUnsubscribe           = "resources/unsubscribe"
	MethodListPrompts           = "prompts/list"
	MethodGetPrompt             = "prompts/get"
	MethodComplete              = "completion/complete"
	MethodSetLevel              = "logging/setLevel"
	MethodListen                = "subscriptions/listen"
	MethodListRoots             = "roots/list"
	MethodCreateMessage         = "sampling/createMessage"
	MethodElicit                = "elicitation/create"
	MethodGetTask               = "tasks/get"
	MethodTaskResult            = "tasks/result"
	MethodListTasks             = "tasks/list"
	MethodCancelTask            = "tasks/cancel"
	MethodUpdateTask            = "tasks/update"
)

// Notifications.
const (
	NotificationInitialized         = "notifications/initialized"
	NotificationCancelled           = "notifications/cancelled"
	NotificationProgress            = "notifications/progress"
	NotificationMessage             = "notifications/message"
	NotificationToolsChanged        = "notifications/tools/list_changed"
	NotificationPromptsChanged      = "notifications/prompts/list_changed"
	NotificationResourcesChanged    = "notifications/resources/list_changed"
	NotificationResourceUpdated     = "notifications/resources/updated"
	NotificationRootsChanged        = "notifications/roots/list_changed"
	NotificationElicitationComplete = "notifications/elicitation/complete"
	NotificationTaskStatus          = "notifications/tasks/status" // core tasks, 2025-11-25
	NotificationTask                = "notifications/tasks"        // Tasks extension
	NotificationListenAcknowledged  = "notifications/subscriptions/acknowledged"
)

// intern returns the method's constant, so that scanning a known method
// allocates nothing.
func intern(method []byte) string {
	switch string(method) { // no allocation: the compiler compares in place
	case MethodInitialize:
		return MethodInitialize
	case MethodDiscover:
		return MethodDiscover
	case MethodPing:
		return MethodPing
	case MethodListTools:
		return MethodListTools
	case MethodCallTool:
		return MethodCallTool
	case MethodListResources:
		return MethodListResources
	case MethodListResourceTemplates:
		return MethodListResourceTemplates
	case MethodReadResource:
		return MethodReadResource
	case MethodSubscribe:
		return MethodSubscribe
	case MethodUnsubscribe:
		return MethodUnsubscribe
	case MethodListPrompts:
		return MethodListPrompts
	case MethodGetPrompt:
		return MethodGetPrompt
	case MethodComplete:
		return MethodComplete
	case MethodSetLevel:
		return MethodSetLevel
	case MethodListen:
		return MethodListen
	case MethodListRoots:
		return MethodListRoots
	case MethodCreateMessage:
		return MethodCreateMessage
	case MethodElicit:
		return MethodElicit
	case MethodGetTask:
		return MethodGetTask
	case MethodTaskResult:
		return MethodTaskResult
	case MethodListTasks:
		return MethodListTasks
	case MethodCancelTask:
		return MethodCancelTask
	case MethodUpdateTask:
		return MethodUpdateTask
	case MethodListSkills:
		return MethodListSkills
	case MethodGetSkill:
		return MethodGetSkill
	case MethodReadDirectory:
		return MethodReadDirectory
	}
	return internNotification(method)
}

func internNotification(method []byte) string {
	switch string(method) {
	case NotificationInitialized:
		return NotificationInitialized
	case NotificationCancelled:
		return NotificationCancelled
	case NotificationProgress:
		return NotificationProgress
	case NotificationMessage:
		return NotificationMessage
	case NotificationToolsChanged:
		return NotificationToolsChanged
	case NotificationPromptsChanged:
		return NotificationPromptsChanged
	case NotificationResourcesChanged:
		return NotificationResourcesChanged
	case NotificationResourceUpdated:
		return NotificationResourceUpdated
	case NotificationRootsChanged:
		return NotificationRootsChanged
	case NotificationElicitationComplete:
		return NotificationElicitationComplete
	case NotificationTaskStatus:
		return NotificationTaskStatus
	case NotificationTask:
		return NotificationTask
	case NotificationListenAcknowledged:
		return NotificationListenAcknowledged
	}
	return string(method)
}
