package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// The kinds of questions: [Ask].Kind.
const (
	KindTool       = runlog.AskKind       // may this call be made?
	KindLimit      = runlog.AskLimit      // may the run have more than its limit? See [AcceptMore]
	KindForm       = runlog.AskForm       // a server's form; see [Fill]
	KindURL        = runlog.AskURL        // a page that a server wants to be opened
	KindSampling   = runlog.AskSampling   // a server's request to a model, before it is made
	KindSample     = runlog.AskSample     // the model's answer, before the server gets it
	KindDefinition = runlog.AskDefinition // a tool is another one than was approved
	// KindPage is a page that is open and waited for. It is settled by itself when the page
	// is over. Only [RetryPage], [OpenPage] and [GiveUpPage] do something; after any other
	// answer the page goes on waiting, and is not asked about again.
	KindPage = runlog.AskPage
	// KindOutcome is a call that may have had its effect, and has no result: the process that made it
	// has ended, or no answer came that can be used. What came of it? See [Ask].Sent and Why. It is answered with [Happened], [CallAgain], [TellModel] or
	// [EndRun]; any other answer, none too, is [TellModel].
	KindOutcome = runlog.AskOutcome
	// KindLogin is a server that the run cannot use before a person has logged in there with
	// another program: [Ask].Question.Login says how. The login settles it. [Accept] tries
	// again, for a program that knows of a login; after any other answer the run goes on without the
	// tools of the server, or the model reads that the call was refused.
	KindLogin = runlog.AskLogin
	// KindJob is a job that gets no further: its workers die again and again, or its model's
	// provider is away for longer than a worker waits. [Accept] goes on, [Decline] ends the run. It
	// does not expire. See [Ask].Job.
	KindJob = runlog.AskJob
)

// JobQuestion is the subject of a [KindJob].
type JobQuestion struct {
	Job    string `json:"job"`              // its ID
	Why    string `json:"why"`              // in words, for a person
	Losses int    `json:"losses,omitempty"` // times in a row that its worker was lost without progress
	// Of an outage: the provider of its model, the class of the error as in [llm.Class], and since
	// when it is away.
	Provider string    `json:"provider,omitempty"`
	Class    string    `json:"class,omitempty"`
	Since    time.Time `json:"since,omitzero"`
}

// Decision answers an [Ask].
type Decision struct{ d store.Decision }

// Accept allows this one call.
func Accept() Decision {
	return Decision{store.Decision{Status: store.AskAccepted, Scope: "once", By: "program"}}
}

// AcceptForRun allows this call, and further ones of exactly this definition of the
// tool, with any arguments, in the same run; also those that are asked about already.
func AcceptForRun() Decision {
	return Decision{store.Decision{Status: store.AskAccepted, Scope: runlog.ScopeRun, By: "program"}}
}

// Decline refuses the call. The model reads the reason, which may be empty.
func Decline(reason string) Decision {
	return Decision{store.Decision{Status: store.AskDeclined, Answer: runlog.DeclineAnswer(reason), By: "program"}}
}

// RetryPage answers a [KindPage]: the page is done, and the call that waits for it is tried
// again now.
func RetryPage() Decision { return pageDecision(mcpclient.PageRetry) }

// OpenPage answers a [KindPage]: the page is opened again, and asked about again.
func OpenPage() Decision { return pageDecision(mcpclient.PageOpen) }

// GiveUpPage answers a [KindPage]: the call that it is for ends with an error.
func GiveUpPage() Decision { return pageDecision(mcpclient.PageCancel) }

// pageDecision is explicit in its answer: a program that accepts, or declines, whatever it
// does not know must not end the wait for a page.
func pageDecision(action mcpclient.PageAction) Decision {
	d := runlog.PageDecision(string(action))
	d.By = "program"
	return Decision{d}
}

// Happened answers a [KindOutcome]: the call took effect, and the model reads the text as what came
// of it. The text may be empty.
func Happened(text string) Decision { return outcomeDecision(runlog.OutcomeHappened, text) }

// CallAgain answers a [KindOutcome]: the call is made again, with the same idempotency key.
func CallAgain() Decision { return outcomeDecision(runlog.OutcomeAgain, "") }

// TellModel answers a [KindOutcome]: the model reads that the outcome is unknown, and the reason,
// which may be empty.
func TellModel(reason string) Decision { return outcomeDecision(runlog.OutcomeTell, reason) }

// EndRun answers a [KindOutcome]: the run ends with [ErrOutcomeUnknown].
func EndRun() Decision { return outcomeDecision(runlog.OutcomeEnd, "") }

func outcomeDecision(way, text string) Decision {
	return Decision{runlog.OutcomeDecision(way, text)}.By("program")
}

// By names the person or program that decided, for the record; without it that is "program".
func (d Decision) By(who string) Decision {
	d.d.By = who
	return d
}

// Answer decides the question. Exactly one answer is ever taken; the others get
// [ErrSettled]. The zero Decision is refused.
func (a Ask) Answer(ctx context.Context, d Decision) error {
	if a.answer == nil {
		return errors.New("answering: this Ask does not come from Run.Events")
	}
	if d.d.Status == "" {
		return errors.New("answering: the zero Decision decides nothing")
	}
	if got, err := a.answer(ctx, a.ID, d.d); err != nil {
		if errors.Is(err, store.ErrSettled) && got.Status != "" {
			return fmt.Errorf("answering: it is %s already: %w", got.Status, err)
		}
		return fmt.Errorf("answering: %w", err)
	}
	return nil
}

// Fill accepts a server's form with these values. Fields that are left out have
// their defaults; values that do not fit the form are refused before they are sent, and
// the server gets a dismissal.
func Fill(values map[string]any) (Decision, error) {
	content := make(map[string]json.RawMessage, len(values))
	for name, v := range values {
		raw, err := jsonx.Marshal(v)
		if err != nil {
			return Decision{}, fmt.Errorf("the value of %q: %w", name, err)
		}
		content[name] = raw
	}
	return DecideAs(&mcpclient.Decision{Action: mcp.ActionAccept, Content: content})
}

// DecideAs answers a server's question with the decision of a [mcpclient.Human], a
// prompter for example.
func DecideAs(d *mcpclient.Decision) (Decision, error) {
	if d.Page != "" {
		return pageDecision(d.Page), nil
	}
	out := store.Decision{By: "program", Scope: "once"}
	switch d.Action {
	case mcp.ActionAccept:
		raw, err := jsonx.Marshal(d)
		if err != nil {
			return Decision{}, fmt.Errorf("writing the answer down: %w", err)
		}
		out.Status, out.Answer = store.AskAccepted, raw
	case mcp.ActionDecline:
		out.Status, out.Scope = store.AskDeclined, ""
	case mcp.ActionCancel:
		out.Status, out.Scope = store.AskCancelled, ""
	default:
		return Decision{}, fmt.Errorf("unknown action %q: want accept, decline or cancel", d.Action)
	}
	return Decision{out}, nil
}
