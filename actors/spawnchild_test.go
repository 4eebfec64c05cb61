package actors_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// TestSpawnChild: whatever becomes of the parent, then is called once.
func TestSpawnChild(t *testing.T) {
	child := actors.Spec{Kind: actors.KindTask, New: newAdder}
	type born struct {
		ref actors.Ref
		err error
	}
	tests := []struct {
		name   string
		kind   actors.Kind
		before func(actors.Ref)
		want   error
	}{
		{"alive", actors.KindSession, func(actors.Ref) {}, nil},
		{"waits for its restart", actors.KindClient, func(r actors.Ref) { r.Send(blow{}) }, nil},
		{"fails", actors.KindSession, func(r actors.Ref) { r.Send(blow{}) }, actors.ErrStopped},
		{"stops", actors.KindSession, actors.Ref.Stop, actors.ErrStopped},
		{"has stopped", actors.KindSession, func(r actors.Ref) { r.Stop(); <-r.Stopped() }, actors.ErrStopped},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent := spawn(t, start(t, nil), actors.Spec{Kind: tt.kind, New: newAdder})
				tt.before(parent)
				got := make(chan born, 2)
				parent.SpawnChild(child, func(ref actors.Ref, err error) { got <- born{ref, err} })
				b := <-got
				if !errors.Is(b.err, tt.want) || b.ref.Alive() != (tt.want == nil) {
					t.Errorf("got %+v, want error %v", b, tt.want)
				}
				parent.Stop()
				synctest.Wait()
				if b.ref.Alive() || len(got) > 0 {
					t.Errorf("alive: %v, called again: %v", b.ref.Alive(), len(got) > 0)
				}
			})
		})
	}
	actors.Ref{}.SpawnChild(child, func(_ actors.Ref, err error) {
		if !errors.Is(err, actors.ErrStopped) {
			t.Errorf("the zero Ref: got %v", err)
		}
	})
}

// TestSpawnChildWhileStopping: children are asked for while the parent stops.
func TestSpawnChildWhileStopping(t *testing.T) {
	sys := start(t, nil)
	for range 200 {
		parent := spawn(t, sys, actors.Spec{Kind: actors.KindSession, New: newAdder})
		var answers sync.WaitGroup
		answers.Add(20)
		go parent.Stop()
		for range 20 {
			parent.SpawnChild(actors.Spec{Kind: actors.KindTask, New: newAdder}, func(actors.Ref, error) { answers.Done() })
		}
		answers.Wait()
	}
}

// worker is an actor of a pool.
type worker struct {
	actors.Worker
	works bool // guarded by the owner
}

func (*worker) Receive(_ *actors.Context, msg any) {
	if _, ok := msg.(blow); ok {
		panic("blown")
	}
}

// owner owns a pool.
type owner struct {
	sync.Mutex
	pool        actors.Pool[*worker]
	lost, rests int
	failure     error
}

func newOwner(parent actors.Ref) *owner {
	o := new(owner)
	o.pool.Init(o, 5*time.Second)
	o.pool.Bind(parent)
	return o
}

func (o *owner) Worker() (*worker, actors.Spec) {
	w := new(worker)
	return w, actors.Spec{Kind: actors.KindCall, Inline: true, New: func() actors.Actor { return w }}
}

func (o *owner) Lost(w *worker, failure error) {
	o.Lock()
	defer o.Unlock()
	if w.works {
		o.lost++
		o.failure = failure
	}
}

func (o *owner) Rest() { o.rests++ }

// take takes an actor, or awaits one.
func (o *owner) take() (*worker, error) {
	o.Lock()
	w := o.pool.Take()
	if w != nil {
		w.works = true
		o.Unlock()
		return w, nil
	}
	var reply actors.Reply[*worker]
	o.pool.Await(func(w *worker, err error) func() {
		if err == nil {
			w.works = true
		}
		return func() { reply.Complete(w, err) }
	})
	o.Unlock()
	o.pool.Grow()
	<-reply.Done()
	return reply.Result()
}

func (o *owner) put(w *worker, keep int) bool {
	o.Lock()
	defer o.Unlock()
	w.works = false
	return o.pool.Put(w, keep)
}

func (o *owner) counts() (busy, idle int) {
	o.Lock()
	defer o.Unlock()
	return o.pool.Busy(), o.pool.Idle()
}

// TestPool: an actor is used again, and stops when it was not needed for a while.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := start(t, nil)
		o := newOwner(spawn(t, sys, actors.Spec{Kind: actors.KindSession, New: newAdder}))
		first, _ := o.take()
		second, _ := o.take()
		if busy, idle := o.counts(); busy != 2 || idle != 0 || sys.Census().Live(actors.KindCall) != 2 {
			t.Fatalf("got %d busy, %d idle, %+v", busy, idle, sys.Census().Actors)
		}
		if !o.put(second, 2) || !o.put(first, 2) {
			t.Fatal("an actor was not kept")
		}
		for range 20 { // one is needed, the other is not
			again, _ := o.take()
			if again != first {
				t.Fatal("the last used was not taken first")
			}
			time.Sleep(time.Second)
			o.put(again, 2)
		}
		if second.Ref().Alive() || !first.Ref().Alive() {
			t.Errorf("alive: got %v and %v", first.Ref().Alive(), second.Ref().Alive())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if busy, idle := o.counts(); busy+idle != 0 || o.rests == 0 || sys.Census().Live(actors.KindCall) != 0 {
			t.Errorf("after a minute: %d busy, %d idle, %d rests", busy, idle, o.rests)
		}
		third, err := o.take()
		if err != nil || o.put(third, 0) || !third.Retired() {
			t.Errorf("more than are kept: %v", err)
		}
		third.Ref().Stop()
	})
}

// TestPoolLoses: each actor that ends at work is lost once, and those that are awaited when
// the parent ends are refused.
func TestPoolLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := spawn(t, start(t, nil), actors.Spec{Kind: actors.KindSession, New: newAdder})
		o := newOwner(parent)
		failed, _ := o.take()
		killed, _ := o.take()
		idle, _ := o.take()
		last, _ := o.take()
		o.put(idle, 1)
		failed.Ref().Send(blow{})
		synctest.Wait()
		if o.lost != 1 || !isBlown(o.failure) {
			t.Errorf("failed: got %d lost, %v", o.lost, o.failure)
		}
		killed.Ref().Stop()
		idle.Ref().Stop()
		if busy, idle := o.counts(); busy != 1 || idle != 0 || o.lost != 2 || o.failure != nil {
			t.Errorf("killed: got %d busy, %d idle, %d lost, %v", busy, idle, o.lost, o.failure)
		}
		parent.Stop()
		if w, err := o.take(); err == nil && w.Ref().Alive() {
			t.Error("an actor was started below a parent that has stopped")
		}
		synctest.Wait()
		if o.lost < 3 || last.Ref().Alive() {
			t.Errorf("at the end of the parent: %d lost, alive %v", o.lost, last.Ref().Alive())
		}
		if _, err := o.take(); !errors.Is(err, actors.ErrStopped) {
			t.Errorf("afterwards: got %v", err)
		}
	})
}
