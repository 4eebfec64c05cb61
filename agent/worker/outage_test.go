package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/question"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// outage is a provider that can be away, and counts how often it is asked then.
type outage struct {
	away  atomic.Bool
	err   error
	asked atomic.Int64
}

func (o *outage) turn(_ context.Context, req *llm.Request) llmtest.Turn {
	switch {
	case o.away.Load():
		o.asked.Add(1)
		return llmtest.Fail(o.err)
	case len(req.Messages) == 1:
		return llmtest.Call("count", nil)
	}
	return llmtest.Say("done")
}

// TestOutage: a provider is away for an hour. No job ends or counts an attempt, a failure or a loss, no call is made
// again, few requests go out, jobs that were not begun are not claimed but to try it, and all go on by themselves.
func TestOutage(t *testing.T) {
	for _, err := range []error{errDown, errAuth, errQuota, &llm.Error{Provider: "p", Err: llm.ErrRateLimit, Retryable: true, RetryAfter: 48 * time.Second}} {
		t.Run(err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory()
				var effects atomic.Int64
				gate := make(chan struct{})
				count := agent.Func("count", "Counts.", func(context.Context, struct{}) (string, error) {
					effects.Add(1)
					<-gate
					return "1", nil
				})
				o := &outage{err: err}
				sh := open(t, s, llmtest.Loop(llmtest.Func(o.turn)), &agent.Config{Tools: []agent.Tool{count}, Limits: agent.Limits{ModelCalls: 2}}, &worker.Options{Concurrency: 4})
				const jobs = 50
				for i := range jobs {
					add(t, s, store.Job{ID: fmt.Sprint("j", i), Timeout: time.Minute})
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				o.away.Store(true)
				close(gate) // four jobs have made their call, and ask the model what comes next
				time.Sleep(time.Hour)
				synctest.Wait()
				counts, err := s.JobCounts(t.Context())
				if err != nil || counts[store.JobWaiting]+counts[store.JobQueued]+counts[store.JobRunning] != jobs || counts[store.JobWaiting] < 4 {
					t.Errorf("while it is away: got %v, %v", counts, err)
				}
				if n := o.asked.Load(); n > 600 {
					t.Errorf("it was asked %d times in an hour", n)
				}
				j, err := s.Job(t.Context(), "j0")
				if err != nil || j.State != store.JobWaiting || !strings.Contains(j.Error, "waits for provider") {
					t.Errorf("job j0: got %+v, %v", j, err)
				}
				o.away.Store(false)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				for i := range jobs {
					if j := want(t, s, fmt.Sprint("j", i), store.JobDone); j.Attempts != 1 || j.Failures+j.Losses != 0 {
						t.Errorf("job %s: got %d attempts, %d failures, %d losses", j.ID, j.Attempts, j.Failures, j.Losses)
					}
				}
				if effects.Load() != jobs {
					t.Errorf("got %d effects, want %d", effects.Load(), jobs)
				}
				if st := sh.worker.Counts(); st.Ended[store.JobDone] != jobs || st.Retried != 0 {
					t.Errorf("Counts: got %+v", st)
				}
			})
		})
	}
}

// TestGiveUp: a job whose provider is away for too long asks a person. It goes on waiting after a yes, and ends after a no.
func TestGiveUp(t *testing.T) {
	for status, state := range map[store.AskStatus]store.JobState{store.AskAccepted: store.JobDone, store.AskDeclined: store.JobCancelled} {
		t.Run(string(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory()
				o := &outage{err: errDown}
				o.away.Store(true)
				var effects atomic.Int64
				open(t, s, llmtest.Loop(llmtest.Func(o.turn)), &agent.Config{Tools: []agent.Tool{counted(false, &effects)}}, &worker.Options{GiveUp: time.Hour})
				add(t, s, store.Job{ID: "j"})
				pending := func() []store.Ask {
					t.Helper()
					asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
					if err != nil {
						t.Fatal(err)
					}
					return asks
				}
				time.Sleep(50 * time.Minute)
				synctest.Wait()
				if asks := pending(); len(asks) != 0 {
					t.Fatalf("it asks too early: %+v", asks)
				}
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				asks := pending()
				if len(asks) != 1 || asks[0].Kind != agent.KindJob || !strings.Contains(string(asks[0].Payload), "away since") {
					t.Fatalf("got the questions %+v, want its own", asks)
				}
				if v := question.Read(&asks[0]); v.Bad != nil || v.Job == nil || v.Job.Job != "j" || v.Job.Class == "" || v.Job.Provider != "llmtest" {
					t.Errorf("a person reads %+v of it, %v", v.Job, v.Bad)
				}
				if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: status, By: "ada"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Minute)
				synctest.Wait()
				if asks := pending(); len(asks) != 0 {
					t.Errorf("it asks again: %+v", asks)
				}
				o.away.Store(false)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				want(t, s, "j", state)
			})
		})
	}
}
