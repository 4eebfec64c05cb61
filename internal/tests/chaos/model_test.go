//go:build linux

package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

// kind is a kind of job.
type kind struct {
	agent string
	turns func(job string) []llmtest.Turn // the last one is made of the results
	calls []string                        // names of the calls, each of which has its effect once
	limit int                             // model calls that its agent allows; zero for none
	asks  bool                            // at that limit a person is asked for as many again, at most once
}

func call(server, tool, job, name string, work int) llmtest.Turn {
	return llmtest.Call(server+"__"+tool, fmt.Sprintf(`{"op":"%s/%s","pre":%d,"post":%d}`, job, name, work, work/2))
}

// limits of the agents limited and bounded, in model calls.
const limitedTo, boundedTo = 2, 5

// kinds are the jobs. A name that begins with "look" is that of a call that may be made twice.
var kinds = map[string]kind{
	"calls": {agent: "plain", calls: []string{"a", "b", "c"}, turns: func(job string) []llmtest.Turn {
		return []llmtest.Turn{llmtest.Calls(call("modern", "pay", job, "a", 200), call("legacy", "pay", job, "b", 200)), call("modern", "pay", job, "c", 100)}
	}},
	"looks": {agent: "plain", calls: []string{"look1", "a", "look2"}, turns: func(job string) []llmtest.Turn {
		return []llmtest.Turn{call("modern", "look", job, "look1", 200), llmtest.Calls(call("legacy", "pay", job, "a", 200), call("modern", "look", job, "look2", 200))}
	}},
	"approval": {agent: "asker", calls: []string{"a", "b", "c"}, turns: func(job string) []llmtest.Turn {
		return []llmtest.Turn{llmtest.Calls(call("modern", "pay", job, "a", 200), call("legacy", "pay", job, "b", 200)), call("modern", "pay", job, "c", 200)}
	}},
	"form": {agent: "plain", calls: []string{"a", "b"}, turns: func(job string) []llmtest.Turn {
		return []llmtest.Turn{call("modern", "asks", job, "a", 200), call("legacy", "pay", job, "b", 200)}
	}},
	"old form": {agent: "plain", calls: []string{"a", "b"}, turns: func(job string) []llmtest.Turn {
		return []llmtest.Turn{call("legacy", "asks", job, "a", 200), call("modern", "pay", job, "b", 200)}
	}},
	"limit": {agent: "limited", limit: limitedTo, asks: true, calls: []string{"a", "b", "c"}, turns: func(job string) []llmtest.Turn {
		return []llmtest.Turn{call("modern", "pay", job, "a", 200), call("modern", "pay", job, "b", 200), call("modern", "pay", job, "c", 200)}
	}},
	"bounded": {agent: "bounded", limit: boundedTo, calls: []string{"a", "b"}, turns: func(job string) []llmtest.Turn {
		return []llmtest.Turn{call("modern", "pay", job, "a", 200), call("modern", "pay", job, "b", 200)}
	}},
	"team": {agent: "lead", calls: []string{"a", "x", "y", "b"}, turns: func(job string) []llmtest.Turn {
		below := llmtest.Call("below", fmt.Sprintf(`{"prompt":%q}`, prompt(job, "below")))
		return []llmtest.Turn{llmtest.Calls(call("modern", "pay", job, "a", 200), below), call("modern", "pay", job, "b", 200)}
	}},
	"mended": {agent: "plain", calls: []string{"a", "b"}, turns: func(job string) []llmtest.Turn { // its model refuses the second turn until a person has seen to it
		return []llmtest.Turn{call("modern", "pay", job, "a", 200), call("modern", "pay", job, "b", 200)}
	}},
	"long": {agent: "plain", calls: []string{"a", "b", "c", "d", "e", "f", "g", "h"}, turns: func(job string) (all []llmtest.Turn) {
		for i, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			all = append(all, call([]string{"modern", "legacy"}[i%2], "pay", job, name, 150))
		}
		return all
	}},
	"cancelled": {agent: "plain", calls: []string{"a", "b", "c", "d"}, turns: func(job string) []llmtest.Turn {
		return []llmtest.Turn{call("modern", "pay", job, "a", 300), call("legacy", "pay", job, "b", 300), call("modern", "pay", job, "c", 300), call("legacy", "pay", job, "d", 300)}
	}},
}

// below is what the sub-agent of a team does.
func below(job string) []llmtest.Turn {
	return []llmtest.Turn{call("modern", "pay", job, "x", 200), call("modern", "pay", job, "y", 200)}
}

// prompt is that of a job: the model knows by it which script to play.
func prompt(job, kind string) string { return "@@" + job + ":" + kind + "@@" }

var (
	prompted = regexp.MustCompile(`@@([^:@]+):([^:@]+)@@`)
	did      = regexp.MustCompile(`did:([^;]+);`)
)

// provider is a model behind an address, which can be away.
type provider struct {
	*host
	mu     sync.Mutex // guards what follows
	mode   string     // how it fails; empty for not
	served map[string]int
	mended map[string]bool // jobs whose second turn it does not refuse any more
	bad    []string        // conversations that no provider would take
}

// modes are the ways in which a provider is away. Each is its state, and none a fault of the request.
var modes = []string{"refused", "503", "429", "401", "cut", "hangs"}

func newProvider() (*provider, error) {
	p := &provider{served: make(map[string]int), mended: make(map[string]bool)}
	script := llmtest.NewServer(llmtest.Func(p.turn)).Loop()
	var err error
	p.host, err = newHost(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		select { // a model thinks
		case <-time.After(150 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
		job := ""
		if m := prompted.FindSubmatch(body); m != nil {
			job = string(m[1])
		}
		p.mu.Lock()
		mode := p.mode
		if mode == "" {
			p.served[job]++
		}
		p.mu.Unlock()
		switch mode {
		case "":
			script.ServeHTTP(w, r)
		case "503", "401":
			status, _ := strconv.Atoi(mode)
			http.Error(w, `{"error":{"message":"away"}}`, status)
		case "429":
			w.Header().Set("Retry-After", "2")
			http.Error(w, `{"error":{"message":"slow down"}}`, http.StatusTooManyRequests)
		case "hangs":
			<-r.Context().Done()
		default: // cut, and what was under way when it went away
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"one \"}}]}\n\n")
			panic(http.ErrAbortHandler)
		}
	}))
	return p, err
}

// fail has the provider away in a mode, until the next call; "" has it back.
func (p *provider) fail(mode string) error {
	p.mu.Lock()
	p.mode = mode
	p.mu.Unlock()
	if mode == "refused" {
		p.away()
		return nil
	}
	return p.back()
}

func (p *provider) mend(job string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mended[job] = true
}

// turn is what the model says next.
func (p *provider) turn(_ context.Context, req *llm.Request) llmtest.Turn {
	if len(req.Messages) == 0 {
		return llmtest.Reply(http.StatusBadRequest, `{"error":{"message":"no messages"}}`)
	}
	m := prompted.FindStringSubmatch(req.Messages[0].Content.Text())
	if m == nil {
		return llmtest.Reply(http.StatusBadRequest, `{"error":{"message":"no job"}}`)
	}
	job, name := m[1], m[2]
	var list []llmtest.Turn // none of a job that a schedule has added
	if name == "below" {
		list = below(job)
	} else if k, ok := kinds[name]; ok {
		list = k.turns(job)
	}
	n := 0
	results := make(map[string]bool)
	for _, msg := range req.Messages {
		if msg.Role == llm.RoleAssistant {
			n++
		}
		for _, c := range msg.Content {
			if r, ok := c.(*mcp.ToolResultContent); ok {
				for _, one := range did.FindAllStringSubmatch(r.Content.Text(), -1) {
					results[one[1]] = true
				}
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > len(list) {
		p.bad = append(p.bad, fmt.Sprintf("job %s, %s: %d answers in the conversation, of %d turns with calls", job, name, n, len(list)))
	}
	switch {
	case name == "mended" && n == 1 && !p.mended[job]:
		return llmtest.Reply(http.StatusUnprocessableEntity, `{"error":{"message":"this job is not mended yet"}}`)
	case n < len(list):
		return list[n]
	}
	text := "done"
	for _, op := range slices.Sorted(maps.Keys(results)) {
		text += " " + result(op)
	}
	return llmtest.Say(text)
}

// answer is the result of a job whose calls of these names had their effects.
func answer(job string, names []string) string {
	text := "done"
	for _, name := range slices.Sorted(slices.Values(names)) {
		text += " " + result(job+"/"+name)
	}
	return strings.TrimSpace(text)
}
