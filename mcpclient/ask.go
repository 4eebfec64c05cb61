package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// AskKind says what a [Human] is asked.
type AskKind uint8

const (
	// AskForm is a form of a server (ELIC): the answer's Content goes to it.
	AskForm AskKind = iota + 1
	// AskURL is a page that a server wants the user to open. Accepting is
	// consent to open exactly that URL.
	AskURL
	// AskSampling is a request for a model's answer, before it is made. The
	// Decision may change it.
	AskSampling
	// AskSample is the model's answer, before the server gets it. The Decision
	// may change it.
	AskSample
	// AskTool is a tool whose definition is another one than was approved; see
	// [Ask.Before].
	AskTool
	// AskPage is a page that is open and waited for: see [PageHuman].
	AskPage
	// AskLogin is a login that is waited for, which a person makes with another program: see
	// [LoginHuman].
	AskLogin
)

var askKinds = [...]string{"unknown", "form", "url", "sampling", "sample", "tool", "page", "login"}

// String returns "form", "url", "sampling", "sample", "tool", "page" or "login".
func (k AskKind) String() string {
	if int(k) < len(askKinds) {
		return askKinds[k]
	}
	return askKinds[0]
}

// MarshalText implements [encoding.TextMarshaler].
func (k AskKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (k *AskKind) UnmarshalText(text []byte) error {
	i := slices.Index(askKinds[:], string(text))
	if i <= 0 {
		return fmt.Errorf("mcpclient: unknown kind of question %.40q", text)
	}
	*k = AskKind(i)
	return nil
}

// Ask is one question for a person. What it says about who asks comes from the
// configuration, never from the server; texts of the server are as it sent
// them: a face must clean them before it shows them.
type Ask struct {
	ID     string  `json:"id"` // unique in the process
	Kind   AskKind `json:"kind"`
	Server string  `json:"server"`           // its name in the configuration
	Origin string  `json:"origin,omitempty"` // its command line, or the origin of its URL
	// Calls are the calls that the question may belong to: one as a rule, several
	// where the wire does not say which, none if the server asks unprompted.
	Calls []AskCall `json:"calls,omitempty"`
	// Path leads from the run's agent to the call, as [CallOptions.Path] gave it.
	Path []string `json:"path,omitempty"`
	// Notes are sentences of the client, to be shown with the question: what is in doubt
	// about it, such as that it may belong to a call that was cancelled.
	Notes   []string `json:"notes,omitempty"`
	Message string   `json:"message,omitempty"` // the server's words

	Form     *mcp.ElicitParams        `json:"form,omitempty"`     // AskForm; its schema is within the subset of forms
	URL      *URLView                 `json:"url,omitempty"`      // AskURL and AskPage
	Sampling *mcp.CreateMessageParams `json:"sampling,omitempty"` // AskSampling and AskSample
	Sample   *mcp.CreateMessageResult `json:"sample,omitempty"`   // AskSample
	Tool     *mcp.Tool                `json:"tool,omitempty"`     // AskTool: as it is now
	Before   *mcp.Tool                `json:"before,omitempty"`   // AskTool: as it was approved; nil if only its hash is known
	Login    *LoginView               `json:"login,omitempty"`    // AskLogin

	// Hash identifies what is shown: a decision is about exactly this.
	Hash string `json:"hash,omitempty"`
	// Expires is when the question is declined by itself; zero is never.
	Expires time.Time `json:"expires,omitzero"`
}

// AskCall is a call under way that a question belongs to.
type AskCall struct {
	Method string `json:"method"`
	Name   string `json:"name,omitempty"` // of the tool or prompt, or the resource's URI; may be empty
}

// URLView is a URL that was checked before it is shown.
type URLView struct {
	URL      string   `json:"url"`                // exactly what is shown and opened
	Host     string   `json:"host"`               // as the browser sees it
	Domain   string   `json:"domain,omitempty"`   // the registrable domain, to be made evident; "" if there is none
	Warnings []string `json:"warnings,omitempty"` // what is odd about it, in words
	// ElicitationID is the server's, of 2025-11-25; opaque.
	ElicitationID string `json:"elicitationId,omitempty"`
}

// LoginView is a login that a person makes with another program. It has no address to open, and
// no secret.
type LoginView struct {
	Resource string   `json:"resource"`          // that the login is for: the server's address, without its query
	Scopes   []string `json:"scopes,omitempty"`  // that are wanted, if there was a login without one of them
	Command  string   `json:"command,omitempty"` // that makes the login: see [AskOptions].LoginCommand
	Where    string   `json:"where,omitempty"`   // it is to be run, such as "on host2, in /srv/agents"
}

// Decision answers an [Ask].
type Decision struct {
	Action string `json:"action"` // [mcp.ActionAccept], ActionDecline or ActionCancel
	// Content holds the values of an accepted form. Defaults are filled in, and the
	// whole is checked, before it is sent.
	Content map[string]json.RawMessage `json:"content,omitempty"`
	// Sampling and Sample replace what was asked about, if they are not nil.
	Sampling *mcp.CreateMessageParams `json:"sampling,omitempty"`
	Sample   *mcp.CreateMessageResult `json:"sample,omitempty"`
	// ByHand says that the person who accepts an AskURL opens the page themselves:
	// [AskOptions.OpenURL] is not called.
	ByHand bool `json:"byHand,omitempty"`
	// Page answers an AskPage.
	Page PageAction `json:"page,omitempty"`
	// Hash is the Hash of the Ask that was shown, so that a decision cannot be taken
	// for one about something else. Empty is not compared.
	Hash string `json:"hash,omitempty"`
}

// Human decides what needs a person. Decide may take as long as a person does; it
// must heed ctx, which ends when the question is of no use any more. An error is
// taken for a dismissal ([mcp.ActionCancel]). It may be called for several questions
// at once.
type Human interface {
	Decide(ctx context.Context, ask *Ask) (*Decision, error)
}

// PageAction is what a person wants of a page that is open.
type PageAction string

// The page actions. The empty one leaves the page open and does not ask again.
const (
	PageRetry  PageAction = "retry"  // it is done: the calls that wait for it are tried again now
	PageOpen   PageAction = "open"   // open it again
	PageCancel PageAction = "cancel" // give it up: the calls that it is for end with an error
)

// PageHuman is a [Human] that shows which pages are open, and lets the person retry or
// give up. Humans without AwaitPage do so with [Host.Elicitations], if at all.
type PageHuman interface {
	Human
	// AwaitPage is called once a page is open, with an [AskPage], and again after
	// [PageOpen]. The ctx ends, with the reason as its cause, once the page is over or no
	// call is left that it is for. Of the answer only Page counts. An error, and an empty
	// Page, leave the page open. While AwaitPage runs, the time limits of the calls stand
	// still.
	AwaitPage(ctx context.Context, ask *Ask) (*Decision, error)
}

// LoginHuman is a [Human] that shows that its calls wait for a login by another process.
// Without AwaitLogin they wait in silence, for as long as their Authorizer has patience.
type LoginHuman interface {
	Human
	// AwaitLogin is called when a call begins to wait. Resume is to be called once: with nil
	// when l.Wait says so, or to try again, else with the reason why the call ends.
	// Leave says that the call waits no more. Neither may block.
	AwaitLogin(l *Login, resume func(error)) (leave func())
}

// HumanFunc is a function as a [Human].
type HumanFunc func(ctx context.Context, ask *Ask) (*Decision, error)

// Decide calls f.
func (f HumanFunc) Decide(ctx context.Context, ask *Ask) (*Decision, error) { return f(ctx, ask) }

// DeclineAll is a Human that declines all questions. As [AskOptions].Human it declares
// elicitation to servers, for calls that have a Human of their own; all other questions are
// declined, with a warning in the log.
var DeclineAll Human = decliner{}

type decliner struct{}

// Decide declines.
func (decliner) Decide(context.Context, *Ask) (*Decision, error) {
	return &Decision{Action: mcp.ActionDecline}, nil
}

// DeclineRecorder is a [Human] that is told of questions of its calls that were declined
// without being put to it.
type DeclineRecorder interface {
	Human
	// Declined must not block. Why may be shown to the owner of the call.
	Declined(kind AskKind, why error)
}

// Sampler lets a model answer for a server (sampling/createMessage). The request
// has been checked, limited and, unless [Options.SampleFreely] is set, accepted by
// the Human; the result is reviewed likewise before the server gets it. An error that
// is an [*mcp.Error] is told to the server; of any other it hears only that there is no
// answer. The ctx ends with the call that the request belongs to.
type Sampler interface {
	Sample(ctx context.Context, req *SampleRequest) (*mcp.CreateMessageResult, error)
}

// SamplePreparer is a [Sampler] that sees a request before a person is asked about
// it: it may refuse it, as Sample may, or return it with what it adds, such as
// context that was granted. What it returns is what is reviewed.
type SamplePreparer interface {
	Sampler
	PrepareSample(ctx context.Context, req *SampleRequest) (*mcp.CreateMessageParams, error)
}

// SampleRequest is what a [Sampler] is to answer.
type SampleRequest struct {
	Server string // its name in the configuration
	Path   []string
	Calls  []AskCall
	Params *mcp.CreateMessageParams
}

// SamplerFunc is a function as a [Sampler].
type SamplerFunc func(ctx context.Context, req *SampleRequest) (*mcp.CreateMessageResult, error)

// Sample calls f.
func (f SamplerFunc) Sample(ctx context.Context, req *SampleRequest) (*mcp.CreateMessageResult, error) {
	return f(ctx, req)
}

// Owned is a [Human] that answers for a person: several with the same Owner are one
// person, such as the Humans of the calls of one run. Others are one person only if
// they are the same value.
type Owned interface {
	Human
	// Owner returns a value that can be compared.
	Owner() any
}
