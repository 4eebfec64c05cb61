package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
	"github.com/troupe-dev/troupe/mcpclient/internal/pool"
)

// person is a Human with an owner.
type person string

func (p person) Decide(context.Context, *Ask) (*Decision, error) {
	return &Decision{Action: mcp.ActionDecline}, nil
}
func (p person) Owner() any { return string(p[:3]) }

// copies is a legacy server that many processes are started of. A call takes as long as
// its tool's name says, or until it is let go.
type copies struct {
	t *testing.T

	mu      sync.Mutex
	procs   []*fakeProcess
	fails   bool // no further process starts
	log     []string
	out     map[int]map[string]int // calls by process and owner
	waiting map[string]chan struct{}
}

func newCopies(t *testing.T) *copies {
	return &copies{t: t, out: map[int]map[string]int{}, waiting: map[string]chan struct{}{}}
}

func (s *copies) start(*Server) (pipe.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails && len(s.procs) > 0 {
		return nil, errors.New("the file is locked")
	}
	n := len(s.procs) + 1
	p := start(func(p *fakeProcess) string { return s.serve(n, p) })
	s.procs = append(s.procs, p)
	return p, nil
}

func (s *copies) host(opts *HostOptions, server Server) *Host {
	s.t.Helper()
	server.Name, server.Command = "files", "files"
	if opts == nil {
		opts = new(HostOptions)
	}
	if opts.Human == nil {
		opts.Human = person("own")
	}
	opts.start = s.start
	if server.Protocol == "" {
		server.Protocol = string(mcp.V2025_11_25)
	}
	h, err := NewHost(newSystem(s.t), []Server{server}, opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := h.Close(); err != nil && !strings.Contains(err.Error(), "deadline") {
			s.t.Errorf("Close: %v", err)
		}
	})
	if _, err := h.Tools(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return h
}

func (s *copies) serve(n int, p *fakeProcess) string {
	for {
		line, ok := p.read()
		if !ok {
			return "exit status 0"
		}
		m := new(mcp.Message)
		if err := mcp.Scan([]byte(line), m); err != nil {
			return err.Error()
		}
		switch {
		case m.Kind != mcp.KindRequest:
		case m.Method == mcp.MethodInitialize:
			p.say(resultOf(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"c","version":"1"}}`))
		case m.Method == mcp.MethodListTools:
			p.say(resultOf(m, fmt.Sprintf(`{"tools":[{"name":"t","description":"of process %d","inputSchema":{"type":"object"}}]}`, n)))
		case m.Method == mcp.MethodCallTool:
			go s.call(n, p, m)
		default:
			p.say(unknownMethod(m.ID.String()))
		}
	}
}

// call waits until the call of that name is let go.
func (s *copies) call(n int, p *fakeProcess, m *mcp.Message) {
	var params struct {
		Arguments struct {
			Who string `json:"who"`
		} `json:"arguments"`
	}
	if err := m.DecodeParams(&params); err != nil {
		s.t.Error(err)
	}
	who := params.Arguments.Who
	s.note(n, who, 1)
	s.mu.Lock()
	gate := s.waiting[who]
	if gate == nil {
		gate = make(chan struct{})
		s.waiting[who] = gate
	}
	s.mu.Unlock()
	select {
	case <-gate:
	case <-p.over:
	}
	s.note(n, who, -1)
	p.say(resultOf(m, fmt.Sprintf(`{"content":[{"type":"text","text":"%d"}]}`, n)))
}

// note keeps count, and checks that no process ever has calls of two owners.
func (s *copies) note(n int, who string, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out[n] == nil {
		s.out[n] = map[string]int{}
	}
	s.out[n][who[:3]] += by
	owners := 0
	for _, count := range s.out[n] {
		if count > 0 {
			owners++
		}
	}
	if owners > 1 {
		s.t.Errorf("process %d has calls of %v", n, s.out[n])
	}
	sign := "+"
	if by < 0 {
		sign = "-"
	}
	s.log = append(s.log, fmt.Sprintf("%s%s@%d", sign, who, n))
}

func (s *copies) letGo(who string) {
	s.mu.Lock()
	gate := s.waiting[who]
	if gate == nil {
		gate = make(chan struct{})
		s.waiting[who] = gate
	}
	s.mu.Unlock()
	close(gate)
	synctest.Wait()
}

// letAllGo lets calls of that name go at once, whenever they come.
func (s *copies) letAllGo(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gate := make(chan struct{})
	close(gate)
	s.waiting[who] = gate
}

func (s *copies) took() (log []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, s.log = s.log, nil
	slices.Sort(log)
	return log
}

func (s *copies) started() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.procs)
}

// alive is how many processes have not ended.
func (s *copies) alive() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.procs {
		select {
		case <-p.over:
		default:
			n++
		}
	}
	return n
}

// made is a call that goes on by itself.
type made struct {
	mu    sync.Mutex
	waits []string // what OnInstance heard
	sent  int
	ended bool
	text  string
	err   error
}

func (m *made) get() (waits []string, sent int, ended bool, text string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waits, m.sent, m.ended, m.text, m.err
}

// begin makes a call for somebody by [Host.Start].
func begin(ctx context.Context, h *Host, who string, keep bool) *made {
	return beginAs(ctx, h, person(who), who, keep)
}

// beginAs is begin for a Human of the test's.
func beginAs(ctx context.Context, h *Host, human Human, who string, keep bool) *made {
	m := new(made)
	opts := &CallOptions{Human: human, Keep: keep,
		OnInstance: func(w *InstanceWait) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if w == nil {
				m.waits = append(m.waits, "on")
				return
			}
			m.waits = append(m.waits, w.String())
		},
		OnSend: func(proceed func(error)) {
			m.mu.Lock()
			m.sent++
			m.mu.Unlock()
			proceed(nil)
		}}
	h.Start(ctx, "files__t", fmt.Appendf(nil, `{"who":%q}`, who), opts).OnDone(func(res *mcp.CallToolResult, err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.ended {
			panic("two outcomes")
		}
		if m.ended, m.err = true, err; err == nil {
			m.text = res.Content.Text()
		}
	})
	synctest.Wait()
	return m
}

// Calls of one owner overlap on a process, those of different owners have one each, up to
// the bound; beyond it they wait in their order, and nobody overtakes. SECA-6.
func TestInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCopies(t)
		h := s.host(nil, Server{Instances: 2})
		begin(t.Context(), h, "ada1", false)
		begin(t.Context(), h, "ada2", false)
		begin(t.Context(), h, "bob1", false)
		if got, want := s.took(), []string{"+ada1@1", "+ada2@1", "+bob1@2"}; !slices.Equal(got, want) {
			t.Fatalf("calls: got %v, want %v", got, want)
		}
		eve := begin(t.Context(), h, "eve1", false)
		begin(t.Context(), h, "ada3", false) // must not overtake eve1
		if waits, sent, _, _, _ := eve.get(); sent != 0 || !slices.Equal(waits, []string{`an instance of server "files" (2 of 2 in use)`}) {
			t.Errorf("eve waits for %q, sent %d times", waits, sent)
		}
		status := h.Servers()[0]
		if len(status.Instances) != 2 || status.Waiting != 2 || status.Instances[0].Calls != 2 || status.Instances[1].Calls != 1 {
			t.Errorf("status: %+v, %d waiting", status.Instances, status.Waiting)
		}
		s.letGo("bob1")
		if got, want := s.took(), []string{"+ada3@1", "+eve1@2", "-bob1@2"}; !slices.Equal(got, want) {
			t.Fatalf("calls: got %v, want %v", got, want)
		}
		if waits, sent, _, _, _ := eve.get(); sent != 1 || len(waits) != 2 || waits[1] != "on" {
			t.Errorf("eve: waits %q, sent %d times", waits, sent)
		}
		for _, who := range []string{"ada1", "ada2", "ada3", "eve1"} {
			s.letGo(who)
		}
		if _, _, ended, text, err := eve.get(); !ended || text != "2" || err != nil {
			t.Errorf("eve: got %q, %v", text, err)
		}
	})
}

// A process whose call waits for a person leaves its place to another, up to a bound of its own: calls of
// others go on beside questions that have no answer. The host knows whether a further owner would have to
// wait.
func TestInstancesHeldByQuestions(t *testing.T) {
	tests := []struct {
		name   string
		server Server
		held   int // processes beside Instances
	}{
		{"twice as many by default", Server{Instances: 2}, 4},
		{"more than one person may be asked at once", Server{Instances: 4}, 8},
		{"as said", Server{Instances: 2, HeldInstances: 1}, 1},
		{"none", Server{Instances: 2, HeldInstances: -1}, 0},
		{"none beside a single one", Server{Instances: 1}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newCopies(t)
				h := s.host(&HostOptions{}, tt.server)
				full := func(when string, want bool) {
					t.Helper()
					if got := h.Servers()[0].Full; got != want {
						t.Errorf("%s: full is %v, want %v", when, got, want)
					}
				}
				most := tt.server.Instances
				asking := make([]*patient, most+tt.held)
				var asked atomic.Int32
				for i := range asking {
					full("before as many ask as may", false)
					asking[i] = &patient{person: person(fmt.Sprintf("a%02d", i)), answered: make(chan struct{}), asked: &asked}
					beginAs(t.Context(), h, asking[i], string(asking[i].person), false)
					s.ask(i + 1)
				}
				if n := s.started(); n != most+tt.held {
					t.Fatalf("%d processes, want %d", n, most+tt.held)
				}
				full("before a call waits", true)
				if n := int(asked.Load()); n != len(asking) {
					t.Errorf("%d people were asked, want each of %d: what one leaves open keeps no other's question", n, len(asking))
				}
				// All that count are held by questions, and so are as many of the others as may be.
				eve := begin(t.Context(), h, "eve1", false)
				waits, sent, _, _, _ := eve.get()
				want := fmt.Sprintf(`an instance of server "files" (%d of %d in use)`, most, most)
				if tt.held > 0 {
					want = fmt.Sprintf(`an instance of server "files" (%d of %d in use, %d more wait for people)`, most, most, tt.held)
				}
				if sent != 0 || !slices.Equal(waits, []string{want}) {
					t.Errorf("eve waits for %q, sent %d times; want %q", waits, sent, want)
				}
				full("as a call waits", true)
				close(asking[0].answered)
				synctest.Wait()
				s.letGo("a00")
				if _, sent, _, _, _ := eve.get(); sent != 1 {
					t.Errorf("eve was sent %d times once an instance was free", sent)
				}
				s.letGo("eve1")
				full("once an instance is free", false)
				for i, p := range asking[1:] {
					close(p.answered)
					synctest.Wait()
					s.letGo(fmt.Sprintf("a%02d", i+1))
				}
			})
		})
	}
}

// A process that may still ask for a call which was given up is lent to no other owner: its question could be shown to
// none. A further one is ended for it, the first one rests until the server has forgotten.
func TestInstancesOfDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCopies(t)
		h := s.host(nil, Server{Instances: 2, HeldInstances: -1})
		giveUp := func(who string) {
			ctx, cancel := context.WithCancel(t.Context())
			begin(ctx, h, who, false)
			synctest.Wait()
			cancel()
			synctest.Wait()
		}
		giveUp("bob1")
		giveUp("ann1")
		begin(t.Context(), h, "sam1", false)
		synctest.Wait()
		if got, want := s.took(), []string{"+ann1@2", "+bob1@1", "+sam1@3", "-ann1@2"}; !slices.Equal(got, want) {
			t.Errorf("the calls went to %v, want %v", got, want)
		}
		if n := s.alive(); n != 2 {
			t.Errorf("%d processes, want 2", n)
		}
		begin(t.Context(), h, "bob2", false)
		synctest.Wait()
		if got, want := s.took(), []string{"+bob2@1"}; !slices.Contains(got, want[0]) {
			t.Errorf("the next call of the same owner: %v, want %v", got, want)
		}
		eve := begin(t.Context(), h, "eve1", false)
		synctest.Wait()
		s.letGo("bob2")
		if _, sent, _, _, _ := eve.get(); sent != 0 {
			t.Error("a call of another owner was sent to the process that may ask for the one that was given up")
		}
		time.Sleep(asks.AbandonedLife)
		synctest.Wait()
		if _, sent, _, _, _ := eve.get(); sent != 1 {
			t.Error("a call of another owner was not sent once the server has forgotten")
		}
		s.letGo("eve1")
		s.letGo("sam1")
	})
}

// patient is a person who answers when it is time.
type patient struct {
	person
	answered chan struct{}
	asked    *atomic.Int32 // how many people were
}

func (p *patient) Decide(ctx context.Context, _ *Ask) (*Decision, error) {
	p.asked.Add(1)
	select {
	case <-p.answered:
	case <-ctx.Done():
	}
	return &Decision{Action: mcp.ActionDecline}, nil
}

// ask has process n ask a form.
func (s *copies) ask(n int) {
	s.mu.Lock()
	p := s.procs[n-1]
	s.mu.Unlock()
	p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","method":"elicitation/create","params":{"message":"which?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}}`, n))
	synctest.Wait()
}

// Three calls of three owners that take four seconds each take four seconds.
func TestInstancesOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCopies(t)
		h := s.host(nil, Server{})
		began := time.Now()
		time.AfterFunc(4*time.Second, func() {
			for _, who := range []string{"ada1", "bob1", "eve1"} {
				go s.letGoNow(who)
			}
		})
		var wg sync.WaitGroup
		for _, who := range []string{"ada1", "bob1", "eve1"} {
			wg.Go(func() {
				if _, err := h.Call(t.Context(), "files__t", fmt.Appendf(nil, `{"who":%q}`, who), &CallOptions{Human: person(who)}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("took %v, want 4s", took)
		}
		if n := s.started(); n != 3 {
			t.Errorf("%d processes, want 3", n)
		}
	})
}

func (s *copies) letGoNow(who string) {
	s.mu.Lock()
	gate := s.waiting[who]
	s.mu.Unlock()
	if gate == nil {
		s.t.Errorf("%s is not out", who)
		return
	}
	close(gate)
}

// Where nothing is declared, or all calls may ask nobody, one process is enough.
func TestOneInstance(t *testing.T) {
	tests := []struct {
		name   string
		server Server
		opts   *CallOptions
	}{
		{"marked", Server{NoAsk: true}, &CallOptions{}},
		{"nobody to ask", Server{}, &CallOptions{NoAsk: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newCopies(t)
				h := s.host(nil, tt.server)
				for _, who := range []string{"ada1", "ada2"} {
					go h.Call(t.Context(), "files__t", fmt.Appendf(nil, `{"who":%q}`, who), tt.opts)
				}
				synctest.Wait()
				if got := s.took(); len(got) != 2 || s.started() != 1 {
					t.Errorf("%v are out on %d processes", got, s.started())
				}
				s.letGo("ada1")
				s.letGo("ada2")
			})
		})
	}
}

// An instance is kept for an owner between its calls: until the owner makes no more, or
// has made none for a while and another waits.
func TestInstanceKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCopies(t)
		h := s.host(nil, Server{Instances: 2})
		call := func(who string) string {
			m := begin(t.Context(), h, who, true)
			s.letGo(who)
			_, _, _, text, _ := m.get()
			return text
		}
		if a, b := call("ada1"), call("bob1"); a != "1" || b != "2" {
			t.Fatalf("ada has process %s, bob %s", a, b)
		}
		time.Sleep(5 * time.Second)
		if b := call("bob2"); b != "2" {
			t.Errorf("bob has process %s now", b)
		}
		eve := begin(t.Context(), h, "eve1", true)
		if _, sent, _, _, _ := eve.get(); sent != 0 {
			t.Error("eve was given an instance that is kept")
		}
		if a := call("ada2"); a != "1" { // her own, though eve waits
			t.Errorf("ada has process %s now", a)
		}
		time.Sleep(time.Second)
		h.ForgetOwner("ada")
		synctest.Wait()
		s.letGo("eve1")
		if _, _, ended, text, err := eve.get(); !ended || text != "1" {
			t.Errorf("eve: got %q, %v; want process 1", text, err)
		}
		began := time.Now()
		dan := begin(t.Context(), h, "dan1", true)
		time.Sleep(pool.LeaseIdle - time.Second)
		synctest.Wait()
		s.letGo("dan1")
		if _, _, ended, text, _ := dan.get(); !ended || text != "2" || time.Since(began) != pool.LeaseIdle-time.Second {
			t.Errorf("dan: got process %q after %v, want bob's after %v", text, time.Since(began), pool.LeaseIdle)
		}
	})
}

// A further instance ends when it was not needed for two minutes; the first stays.
func TestInstanceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCopies(t)
		h := s.host(nil, Server{})
		for _, who := range []string{"ada1", "bob1", "eve1"} {
			begin(t.Context(), h, who, false)
		}
		for _, who := range []string{"ada1", "bob1", "eve1"} {
			s.letGo(who)
		}
		time.Sleep(pool.SpareTime - time.Second)
		synctest.Wait()
		if n := s.alive(); n != 3 {
			t.Errorf("%d processes live, want 3", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := s.alive(); n != 1 || len(h.Servers()[0].Instances) != 1 {
			t.Errorf("%d processes live, want the first; instances: %+v", n, h.Servers()[0].Instances)
		}
	})
}

// A call that is given up while it waits keeps nobody back, and is not sent.
func TestInstanceGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCopies(t)
		h := s.host(nil, Server{Instances: 1})
		begin(t.Context(), h, "ada1", false)
		ctx, cancel := context.WithCancelCause(t.Context())
		bob := begin(ctx, h, "bob1", false)
		ada := begin(t.Context(), h, "ada2", false)
		gone := errors.New("gone")
		cancel(gone)
		synctest.Wait()
		if _, sent, ended, _, err := bob.get(); !ended || sent != 0 || !errors.Is(err, gone) || !errors.Is(err, ErrNotSent) {
			t.Errorf("bob: got %v, sent %d times; want %v, unsent", err, sent, gone)
		}
		if _, sent, _, _, _ := ada.get(); sent != 1 {
			t.Error("ada's second call waits still")
		}
		s.letGo("ada1")
		s.letGo("ada2")
	})
}

// The end of one process ends the calls on it, and no others.
func TestInstanceCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCopies(t)
		h := s.host(nil, Server{})
		ada := begin(t.Context(), h, "ada1", true)
		bob := begin(t.Context(), h, "bob1", true)
		s.procs[1].end("signal: killed")
		synctest.Wait()
		if _, _, ended, _, err := bob.get(); !ended || err == nil {
			t.Errorf("bob: got ended %v, %v; want an error", ended, err)
		}
		if _, _, ended, _, err := ada.get(); ended {
			t.Errorf("ada: got %v", err)
		}
		again := begin(t.Context(), h, "bob2", true)
		time.Sleep(time.Second)
		s.letGo("bob2")
		if _, _, ended, _, err := again.get(); !ended || err != nil {
			t.Errorf("bob again: ended %v, %v", ended, err)
		}
		s.letGo("ada1")
		if _, _, ended, text, err := ada.get(); !ended || err != nil || text != "1" {
			t.Errorf("ada: got %q, %v", text, err)
		}
	})
}

// A server that can be started only once serves all with what there is.
func TestInstanceCanNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCopies(t)
		s.fails = true
		h := s.host(nil, Server{})
		begin(t.Context(), h, "ada1", false)
		bob := begin(t.Context(), h, "bob1", false)
		if waits, _, _, _, _ := bob.get(); !slices.Equal(waits, []string{`an instance of server "files" (1 of 1 in use)`}) {
			t.Errorf("bob waits for %q", waits)
		}
		s.letGo("ada1")
		s.letGo("bob1")
		if _, _, ended, text, err := bob.get(); !ended || text != "1" || err != nil {
			t.Errorf("bob: got %q, %v", text, err)
		}
	})
}

// The lists are the first instance's, and consent is asked for once.
func TestInstancesShareConsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCopies(t)
		asked := 0
		opts := &HostOptions{Options: Options{Consent: func(context.Context, Server) error { asked++; return nil }}}
		h := s.host(opts, Server{File: "/mcp.json", Hash: "h"})
		begin(t.Context(), h, "ada1", false)
		begin(t.Context(), h, "bob1", false)
		if s.started() != 2 || asked != 1 {
			t.Errorf("%d processes, consent asked %d times: want 2 and once", s.started(), asked)
		}
		tools, err := h.Tools(t.Context())
		if err != nil || len(tools) != 1 || tools[0].Tool.Description != "of process 1" {
			t.Errorf("tools: got %+v, %v", tools, err)
		}
		s.letGo("ada1")
		s.letGo("bob1")
	})
}

// Closing ends the processes, and each call that is out or waits has one outcome.
func TestInstancesClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCopies(t)
		h := s.host(nil, Server{Instances: 2})
		var all []*made
		for _, who := range []string{"ada1", "bob1", "eve1", "dan1"} {
			all = append(all, begin(t.Context(), h, who, true))
		}
		began := time.Now()
		_ = h.Close()
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("Close took %v", took)
		}
		synctest.Wait()
		for i, m := range all {
			if _, sent, ended, _, err := m.get(); !ended || err == nil || (sent == 1) != (i < 2) {
				t.Errorf("call %d: ended %v, %v, sent %d times", i, ended, err, sent)
			}
		}
		if n := s.alive(); n != 0 {
			t.Errorf("%d processes live", n)
		}
		for _, who := range []string{"ada1", "bob1"} {
			s.letGo(who)
		}
	})
}

// Calls that wait for an instance hold no goroutine, and the bound on them holds.
func TestInstancesStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCopies(t)
		h := s.host(nil, Server{Instances: 3})
		var wg sync.WaitGroup
		for i := range 16 {
			who := fmt.Sprintf("p%02d-%d", i%5, i)
			s.letAllGo(who)
			wg.Go(func() {
				for n := range 40 {
					ctx, cancel := context.WithCancel(t.Context())
					if n%7 == 0 {
						cancel()
					}
					_, err := h.Call(ctx, "files__t", fmt.Appendf(nil, `{"who":%q}`, who), &CallOptions{Human: person(who), Keep: n%2 == 0})
					cancel()
					if err != nil && n%7 != 0 {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		status := h.Servers()[0]
		for _, i := range status.Instances {
			if i.Calls != 0 {
				t.Errorf("left over: %+v", i)
			}
		}
		if status.Waiting != 0 || len(status.Instances) > 3 {
			t.Errorf("left over: %+v", status)
		}
	})
}
