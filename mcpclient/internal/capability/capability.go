// Package capability says what a server has to declare for a method, and what a client
// declares of tasks and extensions.
package capability

import (
	"encoding/json"
	"fmt"
	"strings"

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

// Tasks is what a server of 2025-11-25 says of its tasks (TASK-01).
type Tasks struct{ Calls, Cancel bool }

// TasksOf returns what a server declares.
func TasksOf(v mcp.Version, caps *mcp.ServerCapabilities) Tasks {
	t := caps.Tasks
	if !v.Has(mcp.FeatureCoreTasks) || t == nil {
		return Tasks{}
	}
	return Tasks{Calls: t.Requests != nil && t.Requests.Tools != nil && t.Requests.Tools.Call != nil, Cancel: t.Cancel != nil}
}

// ServedTasks are the capabilities of a client that serves tasks (TASK-01, TASK-20), nil
// if it serves none.
func ServedTasks(sampling, elicitation bool) *mcp.TasksCapability {
	if !sampling && !elicitation {
		return nil
	}
	r := new(mcp.TaskRequests)
	if sampling {
		r.Sampling = &mcp.TaskSamplingRequests{CreateMessage: mcp.Present}
	}
	if elicitation {
		r.Elicitation = &mcp.TaskElicitationRequests{Create: mcp.Present}
	}
	return &mcp.TasksCapability{List: mcp.Present, Cancel: mcp.Present, Requests: r}
}

// CheckExtensions refuses what cannot be declared: an id needs a prefix (EXT-01,
// META-02), and settings are an object.
func CheckExtensions(extensions map[string]json.RawMessage) error {
	for id, settings := range extensions {
		if err := mcp.CheckMetaKey(id); err != nil || !strings.Contains(id, "/") {
			return fmt.Errorf("mcpclient: extension %q: an id is a prefix like com.example, a slash and a name", id)
		}
		var object map[string]json.RawMessage
		if err := mcp.Unmarshal(settings, &object); err != nil || object == nil {
			return fmt.Errorf("mcpclient: extension %s: its settings are not a JSON object", id)
		}
	}
	return nil
}

// Completes reports whether there is anything to complete: 2024-11-05 has no capability for
// it.
func Completes(v mcp.Version, caps *mcp.ServerCapabilities) bool {
	return v.Has(mcp.FeatureCompletions) || caps.Prompts != nil || caps.Resources != nil
}

// CompleteParams leaves out what the revision does not have.
func CompleteParams(p *mcp.CompleteParams, v mcp.Version) *mcp.CompleteParams {
	if v.Has(mcp.FeatureCompletionContext) {
		return p
	}
	d := *p
	d.Context, d.Ref.Title = nil, ""
	return &d
}
