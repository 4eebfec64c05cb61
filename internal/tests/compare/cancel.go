package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

const (
	colLost     = "not cancelled"
	colAnswered = "answered all the same"
	colLeft     = "heap left KiB"
)

var cancelColumns = []string{colP50, colP99, colLost, colAnswered, colGoroutines, colLeft}

// notices is where the tool wait says that it has started, and that its context
// has ended.
type notices struct{ *net.UDPConn }

// lost is how long a notice is waited for.
const lost = 2 * time.Second

// wait returns when the notice has come.
func (n notices) wait(event, key string) error {
	n.SetReadDeadline(time.Now().Add(lost))
	buf := make([]byte, 64)
	for {
		size, err := n.Read(buf)
		if err != nil {
			return fmt.Errorf("waiting for the notice %s%s: %w", event, key, err)
		}
		if string(buf[:size]) == event+key {
			return nil
		}
	}
}

// canceller makes calls of wait and cancels them.
type canceller interface {
	start(key string) error
	cancel(key string) error // returns once the cancel is written
	// ended says whether the call was answered although it was cancelled.
	ended(key string) (answered bool, err error)
	close() error
}

func cancelScenario(name, mode string, open func(p *process) (canceller, error)) *scenario {
	var n notices
	return &scenario{
		name: name, mode: mode, columns: cancelColumns, main: colP50,
		env: func() ([]string, func(), error) {
			c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err != nil {
				return nil, nil, err
			}
			n = notices{c}
			return []string{"BENCH_NOTIFY=" + c.LocalAddr().String()}, func() { c.Close() }, nil
		},
		run: func(p *process, t times) (sample, error) {
			c, err := open(p)
			if err != nil {
				return nil, err
			}
			s, err := cancels(p, t, n, c)
			return s, errors.Join(err, c.close())
		},
	}
}

// cancels makes one call after the other, and cancels it once its handler blocks.
func cancels(p *process, t times, n notices, c canceller) (sample, error) {
	var latencies []time.Duration
	gone, answered := 0, 0
	one := func(key string) error {
		if err := c.start(key); err != nil {
			return err
		}
		if err := n.wait("S", key); err != nil {
			return err
		}
		start := time.Now()
		if err := c.cancel(key); err != nil {
			return err
		}
		switch err := n.wait("D", key); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			gone++
		case err != nil:
			return err
		default:
			latencies = append(latencies, time.Since(start))
		}
		yes, err := c.ended(key)
		if yes {
			answered++
		}
		return err
	}
	run := func(from, to int) error {
		for i := from; i < to; i++ {
			if err := one("k" + strconv.Itoa(firstID+i)); err != nil {
				return err
			}
		}
		return nil
	}
	warm := max(t.cancels/10, 5)
	if err := run(0, warm); err != nil {
		return nil, err
	}
	before, err := p.settled()
	if err != nil {
		return nil, err
	}
	latencies, gone, answered = latencies[:0], 0, 0
	if err := run(warm, warm+t.cancels); err != nil {
		return nil, err
	}
	p50, p99 := percentiles(latencies)
	after, err := p.left(before)
	return sample{
		colP50: p50, colP99: p99, colLost: float64(gone), colAnswered: float64(answered),
		colGoroutines: float64(after.Goroutines - before.Goroutines),
		colLeft:       (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / 1024,
	}, err
}

func waitBody(key, extra string) string {
	return callBody(`"`+key+`"`, "wait", `{"key":"`+key+`"}`, extra)
}

func cancelBody(key string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"` + key + `"}}`
}

// answers says whether data answers the call with the id key.
func answers(data []byte, key string) bool {
	return bytes.Contains(data, []byte(`"id":"`+key+`"`)) && (bytes.Contains(data, []byte(`"result"`)) || bytes.Contains(data, []byte(`"error"`)))
}

// stdioCanceller finds out what was answered by a ping behind each cancel.
type stdioCanceller struct{ *pipe }

func cancelStdio(p *process) (canceller, error) {
	c, err := openPipe(p)
	return stdioCanceller{c}, err
}

func (c stdioCanceller) start(key string) error  { return c.send(waitBody(key, "")) }
func (c stdioCanceller) cancel(key string) error { return c.send(cancelBody(key)) }

func (c stdioCanceller) ended(key string) (bool, error) {
	arguments, _ := echoArguments(1)
	if err := c.send(callBody(`"after-`+key+`"`, "echo", arguments, "")); err != nil {
		return false, err
	}
	for answered := false; ; {
		line, err := c.out.ReadSlice('\n')
		if err != nil {
			return false, err
		}
		if answers(line, "after-"+key) {
			return answered, nil
		}
		answered = answered || answers(line, key)
	}
}

func (c stdioCanceller) close() error { return nil }

// httpCanceller has a connection for calls and one for cancels.
type httpCanceller struct {
	addr    string
	headers []string
	calls   *conn
	cancels *conn
	open    int // calls whose stream did not end after the cancel
}

func cancelHTTP(p *process) (canceller, error) {
	c := &httpCanceller{addr: p.addr}
	var err error
	if c.cancels, err = dial(p.addr); err != nil {
		return nil, err
	}
	session, err := c.cancels.open(p.addr)
	c.headers = sessionHeaders(session)
	return c, err
}

func (c *httpCanceller) start(key string) (err error) {
	if c.calls == nil {
		if c.calls, err = dial(c.addr); err != nil {
			return err
		}
	}
	return c.calls.send(httpRequest("POST", c.addr, waitBody(key, ""), c.headers...))
}

func (c *httpCanceller) cancel(key string) error {
	return c.cancels.send(httpRequest("POST", c.addr, cancelBody(key), c.headers...))
}

func (c *httpCanceller) ended(key string) (bool, error) {
	r, err := c.cancels.head()
	if err == nil {
		_, err = c.cancels.rest(&r)
	}
	if err != nil || r.status != 202 {
		return false, fmt.Errorf("cancelling: got %d, want 202: %w", r.status, err)
	}
	patience := 200 * time.Millisecond
	if c.open > 2 {
		patience = 2 * time.Millisecond // it seems to be the server's habit
	}
	c.calls.SetReadDeadline(time.Now().Add(patience))
	if r, err = c.calls.head(); err == nil {
		r.body, err = c.calls.rest(&r)
	}
	if err != nil { // it ended without an answer, or has not ended
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.open++
		}
		c.calls.close()
		c.calls = nil
		return false, nil
	}
	return answers(r.body, key), nil
}

func (c *httpCanceller) close() error {
	c.cancels.close()
	if c.calls != nil {
		c.calls.close()
	}
	return nil
}

// modernCanceller cancels by closing the connection (SHM-09).
type modernCanceller struct {
	addr string
	conn *conn
}

func cancelModern(p *process) (canceller, error) { return &modernCanceller{addr: p.addr}, nil }

func (c *modernCanceller) start(key string) (err error) {
	if c.conn, err = dial(c.addr); err != nil {
		return err
	}
	return c.conn.send(httpRequest("POST", c.addr, waitBody(key, modernMeta), modernHeaders("wait")...))
}

func (c *modernCanceller) cancel(string) error        { return c.conn.Close() }
func (c *modernCanceller) ended(string) (bool, error) { return false, nil }
func (c *modernCanceller) close() error               { return nil }
