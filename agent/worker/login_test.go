package worker_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// lounge is the desk of desks behind a login: it refuses the handshake before.
type lounge struct {
	*desks

	mu     sync.Mutex // guards the fields below
	member bool
	waits  []func(error)
}

// noMember is the refusal, which stands for that of package auth.
type noMember struct{ *lounge }

func (noMember) Error() string                            { return "a person has to log in" }
func (noMember) Elsewhere() (string, []string, bool)      { return "https://lounge.example/mcp", nil, true }
func (e noMember) Wait(resume func(error)) (leave func()) { return e.Await(resume) }
func (e noMember) Await(resume func(error)) (leave func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.member {
		resume(nil)
	} else {
		e.waits = append(e.waits, resume)
	}
	return func() {}
}

// Connect implements [mcpclient.Connector].
func (l *lounge) Connect(sink mcp.Sink) (mcp.Link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.member {
		return nil, conn.Permanent(noMember{l})
	}
	return l.desks.Connect(sink)
}

func (l *lounge) login() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.member = true
	for _, resume := range l.waits {
		resume(nil)
	}
}

// A job whose server wants a login is parked, gives its place back, waits for longer than a call does, and goes on
// within a second of the login.
func TestJobWaitsForLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := memory(), &lounge{desks: new(desks)}
		server := mcpclient.InProcess("desk", l)
		server.Protocol = mcpclient.ProtocolLegacy
		sh := openOn(t, s, &agent.Options{Model: byPrompt{}, Servers: []mcpclient.Server{server}}, &agent.Config{AskExpiry: 7 * 24 * time.Hour},
			&worker.Options{Concurrency: 1}, func(*worker.Worker) {})
		a, b := add(t, s, store.Job{Prompt: "call desk__plain", Timeout: time.Minute}), add(t, s, store.Job{Prompt: "hello"})
		sh.worker.Wake()
		time.Sleep(time.Minute)
		want(t, s, a.ID, store.JobWaiting)
		want(t, s, b.ID, store.JobWaiting)
		if st := sh.worker.Status(); st.Parked != 2 || st.Running != 0 {
			t.Errorf("Status: %+v", st)
		}
		time.Sleep(time.Hour)
		asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
		if err != nil || len(asks) != 2 || asks[0].Kind != agent.KindLogin {
			t.Fatalf("Asks: got %+v, %v", asks, err)
		}
		l.login()
		time.Sleep(time.Second)
		want(t, s, a.ID, store.JobDone)
		want(t, s, b.ID, store.JobDone)
		if got := sh.types(a.ID); !slices.Equal(got, []worker.EventType{worker.JobStarted, worker.JobWaiting, worker.JobResumed, worker.JobEnded}) {
			t.Errorf("events: %v", got)
		}
		if got := l.called(); !slices.Equal(got, []string{"plain"}) {
			t.Errorf("called: %v", got)
		}
	})
}
