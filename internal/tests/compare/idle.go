package main

import (
	"errors"
	"fmt"
	"time"
)

const (
	colIdle           = "RSS KiB/session"
	colIdleGC         = "RSS after GC KiB"
	colIdleHeap       = "heap KiB/session"
	colIdleStack      = "stack KiB/session"
	colIdleGoroutines = "goroutines/session"
	colOpenCPU        = "open CPU µs"
)

var idleColumns = []string{colIdle, colIdleGC, colIdleHeap, colIdleStack, colIdleGoroutines, colOpenCPU}

// warmSessions are opened before the first look at memory.
const warmSessions = 200

// idle opens sessions and leaves them.
func idle(p *process, t times) (sample, error) {
	return idleRun(p, t.sessions, func() (func(), error) {
		_, err := openMany(p.addr, t.sessions)
		return func() {}, err
	})
}

// idleStreams opens sessions that listen, each over a connection of its own.
func idleStreams(p *process, t times) (sample, error) {
	if err := checkFiles(t.sessions); err != nil {
		return nil, err
	}
	return idleRun(p, t.sessions, func() (func(), error) {
		ids, err := openMany(p.addr, t.sessions)
		if err != nil {
			return nil, err
		}
		return openStreams(p.addr, ids)
	})
}

// openStreams opens the GET stream of each session.
func openStreams(addr string, ids []string) (closeAll func(), err error) {
	open := make([]*conn, 0, len(ids))
	closeAll = func() {
		for _, c := range open {
			c.close()
		}
	}
	for i, id := range ids {
		c, err := dial(addr)
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("stream %d: %w", i, err)
		}
		open = append(open, c)
		if err = c.send(httpRequest("GET", addr, "", sessionHeaders(id)...)); err == nil {
			var r reply
			if r, err = c.head(); err == nil && (r.status != 200 || !r.stream) {
				err = fmt.Errorf("got %d, want a stream of events", r.status)
			}
		}
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("stream %d: %w", i, err)
		}
		c.r = nil // nothing more is read: ten thousand buffers are for nothing
	}
	return closeAll, nil
}

func idleRun(p *process, sessions int, open func() (func(), error)) (sample, error) {
	if _, err := openMany(p.addr, min(warmSessions, sessions)); err != nil {
		return nil, err
	}
	before, err := p.settled()
	if err != nil {
		return nil, err
	}
	rss, err := p.resident()
	if err != nil {
		return nil, err
	}
	done := func() {}
	u, err := p.measure(func() (err error) { done, err = open(); return err })
	if err != nil {
		return nil, err
	}
	defer done()
	time.Sleep(100 * time.Millisecond) // connections end
	after, err := p.resident()
	if err != nil {
		return nil, err
	}
	stats, err := p.stats(true)
	if err != nil {
		return nil, err
	}
	collected, err := p.resident()
	if p.profile != "" {
		err = errors.Join(err, p.save("heap", p.profile+".heap"))
	}
	n := float64(sessions)
	return sample{
		colIdle: (after - rss) / 1024 / n, colIdleGC: (collected - rss) / 1024 / n,
		colIdleHeap:       (float64(stats.HeapAlloc) - float64(before.HeapAlloc)) / 1024 / n,
		colIdleStack:      (float64(stats.StackInuse) - float64(before.StackInuse)) / 1024 / n,
		colIdleGoroutines: float64(stats.Goroutines-before.Goroutines) / n,
		colOpenCPU:        micro(u.cpu) / n,
	}, err
}
