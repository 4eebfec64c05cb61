package mcpserver

import (
	"encoding/json"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/subscriptions"
)

// Subscribed counts what a server knows of those who want to hear of changes.
func (s *Server) Subscribed() (streams, uris, tasks, quotas, bytes int) {
	return s.notices.Len()
}

// Changed says that a list has changed: 0 is tools, 1 prompts, 2 resources.
func (s *Server) Changed(list int) { s.notices.Changed(subscriptions.List(list)) }

// TaskNews is what a server of tasks does for listen streams.
type TaskNews struct {
	May      func(principal *Principal, id string) bool
	Announce func(id string)
}

// SetTaskNews sets who knows of tasks, and returns how to tell of one.
func (s *Server) SetTaskNews(n TaskNews) (tell func(id, params string)) {
	s.taskNews = taskNewsFake{n}
	return func(id, params string) { s.notices.Task(id, []byte(params)) }
}

type taskNewsFake struct{ TaskNews }

func (f taskNewsFake) mayWatch(a *arrival, ids []string) (accepted []string, err error) {
	if _, ok := a.client.Capabilities.Extension(mcp.ExtensionTasks); !ok {
		return nil, mcp.MissingCapability(&mcp.ClientCapabilities{Extensions: map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")}})
	}
	for _, id := range ids {
		if f.May(a.principal, id) {
			accepted = append(accepted, id)
		}
	}
	return accepted, nil
}

func (f taskNewsFake) Announce(id string) { f.TaskNews.Announce(id) }
