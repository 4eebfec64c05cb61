// probe.go: whether the store takes writes, by writing.

package jobapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
)

// Bounds of a probe.
const (
	probeFresh = 2 * time.Second // any client may ask for it: what was seen counts for so long
	probeWait  = 3 * time.Second // of one that asks
	probeTime  = 5 * time.Second // of the write, until it begins
	probeSize  = 16 << 10        // bytes: several pages of a file, as a run's events are
	leastRoom  = 256 << 10       // bytes on the disk: with less, what fits into the pages that a file has is written, and nothing that is larger
)

// measured is a store that is a file.
type measured interface {
	Space() (size, free int64, err error)
}

// probeRecord is the one record that all processes of a store write.
var probeRecord = store.Record{Kind: "probe", Owner: "health", Key: "write", Value: []byte(`"` + strings.Repeat("x", probeSize-2) + `"`)}

// StoreProbe knows whether a store takes writes: it writes a record, at most once in two seconds and one at a time,
// however many ask, and looks for room on the disk. It is safe for concurrent use.
type StoreProbe struct {
	sys     *actors.System
	store   store.Records
	stalled func() int
	log     *slog.Logger

	mu    sync.Mutex
	under chan struct{} // closed when the write under way has ended; nil for none
	at    time.Time     // of the last one's end; zero before the first
	err   error         // of the last one
}

// NewStoreProbe returns a probe. Stalled returns how many runs wait until the store takes their events.
func NewStoreProbe(sys *actors.System, s store.Records, stalled func() int, log *slog.Logger) *StoreProbe {
	return &StoreProbe{sys: sys, store: s, stalled: stalled, log: log}
}

// Check reports why the store takes no writes; nil if it does. It returns within three seconds. The texts of the
// errors hold no paths: strangers read them.
func (p *StoreProbe) Check(ctx context.Context) error {
	if n := p.stalled(); n > 0 {
		return fmt.Errorf("the store takes no writes: runs wait for it (%d)", n)
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	p.mu.Lock()
	if p.under == nil && (p.at.IsZero() || time.Since(p.at) >= probeFresh) {
		p.under = make(chan struct{})
		p.sys.GoBlocking("the probe of the store", p.write)
	}
	under := p.under
	p.mu.Unlock()
	if under != nil {
		select {
		case <-under:
		case <-ctx.Done():
			return errors.New("the store does not answer")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch err := p.err; {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrFull):
		return errors.New("the store takes no writes: it is full")
	case errors.Is(err, store.ErrBusy), errors.Is(err, context.DeadlineExceeded):
		return errors.New("the store takes no writes: it is busy")
	}
	return errors.New("the store takes no writes: see the log")
}

func (p *StoreProbe) write() {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	r := probeRecord
	r.Expires = time.Now().Add(time.Minute)
	err := p.store.PutRecord(ctx, r)
	if file, ok := p.store.(measured); ok && err == nil {
		if _, free, serr := file.Space(); serr == nil && free < leastRoom {
			err = fmt.Errorf("%w: %d bytes are left on its disk", store.ErrFull, free)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.err == nil {
		p.log.Warn("the store takes no writes", "error", err)
	} else if err == nil && p.err != nil {
		p.log.Info("the store takes writes again")
	}
	close(p.under)
	p.under, p.at, p.err = nil, time.Now(), err
}
