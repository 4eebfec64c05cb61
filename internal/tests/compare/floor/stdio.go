package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"sync"
)

// pipe writes messages, one a line.
type pipe struct {
	mu  sync.Mutex
	out *bufio.Writer
}

func (p *pipe) send(v any, flush bool) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Write(data)
	p.out.WriteByte('\n')
	if flush {
		p.out.Flush() // the client that has gone ends the reading too
	}
}

// serveStdio answers echo where it reads; what blocks has a goroutine.
func serveStdio(r io.Reader, w io.Writer) error {
	in, out, client := bufio.NewReaderSize(r, 64<<10), &pipe{out: bufio.NewWriterSize(w, 64<<10)}, newPeer()
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		answer := func(result any) { out.send(response{"2.0", m.ID, result}, in.Buffered() == 0) }
		switch {
		case m.Method == "tools/call" && m.Params.Name == "echo":
			answer(textResult(m.Params.Arguments.Message))
		case m.Method == "tools/call" && m.Params.Name == "wait":
			go client.wait(context.Background(), string(m.ID), m.Params.Arguments.Key)
		case m.Method == "tools/call":
			go func() {
				res := client.ask(context.Background(), m.Params.Arguments.N, func(v any) { out.send(v, true) })
				out.send(response{"2.0", m.ID, res}, true)
			}()
		case m.Method == "initialize":
			answer(handshake)
		case m.Method == "notifications/cancelled":
			client.cancel(m.Params.RequestID)
		case m.Method == "":
			client.answered(&m)
		}
	}
}
