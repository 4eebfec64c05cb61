package worker_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// desks is a legacy server of which each connection is a process of its own. Its tool
// "ask" asks a form, "plain" does not.
type desks struct {
	mu    sync.Mutex
	links int
	calls []string // what was called, in order
}

// Connect implements [mcpclient.Connector].
func (d *desks) Connect(sink mcp.Sink) (mcp.Link, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.links++
	return &desk{all: d, sink: sink}, nil
}

func (d *desks) called() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

type desk struct {
	all  *desks
	sink mcp.Sink
	id   mcp.ID // of the call that asks
}

func (l *desk) Close() error { return nil }

func (l *desk) Send(o mcp.Outgoing) error {
	var msg mcp.Message
	if err := mcp.Scan(append([]byte(nil), o.Frame...), &msg); err != nil {
		return err
	}
	var say []byte
	result := func(id mcp.ID, text string) []byte { return mcp.AppendResult(nil, id, []byte(text)) }
	switch {
	case msg.Method == mcp.MethodInitialize:
		say = result(msg.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"desk","version":"1"}}`)
	case msg.Method == mcp.MethodListTools:
		say = result(msg.ID, `{"tools":[{"name":"ask","inputSchema":{"type":"object"}},{"name":"plain","inputSchema":{"type":"object"}}]}`)
	case msg.Method == mcp.MethodCallTool:
		l.all.mu.Lock()
		l.all.calls = append(l.all.calls, o.Name)
		l.all.mu.Unlock()
		say = result(msg.ID, `{"content":[{"type":"text","text":"served"}]}`)
		if o.Name == "ask" {
			l.id = msg.ID
			say = mcp.AppendRequest(nil, mcp.IntID(1), mcp.MethodElicit, []byte(`{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`))
		}
	case msg.Kind == mcp.KindResult:
		say = result(l.id, `{"content":[{"type":"text","text":"answered"}]}`)
	}
	if say != nil {
		go l.sink.Frame(say)
	}
	return nil
}

// byPrompt is a model that calls the tool that the prompt names, then ends.
type byPrompt struct{}

func (byPrompt) Name() string { return "test/byprompt" }

func (byPrompt) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	turn := llmtest.Say("done")
	if tool, ok := strings.CutPrefix(req.Messages[0].Content.Text(), "call "); ok && len(llmtest.Results(req)) == 0 {
		turn = llmtest.Call(tool, nil)
	}
	return llmtest.Script(turn).Stream(ctx, req)
}

// clerks is a worker that does one job at a time with the server "desk".
func clerks(t *testing.T, s store.Store, instances int) (*shop, *desks) {
	d := new(desks)
	server := mcpclient.InProcess("desk", d)
	server.Protocol, server.Instances = mcpclient.ProtocolLegacy, instances
	sh := openOn(t, s, &agent.Options{Model: byPrompt{}, Servers: []mcpclient.Server{server}}, nil, &worker.Options{Concurrency: 1}, func(*worker.Worker) {})
	return sh, d
}

// answerForm fills in the one form that is open.
func answerForm(t *testing.T, s store.Store) {
	t.Helper()
	asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
	if err != nil || len(asks) != 1 {
		t.Fatalf("Asks: got %v, %v; want one", asks, err)
	}
	if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted, Answer: []byte(`{"action":"accept","content":{"name":"Ada"}}`)}); err != nil {
		t.Fatal(err)
	}
}

// typesOf are the types of the events of a run.
func typesOf(t *testing.T, s store.Store, run string) (types []string) {
	t.Helper()
	for ev, err := range store.Replay(t.Context(), s, run, 0) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, ev.Type)
	}
	return types
}

// One unanswered form holds up no other job: another job has a process of its own (SECA-6).
func TestFormHoldsUpNoOtherJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		sh, d := clerks(t, s, 2)
		a := add(t, s, store.Job{Prompt: "call desk__ask"})
		sh.worker.Wake()
		time.Sleep(time.Second)
		want(t, s, a.ID, store.JobWaiting)
		b, c := add(t, s, store.Job{Prompt: "call desk__plain"}), add(t, s, store.Job{Prompt: "hello"})
		sh.worker.Wake()
		time.Sleep(5 * time.Second)
		want(t, s, b.ID, store.JobDone)
		want(t, s, c.ID, store.JobDone)
		want(t, s, a.ID, store.JobWaiting)
		if d.links != 2 {
			t.Errorf("%d processes, want 2", d.links)
		}
		answerForm(t, s)
		time.Sleep(5 * time.Second)
		want(t, s, a.ID, store.JobDone)
	})
}

// Where there is one process only the job that needs it too waits, says what for, gives its
// place back, is not recorded as dispatched, and goes on when the form is answered.
func TestWaitsForInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		sh, d := clerks(t, s, 1)
		a := add(t, s, store.Job{Prompt: "call desk__ask"})
		sh.worker.Wake()
		time.Sleep(time.Second)
		want(t, s, a.ID, store.JobWaiting)
		b := add(t, s, store.Job{Prompt: "call desk__plain", Timeout: time.Minute})
		sh.worker.Wake()
		time.Sleep(time.Second)
		c := add(t, s, store.Job{Prompt: "hello"})
		sh.worker.Wake()
		time.Sleep(time.Second)
		want(t, s, c.ID, store.JobDone)
		const reason = `an instance of server "desk" (1 of 1 in use)`
		if got := want(t, s, b.ID, store.JobWaiting); got.Error != "waits for "+reason {
			t.Errorf("the job says %q", got.Error)
		}
		run := b.ID + ".1"
		st := sh.worker.Status()
		at := slices.IndexFunc(st.Jobs, func(j worker.JobStatus) bool { return j.ID == b.ID })
		if st.Parked != 2 || st.Running != 0 || at < 0 || st.Jobs[at].For != reason || sh.worker.WaitsFor(run) != reason {
			t.Errorf("Status: got %+v", st)
		}
		if types := typesOf(t, s, run); slices.Contains(types, store.ToolDispatched) || types[len(types)-1] != "tool.waiting" {
			t.Errorf("the journal has %q: want no dispatch, and at the end what is waited for", types)
		}
		if got := d.called(); !slices.Equal(got, []string{"ask"}) {
			t.Errorf("called: %v", got)
		}
		time.Sleep(5 * time.Second)
		if got := want(t, s, b.ID, store.JobWaiting); got.Owner != "" || got.Error != "waits for "+reason {
			t.Errorf("after a while the job is %q's, and says %q; want that it is put back", got.Owner, got.Error)
		}
		time.Sleep(50 * time.Second)
		if got := want(t, s, b.ID, store.JobWaiting); got.Epoch != 2 {
			t.Errorf("the job was claimed %d times, although there was no instance", got.Epoch-1)
		}
		time.Sleep(5 * time.Minute) // longer than the time of the job, which stands still
		answerForm(t, s)
		time.Sleep(5 * time.Second)
		want(t, s, a.ID, store.JobDone)
		if got := want(t, s, b.ID, store.JobDone); got.Error != "" {
			t.Errorf("the job that is done says %q", got.Error)
		}
		types := typesOf(t, s, run)
		at = slices.Index(types, store.ToolDispatched)
		if at < 0 || types[at+1] != store.ToolResult || types[at-1] != "run.resumed" {
			t.Errorf("the journal has %q", types)
		}
		if got := sh.types(b.ID); !slices.Equal(got, []worker.EventType{worker.JobStarted, worker.JobWaiting, worker.JobParked, worker.JobResumed, worker.JobEnded}) {
			t.Errorf("events: %v", got)
		}
	})
}

// A job that waits for an instance is put back, and a worker that has one takes it.
func TestInstanceOfAnotherWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		sh, d := clerks(t, s, 1)
		a := add(t, s, store.Job{Prompt: "call desk__ask"})
		sh.worker.Wake()
		time.Sleep(time.Second)
		b := add(t, s, store.Job{Prompt: "call desk__plain"})
		sh.worker.Wake()
		time.Sleep(time.Second)
		want(t, s, b.ID, store.JobWaiting)
		_, other := clerks(t, s, 1)
		time.Sleep(7 * time.Second)
		want(t, s, b.ID, store.JobDone)
		if !slices.Equal(d.called(), []string{"ask"}) || !slices.Equal(other.called(), []string{"plain"}) {
			t.Errorf("called: %v here, and %v there", d.called(), other.called())
		}
		want(t, s, a.ID, store.JobWaiting)
		answerForm(t, s)
		time.Sleep(5 * time.Second)
		want(t, s, a.ID, store.JobDone)
	})
}

// A job that is cancelled while it waits for an instance has made no call.
func TestCancelledWaitingForInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		sh, d := clerks(t, s, 1)
		add(t, s, store.Job{Prompt: "call desk__ask"})
		sh.worker.Wake()
		time.Sleep(time.Second)
		b := add(t, s, store.Job{Prompt: "call desk__plain"})
		sh.worker.Wake()
		time.Sleep(time.Second)
		if _, err := s.CancelJob(t.Context(), b.ID); err != nil {
			t.Fatal(err)
		}
		sh.worker.Wake()
		time.Sleep(10 * time.Second)
		want(t, s, b.ID, store.JobCancelled)
		types := fmt.Sprint(typesOf(t, s, b.ID+".1"))
		if strings.Contains(types, "dispatched") || strings.Contains(types, "unknown") || len(d.called()) != 1 {
			t.Errorf("the journal has %s; called: %v", types, d.called())
		}
		answerForm(t, s)
		time.Sleep(time.Second)
	})
}
