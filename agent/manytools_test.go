package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// lockedLog may be written while it is read.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

// More tools than many models take are warned of, once for each agent.
func TestWarnsOfManyTools(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, err := mcpserver.New(mcp.Implementation{Name: "many", Version: "1"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for i := range 129 {
			err := mcpserver.AddFunc(s, &mcp.Tool{Name: fmt.Sprint("t", i)}, func(context.Context, struct{}) (string, error) { return "", nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		log := new(lockedLog)
		rt := open(t, &agent.Options{Model: llmtest.Loop(llmtest.Say("done")), Servers: []mcpclient.Server{mcpclient.InProcess("many", s)},
			Logger: slog.New(slog.NewTextHandler(log, nil))})
		all, err := rt.Agent("all", nil)
		if err != nil {
			t.Fatal(err)
		}
		few, err := rt.Agent("few", &agent.Config{Deny: []string{"many__t1*"}})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for _, a := range []*agent.Agent{all, few} {
				if _, err := a.Run(t.Context(), "Go.", nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := log.count("more tools than many models take"); n != 1 || log.count("agent=all tools=129") != 1 {
			t.Errorf("warned %d times, want once, of the agent with 129 tools: %s", n, log.b.String())
		}
	})
}
