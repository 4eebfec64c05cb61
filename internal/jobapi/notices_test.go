package jobapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// told collects what a receiver of notices gets.
type told struct {
	mu   sync.Mutex
	all  map[string][]string // the bodies, by ID
	runs []string            // stdin of the command
}

func (r *told) post(_ context.Context, id string, body []byte) (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[string][]string)
	}
	r.all[id] = append(r.all[id], string(body))
	return 0, nil
}

func (r *told) run(_ context.Context, _ []string, stdin []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = append(r.runs, string(stdin))
	return nil
}

// watch starts a process that tells of questions.
func watch(t *testing.T, s *memstore.Store, r *told, details bool) {
	t.Helper()
	sys := newSystem(t, nil)
	h, err := jobapi.StartHooks(sys, jobapi.HooksOptions{Store: s, Secret: secret(t)}.WithPost(r.post))
	if err != nil {
		t.Fatal(err)
	}
	o := jobapi.NoticesOptions{Store: s, Hooks: h, URL: "https://example.com/asks", Command: []string{"tell"}, Details: details}
	if _, err := jobapi.StartNotices(sys, o.WithRun(r.run)); err != nil {
		t.Fatal(err)
	}
}

func openAsk(t *testing.T, s *memstore.Store, id string) {
	t.Helper()
	payload, err := json.Marshal(runlog.ApprovalPayload{Server: "bank", Tool: "bank__pay", Arguments: json.RawMessage(`{"to":"a secret account"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.OpenAsk(t.Context(), store.Ask{ID: id, Run: "r", Kind: runlog.AskKind, Tool: "bank__pay", Server: "bank", Payload: payload, Path: []string{"main", "clerk"}}); err != nil {
		t.Fatal(err)
	}
}

func askStore(t *testing.T) *memstore.Store {
	t.Helper()
	s := memstore.New(nil)
	if _, err := s.Create(t.Context(), store.Run{ID: "r", Agent: "main", Title: "Pay the bills", InputHash: "h"}, "w", 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	return s
}

// Of several processes one tells of each question, once, by the webhook and by the command, also of many that open at
// one time. What waited before the first process began, and what is answered at once, is not told of.
func TestNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := askStore(t), new(told)
		openAsk(t, s, "old")
		time.Sleep(10 * time.Second)
		for range 3 {
			watch(t, s, r, false)
		}
		time.Sleep(10 * time.Second)
		for i := range 120 {
			openAsk(t, s, fmt.Sprintf("ask%03d", i))
		}
		time.Sleep(time.Second)
		if _, err := s.SettleAsk(t.Context(), "ask007", store.Decision{Status: store.AskAccepted}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		openAsk(t, s, "late")
		time.Sleep(30 * time.Second)
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.all) != 120 || len(r.runs) != 120 { // 119 and the late one
			t.Errorf("got %d webhooks and %d commands, want 120 of each", len(r.all), len(r.runs))
		}
		for id, bodies := range r.all {
			if len(bodies) != 1 || id == "ask.old" || id == "ask.ask007" {
				t.Errorf("%s was sent %d times", id, len(bodies))
			}
		}
		body := r.all["ask.late"][0]
		for _, want := range []string{`"type":"ask.opened"`, `"ask":"late"`, `"kind":"tool"`, `"server":"bank"`, `"run":"r"`, `"title":"Pay the bills"`} {
			if !strings.Contains(body, want) {
				t.Errorf("the notice does not have %s: %s", want, body)
			}
		}
		if strings.Contains(body, "secret account") || strings.Contains(body, "bank__pay") {
			t.Errorf("the notice has what only details have: %s", body)
		}
		if left(t, s) != 0 {
			t.Errorf("%d webhooks are left in the store", left(t, s))
		}
	})
}

// With details a notice has the tool and the arguments.
func TestNoticeDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := askStore(t), new(told)
		watch(t, s, r, true)
		time.Sleep(5 * time.Second)
		openAsk(t, s, "q")
		time.Sleep(10 * time.Second)
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.runs) != 1 || !strings.Contains(r.runs[0], `"tool":"bank__pay"`) {
			t.Errorf("got %q, want the details", r.runs)
		}
	})
}

// A process that ends between the record of a webhook and its delivery, or while it has the lease, loses no notice.
func TestNoticesAreTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := askStore(t), new(told)
		watch(t, s, r, false)
		time.Sleep(5 * time.Second)
		if err := s.LeaseSealed(t.Context(), "notice-mark", "asks", "a process that has died", time.Minute); err != nil {
			t.Fatal(err)
		}
		openAsk(t, s, "q")
		time.Sleep(30 * time.Second)
		r.mu.Lock()
		if len(r.all) != 0 {
			t.Errorf("got %d notices while another process has the lease, want none", len(r.all))
		}
		r.mu.Unlock()
		time.Sleep(time.Minute)
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.all["ask.q"]) != 1 {
			t.Errorf("got %d notices after the lease has expired, want 1", len(r.all["ask.q"]))
		}
	})
}

// The command is the one of the configuration, whatever a question has in it, and one that hangs has ten seconds: then the
// other questions are told of.
func TestNoticeCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sys := askStore(t), newSystem(t, nil)
		var mu sync.Mutex // guards what the tasks of the actor write
		var took []time.Duration
		o := jobapi.NoticesOptions{Store: s, Command: []string{"tell", "a question waits"}, Details: true}
		if _, err := jobapi.StartNotices(sys, o.WithRun(func(ctx context.Context, argv []string, _ []byte) error {
			begun := time.Now()
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(begun))
			if !slices.Equal(argv, []string{"tell", "a question waits"}) {
				t.Errorf("got the command %q", argv)
			}
			return ctx.Err()
		})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		for _, id := range []string{"$(reboot)", "--help", "; reboot"} {
			openAsk(t, s, id)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(took, []time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second}) {
			t.Errorf("the commands had %v, want ten seconds each", took)
		}
	})
}
