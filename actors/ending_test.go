package actors_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// An actor that is restarted has its next incarnation once its children have stopped, and none
// if it is stopped while it waits for them.
func TestRestartWaitsForChildren(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			sys := start(t, nil)
			var news, ends atomic.Int32
			parent := spawn(t, sys, actors.Spec{
				Kind: actors.KindHost, Name: "parent", OnStop: func(error) { ends.Add(1) },
				New: func() actors.Actor { news.Add(1); return new(adder) },
			})
			held := make(chan struct{})
			run(t, parent, func(c *actors.Context) {
				for range 2 { // slow to stop
					c.Spawn(actors.Spec{Kind: actors.KindCall, New: func() actors.Actor {
						return recorder{got: func(_ *actors.Context, msg any) {
							if _, ok := msg.(actors.Stopping); ok {
								<-held
							}
						}}
					}})
				}
			})
			parent.Send(blow{})
			time.Sleep(time.Minute)
			if got := news.Load(); got != 1 || !parent.Alive() {
				t.Errorf("while the children stop: %d incarnations, alive %v; want 1, true", got, parent.Alive())
			}
			want := int32(2)
			if stopped {
				parent.Stop()
				want = 1
			}
			synctest.Wait()
			close(held)
			synctest.Wait()
			if got := news.Load(); got != want || parent.Alive() == stopped || ends.Load() == 1 != stopped {
				t.Errorf("stopped %v: %d incarnations, alive %v, %d ends; want %d", stopped, got, parent.Alive(), ends.Load(), want)
			}
			if got := sys.Census().Live(actors.KindCall); got != 0 {
				t.Errorf("%d children are left", got)
			}
			if stopped {
				return
			}
			if n, err := ask(t, parent, 1); n != 1 || err != nil {
				t.Errorf("the next incarnation: got %d, %v", n, err)
			}
		})
	}
}
