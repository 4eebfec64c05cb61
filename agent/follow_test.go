package agent_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/owner"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// going is a runtime that goes on with the runs of needing: their model has only its last turn left.
func going(t *testing.T, s store.Store) (*agent.Runtime, *llmtest.Model) {
	t.Helper()
	model := llmtest.Script(llmtest.Say("ok"))
	return open(t, &agent.Options{Store: s, Model: model, Tools: []agent.Tool{agent.NeedsApproval(double)}}), model
}

// accept answers the one question of a run, as another process does.
func accept(t *testing.T, s store.Store, run string) {
	t.Helper()
	asks, err := s.Asks(t.Context(), store.AskQuery{Run: run, Status: store.AskPending})
	if err != nil || len(asks) != 1 {
		t.Fatalf("the questions: got %+v, %v, want one", asks, err)
	}
	if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
		t.Fatal(err)
	}
}

func find(t *testing.T, rt *agent.Runtime, id string) *agent.Run {
	t.Helper()
	run, err := rt.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// wantOK wants a run to end with the answer ok.
func wantOK(t *testing.T, who string, run *agent.Run) {
	t.Helper()
	if res, err := run.Wait(t.Context()); err != nil || res.Text != "ok" {
		t.Errorf("%s: got %+v, %v, want ok", who, res, err)
	}
}

// TestStartWithinTheLease: a run whose process was killed is started again within its lease. The handle waits for
// the end of the lease, and the run goes on; a process that only reads sees its end, too.
func TestStartWithinTheLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		first := &killed{Store: s}
		start(t, needing(t, &agent.Options{Store: first}), "r1")
		synctest.Wait()
		head, err := s.Run(t.Context(), "r1")
		if err != nil {
			t.Fatal(err)
		}
		first.dead.Store(true)
		second, model := going(t, s)
		third := open(t, &agent.Options{Store: s, Model: llmtest.Script()})
		run := start(t, second, "r1")
		if again := start(t, second, "r1"); again != run {
			t.Error("Start again: got another handle")
		}
		read := find(t, third, "r1")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			wantOK(t, "a process that reads", read)
		}()
		time.Sleep(time.Until(head.Expires) - time.Millisecond)
		synctest.Wait()
		if held, err := s.Run(t.Context(), "r1"); err != nil || held.Epoch != head.Epoch {
			t.Errorf("before the end of the lease: got %+v, %v, want that of the first", held, err)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if held, err := s.Run(t.Context(), "r1"); err != nil || held.Epoch != head.Epoch+1 || !held.Leased(time.Now()) {
			t.Errorf("at the end of the lease: got %+v, %v, want it taken over", held, err)
		}
		accept(t, s, "r1")
		wantOK(t, "Wait", run)
		if res, err := run.Result(); err != nil || res.ToolCalls != 1 || model.Remaining() != 0 {
			t.Errorf("Result: got %+v, %v, want one call", res, err)
		}
		select {
		case <-run.Done():
		default:
			t.Error("Done is open after the end")
		}
		if got := strings.Join(transcript(t, run), "\n"); !strings.HasPrefix(got, "run_started") || !strings.Contains(got, "finished finished \"ok\"") {
			t.Errorf("the events are\n%s", got)
		}
		<-ended
	})
}

// TestStartOfALiveRun: a run that another process works on stays there, as long as that lives, and its result is
// that of the handle.
func TestStartOfALiveRun(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprint("dies ", dies), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := memory()
				first := &killed{Store: s}
				start(t, needing(t, &agent.Options{Store: first}), "r1")
				synctest.Wait()
				second, model := going(t, s)
				run := start(t, second, "r1")
				time.Sleep(time.Hour / 10) // many leases; the question waits ten minutes
				if n := len(model.Requests()); n != 0 {
					t.Fatalf("the model was asked %d times, and another process works on the run", n)
				}
				want := 0
				if dies {
					want = 1
					first.dead.Store(true)
					time.Sleep(2 * time.Minute)
				}
				accept(t, s, "r1")
				wantOK(t, "Wait", run)
				if n := len(model.Requests()); n != want {
					t.Errorf("the model was asked %d times, want %d", n, want)
				}
			})
		})
	}
}

// TestStartAfterItWasLost: a runtime that has lost a run to another process has no memory of it that counts.
func TestStartAfterItWasLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		stops := &killed{Store: s}
		first := needing(t, &agent.Options{Store: stops})
		lost := start(t, first, "r1")
		synctest.Wait()
		stops.dead.Store(true)
		time.Sleep(2 * time.Minute)
		second, _ := going(t, s)
		if _, err := second.Resume(t.Context(), "r1", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := lost.Wait(t.Context()); !errors.Is(err, store.ErrFenced) {
			t.Errorf("Wait of the run that was lost: got %v, want ErrFenced", err)
		}
		stops.dead.Store(false)
		found, again := find(t, first, "r1"), start(t, first, "r1")
		if found == lost || again == lost {
			t.Error("Find or Start: got the handle of the run that was lost")
		}
		resumed, err := first.Resume(t.Context(), "r1", nil)
		if !errors.Is(err, store.ErrLeased) {
			t.Errorf("Resume: got %v, %v, want ErrLeased", resumed, err)
		}
		accept(t, s, "r1")
		wantOK(t, "Find", found)
		wantOK(t, "Start", again)
		if got := strings.Join(transcript(t, lost), "\n"); !strings.Contains(got, "finished finished \"ok\"") {
			t.Errorf("the events, read by the handle of the run that was lost, are\n%s", got)
		}
	})
}

// TestSuspendedElsewhere: a run that its process has suspended while another one follows it goes on there.
func TestSuspendedElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		first := needing(t, &agent.Options{Store: s})
		begun := start(t, first, "r1")
		synctest.Wait()
		second, _ := going(t, s)
		run := start(t, second, "r1")
		if err := begun.Suspend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := begun.Wait(t.Context()); !errors.Is(err, agent.ErrSuspended) {
			t.Errorf("Wait of the run that was suspended: got %v, want ErrSuspended", err)
		}
		time.Sleep(2 * time.Second)
		accept(t, s, "r1")
		wantOK(t, "Wait", run)
		wantOK(t, "Find where it was suspended", find(t, first, "r1"))
	})
}

// TestEndOfFollowing: Cancel and Close end the wait for a run of another process, and leave the run as it is.
func TestEndOfFollowing(t *testing.T) {
	tests := []struct {
		name string
		end  func(*testing.T, *agent.Runtime, *agent.Run)
		want error
	}{
		{"Cancel", func(_ *testing.T, _ *agent.Runtime, run *agent.Run) { run.Cancel(errTest) }, errTest},
		{"Close", func(t *testing.T, rt *agent.Runtime, _ *agent.Run) {
			if err := rt.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}, agent.ErrClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := memory()
				live := start(t, needing(t, &agent.Options{Store: s}), "r1")
				synctest.Wait()
				second, _ := going(t, s)
				run := start(t, second, "r1")
				if _, err := run.Result(); !errors.Is(err, agent.ErrNotEnded) {
					t.Errorf("Result: got %v, want ErrNotEnded", err)
				}
				tt.end(t, second, run)
				if res, err := run.Wait(t.Context()); res != nil || !errors.Is(err, tt.want) {
					t.Errorf("Wait: got %+v, %v, want %v", res, err, tt.want)
				}
				for _, err := range run.Events(t.Context()) {
					if err != nil && !errors.Is(err, tt.want) {
						t.Errorf("Events: got %v, want %v", err, tt.want)
					}
				}
				accept(t, s, "r1")
				wantOK(t, "where it goes on", live)
			})
		})
	}
}

// TestRunOfAnotherProcess: the end of its context ends Run, and not the run.
func TestRunOfAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		live := start(t, needing(t, &agent.Options{Store: s}), "r1")
		synctest.Wait()
		second, _ := going(t, s)
		a, err := second.Agent("agent", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := a.Run(ctx, "go", &agent.RunOptions{ID: "r1"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: got %v, want the end of its context", err)
		}
		accept(t, s, "r1")
		wantOK(t, "where it goes on", live)
	})
}

// leaveWith gives the lease of a run, which its process does not renew any more, to an owner of that name.
func leaveWith(t *testing.T, s store.Store, run, name string) {
	t.Helper()
	head, err := s.Run(t.Context(), run)
	if err == nil {
		err = s.Release(t.Context(), run, head.Owner, head.Epoch)
	}
	if err == nil {
		_, err = s.Claim(t.Context(), run, name, time.Hour)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// goneOwner is the name of a process of this machine that is gone: of one that had this one's PID before.
func goneOwner(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux a process knows that another one is gone")
	}
	parts := strings.Split(owner.New("agent"), "-")
	started, err := strconv.ParseUint(parts[2], 36, 64)
	if err != nil {
		t.Fatal(err)
	}
	parts[2] = strconv.FormatUint(started-1, 36)
	return strings.Join(parts, "-")
}

// TestOwnerIsGone: a run whose process is known to be gone goes on at once, by Start as by Resume; one whose process may live does not.
func TestOwnerIsGone(t *testing.T) {
	tests := []struct {
		name   string
		owner  func(*testing.T) string
		atOnce bool
	}{
		{"gone", goneOwner, true},
		{"here", func(*testing.T) string { return owner.New("agent") }, false},
		{"of an earlier version", func(*testing.T) string { return "agent-5f0e4c1a-7d5e-4b1c-9c55-0123456789ab" }, false},
	}
	for _, tt := range tests {
		for _, by := range []string{"Start", "Resume"} {
			t.Run(tt.name+" "+by, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := memory()
					first := &killed{Store: s}
					start(t, needing(t, &agent.Options{Store: first, Lease: time.Hour}), "r1")
					synctest.Wait()
					first.dead.Store(true)
					leaveWith(t, s, "r1", tt.owner(t))
					accept(t, s, "r1")
					second, _ := going(t, s)
					began := time.Now()
					var run *agent.Run
					var err error
					if by == "Start" {
						run = start(t, second, "r1")
					} else if run, err = second.Resume(t.Context(), "r1", nil); !tt.atOnce {
						if !errors.Is(err, store.ErrLeased) {
							t.Errorf("Resume: got %v, want ErrLeased", err)
						}
						return
					} else if err != nil {
						t.Fatal(err)
					}
					wantOK(t, by, run)
					if took := time.Since(began); took < time.Hour != tt.atOnce {
						t.Errorf("it took %v of the lease's hour", took)
					}
				})
			})
		}
	}
}

// ofJob is a store whose runs are those of jobs.
type ofJob struct{ store.Store }

func (s ofJob) Run(ctx context.Context, id string) (store.Run, error) {
	head, err := s.Store.Run(ctx, id)
	head.Job = "j"
	return head, err
}

// TestOwnerOfAJobIsGone: a job's run is its workers': it is not taken at once, and a handle only follows it.
func TestOwnerOfAJobIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		first := &killed{Store: s}
		start(t, needing(t, &agent.Options{Store: first, Lease: time.Hour}), "r1")
		synctest.Wait()
		first.dead.Store(true)
		leaveWith(t, s, "r1", goneOwner(t))
		accept(t, s, "r1")
		second, model := going(t, ofJob{s})
		if _, err := second.Resume(t.Context(), "r1", nil); !errors.Is(err, store.ErrLeased) {
			t.Errorf("Resume: got %v, want ErrLeased", err)
		}
		run := start(t, second, "r1")
		time.Sleep(2 * time.Hour)
		if n := len(model.Requests()); n != 0 {
			t.Errorf("the model was asked %d times, and the run is a worker's", n)
		}
		third, _ := going(t, s)
		if _, err := third.Resume(t.Context(), "r1", nil); err != nil {
			t.Fatal(err)
		}
		wantOK(t, "Start", run)
	})
}
