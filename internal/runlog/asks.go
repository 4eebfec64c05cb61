package runlog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/store"
)

// Kinds of asks of a run.
const (
	AskKind       = "tool"       // may this call be made? The payload is an [ApprovalPayload]
	AskLimit      = "limit"      // may the run have more than a limit? The payload is a [LimitPayload]
	AskForm       = "form"       // a server's form; the answer's content goes to it
	AskURL        = "url"        // a page that a server wants to be opened
	AskSampling   = "sampling"   // a server's request for a model's answer
	AskSample     = "sample"     // the answer, before the server gets it
	AskDefinition = "definition" // a tool's definition is not the approved one
	AskPage       = "page"       // a page that is open and waited for
	AskOutcome    = "outcome"    // what came of a call that was sent and has no result? The payload is an [OutcomePayload]
	AskLogin      = "login"      // a person has to log in at a server, with another program; the login settles it
	AskJob        = "job"        // shall a job go on that gets no further? The payload is a [JobPayload]
)

// ScopeRun is the scope of a decision that holds for every call of that exact tool
// definition in the same run.
const ScopeRun = "run"

// ApprovalPayload is the subject of an ask of the kind "tool"; the ask's Hash is
// that of this payload in canonical form (SECA-41).
type ApprovalPayload struct {
	Server     string          `json:"server,omitempty"`
	Tool       string          `json:"tool"`
	Definition string          `json:"definition,omitempty"` // its hash
	Source     string          `json:"source,omitempty"`     // which server of that name, see [Bound]
	Arguments  json.RawMessage `json:"arguments"`
	// Tainted says that the run has seen untrusted content and private data, and that
	// the call may carry them out (SECA-44).
	Tainted bool `json:"tainted,omitzero"`
	// Again is true if the policy asks in spite of all earlier approvals.
	Again bool `json:"again,omitzero"`
	Differs
}

// Differs is how the agent that works on a run is not the one that the run has recorded. It is a part of the
// questions of the run, so that no approval counts that was given without it. The zero value is that of
// a run that goes on as it was.
type Differs struct {
	Note         string `json:"note,omitempty"`         // in words
	Instructions string `json:"instructions,omitempty"` // the hash of the instructions, if they are others
}

// Bound returns the name of exactly this tool of exactly this server, see [Bound].
func (p *ApprovalPayload) Bound() string { return Bound(p.Source, p.Definition) }

// Bound names exactly one tool of exactly one server, as both are defined now: what an
// approval that outlives a run is bound to. Source is a hash of the server's definition,
// definition one of the tool's. It is empty where one of the two is not known, as for a
// function of the program.
func Bound(source, definition string) string {
	if source == "" || definition == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(source + "\x00" + definition))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// LimitPayload is the subject of an ask of the kind "limit". All amounts are written
// as in [budget.LimitError].
type LimitPayload struct {
	Account string `json:"account"` // whose limit it is: the run's, or that of one above
	Limit   string `json:"limit"`
	Max     string `json:"max"`
	Spent   string `json:"spent"`
	More    string `json:"more"` // what is asked for
}

// ProcessEnded is why the outcome of a call is unknown that its process has left.
const ProcessEnded = "the process that made the call has ended"

// OutcomePayload is the subject of an ask of the kind "outcome": a call that was sent, and that has no
// result: its process has ended, or what came as its answer cannot be used. The ask's Hash: see
// [Payload].
type OutcomePayload struct {
	Server     string          `json:"server,omitempty"`
	Tool       string          `json:"tool"`
	Definition string          `json:"definition,omitempty"` // its hash, when the call was decided on
	Arguments  json.RawMessage `json:"arguments"`
	Key        string          `json:"key"`           // of the call
	Sent       time.Time       `json:"sent"`          // for the last time
	Why        string          `json:"why,omitempty"` // its outcome is unknown; empty of older versions: the process has ended
}

// Ways on from a call of unknown outcome: the answers to an ask of the kind "outcome", and
// policies in place of it.
const (
	OutcomeAsk      = "ask"      // a policy only: a person is asked
	OutcomeHappened = "happened" // an answer only: it took effect, and its result is known
	OutcomeAgain    = "again"    // it is made again, with the same key
	OutcomeTell     = "tell"     // the model is told that the outcome is unknown
	OutcomeEnd      = "end"      // the run ends
)

// Payload returns the exact subject of an ask, and the ask's Hash: that of the subject in the form of
// [jsonx.Exact]. Both are empty for a value that is no JSON.
func Payload(v any) (payload json.RawMessage, hash string) {
	raw, err := jsonx.Marshal(v)
	if err != nil {
		return nil, ""
	}
	exact, err := jsonx.Exact(raw)
	if err != nil {
		exact = raw
	}
	return raw, hashOf(exact)
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// IsHash reports whether hash is that of an ask with this payload. Older versions hashed the form of RFC 8785, which
// differs where a number does.
func IsHash(hash string, payload []byte) bool {
	exact, err := jsonx.Exact(payload)
	if err != nil {
		return false
	}
	if hashOf(exact) == hash {
		return true
	}
	old, err := jsonx.Canonical(payload)
	return err == nil && hashOf(old) == hash
}

// JobPayload is the subject of an ask of the kind "job": a job that gets no further, because its
// workers die or because its model's provider is away. A yes goes on, a no ends its run. The ask's
// Hash is that of this payload in canonical form, see [Payload].
type JobPayload struct {
	Job    string `json:"job"`              // its ID
	Why    string `json:"why"`              // in words, for a person
	Losses int    `json:"losses,omitempty"` // times in a row that its worker was lost without progress
	// Of an outage: the provider of its model, the class of the error, and since when it is away.
	Provider string    `json:"provider,omitempty"`
	Class    string    `json:"class,omitempty"`
	Since    time.Time `json:"since,omitzero"`
}

// Outage says in words that a provider is away, and since when; empty for a job that waits for none.
func (p *JobPayload) Outage() string {
	if p.Class == "" && p.Provider == "" {
		return ""
	}
	text := strings.TrimSpace("provider "+p.Provider) + " is away"
	if p.Class != "" {
		text += " (" + p.Class + ")"
	}
	if !p.Since.IsZero() {
		text += " since " + p.Since.UTC().Format(time.RFC3339)
	}
	return text
}

// outcome is the answer to an ask of the kind "outcome".
type outcome struct {
	Outcome string `json:"outcome"`
	Result  string `json:"result,omitempty"` // of a call that happened
	Reason  string `json:"reason,omitempty"`
}

// OutcomeDecision returns the answer to an [AskOutcome]. The text is the result of a call that
// happened, and else a reason; it may be empty.
func OutcomeDecision(way, text string) store.Decision {
	d, answer := store.Decision{Status: store.AskDeclined}, outcome{Outcome: way, Reason: clip.Short(text)}
	switch way {
	case OutcomeHappened:
		answer.Result, answer.Reason = text, ""
		fallthrough
	case OutcomeAgain:
		d.Status, d.Scope = store.AskAccepted, "once"
	}
	raw, err := jsonx.Marshal(answer)
	if err != nil { // not UTF-8: the way is what counts
		raw, _ = jsonx.Marshal(outcome{Outcome: way})
	}
	d.Answer = raw
	return d
}

// Outcome returns the way on that a decision about an [AskOutcome] chooses, and the result or the
// reason. Whatever is no clear choice tells the model: nothing is repeated by mistake.
func Outcome(d store.Decision) (way, text string) {
	var o outcome
	if len(d.Answer) > 0 && jsonx.Unmarshal(d.Answer, &o) != nil {
		o = outcome{}
	}
	switch accepted := d.Status == store.AskAccepted; {
	case accepted && o.Outcome == OutcomeHappened:
		return OutcomeHappened, o.Result
	case accepted && o.Outcome == OutcomeAgain, d.Status == store.AskDeclined && o.Outcome == OutcomeEnd:
		return o.Outcome, o.Reason
	}
	return OutcomeTell, o.Reason
}

// reason is the answer of a decision that declines.
type reason struct {
	Reason string `json:"reason,omitempty"`
}

// DeclineAnswer returns the [store.Decision].Answer that carries a reason, nil for
// none.
func DeclineAnswer(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	raw, err := jsonx.Marshal(reason{clip.Short(text)})
	if err != nil { // not UTF-8: better no reason than no answer
		return nil
	}
	return raw
}

// Reason returns the reason of a decision that declines, empty for none.
func Reason(answer json.RawMessage) string {
	var d reason
	if len(answer) == 0 || jsonx.Unmarshal(answer, &d) != nil {
		return ""
	}
	return d.Reason
}

// more is the answer of a decision that accepts at a limit.
type more struct {
	More string `json:"more,omitempty"`
}

// MoreAnswer returns the [store.Decision].Answer that allows so much more, nil for the
// amount that was asked for.
func MoreAnswer(amount string) json.RawMessage {
	if amount == "" {
		return nil
	}
	raw, err := jsonx.Marshal(more{amount})
	if err != nil { // not UTF-8, and no amount
		return []byte("{}")
	}
	return raw
}

// More returns the amount that an answer allows, empty for the one that was asked for.
func More(answer json.RawMessage) (string, error) {
	var m more
	if len(answer) == 0 {
		return "", nil
	}
	err := jsonx.Unmarshal(answer, &m)
	return m.More, err
}

// PageDecision returns the answer to an [AskPage]: "retry", "open", or "cancel", which
// declines.
func PageDecision(action string) store.Decision {
	d := store.Decision{Status: store.AskAccepted, Scope: "once", Answer: json.RawMessage(jsonx.AppendQuote([]byte(`{"page":`), action))}
	d.Answer = append(d.Answer, '}')
	if action == "cancel" {
		d.Status, d.Scope = store.AskDeclined, ""
	}
	return d
}
