// Package asks handles the questions that a server asks: whose they are, how many may be open,
// and the rounds of the calls that they belong to. Its user parses and answers them.
package asks

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/pool"
)

// RootsFunc returns roots when they are asked for.
type RootsFunc = func(ctx context.Context) ([]mcp.Root, error)

// Call is one logical call as the questions of its server see it. It is the
// [call.Request].Tag of all its attempts.
type Call struct {
	asks *Asks // of the client that the call is made on, see SetClient
	// Client is the client that the call is made on, for its owner; Again gives the call its
	// turn on its instance again, and is nil where it needs no instance of its own.
	Client       any
	Again        func(ctx context.Context, then func(error))
	Method, Name string
	Human        any // nil if no person may be asked
	Sampler      any
	Roots        RootsFunc   // nil if the call has none of its own
	abandoned    time.Time   // when it was given up; zero while it is under way, see abandonedCall
	remembered   atomic.Bool // it is among the abandoned calls
	Path         []string
	OnWait       func(bool)
	// OnRound hears of each round, and of the size of the server's answer; Resend is asked before
	// the next one is sent. Nil is none.
	OnRound func(round *mcp.InputRequiredResult, size int)
	Resend  func(proceed func(error))
	Listed  bool // it reads a list
	rounds       // what its Follow knows

	mu      sync.Mutex     // guards the fields below it and the pages of its rounds: questions, each on its own goroutine, and the call's end meet here; the call's actor is of package call
	waits   int            // questions that are open
	samples int            // answers of a model that were asked for
	notices int            // declined questions that its Human was told of
	gone    bool           // it has ended before the server's answer
	ends    map[int]func() // to be called when it goes
	lastEnd int
	turn    *pool.Instance // that it has; nil if it has none
	asking  bool           // the instance was told that the call waits for a person
	over    bool           // it needs none any more
}

// Wait counts the questions of the call that are open, by one more or less.
func (t *Call) Wait(n int) {
	t.mu.Lock()
	defer t.mu.Unlock() // while it is told, so that it hears of it in order
	before := t.waits
	t.waits += n
	t.tellTurn()
	if t.OnWait != nil && (before == 0) != (t.waits == 0) {
		t.OnWait(t.waits > 0)
	}
}

// tellTurn tells the instance whether the call waits for a person. The lock is held.
func (t *Call) tellTurn() {
	if asking := t.waits > 0; t.turn != nil && asking != t.asking {
		if t.asking = asking; asking {
			t.turn.Asks(1)
		} else {
			t.turn.Asks(-1)
		}
	}
}

// HaveTurn gives the call its turn on an instance.
func (t *Call) HaveTurn(turn *pool.Instance) {
	t.mu.Lock()
	over := t.over
	if !over {
		t.turn = turn
		t.tellTurn()
	}
	t.mu.Unlock()
	if over {
		turn.Leave()
	}
}

// LeaveTurn lets others have the turn: the call is over, or waits for something that
// is not the server's answer.
func (t *Call) LeaveTurn(over bool) {
	t.mu.Lock()
	turn := t.turn
	if turn != nil && t.asking {
		turn.Asks(-1)
	}
	t.turn, t.asking, t.over = nil, false, t.over || over
	t.mu.Unlock()
	if turn != nil {
		turn.Leave()
	}
}

// MaxSamples bounds the turns of a sampling loop within one call (SAMP-31).
const MaxSamples = 32

// Sample reports whether the call may have another answer of a model.
func (t *Call) Sample() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.samples++
	return t.samples <= MaxSamples
}

// OnGone has f called when the call ends before the server has answered it, at once
// if it has. F must not block.
func (t *Call) OnGone(f func()) (remove func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		f()
		return func() {}
	}
	if t.ends == nil {
		t.ends = make(map[int]func())
	}
	t.lastEnd++
	key := t.lastEnd
	t.ends[key] = f
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.ends, key)
	}
}

// End closes the questions of a call that was cancelled, or timed out (CANC-13).
func (t *Call) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = true
	for _, f := range t.ends {
		f()
	}
	t.ends = nil
}

// Ends is called by package call: a call that has failed without the server's answer is
// remembered before it leaves the calls that are out, so that a question in between finds it.
func (t *Call) Ends(err error) {
	if MayAsk(t.Method) && !t.asks.Answered(err) && !t.remembered.Swap(true) {
		t.asks.remember(t)
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.turn != nil {
			t.turn.Doubt(AbandonedLife)
		}
	}
}

// SetClient has the call made on another client than it was begun on.
func (t *Call) SetClient(a *Asks, client any) { t.asks, t.Client = a, client }

// Abandoned is when the call was given up; zero while it is under way.
func (t *Call) Abandoned() time.Time { return t.abandoned }

// Notice counts one more declined question, and reports whether the Human is told of it.
func (t *Call) Notice() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notices++
	return t.notices <= MaxNotices
}

// Begin notes what the caller has made of the request, and returns what follows its answers.
func (t *Call) Begin(params json.RawMessage, inner func(call.Answer) call.Step) func(call.Answer) call.Step {
	t.params, t.inner = params, inner
	return t.Follow
}

// Retried reports whether the answer is that of a retry with what the server had asked for.
func (t *Call) Retried() bool { return t.count > 0 }

// Params are the newest parameters of the call.
func (t *Call) Params() json.RawMessage {
	if t.sent != nil {
		return t.sent
	}
	return t.params
}

// Correct reports whether the headers of the call were not corrected before.
func (t *Call) Correct() bool {
	first := !t.corrected
	t.corrected = true
	return first
}
