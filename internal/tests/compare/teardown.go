package main

import (
	"fmt"
	"time"
)

const (
	colHeapLeft  = "heap left B/session"
	colDeleteCPU = "delete CPU µs"
	colDelete    = "delete µs"
	colGrowth    = "RSS growth MiB"
)

var teardownColumns = []string{colHeapLeft, colGoroutines, colDeleteCPU, colDelete, colGrowth}

// teardownRounds come before the ones that are measured, and are measured: pools and
// tables take a while to have their size.
const teardownRounds = 3

// teardown opens sessions with a GET stream and deletes them, in six rounds, and says
// what the last three left.
func teardown(p *process, t times) (sample, error) {
	for range teardownRounds {
		if _, _, err := teardownRound(p, t.teardown); err != nil {
			return nil, err
		}
	}
	before, err := p.settled()
	if err != nil {
		return nil, err
	}
	rss, err := p.resident()
	if err != nil {
		return nil, err
	}
	var cpu time.Duration
	var latencies []time.Duration
	for range teardownRounds {
		u, one, err := teardownRound(p, t.teardown)
		if err != nil {
			return nil, err
		}
		cpu += u.cpu
		latencies = append(latencies, one...)
	}
	after, err := p.left(before)
	if err != nil {
		return nil, err
	}
	grown, err := p.resident()
	n := float64(teardownRounds * t.teardown)
	p50, _ := percentiles(latencies)
	return sample{
		colHeapLeft:   (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / n,
		colGoroutines: float64(after.Goroutines - before.Goroutines),
		colDeleteCPU:  micro(cpu) / n, colDelete: p50, colGrowth: (grown - rss) / (1 << 20),
	}, err
}

func teardownRound(p *process, sessions int) (u usage, latencies []time.Duration, err error) {
	ids, err := openMany(p.addr, sessions)
	if err != nil {
		return u, nil, err
	}
	closeAll, err := openStreams(p.addr, ids)
	if err != nil {
		return u, nil, err
	}
	defer closeAll()
	c, err := dial(p.addr)
	if err != nil {
		return u, nil, err
	}
	defer c.close()
	u, err = p.measure(func() error {
		for _, id := range ids {
			start := time.Now()
			r, err := c.do(httpRequest("DELETE", p.addr, "", sessionHeaders(id)...))
			if err != nil {
				return err
			}
			if r.status >= 300 {
				return fmt.Errorf("deleting a session: got %d %.200q", r.status, r.body)
			}
			latencies = append(latencies, time.Since(start))
		}
		return nil
	})
	return u, latencies, err
}
