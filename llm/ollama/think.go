package ollama

import (
	"net/http"
	"strings"
	"sync"

	"github.com/ollama/ollama/api"

	"github.com/troupe-dev/troupe/llm"
)

// thinking is how a model can be told to think.
type thinking int

const (
	byLevel  thinking = iota // low, medium or high; the first guess
	bySwitch                 // on and off
	never                    // it does not think
)

// maxThinks bounds the models of which a server's ways are remembered.
const maxThinks = 256

// thinks is what the models of a server have refused.
type thinks struct {
	mu sync.Mutex
	of map[string]thinking // guarded by mu; missing is byLevel
}

func (t *thinks) get(model string) thinking {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[model]
}

// learn looks at what a server has refused, and reports whether the request is worth another attempt.
func (t *thinks) learn(model string, err *llm.Error, sent *api.ThinkValue) bool {
	text := strings.ToLower(err.Message)
	if err.Status != http.StatusBadRequest || sent == nil || !strings.Contains(text, "think") {
		return false
	}
	way := never
	if sent.IsString() && !strings.Contains(text, "does not support thinking") {
		way = bySwitch
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil || len(t.of) >= maxThinks {
		t.of = make(map[string]thinking)
	}
	t.of[model] = max(way, t.of[model]) // another request may have learned more
	return true
}

// levels are those that Ollama has.
var levels = []llm.Effort{llm.EffortLow, llm.EffortMedium, llm.EffortHigh}

// think maps the effort. A schema switches thinking off unless there is one: Ollama applies the grammar only once a model that
// can think has done so, and a model that then does not think would answer in free text.
func think(req *llm.Request, way thinking) *api.ThinkValue {
	effort := req.Effort
	if effort == "" && len(req.Schema) > 0 {
		effort = llm.EffortNone
	}
	switch {
	case effort == "" || way == never:
		return nil
	case effort == llm.EffortNone || way == bySwitch:
		return &api.ThinkValue{Value: effort != llm.EffortNone}
	}
	return &api.ThinkValue{Value: string(effort.Nearest(levels))}
}
