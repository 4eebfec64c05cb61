package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sample is what one repetition measured, by column.
type sample map[string]float64

// The columns that goals look at.
const (
	colCPU        = "CPU µs"
	colRate       = "req/s"
	colP50        = "p50 µs"
	colP99        = "p99 µs"
	colMallocs    = "allocs"
	colBytes      = "bytes"
	colResident   = "RSS MiB"
	colGoroutines = "goroutines left"
)

var loadColumns = []string{colCPU, colRate, colP50, colP99, colMallocs, colBytes, colResident}

// load is calls of echo for a while.
type load struct {
	size     int // of the message
	sessions int // 0: 2026-07-28
	inFlight int
}

// firstID has as many digits as every later id, so that requests stay as long.
const firstID = 100_000_000

// The arguments are 100 bytes with the shorter message.
const (
	small = 59
	large = 64<<10 - 41
)

// callBody returns a tools/call; extra goes into the params.
func callBody(id, tool, arguments, extra string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + extra + `}}`
}

func echoArguments(size int) (arguments, text string) {
	text = strings.Repeat("x", size)
	return `{"message":"` + text + `","count":3,"tags":["one","two"]}`, text
}

// echoAnswer looks whether data holds the right answer to the call with the id.
type echoAnswer struct{ text []byte }

func newEchoAnswer(text string) echoAnswer { return echoAnswer{[]byte(`"text":"` + text + `"`)} }

func (e echoAnswer) check(data []byte, id []byte) error {
	if !bytes.Contains(data, e.text) || bytes.Contains(data, []byte(`"isError":true`)) {
		return fmt.Errorf("answer: got %.300q", data)
	}
	if _, rest, ok := bytes.Cut(data, []byte(`"id":`)); !ok || !bytes.HasPrefix(rest, id) {
		return fmt.Errorf("answer: got %.200q, want the id %s in it", data, id)
	}
	return nil
}

// record turns what was measured into a sample.
func record(p *process, u usage, took time.Duration, latencies []time.Duration) (sample, error) {
	rss, err := p.resident()
	if err != nil {
		return nil, err
	}
	n := float64(len(latencies))
	if n == 0 {
		return nil, errors.New("no call was answered")
	}
	p50, p99 := percentiles(latencies)
	return sample{
		colCPU: micro(u.cpu) / n, colRate: n / took.Seconds(), colP50: p50, colP99: p99,
		colMallocs: float64(u.mallocs) / n, colBytes: float64(u.bytes) / n, colResident: rss / (1 << 20),
	}, nil
}

// percentiles returns the median and the 99th percentile in µs.
func percentiles(latencies []time.Duration) (p50, p99 float64) {
	if len(latencies) == 0 {
		return 0, 0
	}
	slices.Sort(latencies)
	return micro(latencies[len(latencies)/2]), micro(latencies[len(latencies)*99/100])
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// runHTTP loads a server from as many connections as calls are in flight.
func (l load) runHTTP(p *process, t times) (sample, error) {
	callers, err := l.callers(p.addr)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, c := range callers {
			c.close()
		}
	}()
	var latencies []time.Duration
	run := func(d time.Duration) error {
		latencies = latencies[:0]
		var all sync.WaitGroup
		errs := make([]error, len(callers))
		end := time.Now().Add(d)
		for i, c := range callers {
			all.Go(func() { errs[i] = c.run(end) })
		}
		all.Wait()
		for _, c := range callers {
			latencies = append(latencies, c.latencies...)
		}
		return errors.Join(errs...)
	}
	if err := run(t.warm); err != nil {
		return nil, err
	}
	start := time.Now()
	u, err := p.measure(func() error { start = time.Now(); return run(t.load) })
	if err != nil {
		return nil, err
	}
	return record(p, u, time.Since(start), latencies)
}

// caller has one call in flight.
type caller struct {
	*conn
	requests  [][]byte // one for each of its sessions
	at        []int    // where the id is in each
	next      int
	id        int
	want      echoAnswer
	latencies []time.Duration
}

func (l load) callers(addr string) ([]*caller, error) {
	arguments, text := echoArguments(l.size)
	var requests [][]byte
	if l.sessions == 0 {
		requests = [][]byte{httpRequest("POST", addr, callBody(strconv.Itoa(firstID), "echo", arguments, modernMeta), modernHeaders("echo")...)}
	} else {
		ids, err := openMany(addr, l.sessions)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			requests = append(requests, httpRequest("POST", addr, callBody(strconv.Itoa(firstID), "echo", arguments, ""), sessionHeaders(id)...))
		}
	}
	callers := make([]*caller, l.inFlight)
	for i := range callers {
		c := &caller{want: newEchoAnswer(text), id: firstID + i*1_000_000}
		for k := i % len(requests); k < len(requests); k += l.inFlight { // no session is shared unless there are too few
			c.requests = append(c.requests, slices.Clone(requests[k]))
			c.at = append(c.at, bytes.Index(requests[k], []byte(strconv.Itoa(firstID))))
		}
		var err error
		if c.conn, err = dial(addr); err != nil {
			return nil, err
		}
		callers[i] = c
	}
	return callers, nil
}

func (c *caller) run(end time.Time) error {
	c.latencies = c.latencies[:0]
	for now := time.Now(); now.Before(end); {
		request, at := c.requests[c.next], c.at[c.next]
		c.next = (c.next + 1) % len(c.requests)
		c.id++
		id := strconv.AppendInt(request[at:at], int64(c.id), 10)
		res, err := c.do(request)
		if err != nil {
			return err
		}
		if res.status != 200 {
			return fmt.Errorf("tools/call: got %d %.300q", res.status, res.body)
		}
		if err := c.want.check(res.body, id); err != nil {
			return err
		}
		done := time.Now()
		c.latencies = append(c.latencies, done.Sub(now))
		now = done
	}
	return nil
}
