package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// asking is a model that calls the tool, unless the prompt says that it need not.
func asking() llm.Model {
	return llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		if req.Messages[0].Content.Text() == "plain" || len(req.Messages) > 1 {
			return llmtest.Say("done")
		}
		return llmtest.Call("count", nil)
	}))
}

// TestManyParked: however many jobs wait for a human, those that ask nothing are done.
func TestManyParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		cfg := &agent.Config{Approve: agent.AskAlways, AskExpiry: 7 * 24 * time.Hour, Tools: []agent.Tool{counted(false, new(atomic.Int64))}}
		sh := open(t, s, asking(), cfg, &worker.Options{Concurrency: 64, ParkAfter: -1})
		for i := range 1100 {
			add(t, s, store.Job{ID: fmt.Sprint("j", i)})
		}
		time.Sleep(time.Minute)
		add(t, s, store.Job{ID: "plain", Prompt: "plain"})
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := sh.worker.Status(); st.Parked != 1100 || len(st.Jobs) != 1000 {
			t.Errorf("Status: got %d parked and %d jobs shown, want 1100 and 1000", st.Parked, len(st.Jobs))
		}
		want(t, s, "plain", store.JobDone)
	})
}

// TestMaxParked: at the bound no job is claimed, the log says so, and what to do.
func TestMaxParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		var log syncBuffer
		cfg := &agent.Config{Approve: agent.AskAlways, AskExpiry: 7 * 24 * time.Hour, Tools: []agent.Tool{counted(false, new(atomic.Int64))}}
		sh := open(t, s, asking(), cfg, &worker.Options{Concurrency: 1, MaxParked: 3, ParkAfter: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for i := range 3 {
			add(t, s, store.Job{ID: fmt.Sprint("j", i)})
		}
		time.Sleep(time.Minute)
		add(t, s, store.Job{ID: "plain", Prompt: "plain"})
		time.Sleep(time.Minute)
		synctest.Wait()
		want(t, s, "plain", store.JobQueued)
		if st := sh.worker.Counts(); st.Parked != 3 || st.MaxParked != 3 {
			t.Errorf("Counts: got %+v, want 3 parked of 3", st)
		}
		if n := strings.Count(log.String(), "no more jobs are claimed"); n != 1 || !strings.Contains(log.String(), "worker.max_parked") {
			t.Errorf("log: got %q, want one warning that names the bound", log.String())
		}
		asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
		if err != nil || len(asks) != 3 {
			t.Fatalf("Asks: got %d, %v, want 3", len(asks), err)
		}
		if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want(t, s, "plain", store.JobDone)
		if !strings.Contains(log.String(), "jobs are claimed again") {
			t.Errorf("log: got %q, want it to say that jobs are claimed again", log.String())
		}
	})
}

// renewals is a store that notes when leases of runs are renewed.
type renewals struct {
	store.Store
	mu sync.Mutex
	at map[time.Time]int
}

func (r *renewals) Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error {
	r.mu.Lock()
	r.at[time.Now()]++
	r.mu.Unlock()
	return r.Store.Renew(ctx, run, owner, epoch, ttl)
}

// TestParkedRenewTogether: the runs that wait renew their leases at a few moments, which
// is a few commits, however many there are and whenever they began to wait.
func TestParkedRenewTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &renewals{Store: memory(), at: map[time.Time]int{}}
		cfg := &agent.Config{Approve: agent.AskAlways, AskExpiry: 7 * 24 * time.Hour, Tools: []agent.Tool{counted(false, new(atomic.Int64))}}
		open(t, s, asking(), cfg, &worker.Options{Poll: 50 * time.Millisecond, ParkAfter: -1})
		for i := range 100 {
			time.Sleep(137 * time.Millisecond)
			add(t, s, store.Job{ID: fmt.Sprint("j", i)})
		}
		time.Sleep(time.Minute)
		s.mu.Lock()
		clear(s.at)
		s.mu.Unlock()
		time.Sleep(time.Minute) // two leases: each renews six or seven times
		s.mu.Lock()
		defer s.mu.Unlock()
		n := 0
		for _, many := range s.at {
			n += many
		}
		if n < 600 || n > 700 || len(s.at) > 61 {
			t.Errorf("got %d renewals at %d moments, want 600 to 700 at 61 at most", n, len(s.at))
		}
	})
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// crowd is a model that takes a minute, and counts the jobs at once.
type crowd struct {
	running, most atomic.Int64
	beside        atomic.Int64 // suspects that began or ended with another job beside them
}

func (m *crowd) turn(ctx context.Context, req *llm.Request) llmtest.Turn {
	suspect := strings.HasPrefix(req.Messages[0].Content.Text(), "suspect")
	look := func(n int64) {
		m.most.Store(max(m.most.Load(), n))
		if suspect && n != 1 {
			m.beside.Add(1)
		}
	}
	look(m.running.Add(1))
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
	}
	look(m.running.Load())
	m.running.Add(-1)
	return llmtest.Say("ok")
}

// TestSuspectsRunAlone: jobs whose workers were lost twice go on with no other job beside
// them, and all others go on before and after. Before their turn they can be cancelled,
// and a worker that ends leaves them to others.
func TestSuspectsRunAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		suspects := func(ids ...string) {
			for _, id := range ids {
				add(t, s, store.Job{ID: id, Prompt: "suspect"})
			}
			for range 2 {
				sh := open(t, s, llmtest.Loop(llmtest.Slow(time.Hour)), nil, &worker.Options{Concurrency: 4})
				time.Sleep(40 * time.Second)
				sh.lose()
			}
		}
		var model crowd
		suspects("s1", "s2", "s3", "s4")
		plain := []string{"p0", "p1", "p2", "p3"}
		for _, id := range plain[:3] {
			add(t, s, store.Job{ID: id})
		}
		sh := open(t, s, llmtest.Loop(llmtest.Func(model.turn)), nil, &worker.Options{Concurrency: 4})
		time.Sleep(40 * time.Second)
		add(t, s, store.Job{ID: "p3"})
		if _, err := s.CancelJob(t.Context(), "s4"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if st := sh.worker.Counts(); st.Running != 3 || st.Aside == 0 {
			t.Errorf("Counts: got %+v, want three jobs at work and a suspect aside", st)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := sh.worker.Counts(); st.Running != 1 {
			t.Errorf("Counts: got %+v, want one suspect at work", st)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for _, id := range append(plain, "s1", "s2", "s3") {
			want(t, s, id, store.JobDone)
		}
		want(t, s, "s4", store.JobCancelled)
		if model.beside.Load() != 0 || model.most.Load() != 3 {
			t.Errorf("got %d suspects with a job beside them, and %d jobs at once at most; want 0, and 3", model.beside.Load(), model.most.Load())
		}
		sh.drain()

		suspects("t1", "t2", "t3")
		sh = open(t, s, llmtest.Loop(llmtest.Func(model.turn)), nil, &worker.Options{Concurrency: 4, Drain: time.Second})
		time.Sleep(40 * time.Second)
		sh.drain()
		for _, id := range []string{"t1", "t2", "t3"} {
			j, err := s.Job(t.Context(), id)
			released := j.State == store.JobWaiting && j.Owner == "" && j.Losses == 2
			untouched := j.State == store.JobRunning && j.Losses == 1 // while a suspect is here no other is claimed
			if err != nil || !released && !untouched {
				t.Errorf("job %q after the drain: got %+v, %v", id, j, err)
			}
		}
	})
}

// TestParkedIsNoSuspect: what waits for a human is not what ended its worker.
func TestParkedIsNoSuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		add(t, s, store.Job{ID: "j"})
		cfg := &agent.Config{Approve: agent.AskAlways, AskExpiry: 24 * time.Hour, Tools: []agent.Tool{counted(false, new(atomic.Int64))}}
		for range 3 {
			sh := open(t, s, asking(), cfg, &worker.Options{ParkAfter: -1})
			time.Sleep(40 * time.Second)
			synctest.Wait()
			want(t, s, "j", store.JobWaiting)
			sh.lose()
		}
		open(t, s, asking(), cfg, nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if j := want(t, s, "j", store.JobWaiting); j.Attempts != 1 || j.Losses != 0 || j.Failures != 0 {
			t.Errorf("job: got %+v, want its first attempt and no loss", j)
		}
	})
}
