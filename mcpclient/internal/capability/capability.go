// Package capability says what a server has to declare for a method.
package capability

import (
	"encoding/json"

	"github.com/troupe-dev/troupe/mcp"
)

// Known reports whether a method is the protocol's, in any revision.
func Known(method string) bool {
	for _, v := range mcp.Versions() {
		if v.Method(method, mcp.Client) || v.Method(method, mcp.Server) {
			return true
		}
	}
	return false
}

// Missing names what the server would have to declare, "" if it has.
func Missing(method string, version mcp.Version, caps *mcp.ServerCapabilities) string {
	var there bool
	var name string
	switch method {
	case mcp.MethodListTools, mcp.MethodCallTool:
		name, there = "tools", caps.Tools != nil
	case mcp.MethodListResources, mcp.MethodListResourceTemplates, mcp.MethodReadResource:
		name, there = "resources", caps.Resources != nil
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		name, there = "resources.subscribe", caps.Resources != nil && caps.Resources.Subscribe
	case mcp.MethodListPrompts, mcp.MethodGetPrompt:
		name, there = "prompts", caps.Prompts != nil
	case mcp.MethodComplete: // had no capability in 2024-11-05 (CAP-03)
		name, there = "completions", caps.Completions != nil || !version.Has(mcp.FeatureCompletions)
	case mcp.MethodSetLevel:
		name, there = "logging", caps.Logging != nil
	case mcp.MethodListSkills, mcp.MethodGetSkill: // SKILL-02
		name = mcp.ExtensionSkills
		_, there = caps.Extension(name)
	case mcp.MethodReadDirectory:
		name, there = mcp.ExtensionSkills+" directoryRead", readsDirectories(caps)
	default:
		return ""
	}
	if there {
		return ""
	}
	return name
}

// readsDirectories reports whether the server declares directoryRead.
func readsDirectories(caps *mcp.ServerCapabilities) bool {
	settings, ok := caps.Extension(mcp.ExtensionSkills)
	var s struct {
		mcp.SkillsCapability
		Rest map[string]json.RawMessage `json:",inline,embed"`
	}
	return ok && mcp.Unmarshal(settings, &s) == nil && s.DirectoryRead
}
