package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/mcp"
)

// person is a Human with an owner.
type person string

func (p person) Decide(context.Context, *Ask) (*Decision, error) {
	return &Decision{Action: mcp.ActionDecline}, nil
}
func (p person) Owner() any { return string(p[:3]) }

// TestTurns: calls of one owner overlap, those of two never, and nobody overtakes.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turns
		var mu sync.Mutex
		var log []string
		say := func(s string) { mu.Lock(); defer mu.Unlock(); log = append(log, s) }
		leaves := map[string]chan struct{}{}
		go1 := func(name string, alone bool) {
			leave := make(chan struct{})
			leaves[name] = leave
			go func() {
				done, err := turns.enter(t.Context(), person(name), alone)
				if err != nil {
					t.Error(err)
					return
				}
				say("+" + name)
				<-leave
				say("-" + name)
				done()
			}()
			synctest.Wait()
		}
		end := func(name string) { close(leaves[name]); synctest.Wait() }
		go1("ada1", false)
		go1("ada2", false)
		go1("bob1", false)
		go1("ada3", false) // must not overtake bob1
		end("ada1")
		end("ada2")
		go1("bob2", false) // must not overtake ada3
		end("bob1")
		end("ada3")
		go1("bob3", true)
		go1("bob4", false)
		end("bob2")
		end("bob3")
		end("bob4")
		want := []string{"+ada1", "+ada2", "-ada1", "-ada2", "+bob1", "-bob1", "+ada3", "-ada3", "+bob2", "-bob2", "+bob3", "-bob3", "+bob4", "-bob4"}
		if !slices.Equal(log, want) {
			t.Errorf("order: got %v, want %v", log, want)
		}
	})
}

// TestTurnsGivenUp: whoever gives up waiting keeps nobody back.
func TestTurnsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turns
		leave, err := turns.enter(t.Context(), person("ada1"), false)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		errs := make(chan error, 1)
		go func() { _, err := turns.enter(ctx, person("bob1"), false); errs <- err }()
		synctest.Wait()
		entered := make(chan func(), 1)
		go func() {
			done, err := turns.enter(t.Context(), person("ada2"), false)
			if err != nil {
				t.Error(err)
			}
			entered <- done
		}()
		synctest.Wait()
		gone := errors.New("gone")
		cancel(gone)
		if err := <-errs; !errors.Is(err, gone) {
			t.Errorf("enter: got %v, want the cause", err)
		}
		(<-entered)()
		leave()
		if turns.out != 0 || len(turns.waiting) != 0 || turns.owner != nil {
			t.Errorf("left over: %+v", &turns)
		}
	})
}

// TestTurnsStress: at no time are calls of two owners out.
func TestTurnsStress(t *testing.T) {
	var turns turns
	var mu sync.Mutex
	out := map[any]int{}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			p := person(fmt.Sprintf("p%02d-%d", i%4, i))
			for n := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if n%7 == 0 {
					cancel()
				}
				done, err := turns.enter(ctx, p, false)
				cancel()
				if err != nil {
					continue
				}
				mu.Lock()
				out[p.Owner()]++
				for owner, n := range out {
					if n > 0 && owner != p.Owner() {
						t.Errorf("calls of %v and %v are out", owner, p.Owner())
					}
				}
				mu.Unlock()
				mu.Lock()
				out[p.Owner()]--
				mu.Unlock()
				done()
			}
		})
	}
	wg.Wait()
	if turns.out != 0 || len(turns.waiting) != 0 {
		t.Errorf("left over: %d out, %d waiting", turns.out, len(turns.waiting))
	}
}
