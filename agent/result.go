package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// Result is the result of a run, also of one that failed.
type Result struct {
	RunID string `json:"runId"`
	// Text is the model's answer, empty where there is none.
	Text string `json:"text,omitempty"`
	// Structured is the answer as JSON that fits the schema that was asked for; nil
	// without one.
	Structured json.RawMessage `json:"structured,omitzero"`
	StopReason StopReason      `json:"stopReason"`
	// Incomplete says what the answer lacks, empty for a whole one. An answer that is not whole is
	// no error: the run has finished.
	Incomplete Incomplete `json:"incomplete,omitempty"`
	Usage      Usage      `json:"usage"`
	Steps      int        `json:"steps"`     // how many times the model was asked
	ToolCalls  int        `json:"toolCalls"` // how many calls were made
	// Spent is the cost of the run with all that it has started; Usage is its own.
	Spent Spent `json:"spent,omitzero"`
}

// StopReason is the reason why a run has ended. Values not listed are a provider's own.
type StopReason string

// The reasons to stop. The first four are the model's, and no error.
const (
	StopEnd           StopReason = "stop"           // the answer is complete
	StopLength        StopReason = "length"         // the provider's token limit cut the answer
	StopContentFilter StopReason = "content_filter" // the provider withheld the rest
	StopRefusal       StopReason = "refusal"        // the model refused
	StopLimit         StopReason = runlog.StopLimit
	StopCancelled     StopReason = runlog.StopCancelled
	StopFailed        StopReason = runlog.StopFailed
	StopWaiting       StopReason = runlog.StopWaiting   // suspended: it waits to be resumed
	StopLeft          StopReason = runlog.StopLeft      // it goes on elsewhere, or later: with [ErrLeft]
	StopMet           StopReason = runlog.StopCondition // a [StopCondition] holds; no error
	StopGuard         StopReason = runlog.StopGuard     // the answer is a guard's; no error
	StopRepeats       StopReason = runlog.StopRepeats   // the model has turned in circles, see [Config.MaxRepeats]; with a [LimitError]
)

// Incomplete says what an answer lacks.
type Incomplete string

// What an answer can lack. The first two are why the model's last turn has ended.
const (
	IncompleteLength Incomplete = runlog.IncompleteLength // the limit of output tokens cut it: the provider's, or [Config.MaxTokens]
	IncompleteFilter Incomplete = runlog.IncompleteFilter // the provider's content filter cut it
	IncompleteEmpty  Incomplete = runlog.IncompleteEmpty  // the model has said nothing, also when it was asked once more
	IncompleteCall   Incomplete = runlog.IncompleteCall   // it is a call of a tool that the model wrote as text, and that was not made
)

// Why says it in a sentence for people; it is empty for a whole answer.
func (i Incomplete) Why() string { return runlog.WhyIncomplete(string(i)) }

func resultOfRun(id string, out *loop.Outcome) *Result {
	return &Result{RunID: id, Text: out.Text, Structured: out.Structured, StopReason: StopReason(out.Stop), Incomplete: Incomplete(out.Incomplete),
		Usage: Usage(out.Usage), Steps: out.Steps, ToolCalls: out.ToolCalls, Spent: Spent(out.Spent)}
}

// encodeResult encodes a result for a job. A result that is too large for a job is in its run's journal
// only.
func encodeResult(res *Result) json.RawMessage {
	if res == nil {
		return nil
	}
	raw, err := marshalResult(res)
	if err == nil && len(raw) > store.MaxBody {
		short := *res
		short.Text, short.Structured = "", nil
		raw, err = marshalResult(&short)
	}
	if err != nil {
		return nil
	}
	return raw
}

// marshalResult is [jsonx.Marshal], without reflection: each job has a result.
func marshalResult(res *Result) ([]byte, error) {
	a := jsonx.Appender{Buf: make([]byte, 0, len(res.Text)+len(res.Structured)+256)}
	usage, spent := runlog.Usage(res.Usage), budget.Amount(res.Spent)
	a.Open('{')
	a.Text("runId", res.RunID)
	a.SomeText("text", res.Text)
	a.SomeValue("structured", res.Structured)
	a.Text("stopReason", string(res.StopReason))
	a.SomeText("incomplete", string(res.Incomplete))
	runlog.AppendUsage(&a, &usage)
	a.Int("steps", int64(res.Steps))
	a.Int("toolCalls", int64(res.ToolCalls))
	runlog.AppendAmount(&a, "spent", &spent)
	a.Close('}')
	if a.Bad {
		return jsonx.Marshal(res) // for its error
	}
	return a.Buf, nil
}

// fence matches the fence that models like to put around JSON: three marks, a name of the
// language in any letters, the text, three marks.
var fence = regexp.MustCompile("(?s)^```[A-Za-z0-9_+.-]*\\s*(.*?)\\s*```$")

// unfence takes it away, once.
func unfence(text string) string {
	text = strings.TrimSpace(text)
	if m := fence.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return text
}

// answerCheck makes JSON of an answer, and looks whether it fits a schema. Nil takes any text.
type answerCheck func(text string) (json.RawMessage, error)

// checkOf returns the check of a schema, which is compiled for each run that has one of its own.
func (a *Agent) checkOf(raw json.RawMessage) (answerCheck, error) {
	if bytes.Equal(raw, a.cfg.Output) {
		return a.answer, nil
	}
	return checkAnswer(raw)
}

// checkAnswer makes the check of a schema, nil for none.
func checkAnswer(raw json.RawMessage) (answerCheck, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	compiled, err := schema.Compile(raw, nil)
	if err != nil {
		return nil, fmt.Errorf("the schema of the answer: %w", err)
	}
	return func(text string) (json.RawMessage, error) {
		answer := []byte(unfence(text))
		var any jsonx.Value
		if err := jsonx.Unmarshal(answer, &any); err != nil {
			return nil, fmt.Errorf("it is not JSON: %w", err)
		}
		return answer, compiled.Validate(answer)
	}, nil
}

// digest identifies a value; each live run keeps one.
type digest [sha256.Size]byte

// String is the digest as it is written down.
func (d digest) String() string {
	const kind = "sha256:"
	return string(hex.AppendEncode(append(make([]byte, 0, len(kind)+2*len(d)), kind...), d[:]))
}

// hashOf identifies a value by its canonical JSON.
func hashOf(v any) string { return digest(sha256.Sum256(canonical(v))).String() }

func canonical(v any) []byte {
	raw, err := jsonx.Marshal(v)
	if err != nil {
		return []byte(err.Error()) // a schema that is not JSON was refused before
	}
	if canonical, err := jsonx.Canonical(raw); err == nil {
		return canonical
	}
	return raw
}

// identity is the digest of what a run is started with: of the canonical JSON of a list. Most runs have
// nothing but an agent and a prompt, which is long; so the list is put together here.
func identity(agent, prompt string, o *RunOptions) digest {
	scratch := identities.Get().(*[]byte)
	text := append((*scratch)[:0], '[')
	text = append(jsonx.AppendQuote(text, agent), ',')
	text = append(jsonx.AppendQuote(text, prompt), ',')
	if len(o.Output) == 0 {
		text = append(text, "null"...)
	} else {
		text = append(text, canonical(o.Output)...)
	}
	if o.Tenant != nil && o.Tenant.name != "" {
		text = jsonx.AppendQuote(append(text, ','), o.Tenant.name)
	}
	if len(o.History) > 0 {
		text = append(append(text, ','), canonical(o.History)...)
	}
	text = append(text, ']')
	sum := sha256.Sum256(text)
	if *scratch = text; cap(text) <= maxScratch {
		identities.Put(scratch)
	}
	return sum
}

// maxScratch bounds the room that is kept for the identity of the next run.
const maxScratch = 64 << 10

// identities are where identities are put together.
var identities = sync.Pool{New: func() any { return new([]byte) }}

// Usage is the cost of a run or a turn, in tokens and in money where there is a price.
type Usage struct {
	Input  int `json:"input"`
	Output int `json:"output"`
	// Estimated is true if part of it was counted from bytes, because a provider
	// gave no numbers or a turn did not complete.
	Estimated bool      `json:"estimated,omitzero"`
	Cost      llm.Money `json:"cost,omitzero"`
	// Over is by how many tokens, and OverCost by how much money, the run and all that
	// it has started are beyond its limits: the error of an estimate. Of a turn it is zero.
	Over     int       `json:"over,omitzero"`
	OverCost llm.Money `json:"overCost,omitzero"`
}

// Total returns input and output together.
func (u Usage) Total() int { return u.Input + u.Output }
