package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// pipe is a legacy connection over stdio.
type pipe struct {
	in  *bufio.Writer
	out *bufio.Reader
}

// openPipe shakes hands with the server.
func openPipe(p *process) (*pipe, error) {
	c := &pipe{bufio.NewWriterSize(p.in, 1<<20), bufio.NewReaderSize(p.out, 1<<20)}
	if err := c.send(initialize); err != nil {
		return nil, err
	}
	line, err := c.out.ReadSlice('\n')
	if err != nil || !bytes.Contains(line, []byte("protocolVersion")) {
		return nil, fmt.Errorf("initialize: got %.200q, %w", line, err)
	}
	return c, c.send(initialized)
}

// send writes a message at once.
func (c *pipe) send(message string) error {
	c.in.WriteString(message)
	c.in.WriteByte('\n')
	return c.in.Flush()
}

// runStdio loads a server over its pipe.
func (l load) runStdio(p *process, t times) (sample, error) {
	c, err := openPipe(p)
	if err != nil {
		return nil, err
	}
	arguments, text := echoArguments(l.size)
	w := &window{pipe: c, want: newEchoAnswer(text), id: firstID, inFlight: l.inFlight, sent: make(map[int]time.Time)}
	w.line = []byte(callBody(strconv.Itoa(firstID), "echo", arguments, "") + "\n")
	w.at = bytes.Index(w.line, []byte(strconv.Itoa(firstID)))
	if err := w.run(t.warm); err != nil {
		return nil, err
	}
	var start time.Time
	u, err := p.measure(func() error { start = time.Now(); return w.run(t.load) })
	if err != nil {
		return nil, err
	}
	return record(p, u, time.Since(start), w.latencies)
}

// window keeps a number of calls in flight on a pipe. Writing has a goroutine of
// its own: two sides that only write wait for each other for ever.
type window struct {
	*pipe
	line      []byte
	at        int // where the id is in it
	id        int
	inFlight  int
	want      echoAnswer
	latencies []time.Duration

	mu   sync.Mutex
	sent map[int]time.Time
}

func (w *window) run(d time.Duration) error {
	w.latencies = w.latencies[:0]
	room := make(chan int, w.inFlight+1) // what may be sent; each value stands for one call at least
	wrote := make(chan error, 1)
	go func() { wrote <- w.write(room) }()
	end, granted := time.Now().Add(d), w.inFlight
	room <- granted
	for answers := 0; answers < granted; {
		n, err := w.read()
		if err != nil {
			return err
		}
		answers += n
		if time.Now().Before(end) {
			granted += n
			room <- n
		}
	}
	close(room)
	return <-wrote
}

// write makes as many calls as there is room for, until room is closed.
func (w *window) write(room <-chan int) error {
	for n := range room {
		for len(room) > 0 {
			n += <-room
		}
		now := time.Now()
		for range n {
			w.id++
			strconv.AppendInt(w.line[w.at:w.at], int64(w.id), 10)
			w.mu.Lock()
			w.sent[w.id] = now
			w.mu.Unlock()
			if _, err := w.in.Write(w.line); err != nil {
				return err
			}
		}
		if err := w.in.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// read waits for an answer and takes what else has come.
func (w *window) read() (answers int, err error) {
	for answers == 0 || w.out.Buffered() > 0 {
		if err := w.receive(); err != nil {
			return answers, err
		}
		answers++
	}
	return answers, nil
}

func (w *window) receive() error {
	line, err := w.out.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	_, rest, _ := bytes.Cut(line, []byte(`"id":`))
	id, err := strconv.Atoi(string(rest[:min(9, len(rest))]))
	if err != nil {
		return fmt.Errorf("answer: got %.200q", line)
	}
	w.mu.Lock()
	at, ok := w.sent[id]
	delete(w.sent, id)
	w.mu.Unlock()
	if !ok {
		return errors.New("answer: got a second one, or one to a call that was not made: " + strconv.Itoa(id))
	}
	w.latencies = append(w.latencies, time.Since(at))
	return w.want.check(line, rest[:9])
}
