package jobapi_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// writes is a store whose writes of records fail, or hang, as they are told to.
type writes struct {
	store.Store
	err  atomic.Pointer[error]
	hang chan struct{} // nil for none
	n    atomic.Int32
}

func (w *writes) PutRecord(ctx context.Context, r store.Record) error {
	w.n.Add(1)
	if w.hang != nil {
		<-w.hang
	}
	if err := w.err.Load(); err != nil {
		return *err
	}
	return w.Store.PutRecord(ctx, r)
}

// small is a store whose disk has so much room.
type small struct {
	*writes
	free int64
}

func (s small) Space() (int64, int64, error) { return 1, s.free, nil }

func probeOf(t *testing.T, s store.Store, stalled func() int) *jobapi.StoreProbe {
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sys.Shutdown(context.Background()) })
	if stalled == nil {
		stalled = func() int { return 0 }
	}
	return jobapi.NewStoreProbe(sys, s, stalled, slog.New(slog.DiscardHandler))
}

// TestProbe: a store that does not write is known within two seconds, by the kind of its failure and by nothing that is
// in its texts; and so is that it works again.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writes{Store: memstore.New(nil)}
		p := probeOf(t, w, nil)
		for _, tt := range []struct {
			err  error
			want string // empty for none
		}{
			{nil, ""}, {store.ErrFull, "it is full"}, {store.ErrBusy, "it is busy"}, {errors.New("/secret/path: read-only file system"), "see the log"}, {nil, ""},
		} {
			if w.err.Store(nil); tt.err != nil {
				w.err.Store(&tt.err)
			}
			time.Sleep(2 * time.Second)
			err := p.Check(t.Context())
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("after %v: got %v, want %q", tt.err, err, tt.want)
			}
		}
	})
}

// TestProbeIsShared: however many ask, one write is under way, and none follows within two seconds.
func TestProbeIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writes{Store: memstore.New(nil), hang: make(chan struct{})}
		p := probeOf(t, w, nil)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := p.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "does not answer") {
					t.Errorf("a store that hangs: got %v", err)
				}
			})
		}
		all.Wait() // three seconds
		close(w.hang)
		synctest.Wait()
		for range 100 {
			if err := p.Check(t.Context()); err != nil {
				t.Errorf("after it: got %v", err)
			}
		}
		if n := w.n.Load(); n != 1 {
			t.Errorf("it wrote %d times, want once", n)
		}
	})
}

// TestProbeOfWhatRunsSee: runs that wait for the store, and a disk without room, say that it does not write.
func TestProbeOfWhatRunsSee(t *testing.T) {
	w := &writes{Store: memstore.New(nil)}
	if err := probeOf(t, w, func() int { return 2 }).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "runs wait for it (2)") {
		t.Errorf("stalled runs: got %v", err)
	}
	if err := probeOf(t, small{w, 1000}, nil).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "it is full") {
		t.Errorf("a full disk: got %v", err)
	}
	if err := probeOf(t, small{w, 1 << 30}, nil).Check(t.Context()); err != nil {
		t.Errorf("a disk with room: got %v", err)
	}
}
